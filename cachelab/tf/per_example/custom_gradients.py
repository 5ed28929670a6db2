"""The proof that gradients of the user's own (``tf.custom_gradient``, overrides) keep the examples apart.

TensorFlow's gradient of an op whose rows are apart keeps them apart. A gradient that a user wrote may do anything:
clip the deltas of the whole batch to one norm, say. So its ops are traced and followed like those of the loss.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import tensorflow as tf
from tensorflow.python.framework import ops
from tensorflow.python.framework.func_graph import FuncGraph

from cachelab.errors import NotApplicableError
from cachelab.i18n import translate as _
from cachelab.tf.per_example.effects import function_names, nodes_inside

if TYPE_CHECKING:
    from cachelab.tf.per_example.flow import Flow, Layout

_OWN: Final = "_gradient_op_type"
_CALLS: Final = frozenset({"PartitionedCall", "StatefulPartitionedCall"})
"""A traced function registers its own backward function in the same way: what counts is in its body."""


def overridden(op: tf.Operation) -> bool:
    """Return whether a gradient of the user's own replaces that of the op type."""
    return op.type not in _CALLS and _OWN in op.node_def.attr


def has_custom_gradient(op: tf.Operation) -> bool:
    """Return whether ``op``, or an op in the functions that it calls, has a gradient of the user's own."""
    nodes = nodes_inside(function_names(op), op.graph)
    return overridden(op) or any(node.op not in _CALLS and _OWN in node.attr for node in nodes)


def mixing_gradient(flow: Flow, op: tf.Operation) -> dict[str, str]:
    """Return ``{name of op: why its gradient may mix the examples}``, empty if it is proven that it does not."""
    try:
        why = _why_mixing(flow, op)
    except NotApplicableError as error:
        why = str(error).split(". ")[0] + "."
    except Exception as error:  # noqa: BLE001  the user's code: what can't be traced alone proves nothing
        why = _("it can't be traced by itself ({error}).").format(error=str(error).split("\n")[0])
    return {op.name: why} if why else {}


def _why_mixing(flow: Flow, op: tf.Operation) -> str:
    from cachelab.tf.per_example.flow import SIZE, Layout, Unproven

    probe = FuncGraph("custom_gradient")  # the user's graph gets no op of the probe
    states: dict[Any, Any] = {}
    shapes: dict[Any, Any] = {}
    with probe.as_default():
        deltas = []
        for out in op.outputs:
            layout = flow.layout(out)
            delta = _delta(out, used=layout is not None or _is_used(out))
            deltas.append(delta)
            if delta is not None and delta.op.type == "Placeholder":
                # The delta of a tensor without examples is a sum over them.
                states[delta.ref()] = Unproven(op.name, op.type) if layout is None else layout.moved(layout.axis)
                shapes[delta.ref()] = flow.shape(out)
        found = ops.get_gradient_function(op)(op, *deltas)
        found = found if isinstance(found, (list, tuple)) else [found]
        wanted = [
            (flow.layout(tensor), tf.convert_to_tensor(gradient))
            for tensor, gradient in zip(op.inputs, found, strict=False)
            if gradient is not None and flow.layout(tensor) is not None
        ]
    values, before = _captured(flow, op, probe, states)
    inside = before.sub_flow(states, values)
    shapes.update((inner.ref(), before.shape(outer)) for outer, inner in probe.captures if inner.ref() in states)
    inside._shapes.update((ref, sizes) for ref, sizes in shapes.items() if sizes is not None)
    inside.run([gradient for _layout, gradient in wanted])
    if inside.unproven:
        name, op_type = next(iter(inside.unproven.items()))
        return _("no layout rule knows op `{op}` ({type}) in it.").format(op=name, type=op_type)
    if inside.pins or before.pins.keys() - flow.pins.keys():
        return _("it depends on the number of the examples.")
    if inside.mixing_gradients:
        return next(iter(inside.mixing_gradients.values()))
    for layout, gradient in wanted:
        state = inside.state(gradient)
        if isinstance(state, Unproven):
            return _("it depends on a tensor of op `{op}` in which the examples are not apart.").format(op=state.op)
        if state is SIZE or (isinstance(state, Layout) and not _alike(state, layout)):
            return _("it does not have the examples where its input has them.")
    return ""


def _delta(out: tf.Tensor, *, used: bool) -> tf.Tensor | None:
    if out.dtype in {tf.resource, tf.variant}:
        return None
    if used and (out.dtype.is_floating or out.dtype.is_complex):
        return tf.compat.v1.placeholder(out.dtype, out.shape, name="delta")
    return tf.zeros_like(out)


def _is_used(out: tf.Tensor) -> bool:
    return bool(out.consumers()) or any(out is returned for returned in getattr(out.graph, "outputs", ()))


def _captured(flow: Flow, op: tf.Operation, probe: FuncGraph, states: dict[Any, Any]) -> tuple[dict[Any, Any], Flow]:
    """Give the tensors that a gradient takes from the forward pass their states; return known integers and their flow.

    What it computes from the inputs need not be on the way to the loss.
    """
    from cachelab.tf.per_example.flow import FIXED, Unproven

    pairs = [(outer, inner) for outer, inner in probe.captures if tf.is_symbolic_tensor(outer)]
    before = flow.sub_flow(dict(flow.states), flow._values)
    before.pins.update(flow.pins)
    before.run([outer for outer, _inner in pairs if outer.graph is op.graph])
    values = {}
    for outer, inner in pairs:
        state = before.state(outer)
        if outer.graph is not op.graph and outer.dtype is not tf.resource:
            state = Unproven(op.name, op.type)  # a tensor around a function's body, whose flow is not known here
        if state is not FIXED:
            states[inner.ref()] = state
        if inner.dtype.is_integer and before.value(outer) is not None:
            values[inner.ref()] = before.value(outer)
    return values, before


def _alike(one: Layout, other: Layout) -> bool:
    return (one.axis, one.before, one.after) == (other.axis, other.before, other.after)
