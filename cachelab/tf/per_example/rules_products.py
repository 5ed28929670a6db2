"""Weights in matrix products of all kinds: ``MatMul``, batched products and ``Einsum`` as one rule."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import tensorflow as tf

from cachelab.tf.per_example.equations import equation_of
from cachelab.tf.per_example.rules import can_split, examples_first, gradient_rule, sizes, total
from cachelab.tf.per_example.rules_positions import PositionRule

if TYPE_CHECKING:
    from cachelab.tf.per_example.rules import Rule, Site


@gradient_rule("MatMul", "BatchMatMul", "BatchMatMulV2", "BatchMatMulV3", "Einsum")
def product_rule(site: Site) -> Rule | None:
    """Return the rule for a weight in a product, ``None`` where its labels can't be sorted."""
    equation = equation_of(site.op)
    if equation is None or len(equation) != len(site.op.inputs) + 1 or len(site.op.inputs) != 2:  # noqa: PLR2004
        return None
    if any(len(set(term)) != len(term) for term in equation) or not can_split(site.layout):
        return None
    rule = Product(site, equation)
    return rule if rule.sorted else None


class Product(PositionRule):
    """``out = sum of x * weight``: the labels of the product say which axes are positions."""

    name = "activations x deltas"

    def __init__(self, site: Site, equation: tuple[str, ...]) -> None:
        super().__init__(site)
        self.w = equation[site.index]
        self.x = equation[1 - site.index]
        self.out = equation[2]
        self.example = self.out[site.layout.axis]
        x, out, w = set(self.x), set(self.out), set(self.w)
        self.shared = [c for c in self.w if c in x and c in out]
        self.rows = [c for c in self.w if c in x and c not in out]
        self.columns = [c for c in self.w if c in out and c not in x]
        self.positions = [c for c in self.out if c in x and c not in w and c != self.example]
        alone = [site.shape[i] for i, c in enumerate(self.w) if c not in x and c not in out]
        lost = [c for c in self.x if c not in w and c not in out]
        # Axes that are the weight's alone are broadcast ones; what only x has is summed first.
        self.lost = lost
        extents = dict(zip(self.w, site.shape, strict=True))
        self.size = total([extents[c] for c in (*self.rows, *self.columns)])
        self.sorted = all(size == 1 for size in alone) and self.example in x and self.example not in w

    @property
    def single(self) -> bool:
        """Whether each example has one position only."""
        return not self.positions and (self.site.layout.before, self.site.layout.after) == (1, 1)

    def length(self) -> int | None:
        """Return the number of positions an example, if known."""
        layout, shape = self.site.layout, self.site.op.outputs[0].shape
        known = [shape[self.out.index(c)] for c in self.positions]
        lengths = [*known, layout.before, layout.after]
        return total(lengths) if all(isinstance(length, int) for length in lengths) else None

    def sides(self, delta: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Return x ``[m, S, T, P]`` and delta ``[m, S, T, D]``."""
        return self._arranged(delta)[:2]

    def _arranged(self, delta: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, dict[str, Any]]:
        """Return x ``[m, S, T, P]`` and delta ``[m, S, T, D]``, and the size of each label."""
        x = self.site.op.inputs[1 - self.site.index]
        x_term = self.x
        if self.lost:
            x = tf.reduce_sum(x, axis=[x_term.index(c) for c in self.lost])
            x_term = "".join(c for c in x_term if c not in self.lost)
        lengths = dict(zip(self.w, self.site.shape, strict=True))
        sides = []
        for tensor, term, own in ((x, x_term, self.rows), (delta, self.out, self.columns)):
            first = examples_first(tensor, self.site.layout.moved(term.index(self.example)), self.site.count)
            rest = [c for c in term if c != self.example]
            for c, size in zip(rest, sizes(first)[2:], strict=True):
                lengths.setdefault(c, size)
            wanted = [*self.shared, *self.positions, *own]
            place = {c: i + 2 for i, c in enumerate(rest)}
            order = [0, *(place[c] for c in self.shared), 1, *(place[c] for c in (*self.positions, *own))]
            if order != list(range(len(order))):
                first = tf.transpose(first, order)
            count, inner = len(self.shared), sizes(first)
            groups = [
                inner[1 : 1 + count],
                inner[1 + count : 2 + count + len(self.positions)],
                [lengths[c] for c in own],
            ]
            if len(wanted) + 2 != 4 or [len(group) for group in groups] != [1, 1, 1]:  # noqa: PLR2004
                first = tf.reshape(first, tf.stack([inner[0], *(total(group) for group in groups)]))
                first.set_shape([None, *(s if isinstance(s, int) else None for s in (total(g) for g in groups))])
            sides.append(first)
        return sides[0], sides[1], lengths

    def per_example(self, delta: tf.Tensor) -> tf.Tensor:
        """Return ``[m, *shape]``."""
        x, d, lengths = self._arranged(delta)
        order = [c for c in self.w if c in {*self.shared, *self.rows, *self.columns}]
        flipped = order == [*self.shared, *self.columns, *self.rows] and self.rows and self.columns
        left, right = (d, x) if flipped else (x, d)
        if self.single:
            # [m, S, 1, P] and [m, S, 1, D]: a broadcast product writes each number once.
            result = tf.squeeze(left, 2)[..., tf.newaxis] * tf.squeeze(right, 2)[:, :, tf.newaxis, :]
        else:
            result = tf.matmul(left, right, transpose_a=True)
        groups = [*self.shared, *(self.columns if flipped else self.rows), *(self.rows if flipped else self.columns)]
        if groups != order:
            result = tf.reshape(result, tf.stack([self.site.count, *(lengths[c] for c in groups)]))
            result = tf.transpose(result, [0, *(1 + groups.index(c) for c in order)])
        return tf.reshape(result, [-1, *self.site.shape])
