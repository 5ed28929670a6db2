"""How ops that move, cut, join and look up entries pass examples on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cachelab.i18n import translate as _
from cachelab.tf.per_example.extents import divide, mentions_examples, product
from cachelab.tf.per_example.flow import FIXED, SIZE, Layout, M, layout_rule
from cachelab.tf.per_example.layout_tools import creates, integer

if TYPE_CHECKING:
    import tensorflow as tf

    from cachelab.tf.per_example.flow import Flow, State


@layout_rule("Reshape")
def _reshape(flow: Flow, op: tf.Operation) -> list[State] | None:
    from cachelab.tf.per_example.sizes import completed

    layout, sizes, new = flow.layout(op.inputs[0]), flow.shape(op.inputs[0]), flow.value(op.inputs[1])
    target: Any = None
    if new is not None:
        # What is known when the graph is built is also in the static shape; the number of examples is not.
        static = op.outputs[0].shape
        target = list(new)
        if static.rank == len(target):
            known = static.as_list()
            target = [size if size != -1 or known[i] is None else known[i] for i, size in enumerate(target)]
        target = completed(sizes, target)
    elif op.outputs[0].shape.is_fully_defined():
        target = op.outputs[0].shape.as_list()
    if layout is None or sizes is None or target is None or None in target:
        return None
    found = flow.relayout(sizes, layout, target)
    if found is None:
        raise flow.couples(op, _("it tears the axis of the examples apart"))
    return [found]


@layout_rule("ExpandDims")
def _expand(flow: Flow, op: tf.Operation) -> list[State] | None:
    layout, axis, rank = flow.layout(op.inputs[0]), integer(flow, op.inputs[1]), op.inputs[0].shape.rank
    if layout is None or axis is None or rank is None:
        return None
    axis = axis % (rank + 1)
    return [Layout(layout.axis + (axis <= layout.axis), layout.before, layout.after, layout.iota)]


@layout_rule("Squeeze")
def _squeeze(flow: Flow, op: tf.Operation) -> list[State] | None:
    layout, sizes = flow.layout(op.inputs[0]), flow.shape(op.inputs[0])
    if layout is None or sizes is None:
        return None
    axes = {axis % len(sizes) for axis in op.get_attr("squeeze_dims")}
    axes = axes or {axis for axis, size in enumerate(sizes) if flow.same(size, 1)}
    if not op.get_attr("squeeze_dims") and op.outputs[0].shape.rank != len(sizes) - len(axes):
        return None
    if layout.axis in axes:
        raise flow.couples(op, _("it removes the axis of the examples"))
    return [layout.moved(layout.axis - sum(axis < layout.axis for axis in axes))]


@layout_rule("Transpose", "ConjugateTranspose")
def _transpose(flow: Flow, op: tf.Operation) -> list[State] | None:
    layout, order = flow.layout(op.inputs[0]), flow.value(op.inputs[1])
    if layout is None or order is None:
        return None
    return [layout.moved([int(axis) for axis in order].index(layout.axis))]


@layout_rule("Tile")
@creates
def _tile(flow: Flow, op: tf.Operation) -> list[State] | None:
    layout, times, sizes = flow.layout(op.inputs[0]), flow.value(op.inputs[1]), flow.shape(op.inputs[0])
    if times is None or sizes is None:
        return None
    if layout is not None:
        if any(mentions_examples(count) for count in times):
            raise flow.couples(op, _("it repeats each example for every other one"))
        return [Layout(layout.axis, times[layout.axis] * layout.before, layout.after)]
    axes = [axis for axis, count in enumerate(times) if mentions_examples(count)]
    if len(axes) != 1:
        return [FIXED] if not axes else None
    axis = axes[0]
    return [Layout(axis, 1, (times[axis] // M) * sizes[axis])]


@layout_rule("BroadcastTo")
@creates
def _broadcast_to(flow: Flow, op: tf.Operation) -> list[State] | None:
    layout, new, rank = flow.layout(op.inputs[0]), flow.value(op.inputs[1]), op.inputs[0].shape.rank
    if rank is None or new is None:
        return None
    if layout is not None:
        place = layout.axis + len(new) - rank
        if any(mentions_examples(size) for axis, size in enumerate(new) if axis != place):
            return None
        return [Layout(place, layout.before, layout.after)]
    axes = [axis for axis, size in enumerate(new) if mentions_examples(size)]
    if len(axes) != 1:
        return [FIXED] if not axes else None
    place = axes[0] - (len(new) - rank)
    if place >= 0 and not flow.same(flow.shape(op.inputs[0])[place], 1):
        return None
    return [Layout(axes[0], 1, new[axes[0]] // M)]


@layout_rule("Range")
@creates
def _range(flow: Flow, op: tf.Operation) -> list[State] | None:
    start, limit, step = (flow.value(tensor) for tensor in op.inputs)
    if limit is None or start is None or step is None or not mentions_examples(limit.item()):
        return [SIZE]
    plain = (start.item(), limit.item(), step.item()) == (0, M, 1)
    return [Layout(0, iota=True)] if plain else None


@layout_rule("Pack")
def _pack(flow: Flow, op: tf.Operation) -> list[State] | None:
    axis, layouts = op.get_attr("axis"), flow.layouts(op.inputs)
    rank = op.outputs[0].shape.rank
    first = next(layout for layout in layouts if layout is not None)
    if rank is None or any(
        not _agrees(flow, tensor, layout, first) for tensor, layout in zip(op.inputs, layouts, strict=True)
    ):
        return None
    axis = axis % rank
    lead = layouts[0]
    iota = lead is not None and lead.iota and axis == rank - 1
    return [Layout(first.axis + (axis <= first.axis), first.before, first.after, iota)]


def _agrees(flow: Flow, tensor: tf.Tensor, layout: Layout | None, wanted: Layout) -> bool:
    """Return whether an operand of a join has its examples at the same place (a fixed one has none)."""
    if layout is None:
        return flow.accepts(tensor, wanted.axis, wanted)
    return (layout.axis, layout.before, layout.after) == (wanted.axis, wanted.before, wanted.after)


@layout_rule("Unpack")
def _unpack(flow: Flow, op: tf.Operation) -> list[State] | None:
    layout, rank = flow.layout(op.inputs[0]), op.inputs[0].shape.rank
    if layout is None or rank is None:
        return None
    axis = op.get_attr("axis") % rank
    if axis == layout.axis:
        return None  # what becomes of the single examples is not followed
    return [layout.moved(layout.axis - (axis < layout.axis))] * len(op.outputs)


@layout_rule("ConcatV2")
def _concat(flow: Flow, op: tf.Operation) -> list[State] | None:
    *parts, where = op.inputs
    axis, rank, layouts = integer(flow, where), op.outputs[0].shape.rank, flow.layouts(parts)
    found = [layout for layout in layouts if layout is not None]
    if axis is None or rank is None or len({layout.axis for layout in found}) > 1:
        return None
    axis, first = axis % rank, found[0]
    if len(found) != len(parts):
        alike = axis != first.axis and all(
            flow.accepts(part, first.axis, first) for part, layout in zip(parts, layouts, strict=True) if layout is None
        )
        if not alike:
            return None
    if axis == first.axis:
        # Several sets of the same examples, one after the other (siamese networks).
        if any(layout.after != first.after or not isinstance(layout.before, int) for layout in found):
            return None
        return [Layout(axis, sum(layout.before for layout in found), first.after)]
    return [first] if all(layout == first for layout in found) else None


@layout_rule("Split", "SplitV")
def _split(flow: Flow, op: tf.Operation) -> list[State] | None:
    tensor, where = (op.inputs[1], op.inputs[0]) if op.type == "Split" else (op.inputs[0], op.inputs[2])
    layout, axis, rank = flow.layout(tensor), integer(flow, where), tensor.shape.rank
    if layout is None or axis is None or rank is None:
        return None
    if axis % rank != layout.axis:
        return [layout] * len(op.outputs)
    before = divide(layout.before, len(op.outputs)) if op.type == "Split" else None
    if before is None:
        raise flow.couples(op, _("it cuts the axis of the examples"))
    return [Layout(layout.axis, before, layout.after)] * len(op.outputs)


@layout_rule("StridedSlice", "StridedSliceGrad")
def _strided_slice(flow: Flow, op: tf.Operation) -> list[State] | None:
    gradient = op.type == "StridedSliceGrad"
    tensor = op.inputs[4] if gradient else op.inputs[0]
    full = op.outputs[0] if gradient else op.inputs[0]
    layout, rank, strides = flow.layout(tensor), full.shape.rank, flow.value(op.inputs[3])
    masks = {name: op.get_attr(f"{name}_mask") for name in ("begin", "end", "ellipsis", "new_axis", "shrink_axis")}
    if layout is None or rank is None or strides is None:
        return None
    begin, end = (flow.value(op.inputs[i + gradient]) for i in (1, 2)) if not gradient else _bounds(flow, op)
    if gradient:
        strides = flow.value(op.inputs[3])
    pairs = _slice_axes(len(strides), rank, masks)
    for outer, inner, spec in pairs:
        if (inner if gradient else outer) != layout.axis or (inner if gradient else outer) is None:
            continue
        if spec is None:
            return [layout.moved(outer if gradient else inner)]
        if masks["shrink_axis"] >> spec & 1:
            raise flow.couples(op, _("it takes one of the examples"))
        whole = masks["begin"] >> spec & 1 or (begin is not None and flow.same(begin[spec], 0))
        ends = masks["end"] >> spec & 1 or (end is not None and flow.same(end[spec], layout.size))
        if not (whole and ends and strides[spec] == 1):
            raise flow.couples(op, _("it takes some of the examples"))
        return [layout.moved(outer if gradient else inner)]
    return None


def _bounds(flow: Flow, op: tf.Operation) -> tuple[Any, Any]:
    return flow.value(op.inputs[1]), flow.value(op.inputs[2])


def _slice_axes(count: int, rank: int, masks: dict[str, int]) -> list[tuple[int | None, int | None, int | None]]:
    """Return (axis of the whole, axis of the slice, entry of the specification), ``None`` where there is none."""
    specified = sum(not (masks["new_axis"] >> i & 1 or masks["ellipsis"] >> i & 1) for i in range(count))
    pairs: list[tuple[int | None, int | None, int | None]] = []
    outer = inner = 0

    def untouched(number: int) -> None:
        nonlocal outer, inner
        for _step in range(number):
            pairs.append((outer, inner, None))
            outer, inner = outer + 1, inner + 1

    for i in range(count):
        if masks["ellipsis"] >> i & 1:
            untouched(rank - specified)
        elif masks["new_axis"] >> i & 1:
            pairs.append((None, inner, i))
            inner += 1
        elif masks["shrink_axis"] >> i & 1:
            pairs.append((outer, None, i))
            outer += 1
        else:
            pairs.append((outer, inner, i))
            outer, inner = outer + 1, inner + 1
    untouched(rank - outer)
    return pairs


@layout_rule("Slice")
def _slice(flow: Flow, op: tf.Operation) -> list[State] | None:
    layout, begin, size = flow.layout(op.inputs[0]), flow.value(op.inputs[1]), flow.value(op.inputs[2])
    if layout is None or begin is None or size is None:
        return None
    if any(mentions_examples(size[i]) or mentions_examples(begin[i]) for i in range(len(size)) if i != layout.axis):
        return None
    first, count = begin[layout.axis], size[layout.axis]
    if not (flow.same(first, 0) and (count == -1 or flow.same(count, layout.size))):
        raise flow.couples(op, _("it takes some of the examples"))
    return [layout]


@layout_rule("Pad", "PadV2", "MirrorPad", "MirrorPadGrad")
def _pad(flow: Flow, op: tf.Operation) -> list[State] | None:
    layout, pads = flow.layout(op.inputs[0]), flow.value(op.inputs[1])
    if layout is None or pads is None:
        return None
    if any(int(pad) for pad in pads[layout.axis]):
        raise flow.couples(op, _("it changes the number of examples"))
    return [layout]


@layout_rule("ReverseV2", "Cumsum", "Cumprod", "Roll")
def _along(flow: Flow, op: tf.Operation) -> list[State] | None:
    axes = flow.value(op.inputs[2 if op.type == "Roll" else 1])
    layout, rank = flow.layout(op.inputs[0]), op.inputs[0].shape.rank
    if layout is None or axes is None or rank is None:
        return None
    if layout.axis in {int(axis) % rank for axis in axes.ravel()}:
        raise flow.couples(op, _("it works along the axis of the examples"))
    return [layout]


@layout_rule("ReverseSequence")
def _reverse_sequence(flow: Flow, op: tf.Operation) -> list[State] | None:
    one, other = flow.layouts(op.inputs)
    if (
        one is None
        or one.axis == op.get_attr("seq_dim")
        or (other is not None and op.get_attr("batch_dim") != one.axis)
    ):
        return None
    return [one] if other is not None or op.get_attr("batch_dim") != one.axis else None


@layout_rule("SpaceToBatchND", "BatchToSpaceND")
def _blocks(flow: Flow, op: tf.Operation) -> list[State] | None:
    """Follow the examples through the way in which dilated convolutions are computed on CPU."""
    layout, sizes = flow.layout(op.inputs[0]), flow.value(op.inputs[1])
    if layout is None or sizes is None or layout.axis != 0:
        return None
    blocks = product(int(size) for size in sizes)
    before = layout.before * blocks if op.type == "SpaceToBatchND" else divide(layout.before, blocks)
    return None if before is None else [Layout(0, before, layout.after)]
