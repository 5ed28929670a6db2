"""f'(x1) ... f'(xn) in one run, against finite differences and single runs; true diagonals of second derivatives."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from cachelab.errors import NotApplicableError, OptionError
from cachelab.tf.per_example import derivatives

tf1 = tf.compat.v1
RANDOM = np.random.default_rng(4)


def central(f, x, step=1e-5):
    """Return (f(x + h) - f(x - h)) / 2h of the entry at the same place, for each entry of x."""
    result = np.zeros_like(x)
    for place in np.ndindex(*x.shape):
        shift = np.zeros_like(x)
        shift[place] = step
        up, down = f(tf.constant(x + shift)).numpy(), f(tf.constant(x - shift)).numpy()
        result[place] = ((up - down) / (2 * step))[place[: up.ndim]]
    return result


FUNCTIONS = {
    "elementwise": lambda x: tf.square(x) * tf.sin(x) + tf.where(x > 0, tf.exp(-x), x),
    "softmax of rows": lambda x: tf.nn.softmax(x) * tf.constant([1.0, 2.0, 3.0], tf.float64),
    "scalar of rows": lambda x: tf.reduce_logsumexp(x @ tf.constant(np.eye(3) + 0.5), 1),
    "norm of rows": lambda x: x / (1 + tf.norm(x, axis=1, keepdims=True)),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_first_derivatives_are_finite_differences(name):
    x = RANDOM.normal(size=(4, 3))
    np.testing.assert_allclose(
        derivatives(FUNCTIONS[name], tf.constant(x)), central(FUNCTIONS[name], x), rtol=1e-6, atol=1e-8
    )


@pytest.mark.parametrize("name", FUNCTIONS)
def test_second_derivatives_are_the_true_diagonal(name):
    f, x = FUNCTIONS[name], RANDOM.normal(size=(3, 3))

    def first(x):
        return derivatives(f, x)

    np.testing.assert_allclose(derivatives(first, tf.constant(x)), central(first, x), rtol=1e-5, atol=1e-7)


def test_softmax_cross_entropy_is_not_the_row_sum():
    labels = tf.constant([[1.0, 0.0], [0.0, 1.0]])
    logits = tf.constant([[0.5, 0.5], [1.0, -1.0]])

    def loss(logits):
        return tf.nn.softmax_cross_entropy_with_logits(labels, logits)

    p = tf.nn.softmax(logits)
    second = derivatives(lambda z: derivatives(loss, z), logits)
    np.testing.assert_allclose(second, p * (1 - p), rtol=1e-5)


def test_one_run_of_a_v1_graph_is_n_runs():
    with tf.Graph().as_default():
        one = tf1.placeholder(tf.float32, [])
        d_one = tf1.gradients(tf.square(one) * tf.sin(one), one)[0]
        many = tf1.placeholder(tf.float32, [None])
        d_many = derivatives(tf.square(many) * tf.sin(many), many)
        second = derivatives(d_many, many)
        d_second = tf1.gradients(d_one, one)[0]
        values = np.linspace(-2, 2, 9).astype("f")
        with tf1.Session() as session:
            singles = [session.run([d_one, d_second], {one: value}) for value in values]
            np.testing.assert_allclose(np.transpose(singles), session.run([d_many, second], {many: values}), atol=1e-5)


def test_weights_give_the_mean_of_products():
    """Black-box variational inference: the mean of f'(x) g(x) over samples, in one run."""
    x = tf.constant(RANDOM.normal(size=50))
    weighted = derivatives(lambda x: x**3, x, grad_ys=tf.cos(x))
    np.testing.assert_allclose(tf.reduce_mean(weighted), np.mean(3 * x.numpy() ** 2 * np.cos(x.numpy())), rtol=1e-12)


def test_the_last_second_derivative_of_a_softmax_is_weighted_too():
    x = tf.constant(RANDOM.normal(size=(3, 2)))
    weights = tf.constant(RANDOM.normal(size=(3, 2)))
    plain = derivatives(tf.nn.softmax, x)
    np.testing.assert_allclose(derivatives(tf.nn.softmax, x, grad_ys=weights), plain * weights, rtol=1e-9)


@pytest.mark.parametrize(
    ("f", "op_type"),
    [
        (lambda x: x - tf.reduce_mean(x), "Mean"),
        (tf.cumsum, "Cumsum"),
        (tf.nn.softmax, "Softmax"),
        (lambda x: x[::-1], "StridedSlice|ReverseV2"),
        (tf.sort, "TopKV2"),
    ],
)
def test_coupled_examples_are_refused_with_the_op(f, op_type):
    with pytest.raises(NotApplicableError, match=op_type):
        derivatives(f, tf.constant([1.0, 2.0, 4.0]))


def test_shapes_that_fit_no_form():
    with pytest.raises(OptionError, match="neither"):
        derivatives(lambda x: x[:, :2], tf.ones([3, 3]))
    with pytest.raises(OptionError, match="is a value"):
        derivatives(tf.ones(3), tf.ones(3))
    with pytest.raises(OptionError, match="first axis"):
        derivatives(lambda x: x * 2, tf.constant(1.0))


def test_zeros_where_nothing_depends():
    assert not derivatives(lambda x: tf.stop_gradient(x * 2), tf.ones([3])).numpy().any()


def test_a_single_example_and_python_branches_of_the_user():
    def f(x):
        if tf.reduce_max(tf.shape(x)) > 0:  # AutoGraph makes a branch of this, here and inside another function
            return tf.nn.softmax_cross_entropy_with_logits(tf.constant([[1.0, 0.0]]), x)
        return tf.zeros([1])

    z = tf.constant([[0.5, 0.5]])
    np.testing.assert_allclose(derivatives(f, z), [[-0.5, 0.5]], rtol=1e-6)
    plain = lambda z: tf.nn.softmax_cross_entropy_with_logits(tf.constant([[1.0, 0.0]]), z)  # noqa: E731
    np.testing.assert_allclose(derivatives(lambda z: derivatives(plain, z), z), [[0.25, 0.25]], rtol=1e-6)
