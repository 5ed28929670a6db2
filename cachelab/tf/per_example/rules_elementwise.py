"""Weights that are added, multiplied, broadcast or otherwise combined entry by entry."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import tensorflow as tf

from cachelab.tf.per_example.layout_rules import ELEMENTWISE
from cachelab.tf.per_example.rules import Rule, can_split, examples_first, gradient_rule, op_gradient, sizes

if TYPE_CHECKING:
    from cachelab.tf.per_example.rules import Site

_SUMS = {"Add", "AddV2", "Sub", "BroadcastTo"}


@gradient_rule(*ELEMENTWISE, "BroadcastTo")
def elementwise_rule(site: Site) -> Rule | None:
    """Return the rule for a weight combined entry by entry with broadcasting."""
    if site.op.outputs[0].shape.rank is None or not can_split(site.layout) or site.op.type == "Select":
        return None
    return Elementwise(site)


class Elementwise(Rule):
    """The op's own gradient for a weight that is given to each example, then summed over what was broadcast."""

    name = "reduce the deltas"

    def per_example(self, delta: tf.Tensor) -> tf.Tensor:
        """Return ``[m, *shape]``."""
        site = self.site
        kind = site.op.type
        if kind in _SUMS:
            gradient = -delta if kind == "Sub" and site.index == 1 else delta
        elif kind == "Mul":
            gradient = delta * site.op.inputs[1 - site.index]
        else:
            gradient = self._spread(delta)
        return self._reduced(gradient)

    def _spread(self, delta: tf.Tensor) -> tf.Tensor:
        """Return the gradient with respect to the weight as if each entry of the output had its own."""
        op, site = self.site.op, self.site
        inputs = list(op.inputs)
        inputs[site.index] = tf.broadcast_to(site.weight, tf.shape(op.outputs[0]))
        attributes = {key: value for key, value in op.node_def.attr.items() if not key.startswith("_")}
        again = op.graph.create_op(
            op.type, inputs, [out.dtype for out in op.outputs], attrs=attributes, name=f"{op.type}_spread"
        )
        return op_gradient(again, delta, site.index)

    def _reduced(self, gradient: tf.Tensor) -> tf.Tensor:
        site = self.site
        rank = site.op.outputs[0].shape.rank
        first = examples_first(gradient, site.layout, site.count)
        rest = [axis for axis in range(rank) if axis != site.layout.axis]
        missing = rank - len(site.shape)
        own = {axis: site.shape[axis - missing] for axis in range(missing, rank)}
        full = site.op.outputs[0].shape.as_list()
        summed = [1] if first.shape[1] != 1 else []
        summed += [i + 2 for i, axis in enumerate(rest) if own.get(axis, 1) == 1 and full[axis] != 1]
        reduced = tf.reduce_sum(first, axis=summed) if summed else first
        return tf.reshape(reduced, [-1, *site.shape])


@gradient_rule("BiasAdd")
class Bias(Rule):
    """A bias: the deltas summed over everything but the channels."""

    name = "reduce the deltas"

    def per_example(self, delta: tf.Tensor) -> tf.Tensor:
        """Return ``[m, channels]``."""
        site = self.site
        first_channels = site.op.get_attr("data_format") == b"NCHW"
        if first_channels and delta.shape.rank > 2:  # noqa: PLR2004
            delta = tf.transpose(delta, [0, *range(2, delta.shape.rank), 1])
        first = examples_first(delta, site.layout, site.count)
        summed = list(range(1 if first.shape[1] != 1 else 2, first.shape.rank - 1))
        reduced = tf.reduce_sum(first, axis=summed) if summed else first
        return tf.reshape(reduced, [-1, *site.shape])


@gradient_rule("Fill")
class Fill(Rule):
    """A scalar that fills a tensor: the sum of the deltas."""

    name = "reduce the deltas"

    def per_example(self, delta: tf.Tensor) -> tf.Tensor:
        """Return ``[m]``."""
        first = examples_first(delta, self.site.layout, self.site.count)
        return tf.reduce_sum(first, axis=list(range(1, first.shape.rank)))


@gradient_rule("Tile")
class Tile(Rule):
    """A weight repeated for each example: the deltas summed over the repetitions of one example."""

    name = "reduce the deltas"

    def per_example(self, delta: tf.Tensor) -> tf.Tensor:
        """Return ``[m, *shape]``."""
        site = self.site
        times = site.op.inputs[1]
        split: list[Any] = []
        for axis, size in enumerate(site.shape):
            if axis == site.layout.axis:
                split.append(site.count)
                split.append(times[axis] // site.count)
            else:
                split.append(times[axis])
            split.append(size)
        examples = 2 * site.layout.axis
        tensor = tf.reshape(delta, tf.stack(split))
        own = [2 * axis + 1 + (axis >= site.layout.axis) for axis in range(len(site.shape))]
        summed = [axis for axis in range(len(split)) if axis != examples and axis not in own]
        kept = [axis for axis in range(len(split)) if axis not in summed]
        reduced = tf.reduce_sum(tensor, axis=summed)
        place = kept.index(examples)
        order = [place, *(axis for axis in range(len(kept)) if axis != place)]
        return tf.reshape(tf.transpose(reduced, order), [-1, *site.shape])


@gradient_rule("FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3")
def batch_norm_rule(site: Site) -> Rule | None:
    """Return the rule for scale and shift of a batch normalisation that uses stored statistics."""
    return BatchNorm(site) if site.index in {1, 2} and can_split(site.layout) else None


class BatchNorm(Rule):
    """Scale and shift of a normalisation with stored statistics."""

    name = "reduce the deltas"

    def per_example(self, delta: tf.Tensor) -> tf.Tensor:
        """Return ``[m, channels]``."""
        site = self.site
        x, _scale, _offset, mean, variance = site.op.inputs
        if site.op.get_attr("data_format").startswith(b"NC"):
            order = [0, *range(2, delta.shape.rank), 1]
            x, delta = tf.transpose(x, order), tf.transpose(delta, order)
        delta = tf.cast(delta, mean.dtype)
        if site.index == 1:
            delta = delta * (tf.cast(x, mean.dtype) - mean) * tf.math.rsqrt(variance + site.op.get_attr("epsilon"))
        first = examples_first(delta, site.layout, site.count)
        return tf.reduce_sum(first, axis=list(range(1, len(sizes(first)) - 1)))
