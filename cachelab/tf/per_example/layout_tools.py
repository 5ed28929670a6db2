"""What the layout rules share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cachelab.i18n import translate as _
from cachelab.tf.per_example.flow import FIXED, Layout, Unproven

if TYPE_CHECKING:
    from collections.abc import Sequence

    import tensorflow as tf

    from cachelab.tf.per_example.flow import Flow, State


def creates(rule: Any) -> Any:
    """Mark a rule that is also asked when the op's inputs have no axis of examples, only their number."""
    rule.creates = True
    return rule


def merge(flow: Flow, op: tf.Operation, tensors: Sequence[tf.Tensor], out: tf.Tensor) -> State:
    """Return the layout of an elementwise op with broadcasting."""
    rank = out.shape.rank
    if rank is None or any(tensor.shape.rank is None for tensor in tensors):
        layouts = {flow.layout(tensor) for tensor in tensors} - {None}
        same_rank = len(tensors) == 1
        return layouts.pop() if same_rank and len(layouts) == 1 else Unproven(op.name, op.type)
    found: Layout | None = None
    for tensor in tensors:
        layout = flow.layout(tensor)
        if layout is None:
            continue
        moved = Layout(layout.axis + rank - tensor.shape.rank, layout.before, layout.after, layout.iota)
        if found is None:
            found = moved if len(tensors) == 1 and op.type in {"Identity", "Cast"} else moved.moved(moved.axis)
        elif (moved.axis, moved.before, moved.after) != (found.axis, found.before, found.after):
            raise flow.couples(op, _("it combines every example with every other one"))
    if found is None:
        return FIXED
    for tensor in tensors:
        place = found.axis - (rank - tensor.shape.rank)
        if flow.layout(tensor) is None and place >= 0 and not flow.accepts(tensor, place, found):
            size = (flow.shape(tensor) or ["?"] * (place + 1))[place]
            raise flow.couples(
                op,
                _("it combines them with `{tensor}`, which has {size} rows but is not among the inputs").format(
                    tensor=tensor.name, size=size if isinstance(size, int) else "?"
                ),
                _("Add it to `inputs` if its rows belong to the examples; else give it an axis of size 1 there."),
            )
    return found


def integer(flow: Flow, tensor: tf.Tensor) -> int | None:
    """Return the value of a tensor that holds one known number, else ``None``."""
    value = flow.value(tensor)
    return int(value.item()) if value is not None and value.size == 1 else None
