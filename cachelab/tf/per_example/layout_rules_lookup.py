"""How look-ups pass examples on: gathers and one-hot codes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import tensorflow as tf

from cachelab.i18n import translate as _
from cachelab.tf.per_example.flow import Layout, layout_rule
from cachelab.tf.per_example.layout_tools import integer

if TYPE_CHECKING:
    from cachelab.tf.per_example.flow import Flow, State


@layout_rule("GatherV2", "ResourceGather", "Gather")
def _gather(flow: Flow, op: tf.Operation) -> list[State] | None:
    parameters, indices = op.inputs[0], op.inputs[1]
    axis = integer(flow, op.inputs[2]) if op.type == "GatherV2" else 0
    batch_dims = op.get_attr("batch_dims") if op.type != "Gather" else 0
    one, other = flow.layout(parameters), flow.layout(indices)
    rank = None if parameters.dtype is tf.resource else parameters.shape.rank
    index_rank = indices.shape.rank
    if axis is None or index_rank is None or (rank is None and one is not None):
        return None
    axis = axis % rank if rank is not None else axis
    if one is None:
        fits = other is not None and not (batch_dims and other.axis < batch_dims)
        return [other.moved(other.axis - batch_dims + axis)] if fits else None
    if other is None and one.axis >= batch_dims and one.axis != axis:
        return [one.moved(one.axis if one.axis < axis else one.axis + index_rank - batch_dims - 1)]
    own = other is not None and one.axis < batch_dims and other == one
    if one.axis == axis and _in_order(flow, indices, one):
        return [one]
    if one.axis == axis:
        raise flow.couples(op, _("it looks entries up among all examples"))
    return [one.moved(one.axis)] if own else None


def _in_order(flow: Flow, indices: tf.Tensor, layout: Layout) -> bool:
    """Return whether ``indices`` are the numbers of all examples in their order (``tf.vectorized_map``)."""
    if (layout.before, layout.after) != (1, 1) or indices.shape.rank != 1:
        return False
    own = flow.layout(indices)
    if own is not None:
        return own.iota and (own.before, own.after) == (1, 1)
    values = flow.value(indices)
    return flow.batch is not None and values is not None and values.tolist() == list(range(flow.batch))


@layout_rule("GatherNd")
def _gather_nd(flow: Flow, op: tf.Operation) -> list[State] | None:
    one, other = flow.layout(op.inputs[0]), flow.layout(op.inputs[1])
    index_rank = op.inputs[1].shape.rank
    if other is None or index_rank is None or other.axis == index_rank - 1:
        return None
    if one is None:
        return [other.moved(other.axis)]
    # tf.stack([tf.range(m), actions], 1): row i of the table for example i.
    own = (
        other.iota and other.axis == one.axis == 0 and (one.before, one.after) == (1, 1) == (other.before, other.after)
    )
    if own:
        return [Layout(0)]
    raise flow.couples(op, _("it looks entries up among all examples"))


@layout_rule("OneHot")
def _one_hot(flow: Flow, op: tf.Operation) -> list[State] | None:
    layout, rank = flow.layout(op.inputs[0]), op.outputs[0].shape.rank
    if layout is None or rank is None:
        return None
    axis = op.get_attr("axis") % rank
    return [layout.moved(layout.axis + (axis <= layout.axis))]
