"""Rows of a table that are looked up (embeddings)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import tensorflow as tf

from cachelab.tf.per_example.rules import (
    Rule,
    at_least_float32,
    can_split,
    examples_first,
    gradient_rule,
    sizes,
    total,
)

if TYPE_CHECKING:
    from cachelab.tf.per_example.rules import Site

_PAIRS = 256
"""Up to so many look-ups an example all pairs are compared; beyond, equal ones are found by ``tf.unique``."""


@gradient_rule("GatherV2", "ResourceGather", "Gather")
def gather_rule(site: Site) -> Rule | None:
    """Return the rule for a table from which rows are taken."""
    op = site.op
    if site.index != 0 or site.flow.layout(op.inputs[1]) is None or not can_split(site.layout):
        return None
    axis = site.flow.value(op.inputs[2]) if op.type == "GatherV2" else 0
    if axis is None or int(axis) != 0 or (op.type != "Gather" and op.get_attr("batch_dims")):
        return None
    return Lookup(site)


class Lookup(Rule):
    """The deltas of an example added up by the row that was looked up."""

    name = "add deltas by row"
    forms_gradient = False

    def _arranged(self, delta: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Return the indices ``[m, T]`` and the deltas ``[m, T, R]``."""
        site = self.site
        indices = site.op.inputs[1]
        layout = site.flow.layout(indices)
        rows = examples_first(indices, layout, site.count)
        rows = tf.reshape(rows, tf.stack([site.count, total(sizes(rows)[1:])]))
        first = examples_first(delta, site.layout, site.count)
        lookups = indices.shape.rank
        lengths = sizes(first)
        width = total(list(site.shape[1:]))
        known = [length for length in lengths[1 : lookups + 1] if isinstance(length, int)]
        flat = tf.reshape(first, tf.stack([site.count, total(lengths[1 : lookups + 1]), width]))
        flat.set_shape([None, total(known) if len(known) == lookups else None, width])
        return rows, flat

    def per_example(self, delta: tf.Tensor) -> tf.Tensor:
        """Return ``[m, *shape]``, dense."""
        rows, flat = self._arranged(delta)
        table, width = self.site.shape[0], flat.shape[2]
        keys = self._keys(rows)
        segments = tf.cast(self.site.count, tf.int64) * table
        summed = tf.math.unsorted_segment_sum(tf.reshape(flat, [-1, width]), keys, segments)
        return tf.reshape(summed, [-1, *self.site.shape])

    def _keys(self, rows: tf.Tensor) -> tf.Tensor:
        """Return one number for each pair of example and row of the table."""
        examples = tf.range(tf.cast(self.site.count, tf.int64))[:, tf.newaxis]
        return tf.reshape(examples * self.site.shape[0] + tf.cast(rows, tf.int64), [-1])

    def squared_norm(self, delta: tf.Tensor) -> tf.Tensor:
        """Return ``[m]`` without a table an example: look-ups of the same row are added up first."""
        rows, flat = self._arranged(delta)
        flat = at_least_float32(flat)
        length = flat.shape[1]
        if length == 1:
            return tf.reduce_sum(tf.square(flat), axis=[1, 2])
        if self.site.xla or (length is not None and length <= _PAIRS):
            same = tf.cast(tf.equal(rows[:, :, tf.newaxis], rows[:, tf.newaxis, :]), flat.dtype)
            return tf.reduce_sum(same * tf.matmul(flat, flat, transpose_b=True), axis=[1, 2])
        keys, where = tf.unique(self._keys(rows))
        summed = tf.math.unsorted_segment_sum(tf.reshape(flat, [-1, flat.shape[2]]), where, tf.size(keys))
        return tf.math.unsorted_segment_sum(
            tf.reduce_sum(tf.square(summed), axis=1), keys // self.site.shape[0], self.site.count
        )
