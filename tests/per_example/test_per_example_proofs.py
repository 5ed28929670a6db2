"""What is proven to keep examples apart, and true words where it is not."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from cachelab.errors import NotApplicableError
from cachelab.tf.per_example import derivatives, layout_rule, per_example_gradients, plan

tf1 = tf.compat.v1
RANDOM = np.random.default_rng(8)
ALL = ("auto", "outer", "vectorized", "loop", "jacobian")


def normal(*shape):
    return RANDOM.normal(size=shape)


@pytest.mark.parametrize("batch", [None, 3])
@pytest.mark.parametrize("kind", ["labels", "rows", "cross entropy"])
def test_derivatives_with_other_tensors_of_the_examples(kind, batch):
    """What does not depend on x has no part in the derivative by x."""
    functions = {
        "labels": lambda x, y: tf.reduce_sum(tf.square(x - y), 1),
        "rows": lambda x, y: tf.nn.softmax(x) * y,
        "cross entropy": lambda x, y: tf.nn.softmax_cross_entropy_with_logits(tf.nn.softmax(y), x),
    }
    f, a, b = functions[kind], normal(3, 2), normal(3, 2)
    with tf.Graph().as_default():
        x, y = tf1.placeholder(tf.float64, [batch, 2]), tf1.placeholder(tf.float64, [None, 2])
        found = derivatives(f(x, y), x)
        with tf1.Session() as session:
            got = session.run(found, {x: a, y: b})
            one = session.run(found, {x: a, y: b[:1]}) if batch is None else None
            if batch is None:
                with pytest.raises(tf.errors.InvalidArgumentError, match="more rows"):
                    session.run(found, {x: a[:1], y: b})
    for i in range(3):
        for other, values in ((b[i : i + 1], got), (b[:1], one)):
            if values is None:
                continue
            shifts = 1e-6 * np.eye(2)
            for k, shift in enumerate(shifts):
                up, down = (np.asarray(f(tf.constant(a[i : i + 1] + s), tf.constant(other))) for s in (shift, -shift))
                slope = ((up - down) / 2e-6)[0]
                np.testing.assert_allclose(values[i, k], slope[k] if slope.ndim else slope, rtol=1e-5, atol=1e-8)


def test_derivatives_of_a_captured_tensor_in_a_function():
    @tf.function(input_signature=[tf.TensorSpec([None], tf.float64)])
    def work(x):
        other = tf.stop_gradient(tf.sin(x))
        return derivatives(lambda v: v * other, x)

    x = normal(4)
    np.testing.assert_allclose(work(x), np.sin(x), rtol=1e-9)


def test_the_advice_fits_the_function():
    with pytest.raises(NotApplicableError, match="Jacobian") as caught:
        derivatives(lambda x: x - tf.reduce_mean(x), tf.constant(normal(3)))
    assert 'method="jacobian"' not in str(caught.value)
    weights = tf.Variable(normal(2))
    labels = tf.constant(normal(3, 2))
    with pytest.raises(NotApplicableError, match="Add it to `inputs`"):
        plan(lambda x: tf.reduce_sum(x * weights - labels, 1), [weights], tf.ones([3, 2], tf.float64))


def test_maps_over_the_batch(check_function):
    weights, x = tf.Variable(normal(2, 1)), tf.constant(normal(4, 2))

    def one(row):
        return tf.reduce_sum(tf.tanh(row[tf.newaxis] @ weights)) ** 2

    def vectorised(x):
        return tf.vectorized_map(one, x)

    def mapped(x):
        return tf.map_fn(one, x)

    check_function(vectorised, [weights], [x], ("auto", "loop", "jacobian"))
    assert plan(vectorised, [weights], x).method != "jacobian"
    check_function(mapped, [weights], [x], ("auto", "jacobian"))
    assert plan(mapped, [weights], x).method == "jacobian"
    with pytest.raises(NotApplicableError, match="not proven"):
        plan(mapped, [weights], x, method="outer")
    for known in (True, False):
        signature = [tf.TensorSpec(x.shape if known else [None, 2], tf.float64)]
        found = tf.function(lambda x: derivatives(vectorised, x), input_signature=signature)(x)
        with tf.GradientTape() as tape:
            tape.watch(x)
            total = tf.reduce_sum(vectorised(x))
        np.testing.assert_allclose(found, tape.gradient(total, x), rtol=1e-9)
    for apart in (tf.unstack, lambda x: tf.split(x, 4)):
        with pytest.raises(NotApplicableError, match="not proven"):
            derivatives(lambda x, apart=apart: tf.concat([tf.reshape(row, [1, 2]) ** 2 for row in apart(x)], 0), x)


def test_numbers_of_the_examples_that_are_looked_up():
    """In a copy for one example its number would be 0."""
    weights, x = tf.Variable(normal(2)), tf.constant(normal(4, 2))

    def loss(x):
        numbers = tf.range(tf.shape(x)[0])
        looked_up = tf.gather(numbers, numbers)
        return tf.reduce_sum(x * weights, 1) * tf.cast(looked_up + 1, tf.float64)

    for method in ALL:
        try:
            found = per_example_gradients(loss, [weights], x, method=method)[0]
        except NotApplicableError:
            continue
        np.testing.assert_allclose(found, x * np.arange(1.0, 5)[:, None], rtol=1e-9)


def test_cross_entropy_of_each_position(check, check_function):
    weights, x, labels = tf.Variable(normal(3, 6)), normal(4, 5, 3), tf.nn.softmax(normal(4, 5, 6)).numpy()

    def loss(x, labels):
        return tf.reduce_sum(tf.nn.softmax_cross_entropy_with_logits(labels, tf.tensordot(x, weights, 1)), 1)

    check(loss, [weights], [x, labels], ALL, tasks=("gradients",))
    check_function(loss, [weights], [tf.constant(x), tf.constant(labels)])
    assert plan(loss, [weights], (tf.constant(x), tf.constant(labels))).method == "outer"


def test_a_rule_that_is_registered_later():
    weights, x = tf.Variable(normal(2, 3)), tf.constant(normal(3, 2))

    def loss(x):
        return tf.reduce_sum(f(x @ weights), 1)

    def f(x):
        return tf.raw_ops.CumulativeLogsumexp(x=x, axis=1)

    assert plan(loss, [weights], x).method == "jacobian"
    with pytest.raises(NotApplicableError, match="not proven"):
        derivatives(f, x)

    @layout_rule("CumulativeLogsumexp")
    def last_axis(flow, op):
        layout = flow.layout(op.inputs[0])
        return [layout] if flow.value(op.inputs[1]).item() != layout.axis else None

    assert plan(loss, [weights], x).method == "outer"
    assert derivatives(f, x).shape == x.shape


def test_what_is_not_proven_is_not_said_to_depend():
    keras = pytest.importorskip("keras")
    layer = keras.layers.CategoryEncoding(4, output_mode="multi_hot")
    weights, x = tf.Variable(tf.ones([4, 2])), tf.constant([[0, 1], [2, 2], [3, 0]])
    with pytest.raises(NotApplicableError, match="not proven that entry i"):
        plan(lambda x: tf.reduce_sum(layer(x) @ weights, 1), [weights], x)
