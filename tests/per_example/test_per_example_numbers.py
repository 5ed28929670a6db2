"""Numbers that are not plain: complex ones, limits without end or sense, integers, axes of size 1, sizes left open."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from cachelab.errors import OptionError
from cachelab.tf.per_example import clipped_sum, derivatives, per_example_gradients, per_example_squared_norms, plan

RANDOM = np.random.default_rng(7)
normal = RANDOM.normal


def complex_normal(*shape):
    return normal(size=shape) + 1j * normal(size=shape)


Z = tf.constant(complex_normal(3, 2))
MATRIX, SCALE, REAL = (
    tf.Variable(complex_normal(2, 2)),
    tf.Variable(complex_normal(2)),
    tf.Variable(normal(size=(2, 2))),
)


def sizes_of(value):
    return tf.reduce_sum(tf.abs(value) ** 2, 1)


COMPLEX = {
    "product": (lambda x: sizes_of(x @ MATRIX), MATRIX),
    "elementwise": (lambda x: sizes_of(x * SCALE + 1.0), SCALE),
    "einsum": (lambda x: sizes_of(tf.einsum("bi,ij->bj", x, MATRIX)), MATRIX),
    "a real weight, cast": (lambda x: sizes_of(x @ tf.cast(REAL, tf.complex128)), REAL),
}


@pytest.mark.parametrize("name", COMPLEX)
@pytest.mark.parametrize("method", ["auto", "vectorized", "loop", "jacobian"])
def test_complex_numbers(name, method):
    loss, variable = COMPLEX[name]
    truth = []
    for i in range(3):
        with tf.GradientTape() as tape:
            value = loss(Z[i : i + 1])
        truth.append(np.asarray(tf.convert_to_tensor(tape.gradient(value, variable))))
    truth = np.stack(truth)
    norms = (np.abs(truth) ** 2).reshape(3, -1).sum(1)
    np.testing.assert_allclose(per_example_gradients(loss, [variable], Z, method=method)[0], truth, rtol=1e-9)
    found = per_example_squared_norms(loss, [variable], Z, method=method)
    assert found.dtype is tf.float64
    np.testing.assert_allclose(found, norms, rtol=1e-9)
    limit = float(np.sqrt(np.median(norms)))
    expected = np.tensordot(np.minimum(1, limit / np.sqrt(norms)), truth, 1)
    (clipped,) = clipped_sum(loss, [variable], Z, method=method, max_norm=limit)
    np.testing.assert_allclose(clipped, expected, rtol=1e-9)


def test_complex_losses_are_refused():
    with pytest.raises(OptionError, match="complex128"):
        plan(lambda x: tf.reduce_sum(x @ MATRIX, 1), [MATRIX], Z)


W = tf.Variable([[1.0], [2.0]])
X = tf.constant([[1.0, 0.0], [0.0, 1.0]])


def loss(x):
    return tf.square(x @ W)[:, 0]


METHODS = ("auto", "bookkeeping", "ghost", "outer", "vectorized", "loop", "jacobian")


@pytest.mark.parametrize("method", METHODS)
def test_a_limit_without_end_clips_nothing(method):
    for limit in (float("inf"), 1e39, tf.constant(np.inf), 1e6):
        np.testing.assert_array_equal(clipped_sum(loss, [W], X, max_norm=limit, method=method)[0], [[2.0], [4.0]])
    np.testing.assert_array_equal(clipped_sum(loss, [W], X, max_norm=0.0, method=method)[0], [[0.0], [0.0]])


NO_LIMITS = [-1.0, -1, float("nan"), np.float32(-1), tf.constant(-1.0), tf.constant([1.0, 2.0]), None]


@pytest.mark.parametrize("limit", NO_LIMITS)
def test_a_limit_that_means_nothing_is_refused(limit):
    for method in ("auto", "loop", "jacobian"):
        with pytest.raises(OptionError, match=r"clip|max_norm"):
            clipped_sum(loss, [W], X, max_norm=limit, method=method)


def test_a_limit_above_the_range_of_the_type_in_a_graph():
    ask = tf.function(lambda x: clipped_sum(loss(x), [W], x, max_norm=1e39)[0], autograph=False)
    np.testing.assert_array_equal(ask(X), [[2.0], [4.0]])


def test_a_negative_limit_that_only_the_run_knows_gives_no_number():
    @tf.function(autograph=False)
    def ask(x, limit):
        return clipped_sum(loss(x), [W], x, max_norm=limit)[0]

    assert np.isnan(ask(X, tf.constant(-1.0))).all()
    np.testing.assert_array_equal(ask(X, tf.constant(1.0)), [[1.0], [1.0]])


def test_integers_have_no_gradient():
    whole = tf.constant([1, 2, 3])
    with pytest.raises(OptionError, match="int32"):
        derivatives(lambda x: x * x, whole)
    with pytest.raises(OptionError, match="int32"):
        derivatives(lambda x: tf.cast(x, tf.int32), tf.constant([1.0, 2.0]))
    with pytest.raises(OptionError, match=r"loss .* int32"):
        per_example_gradients(lambda x: tf.cast(x @ W, tf.int32)[:, 0], [W], X)
    with pytest.raises(OptionError, match=r"Variable .* int64"):
        per_example_gradients(loss, [tf.Variable(1, dtype=tf.int64)], X)


A, B, C = (tf.Variable(normal(size=shape)) for shape in ((1, 3), (2, 3), (3,)))
ELLIPSES = {
    "weight of size 1": (lambda x: tf.reduce_sum(tf.einsum("b...i,...i->b...", x, A) ** 2, 1), A, (5, 2, 3)),
    "activations of size 1": (lambda x: tf.reduce_sum(tf.einsum("b...i,...i->b...", x, B) ** 2, 1), B, (5, 1, 3)),
    "both alike": (lambda x: tf.reduce_sum(tf.einsum("b...i,...i->b...", x, B) ** 2, 1), B, (5, 2, 3)),
    "fewer axes": (lambda x: tf.reduce_sum(tf.einsum("...i,...i->...", x, C) ** 2, 1), C, (5, 2, 3)),
}


@pytest.mark.parametrize("name", ELLIPSES)
def test_ellipses_that_broadcast(name, check):
    function, weight, shape = ELLIPSES[name]
    assert plan(function, [weight], tf.zeros(shape, tf.float64)).method == "outer"
    check(function, [weight], [normal(size=shape)], ("auto", "outer", "loop"))
    check(function, [weight], [normal(size=shape)], ("bookkeeping", "ghost"), tasks=("clipped",))


@pytest.mark.parametrize("method", METHODS)
def test_sequences_of_open_length_that_are_flattened(method):
    table, ids = tf.Variable(normal(size=(5, 4))), tf.constant([[0, 1, 1], [2, 3, 0]])

    def function(ids):
        rows = tf.gather(table, tf.reshape(ids, [-1]))
        return tf.reduce_sum(tf.reshape(rows, [tf.shape(ids)[0], -1]) ** 2, 1)

    @tf.function(input_signature=[tf.TensorSpec([None, None], tf.int32)], autograph=False)
    def ask(ids):
        return clipped_sum(function(ids), [table], ids, max_norm=1.0, method=method)[0]

    expected = 0
    for i in range(2):
        with tf.GradientTape() as tape:
            value = function(ids[i : i + 1])
        row = np.asarray(tf.convert_to_tensor(tape.gradient(value, table)))
        expected = expected + row * min(1, 1 / np.linalg.norm(row))
    np.testing.assert_allclose(ask(ids), expected, rtol=1e-9)
