"""What TensorFlow's graph optimisation does with fed tensors: it replaces some ops, and what is fed for them is lost.

Measured (``tests/modes/test_modes_optimizer.py`` repeats it): of ``s = x * x`` the optimiser makes a new node
``Square(x)`` and leads the consumers of ``s`` to it, whether ``s`` is fed or not. Then a run with ``s`` fed computes
from ``x``, or fails because ``x`` is not fed. The same happens to a sum of equal terms, to an op that undoes another
one, and to transpositions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cachelab.tf.nodes import fed_tensor

if TYPE_CHECKING:
    from collections.abc import Iterable

SUMS = frozenset({"Mul", "MulNoNan", "Add", "AddV2", "AddN"})
"""Types that the optimiser replaces if all inputs turn out to be the same tensor."""
UNDOING = frozenset({"Neg", "Reciprocal", "Inv", "Invert", "LogicalNot", "Conj", "Transpose", "ConjugateTranspose"})
"""Types that it drops where one undoes another, or that may do nothing."""


def replaceable(op: Any) -> bool:
    """Whether graph optimisation may lead the consumers of an op to another one.

    Equal tensors come from the same sources, so inputs with other sources, or of another shape, are not equal.
    """
    if op.type in UNDOING:
        return True
    if op.type not in SUMS:
        return False
    first, *others = list(op.inputs)
    return all(_alike(first, other) for other in others) and (
        not others or all(_sources(first.op) == _sources(other.op) for other in others)
    )


def _alike(one: Any, other: Any) -> bool:
    known = one.shape.is_fully_defined() and other.shape.is_fully_defined()
    return not known or one.shape == other.shape


def _sources(op: Any) -> frozenset[str]:
    """Return the ops without inputs, constants apart, that an op comes from."""
    found: set[str] = set()
    seen: set[Any] = set()
    stack = [op]
    while stack:
        op = stack.pop()
        if op.name in seen:
            continue
        seen.add(op.name)
        if not op.inputs and op.type != "Const":
            found.add(op.name)
        stack.extend(value.op for value in op.inputs)
    return frozenset(found)


def taken(metadata: Any, tensors: Iterable[str]) -> tuple[str, ...]:
    """Return the fed tensors that an optimised graph takes.

    Parameters
    ----------
    metadata
        ``RunMetadata`` of a local run with ``output_partition_graphs``.
    tensors
        Names of fed tensors.
    """
    nodes = (node for graph in metadata.partition_graphs for node in graph.node)
    found = {fed_tensor(node.name) for node in nodes if node.op == "_Arg"}
    return tuple(tensor for tensor in tensors if tensor in found)
