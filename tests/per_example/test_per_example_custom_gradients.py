"""Gradients of the user's own are followed like the loss: what mixes examples gets no rule."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from cachelab.errors import NotApplicableError
from cachelab.tf.per_example import clipped_sum, derivatives, per_example_gradients, plan

RANDOM = np.random.default_rng(5)
W = tf.Variable(RANDOM.normal(size=(3, 4)))
X = tf.constant(RANDOM.normal(size=(5, 3)))
RULED = ("outer", "ghost", "bookkeeping")


def backward(function):
    """Return an identity with ``function`` as its gradient."""

    @tf.custom_gradient
    def layer(value):
        return tf.identity(value), function

    return layer


@tf.custom_gradient
def _by_the_mean_of_the_values(value):
    mean = tf.reduce_mean(value, 0)
    return tf.identity(value), lambda upstream: upstream * mean


@tf.custom_gradient
def _two_results(value):
    return (tf.sin(value), tf.ones(4, tf.float64)), lambda one, other: one + other


def _second_result(value):
    one, other = _two_results(value)
    return one * other


MIXING = {
    "clipped over the batch": backward(lambda upstream: tf.clip_by_norm(upstream, 0.5)),
    "centred over the batch": backward(lambda upstream: upstream - tf.reduce_mean(upstream, 0)),
    "reversed": backward(lambda upstream: tf.reverse(upstream, [0])),
    "forward values of others": _by_the_mean_of_the_values,
    "the delta of a shared result": _second_result,
    "in a function": tf.function(backward(lambda upstream: tf.clip_by_norm(upstream, 0.5))),
}
APART = {
    "clipped by example": backward(lambda upstream: tf.clip_by_norm(upstream, 0.5, axes=[1])),
    "signs": backward(tf.sign),
    "silu": tf.nn.silu,
    "silu in a function": tf.function(tf.nn.silu),
}


def loss_with(layer):
    return lambda x: tf.reduce_sum(tf.square(layer(x @ W)), 1)


@pytest.mark.parametrize("name", MIXING)
def test_a_gradient_that_mixes_examples_gets_no_rule(name, check):
    loss = loss_with(MIXING[name])
    report = plan(loss, [W], X)
    assert report.method == "vectorized"
    assert "custom gradient" in report.variables[0].reason
    check(loss, [W], [X], ("auto", "loop"))
    for method in RULED:
        with pytest.raises(NotApplicableError, match=r"custom gradient of op `.*IdentityN"):
            clipped_sum(loss, [W], X, method=method, max_norm=1.0)


def test_the_last_op_of_the_loss_counts_too(check):
    layer = MIXING["clipped over the batch"]
    check(lambda x: layer(tf.reduce_sum(tf.square(x @ W), 1)), [W], [X])


@pytest.mark.parametrize("name", APART)
def test_a_gradient_that_keeps_examples_apart_gets_rules(name, check):
    loss = loss_with(APART[name])
    assert plan(loss, [W], X).method == "outer"
    # `ghost` weighs the loss in a second backward pass, which a gradient that is not linear does not pass on.
    check(loss, [W], [X], ("auto", "outer", "loop"))
    check(loss, [W], [X], ("ghost",), tasks=("norms", "clipped"))


def test_a_weight_used_twice_behind_a_gradient_that_is_not_linear(check):
    layer = MIXING["clipped over the batch"]

    def loss(x):
        clipped = layer(W)
        return tf.reduce_sum(tf.square(x @ clipped), 1) + tf.reduce_sum(tf.sin(x @ clipped), 1)

    check(loss, [W], [X], ("auto",))


def test_a_built_in_batch_size_is_refused():
    layer = MIXING["centred over the batch"]

    @tf.function(input_signature=[tf.TensorSpec([5, 3], tf.float64)], autograph=False)
    def ask(x):
        return per_example_gradients(tf.reduce_sum(tf.square(layer(x @ W)), 1), [W], [x])

    with pytest.raises(NotApplicableError, match="custom gradient"):
        ask(X)


def test_derivatives_refuse_and_name_the_op():
    for layer in (MIXING["clipped over the batch"], MIXING["in a function"]):
        with pytest.raises(NotApplicableError, match=r"custom gradient of op `.*IdentityN"):
            derivatives(lambda x, layer=layer: tf.square(layer(x)), X[:, 0])
    np.testing.assert_allclose(derivatives(lambda x: tf.square(APART["signs"](x)), X[:, 0]), np.sign(X[:, 0]))
