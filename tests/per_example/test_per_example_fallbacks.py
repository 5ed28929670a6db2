"""What TensorFlow can't vectorise, and what other gradients left behind in functions that a loss calls."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from cachelab.errors import NotApplicableError
from cachelab.tf.per_example import derivatives, per_example_gradients, plan

tf1 = tf.compat.v1
RANDOM = np.random.default_rng(7)


def normal(*shape):
    return RANDOM.normal(size=shape)


def functions():
    """Return functions of the user's that are traced once and called by several losses."""
    weights, gate = tf.Variable(normal(3, 3)), tf.Variable(1.0)

    @tf.function
    def plain(x):
        return tf.tanh(x @ weights)

    @tf.function
    def looped(x):
        for _ in tf.range(2):
            x = tf.tanh(x @ weights)
        return x

    @tf.function
    def branched(x):
        return plain(x) if gate > 0.0 else x

    return weights, {"plain": plain, "loop": looped, "branch": branched}


@pytest.mark.parametrize("name", ["plain", "loop", "branch"])
def test_a_function_that_was_differentiated_before(name, check_function):
    """TensorFlow adds outputs to the traced graph of a function when it takes its gradient."""
    weights, made = functions()
    inner, x = made[name], tf.constant(normal(4, 3))

    @tf.function(input_signature=[tf.TensorSpec([None, 3], tf.float64)], autograph=False)
    def step(x):
        with tf.GradientTape() as tape:
            total = tf.reduce_sum(inner(x))
        return tape.gradient(total, weights)

    step(x)
    for _time in range(2):

        def loss(x):
            return tf.reduce_sum(inner(x), 1)

        check_function(loss, [weights], [x], ("auto", "loop", "jacobian"))
        with tf.GradientTape() as tape:
            tape.watch(x)
            total = tf.reduce_sum(loss(x))
        np.testing.assert_allclose(derivatives(loss, x), tape.gradient(total, x), rtol=1e-9)


@pytest.mark.parametrize("by", ["variable", "shape"])
def test_a_branch_that_all_examples_take(by, check_function):
    weights, gate = tf.Variable(normal(3, 2)), tf.Variable(1.0)

    def loss(x):
        decision = gate > 0.0 if by == "variable" else tf.shape(x)[1] > 1
        return tf.cond(decision, lambda: tf.square(x @ weights)[:, 0], lambda: (x @ weights)[:, 0])

    x = tf.constant(normal(4, 3))
    assert plan(loss, [weights], x).method == "loop"
    check_function(loss, [weights], [x], ("auto", "loop", "jacobian"))
    with pytest.raises(NotApplicableError, match="vectorise"):
        per_example_gradients(loss, [weights], x, method="vectorized")


def test_a_branch_in_a_v1_graph():
    with tf.Graph().as_default():
        x = tf1.placeholder(tf.float64, [None, 3])
        weights = tf1.get_variable("w", initializer=normal(3, 2), use_resource=True)
        hidden = x @ weights
        losses = tf.cond(tf.shape(x)[1] > 1, lambda: tf.square(hidden)[:, 0], lambda: hidden[:, 0])
        found = per_example_gradients(losses, [weights])[0]
        with pytest.raises(NotApplicableError, match="vectorise"):
            per_example_gradients(losses, [weights], method="vectorized")
        (single,) = tf1.gradients(losses, [weights])
        data = normal(4, 3)
        with tf1.Session() as session:
            session.run(tf1.global_variables_initializer())
            truth = [session.run(single, {x: data[i : i + 1]}) for i in range(4)]
            np.testing.assert_allclose(session.run(found, {x: data}), truth, rtol=1e-9)


@pytest.mark.parametrize("wrapped", [False, True])
def test_a_recurrent_layer_and_a_number_from_a_shape(wrapped, check_function):
    keras = pytest.importorskip("keras")
    keras.utils.set_random_seed(0)
    layer, x = keras.layers.SimpleRNN(2), tf.constant(np.float32(normal(3, 4, 2)))
    layer(x)
    called = tf.function(layer.call) if wrapped else layer

    def loss(x):
        y = called(x)
        return tf.reduce_sum(y**2, 1) / tf.cast(tf.shape(y)[1], tf.float32)

    variables = [variable._value for variable in layer.trainable_variables]
    (truth, *_others) = check_function(loss, variables, [x], tolerance=1e-4)
    if wrapped:  # what is traced already can't be built anew
        with pytest.raises(NotApplicableError):
            per_example_gradients(loss, variables, x, method="vectorized")
    else:
        found = per_example_gradients(loss, variables, x, method="vectorized")
        assert np.abs(found[0] - truth).max() < 1e-4


def test_a_product_that_tensorflow_can_not_vectorise(check_function):
    """The gradient of a diagonal repeats a label in its result."""
    weights, x = tf.Variable(normal(3, 3)), tf.constant(normal(4, 3))

    def loss(x):
        return tf.reduce_sum(tf.square(tf.einsum("bj,jj->bj", x, weights)), 1)

    report = plan(loss, [weights], x)
    assert report.method == "loop"
    assert "vectorise" in report.reason
    (truth,) = check_function(loss, [weights], [x], ("auto", "loop", "jacobian"))
    with pytest.raises(NotApplicableError, match="vectorise"):
        per_example_gradients(loss, [weights], x, method="vectorized")

    @tf.function(input_signature=[tf.TensorSpec([4, 3], tf.float64)], autograph=False)
    def fixed(x):
        return per_example_gradients(loss(x), [weights], [x])[0]

    np.testing.assert_allclose(fixed(x), truth, rtol=1e-9)


def test_where_tapes_do_not_record(check_function):
    """What is built again for one example is differentiated by a tape of its own."""
    weights, x = tf.Variable(normal(3, 3)), tf.constant(normal(4, 3))

    def loss(x):
        return tf.reduce_sum(
            tf.while_loop(lambda i, _: i < 2, lambda i, a: (i + 1, tf.tanh(a @ weights)), (0, x))[1], 1
        )

    with tf.init_scope():  # no tape records there
        found = per_example_gradients(loss, [weights], x)[0]
    assert plan(loss, [weights], x).method == "vectorized"
    (truth,) = check_function(loss, [weights], [x], ("vectorized",))
    np.testing.assert_allclose(found, truth, rtol=1e-9)


def test_a_weight_whose_gradient_can_not_be_carried_back_at_once(check_function):
    weights, x = tf.Variable(normal(3, 3)), tf.constant(normal(4, 3))

    def loss(x):
        return tf.reduce_sum(tf.sin(x * tf.einsum("jj->j", weights)), 1)

    check_function(loss, [weights], [x], ("auto", "loop", "jacobian"))
    assert plan(loss, [weights], x).method == "loop"
    with pytest.raises(NotApplicableError, match="vectorise"):
        per_example_gradients(loss, [weights], x, method="outer")


def test_a_diagonal_that_can_not_be_had_at_once():
    x = tf.constant(normal(2, 3))

    def f(x):
        """Take a diagonal, the gradient of which repeats a label in its result."""
        return tf.nn.softmax(x) * tf.einsum("bii->bi", x[:, :, tf.newaxis] * x[:, tf.newaxis])

    with tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = f(x)
    jacobian = tape.jacobian(y, x, experimental_use_pfor=False).numpy()
    np.testing.assert_allclose(derivatives(f, x), np.einsum("ijij->ij", jacobian), rtol=1e-9)
