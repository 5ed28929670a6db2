"""Matrix products of all kinds as one: labels of the axes of each operand and of the result."""

from __future__ import annotations

import string
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import tensorflow as tf


def equation_of(op: tf.Operation) -> tuple[str, ...] | None:
    """Return the labels of each input and of the output, e.g. ``("ab", "bc", "ac")``; ``None`` if not known.

    Broadcast axes get labels of their own; an axis of size 1 that is broadcast has a capital letter and is not in
    the output.
    """
    if op.type in {"MatMul", "SparseMatMul"}:
        left = "ba" if op.get_attr("transpose_a") else "ab"
        right = "cb" if op.get_attr("transpose_b") else "bc"
        return left, right, "ac"
    ranks = [tensor.shape.rank for tensor in op.inputs]
    if None in ranks:
        return None
    if op.type == "Einsum":
        return _einsum(op.get_attr("equation").decode(), [tensor.shape.as_list() for tensor in op.inputs])
    if op.type in {"BatchMatMul", "BatchMatMulV2", "BatchMatMulV3"}:
        lead = max(ranks) - 2
        labels = string.ascii_lowercase[3 : 3 + lead]
        sizes = [tensor.shape.as_list() for tensor in op.inputs]
        terms = []
        for rank, size in zip(ranks, sizes, strict=True):
            own = labels[lead - (rank - 2) :]
            # Of two axes one of which is broadcast, the one of size 1 is another axis: it has its own label.
            terms.append(
                "".join(c.upper() if size[i] == 1 and _other(sizes, ranks, rank, i) else c for i, c in enumerate(own))
            )
        left = "ba" if op.get_attr("adj_x") else "ab"
        right = "cb" if op.get_attr("adj_y") else "bc"
        return terms[0] + left, terms[1] + right, labels + "ac"
    return None


def _other(sizes: list[list[int | None]], ranks: list[int], rank: int, axis: int) -> bool:
    """Return whether the other operand has an axis there that is not of size 1."""
    from_right = rank - axis
    return any(from_right <= other and size[other - from_right] != 1 for size, other in zip(sizes, ranks, strict=True))


def _einsum(equation: str, sizes: list[list[int | None]]) -> tuple[str, ...] | None:
    terms, _, out = equation.replace(" ", "").partition("->")
    operands = terms.split(",")
    if "..." not in equation:
        return (*operands, out)
    free = [c for c in string.ascii_lowercase if c not in equation and c.upper() not in equation]
    inner = [_under_ellipsis(term, size) for term, size in zip(operands, sizes, strict=True)]
    width = max(map(len, inner))
    if width > len(free):
        return None
    dots = free[:width]
    labels = [list(dots[width - len(own) :]) for own in inner]
    for place in range(1, width + 1):
        found = {own[-place] for own in inner if len(own) >= place}
        if len(found) == 1:
            continue
        if None in found and len(found - {None, 1}) > 0:
            return None  # an axis of unknown size may be broadcast or not
        for own, names in zip(inner, labels, strict=True):
            if len(own) >= place and own[-place] == 1:
                names[-place] = names[-place].upper()
    parts = [term.replace("...", "".join(names)) for term, names in zip(operands, labels, strict=True)]
    return (*parts, out.replace("...", "".join(dots)))


def _under_ellipsis(term: str, sizes: list[int | None]) -> list[int | None]:
    """Return the sizes of the axes that the ellipsis of a term stands for; none where it has none."""
    if "..." not in term:
        return []
    first = term.index("...")
    return sizes[first : first + len(sizes) - (len(term) - 3)]
