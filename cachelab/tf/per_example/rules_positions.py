"""Weights whose gradient is a sum over positions: what products and convolutions share."""

from __future__ import annotations

from typing import TYPE_CHECKING

import tensorflow as tf

from cachelab.tf.per_example.rules import Rule, at_least_float32, squared_rows, total

if TYPE_CHECKING:
    from cachelab.tf.per_example.rules import Site


class PositionRule(Rule):
    """The gradient of an example is the sum over its positions t of x_t times delta_t.

    Norms without forming it: Goodfellow 2015 for one position an example, and the Gram matrices of positions
    (Li et al. 2022, "ghost norm") where they are smaller.
    """

    single = False
    """Whether each example has one position only."""

    def __init__(self, site: Site) -> None:
        super().__init__(site)
        self.size = total(list(site.shape))
        """Numbers in the gradient that the positions of one group share."""

    def sides(self, delta: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Return x ``[m, S, T, P]`` and delta ``[m, S, T, D]`` for S groups and T positions."""
        raise NotImplementedError

    def length(self) -> int | None:
        """Return the number T of positions an example, if known."""
        raise NotImplementedError

    @property
    def gram(self) -> bool:
        """Whether the Gram matrices of the positions are smaller than the gradient: ``2 T^2 < p d``."""
        length = self.length()
        return length is not None and 2 * length**2 < self.size

    @property
    def forms_gradient(self) -> bool:
        """Whether the norm goes through the gradient itself."""
        return not (self.single or self.gram)

    def squared_norm(self, delta: tf.Tensor) -> tf.Tensor:
        """Return ``[m]`` by the cheapest way for these sizes."""
        if self.forms_gradient:
            return squared_rows(self.per_example(delta))
        x, d = (at_least_float32(side) for side in self.sides(delta))
        if self.single:
            products = tf.reduce_sum(tf.square(x), axis=-1) * tf.reduce_sum(tf.square(d), axis=-1)
            return tf.reduce_sum(products, axis=[1, 2])
        grams = tf.matmul(x, x, transpose_b=True) * tf.matmul(d, d, transpose_b=True)
        return tf.reduce_sum(grams, axis=[1, 2, 3])
