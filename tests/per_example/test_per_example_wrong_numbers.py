"""Losses for which a silently wrong number was once given: each method gives the right one, or refuses."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from cachelab.errors import NotApplicableError
from cachelab.tf.per_example import clipped_sum, derivatives, layout_rule, per_example_gradients, plan

RANDOM = np.random.default_rng(7)
X = tf.constant(RANDOM.normal(size=(5, 3)))


def rows(value):
    return tf.reduce_sum(value, list(range(1, value.shape.rank)))


def entry_by_entry(loss, variables, x):
    """Return one array a variable, ``[m, *shape]``: the gradient of each entry of the loss of the whole batch."""
    function = tf.function(loss)
    found = []
    for i in range(len(x)):
        with tf.GradientTape() as tape:
            value = function(x)[i]
        found.append(tape.gradient(value, variables, unconnected_gradients="zero"))
    return [np.stack([np.asarray(tf.convert_to_tensor(g)) for g in parts]) for parts in zip(*found, strict=True)]


def delay_line(length, value):
    """Return a sum that ``value`` reaches only after it went through ``length`` variables of a loop."""
    empty = tf.zeros_like(value[:0])
    shapes = [tf.TensorShape([]), *[tf.TensorShape([None, *value.shape[1:]])] * length]
    line = tf.while_loop(
        lambda i, *_line: i < length + 5,
        lambda i, *line: (i + 1, value, *line[:-1]),
        [tf.constant(0), *[empty] * length],
        shape_invariants=shapes,
    )
    return tf.reduce_sum(line[-1])


@pytest.mark.parametrize("length", [3, 10, 11, 25])
def test_coupling_behind_a_long_delay_line_is_seen(length):
    weights = tf.Variable(RANDOM.normal(size=(3, 1)))

    def loss(x):
        value = x @ weights
        return value[:, 0] + delay_line(length, tf.square(value))

    with pytest.raises(NotApplicableError, match="couples"):
        derivatives(lambda x: x + delay_line(length, tf.square(x)), tf.constant([1.0, 2.0, 3.0]))
    with pytest.raises(NotApplicableError, match="couples"):
        plan(loss, [weights], X)


@pytest.mark.parametrize("length", [3, 25])
def test_a_delay_line_of_rows_keeps_examples_apart(length):
    def f(x):
        line = tf.while_loop(
            lambda i, *_line: i < length + 5,
            lambda i, *line: (i + 1, tf.square(x), *line[:-1]),
            [tf.constant(0), *[x] * length],
        )
        return line[-1]

    np.testing.assert_allclose(derivatives(f, tf.constant([1.0, 2.0, 3.0])), [2, 4, 6])


@layout_rule("Bucketize")
def _known_not_to_be_proven(flow, op):
    return None


@pytest.mark.parametrize("inside_a_function", [False, True])
def test_grouped_convolutions_by_every_method(inside_a_function):
    """TensorFlow's pfor takes the gradients of grouped filters for those of ungrouped ones."""
    kernel, x = (
        tf.Variable(RANDOM.normal(size=(2, 2, 2, 4)).astype("f")),
        tf.constant(RANDOM.normal(size=(3, 4, 4, 4)).astype("f")),
    )

    def convolved(x):
        return tf.nn.conv2d(x, kernel, 1, "VALID")

    def loss(x):
        return rows(tf.square(tf.function(convolved, autograph=False)(x) if inside_a_function else convolved(x)))

    def unproven(x):
        return loss(x) + 0 * tf.cast(tf.raw_ops.Bucketize(input=x[:, 0, 0, 0], boundaries=[0.0]), tf.float32)

    (truth,) = entry_by_entry(loss, [kernel], x)
    assert plan(unproven, [kernel], x).method == "jacobian"
    asked = [(loss, method) for method in ("auto", "vectorized", "loop", "jacobian")]
    for function, method in [*asked, (unproven, "auto")]:
        found = per_example_gradients(function, [kernel], x, method=method)[0]
        np.testing.assert_allclose(found, truth, rtol=1e-4, atol=1e-4, err_msg=method)
    norms = np.sqrt((truth.reshape(3, -1) ** 2).sum(1))
    found = clipped_sum(unproven, [kernel], x, max_norm=1.0)[0]
    np.testing.assert_allclose(found, np.tensordot(1 / norms, truth, 1), rtol=1e-4, atol=1e-4)
