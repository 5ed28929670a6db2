"""One body for many indices at once: TensorFlow's ``pfor``, or a loop where its answer would be wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import tensorflow as tf
from tensorflow.python.ops import while_v2
from tensorflow.python.ops.parallel_for import control_flow_ops as parallel_for

from cachelab.tf.per_example.copying import ancestors
from cachelab.tf.per_example.effects import function_names, nodes_inside
from cachelab.tf.per_example.turns import needs_turns

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_FILTER_GRADIENT = "Conv2DBackpropFilter"


class _MisconvertedError(Exception):
    """``pfor`` would convert the body to something else; it was traced as far as its outputs."""

    def __init__(self, outputs: Any) -> None:
        super().__init__()
        self.specs = tf.nest.map_structure(lambda tensor: tf.TensorSpec(tensor.shape, tensor.dtype), outputs)


def stacked_map(body: Callable[[tf.Tensor], Any], count: tf.Tensor) -> Any:
    """Return the outputs of ``body(0), ..., body(count - 1)``, stacked.

    ``pfor`` merges many gradients of a filter into the channels of one, which is another convolution where these
    are in groups: it then gives wrong numbers without a word. Such bodies run one after the other, as do those with
    ops that it can't convert.
    """

    @tf.autograph.experimental.do_not_convert  # it would give the error another type
    def checked(index: tf.Tensor) -> Any:
        outputs = body(index)
        if _must_take_turns(tf.nest.flatten(outputs)):
            raise _MisconvertedError(outputs)
        return outputs

    try:
        return parallel_for.pfor(checked, count)
    except _MisconvertedError as error:
        return one_by_one(body, count, error.specs)


def one_by_one(body: Callable[[tf.Tensor], Any], count: tf.Tensor, specs: Any) -> Any:
    """Return the same by a loop; ``specs`` have the shapes and types of one body's outputs, nested alike."""
    arrays = [tf.TensorArray(spec.dtype, count, element_shape=spec.shape) for spec in tf.nest.flatten(specs)]

    def step(index: tf.Tensor, *arrays: tf.TensorArray) -> tuple[Any, ...]:
        found = tf.nest.flatten(body(index))
        return (index + 1, *(array.write(index, value) for array, value in zip(arrays, found, strict=True)))

    # The loop is of the second kind whatever the graph uses: copies of it can be taken.
    found = while_v2.while_loop(
        lambda index, *_arrays: index < count, step, (tf.constant(0), *arrays), parallel_iterations=1
    )
    return tf.nest.pack_sequence_as(specs, [array.stack() for array in found[1:]])


def _must_take_turns(outputs: Sequence[tf.Tensor]) -> bool:
    for op in ancestors(outputs):
        if needs_turns(op):
            return True
        if op.type == _FILTER_GRADIENT and _in_groups(op):
            return True
        # Inside a function no shapes are at hand: such a gradient might be one of groups.
        if any(node.op == _FILTER_GRADIENT for node in nodes_inside(function_names(op), op.graph)):
            return True
    return False


def _in_groups(op: tf.Operation) -> bool:
    """Return whether the gradient of a filter is one of groups, or may be."""
    axis = 1 if op.get_attr("data_format") == b"NCHW" else 3
    image, kernel = op.inputs[0].shape, op.outputs[0].shape
    if image.rank is None or kernel.rank is None or None in {image[axis], kernel[2]}:
        return True
    return bool(image[axis] != kernel[2])
