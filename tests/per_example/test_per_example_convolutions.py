"""Convolutions that TensorFlow's ``pfor`` gets wrong: explicit paddings, and those that Keras lets XLA compile."""

from __future__ import annotations

import keras
import numpy as np
import pytest
import tensorflow as tf

from cachelab.errors import NotApplicableError
from cachelab.tf.per_example import derivatives, per_example_gradients, vectorize_calls

RANDOM = np.random.default_rng(9)
NUMBERS = RANDOM.normal(size=(2, 2, 2, 3))
KERNEL = tf.Variable(NUMBERS)
IMAGES = RANDOM.normal(size=(3, 4, 4, 2))
X = tf.constant(IMAGES)
PADS = [[0, 0], [1, 0], [0, 2], [0, 0]]


def padded(x):
    return tf.reduce_sum(tf.nn.conv2d(x, KERNEL, [1, 2, 2, 1], PADS) ** 2, [1, 2, 3])


def test_explicit_padding(check):
    check(padded, [KERNEL], [X], ("auto", "vectorized", "loop", "jacobian"))


def test_explicit_padding_beside_an_op_without_a_rule(check):
    """``auto`` then takes copies for the kernel."""

    def loss(x):
        dilated = tf.raw_ops.Dilation2D(input=x, filter=KERNEL[..., 0], strides=[1] * 4, rates=[1] * 4, padding="VALID")
        return padded(x) + tf.reduce_sum(dilated, [1, 2, 3])

    check(loss, [KERNEL], [X])


def test_explicit_padding_in_a_graph_with_sessions():
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        x = tf.compat.v1.placeholder(tf.float64, [None, 4, 4, 2])
        kernel = tf.compat.v1.get_variable("kernel", initializer=NUMBERS, use_resource=True)
        loss = tf.reduce_sum(tf.nn.conv2d(x, kernel, [1, 2, 2, 1], PADS) ** 2, [1, 2, 3])
        found = [per_example_gradients(loss, [kernel], x, method=m)[0] for m in ("outer", "vectorized", "jacobian")]
        session.run(tf.compat.v1.global_variables_initializer())
        first, *rest = session.run(found, {x: IMAGES})
    for other in rest:
        np.testing.assert_allclose(other, first, rtol=1e-9)


def test_derivatives_through_a_grouped_convolution_of_keras():
    layer = keras.layers.Conv1D(4, 3, groups=2, padding="same", dtype="float64")
    x = tf.constant(RANDOM.normal(size=(2, 3, 4)))
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        value = layer(x) ** 2
    whole = tape.jacobian(value, x, experimental_use_pfor=False).numpy().reshape(24, 24)
    found = derivatives(lambda x: layer(x) ** 2, x)
    np.testing.assert_allclose(found.numpy().ravel(), np.diag(whole), rtol=1e-9)


def test_recorded_gradients_are_refused():
    with tf.Graph().as_default() as graph:
        x = tf.compat.v1.placeholder(tf.float64, [1, 4, 4, 2])
        kernel = tf.constant(NUMBERS)
        loss = tf.reduce_sum(tf.nn.conv2d(x, kernel, 1, PADS) ** 2)
        (gradient,) = tf.gradients(loss, [kernel])
        vectorize_calls(graph, [loss.name], [x.name])
        with pytest.raises(NotApplicableError, match="Conv2DBackpropFilter"):
            vectorize_calls(graph, [gradient.name], [x.name])


@pytest.mark.parametrize("layer", [keras.layers.Conv1D, keras.layers.Conv2D])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_grouped_convolutions_of_keras(layer, dtype, check):
    made = layer(4, 2, groups=2, strides=2, dtype=dtype)
    x = RANDOM.normal(size=(3, *[5] * made.rank, 4)).astype(dtype)
    made(x)
    axes = list(range(1, made.rank + 2))
    methods = ("auto", "vectorized", "loop", "jacobian") if layer is keras.layers.Conv1D else ("auto", "loop")
    check(lambda x: tf.reduce_sum(made(x) ** 2, axes), made.trainable_variables, [x], methods, tasks=("gradients",))


def test_recorded_values_of_compiled_convolutions():
    """Only their gradients are a problem."""
    with tf.Graph().as_default() as graph, tf.compat.v1.Session() as session:
        x = tf.compat.v1.placeholder(tf.float32, [1, 4, 4, 4])
        kernel = tf.constant(RANDOM.normal(size=(2, 2, 2, 4)).astype("float32"))
        compiled = tf.function(lambda x: tf.nn.conv2d(x, kernel, 1, "VALID"), jit_compile=True, autograph=False)
        value = tf.reduce_sum(compiled(x) ** 2)
        calls = vectorize_calls(graph, [value.name], [x.name])
        images = RANDOM.normal(size=(3, 1, 4, 4, 4)).astype("float32")
        found = session.run(calls.outputs[0], {calls.inputs[x.name]: images})
        expected = [session.run(value, {x: image}) for image in images]
    np.testing.assert_allclose(found, expected, rtol=1e-5)
