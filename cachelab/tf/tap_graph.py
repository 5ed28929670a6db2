"""Taps in v1 graphs: is the kept value stale, as a variable that it depends on changed since.

A fingerprint of each variable is kept with the value, taken from the very read that the value was computed from.
A read compares it with a fingerprint of the variable as it is now.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import tensorflow as tf

from cachelab.tf.tap_store import Cell, raw

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

_REF_VARIABLES = frozenset({"Variable", "VariableV2"})
_VIEWS = frozenset(
    {"Identity", "IdentityN", "Reshape", "ExpandDims", "Squeeze", "StopGradient", "PreventGradient", "Bitcast",
     "CheckNumerics", "Slice", "StridedSlice", "Split", "SplitV", "Unpack", "EnsureShape", "PlaceholderWithDefault"}
)  # fmt: skip
"""Ops whose output may lie in the buffer of their input."""


@dataclass(frozen=True)
class Watched:
    """A variable that a tapped value depends on: its fingerprint at the write and the tensor of its present one."""

    variable: str
    kept: Cell
    now: Any

    def changed(self, session: Any) -> bool:
        """Return whether the variable holds something else than at the write."""
        kept = self.kept.value(session)
        return kept is not None and not np.array_equal(kept, session.run(self.now))


def own_buffer(tensor: Any) -> Any:
    """Return ``tensor``, copied where it may lie in a fed array or in a ref variable, which others change in place."""
    producer = tensor.op
    while producer.type in _VIEWS and producer.inputs:
        producer = producer.inputs[0].op
    if producer.type in _REF_VARIABLES or producer.type.startswith("Placeholder"):
        return raw.DeepCopy(x=tensor)
    return tensor


def watch(flat: Iterable[Any]) -> tuple[list[Watched], list[Any]]:
    """Return what to watch for the tensors ``flat``, and the ops that keep the fingerprints."""
    watched, writes = [], []
    for variable, read, now in _reads(flat):
        if not _can_fingerprint(read):
            continue
        kept = Cell(tf.uint8)
        writes.append(kept.assign(_fingerprint(read)))
        with tf.init_scope():
            watched.append(Watched(variable, kept, _fingerprint(now())))
    return watched, writes


def _reads(flat: Iterable[Any]) -> Iterator[tuple[str, Any, Any]]:
    """Yield (variable, tensor of the read, function that builds a new read) for each variable read below ``flat``."""
    graph = tf.compat.v1.get_default_graph()
    here = graph._get_control_flow_context()
    queue, seen = [tensor.op for tensor in flat], set()
    while queue:
        op = queue.pop()
        if op in seen or op.graph is not graph:
            continue
        seen.add(op)
        visible = op._get_control_flow_context() in (None, here)
        if op.type == "ReadVariableOp" and visible:
            handle = op.inputs[0]
            while handle.op.type == "Identity":
                handle = handle.op.inputs[0]
            if handle.op.type == "VarHandleOp":
                read = op.outputs[0]
                yield handle.op.name, read, lambda h=handle, r=read: raw.ReadVariableOp(resource=h, dtype=r.dtype)
        elif op.type == "Identity" and op.inputs[0].op.type in _REF_VARIABLES and visible:
            yield op.inputs[0].op.name, op.outputs[0], lambda ref=op.inputs[0]: tf.identity(ref)
        queue.extend(tensor.op for tensor in op.inputs)


def _can_fingerprint(tensor: Any) -> bool:
    return tensor.dtype not in {tf.resource, tf.variant, tf.string}


def _fingerprint(tensor: Any) -> Any:
    flat = tf.reshape(tensor, [1, -1])
    return raw.Fingerprint(data=flat, method=tf.constant("farmhash64"))


def stale_variables(watched: Sequence[Watched], session: Any) -> tuple[str, ...]:
    """Return the variables that changed since the value was written, by name."""
    return tuple(sorted({entry.variable for entry in watched if entry.changed(session)}))
