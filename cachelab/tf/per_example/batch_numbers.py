"""Numbers that depend on the batch size: in a copy for other examples they stay those of the batch.

A copy has an axis of examples of its own length, so that the sizes that such an axis is made or reshaped by must be
those of the copy (``tf.zeros([m, 4])``). Everything else that is made from the batch size is a number (``sum / m``,
``tf.tile(x, [1, m + 1])``): it is pinned to its value in the batch, at the place where it stops being a size of such
an axis, so that the backward pass of what follows uses that value too. Where a tensor is both, a copy is refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from cachelab.errors import NotApplicableError
from cachelab.i18n import translate as _
from cachelab.tf.per_example.extents import EXAMPLES, Extent, derived_symbols, mentions_examples
from cachelab.tf.per_example.flow import SIZE, Layout

if TYPE_CHECKING:
    import tensorflow as tf

    from cachelab.tf.per_example.flow import Flow

_CALLS: Final = frozenset({"While", "StatelessWhile", "PartitionedCall", "StatefulPartitionedCall"})
_BRANCHES: Final = frozenset({"If", "StatelessIf", "Case", "StatelessCase"})
_LISTS: Final = frozenset({"TensorListReserve", "EmptyTensorList"})
_SHAPES: Final = {
    "Reshape": (1,), "Tile": (1,), "BroadcastTo": (1,), "Fill": (0,), "Range": (1,), "Slice": (1, 2),
    "TensorListFromTensor": (1,), "TensorListStack": (1,), "TensorListGetItem": (2,), "StridedSliceGrad": (0,),
    "Conv2DBackpropInput": (0,), "Conv3DBackpropInputV2": (0,), "DepthwiseConv2dNativeBackpropInput": (0,),
    "AvgPoolGrad": (0,), "AvgPool3DGrad": (0,),
}  # fmt: skip
"""Op type -> its inputs that are sizes, with an entry an axis, where that of the examples is the copy's own."""


def note_numbers(flow: Flow, op: tf.Operation) -> None:
    """Pin what ``op`` makes of the batch size, or takes it for, other than the size of an axis of examples."""
    sizes = [(i, tensor) for i, tensor in enumerate(op.inputs) if flow.state(tensor) is SIZE]
    states = [flow.state(out) for out in op.outputs]
    if not sizes or any(out.ref() in flow.draws for out in op.outputs):
        return
    if any(isinstance(state, Layout) for state in states):
        for index, tensor in sizes:
            _note_input(flow, op, index, tensor)
    elif all(_counts(out) for out in op.outputs):
        _note_arithmetic(flow, op)
    elif all(_counts(tensor) for tensor in op.inputs) and op.type not in _LISTS:
        # No gradient goes back through it; the inputs may still be sizes elsewhere.
        flow.pins.update((out.ref(), None) for out, state in zip(op.outputs, states, strict=True) if state is SIZE)
    else:
        lists = op.type in _LISTS
        flow.pins.update((tensor.ref(), None) for i, tensor in sizes if _counts(tensor) and not (lists and i == 0))


def _counts(tensor: tf.Tensor) -> bool:
    return bool(tensor.dtype.is_integer or tensor.dtype.is_bool)


def _note_input(flow: Flow, op: tf.Operation, index: int, tensor: tf.Tensor) -> None:
    """Note a size that is an input of an op with examples in its output."""
    if op.type in _CALLS or (op.type in _BRANCHES and index > 0):
        flow.own[tensor.ref()] = op  # what becomes of it is seen in the body
    elif index in _SHAPES.get(op.type, ()):
        flow.own[tensor.ref()] = op
        if not _only_examples(flow, op, tensor):
            flow.uncopyable[op.name] = op.type
    elif _counts(tensor):
        flow.pins[tensor.ref()] = None


def _only_examples(flow: Flow, op: tf.Operation, tensor: tf.Tensor) -> bool:
    """Return whether the sizes in ``tensor`` depend on the number of examples at the axis of the examples only."""
    value = flow.value(tensor)
    if value is None:
        return False
    if op.type == "Range":
        return True
    layout = next(state for out in op.outputs if isinstance(state := flow.state(out), Layout))
    axis = layout.axis - (op.type == "TensorListStack")
    return all(
        (place == axis and size.symbols.count(EXAMPLES) == 1)
        for place, size in enumerate(value.ravel())
        if isinstance(size, Extent) and mentions_examples(size)
    )


def _note_arithmetic(flow: Flow, op: tf.Operation) -> None:
    """Pin integers such as m - 1, which are the size of no axis of examples."""
    before = frozenset().union(*(_symbols(flow, tensor) for tensor in op.inputs))
    for out in op.outputs:
        if _symbols(flow, out) <= before:
            continue
        flow.pins[out.ref()] = None
        if any(mentions_examples(size) for size in flow.value(out).ravel()):
            flow.uncopyable[op.name] = op.type


def _symbols(flow: Flow, tensor: tf.Tensor) -> frozenset[str]:
    value = flow.value(tensor)
    return frozenset() if value is None else frozenset().union(*(derived_symbols(size) for size in value.ravel()))


def find_conflicts(flow: Flow) -> None:
    """Note ops whose sizes are the copy's own, but are made from a tensor that is pinned as a number elsewhere."""
    for ref, op in flow.own.items():
        pending, seen = [ref.deref()], set()
        while pending:
            tensor = pending.pop()
            if tensor.ref() in seen or flow.state(tensor) is not SIZE:
                continue
            seen.add(tensor.ref())
            if tensor.ref() not in flow.pins:
                pending.extend(tensor.op.inputs)
                continue
            value = flow.value(tensor)
            if value is None or any(mentions_examples(size) for size in value.ravel()):
                flow.uncopyable[op.name] = op.type


def not_copyable(flow: Flow) -> NotApplicableError:
    """Return the error that names the first op that needs the batch size in a way that a copy can't keep."""
    name, op_type = next(iter(flow.uncopyable.items()))
    return NotApplicableError(
        _(
            "Op `{op}` ({type}) uses the batch size both as the size of the axis of examples and as a number, or in a "
            "loop, branch or function: a copy for some of the examples would compute another function."
        ).format(op=name, type=op_type),
        _('Use `method="auto"` or `"jacobian"` without `chunk_size`, or pass the number in as a tensor.'),
    )
