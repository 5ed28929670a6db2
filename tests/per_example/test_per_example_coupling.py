"""Losses that couple the examples are refused with the op's name, and only ``jacobian`` answers for them."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from cachelab.errors import NotApplicableError
from cachelab.tf.per_example import layout_rule, per_example_gradients, plan

RANDOM = np.random.default_rng(3)
W = tf.Variable(RANDOM.normal(size=(3, 4)))
X = tf.constant(RANDOM.normal(size=(5, 3)))


def rows(value):
    return tf.reduce_sum(value, list(range(1, value.shape.rank)))


def batch_norm(x):
    y, _, _ = tf.compat.v1.nn.fused_batch_norm(
        tf.cast((x @ W)[:, None, None], tf.float32), tf.ones(4), tf.zeros(4), is_training=True, name="norm"
    )
    return tf.cast(rows(y**2), tf.float64)


COUPLED = {
    "Mean": lambda x: rows(tf.square(x @ W - tf.reduce_mean(x @ W, 0, name="centre"))),
    "FusedBatchNormV3": batch_norm,
    "Softmax": lambda x: rows(tf.nn.softmax(x @ W, axis=0)),
    "MatMul": lambda x: rows(tf.matmul(x @ W, x @ W, transpose_b=True)),
    "StridedSlice": lambda x: rows(x @ W) + tf.reduce_sum((x @ W)[0]),
    "Cumsum": lambda x: tf.cumsum(rows(x @ W)),
    "ReverseV2": lambda x: rows(tf.reverse(x @ W, [0])),
    "Reshape": lambda x: rows(tf.transpose(tf.reshape(x @ W, [4, -1]))),
    "Sub": lambda x: tf.reduce_sum(rows(x @ W)[:, None] - rows(x @ W)[None], 1),
    "GatherV2": lambda x: rows(tf.gather(x @ W, tf.argmax(x, 1))),
    "L2Loss": lambda x: rows(x @ W) + tf.nn.l2_loss(x @ W),
    "Einsum": lambda x: rows(x @ tf.einsum("bi,bj->ij", x, x @ W)),
}


@pytest.mark.parametrize("op_type", COUPLED)
def test_refused_with_the_name_of_the_op(op_type):
    for method in ("auto", "outer", "vectorized", "loop"):
        with pytest.raises(NotApplicableError, match=rf"Op `.*` \({op_type}\)"):
            plan(COUPLED[op_type], [W], X, method=method)


def test_the_jacobian_is_the_gradient_through_the_coupling():
    loss = COUPLED["Mean"]
    with tf.GradientTape() as tape:
        value = loss(X)
    expected = tape.jacobian(value, W)
    np.testing.assert_allclose(per_example_gradients(loss, [W], X, method="jacobian")[0], expected, rtol=1e-8)


def test_an_op_that_no_rule_knows_is_never_taken_for_proven():
    def loss(x):
        return rows(tf.numpy_function(lambda a: a[::-1].copy(), [x], tf.float64, stateful=False) @ W)

    def typed(x):
        y = tf.numpy_function(lambda a: a[::-1].copy(), [x], tf.float64, stateful=False)
        y.set_shape([None, 3])
        return rows(tf.sin(y @ W))

    report = plan(typed, [W], X)
    assert report.method == "jacobian"
    assert "PyFunc" in report.reason
    with pytest.raises(NotApplicableError, match="not proven"):
        plan(typed, [W], X, method="vectorized")
    reversed_x = tf.reverse(X, [0])
    with tf.GradientTape() as tape:
        value = rows(tf.sin(reversed_x @ W))
    np.testing.assert_allclose(per_example_gradients(typed, [W], X)[0], tape.jacobian(value, W), rtol=1e-9)


def test_a_constant_with_a_row_an_example_must_be_an_input():
    labels = tf.constant(RANDOM.normal(size=(5, 4)))
    with pytest.raises(NotApplicableError, match="not among the inputs"):
        plan(lambda x: rows((x @ W - labels) ** 2), [W], X)


def test_a_variable_with_a_row_an_example_is_refused():
    own = tf.Variable(RANDOM.normal(size=(5, 4)))

    @tf.function(input_signature=[tf.TensorSpec([5, 3], tf.float64)], autograph=False)
    def ask(x):
        return per_example_gradients(rows((x @ W + own) ** 2), [W, own], [x])

    with pytest.raises(NotApplicableError, match="row"):
        ask(X)


def test_independent_though_it_looks_coupled():
    """Time-major rows, siamese halves, actions picked by number, slices of other axes."""
    actions = tf.constant([0, 3, 1, 2, 0])

    def loss(x, actions):
        q = x @ W
        picked = tf.gather_nd(q, tf.stack([tf.range(tf.shape(actions)[0]), actions], 1))
        both = tf.concat([x, x * 2], 0) @ W
        first, second = tf.split(both, 2, 0)
        steps = tf.reshape(tf.reshape(tf.stack([q, first, second], 0), [-1, 4])[:, ::-1], [3, -1, 4])
        return picked + rows(tf.sin(first) * second) + tf.reduce_sum(steps, [0, 2])

    assert plan(loss, [W], (X, actions)).method == "outer"
    expected = []
    for i in range(5):
        with tf.GradientTape() as tape:
            value = loss(X[i : i + 1], actions[i : i + 1])
        expected.append(tape.gradient(value, W))
    np.testing.assert_allclose(per_example_gradients(loss, [W], (X, actions))[0], expected, rtol=1e-9)


def test_users_can_teach_an_op():
    @layout_rule("NthElement")
    def last_axis(flow, op):
        return [flow.layout(op.inputs[0])]

    def loss(x):
        return tf.raw_ops.NthElement(input=x @ W, n=1)

    assert not plan(loss, [W], X).unproven


NUMBERED = {
    "numbers of the examples as values": lambda x: rows(x @ W) * tf.cast(tf.range(tf.shape(x)[0]) + 1, tf.float64),
    "integers that depend on the batch size": lambda x: rows(
        x @ W * tf.cast(tf.cast(tf.round(x[:, :1]), tf.int32) + tf.shape(x)[0], tf.float64)
    ),
    "slices of other axes by the batch size": lambda x: rows((x @ W)[:, : tf.shape(x)[0] - 2]),
    "look-ups by the numbers of the examples": lambda x: rows(
        (x @ W) * tf.gather(tf.constant(np.arange(40.0).reshape(10, 4)), tf.range(tf.shape(x)[0]))
    ),
}


@pytest.mark.parametrize("name", NUMBERED)
def test_a_batch_of_one_would_be_another_function(name):
    loss = NUMBERED[name]
    with tf.GradientTape() as tape:
        value = loss(X)
    expected = tape.jacobian(value, W)
    answers = 0
    for method in ("auto", "outer", "vectorized", "loop"):
        try:
            found = per_example_gradients(loss, [W], X, method=method)[0]
        except NotApplicableError:
            continue
        answers += 1
        np.testing.assert_allclose(found, expected, rtol=1e-9)
    assert answers >= 1
