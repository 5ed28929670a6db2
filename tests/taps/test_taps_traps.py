"""The traps of the hand-made ways: each is shown with plain Keras first, then caught with an error that helps."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from cachelab.errors import NotApplicableError
from cachelab.tf.taps import Tap

X = np.random.default_rng(0).random((8, 2), np.float32)
Y = np.random.default_rng(1).random((8, 1), np.float32)


def compiled(loss, *layers, **options):
    model = keras.Sequential([keras.Input((2,)), *layers, keras.layers.Dense(1)])
    model.compile("sgd", loss, **options)
    return model


def assigning(variable):
    def loss(labels, predictions):
        difference = labels - predictions
        with tf.control_dependencies([variable.assign(difference)]):
            return tf.square(difference)

    return loss


def test_scalar_variable():
    model = compiled(assigning(tf.Variable(0.0, trainable=False)))
    wanted = r"shape \(8, 1\).*variable of shape \(\).*TensorShape\(None\)"
    with pytest.raises(NotApplicableError, match=wanted), Tap.clear_errors():
        model.train_on_batch(X, Y)
    with pytest.raises(ValueError, match="Shape mismatch"):
        model.train_on_batch(X, Y)


def test_variable_of_any_shape_works_but_not_with_jit():
    def variable():
        return tf.Variable(np.zeros((0, 1), np.float32), shape=tf.TensorShape(None), trainable=False)

    kept = variable()
    model = compiled(assigning(kept))
    before = Y - model(X).numpy()
    model.train_on_batch(X, Y)
    np.testing.assert_allclose(kept.numpy(), before, atol=1e-6)
    model = compiled(assigning(variable()), jit_compile=True)
    with pytest.raises(NotApplicableError, match=r"jit_compile=True.*\[0,1\].*\[8,1\]"), Tap.clear_errors():
        model.train_on_batch(X, Y)


def test_variable_made_inside_the_loss():
    made = []

    def loss(labels, predictions):
        made.append(tf.Variable(labels - predictions, trainable=False))
        return tf.square(labels - predictions)

    model = compiled(loss)
    with pytest.raises(NotApplicableError, match=r"made inside the loss.*outside"), Tap.clear_errors():
        model.fit(X, Y, batch_size=3, verbose=0)


def test_tensor_kept_in_a_python_variable():
    kept = []

    def loss(labels, predictions):
        kept.append(labels - predictions)
        return tf.square(kept[-1])

    compiled(loss).train_on_batch(X, Y)
    with pytest.raises(NotApplicableError, match="symbol of the trace"), Tap.clear_errors():
        kept[0].numpy()
    with pytest.raises(NotApplicableError, match="symbol of the trace"), Tap.clear_errors():
        tf.add(kept[0], 1.0)


def test_other_errors_pass_unchanged():
    with pytest.raises(ZeroDivisionError), Tap.clear_errors():
        _ = 1 / 0
    with pytest.raises(tf.errors.InvalidArgumentError) as error, Tap.clear_errors():
        tf.reshape(tf.ones([3]), [2])
    assert not isinstance(error.value, NotApplicableError)


def test_second_pass_after_the_weight_update():
    tap = Tap()
    model = compiled(lambda labels, predictions: tf.square(tap("diff", labels - predictions)))
    model.train_on_batch(X, Y)
    with pytest.raises(NotApplicableError, match=r"largest difference.*updated the weights"):
        tap.check_second_pass("diff", Y - model(X).numpy(), model=model)
    with pytest.raises(NotApplicableError, match=r"shape \(3, 1\)"):
        tap.check_second_pass("diff", Y[:3] - model(X[:3]).numpy(), model=model)


@pytest.mark.parametrize(
    ("layer", "reason"),
    [(keras.layers.Dropout, "Dropout.*draws anew"), (keras.layers.BatchNormalization, "BatchNormalization.*moving")],
)
def test_second_pass_with_other_layers(layer, reason):
    tap = Tap()
    made = layer(0.5) if layer is keras.layers.Dropout else layer()
    model = compiled(lambda labels, predictions: tf.square(tap("diff", labels - predictions)), made)
    model.optimizer.learning_rate = 0.0  # the weights stay: what differs is the layer
    model.train_on_batch(X, Y)
    for training in (True, False):
        second = Y - model(X, training=training).numpy()
        if layer is keras.layers.BatchNormalization and training:
            continue
        with pytest.raises(NotApplicableError, match=reason):
            tap.check_second_pass("diff", second, model=model)


def test_second_pass_that_agrees():
    tap = Tap()
    model = compiled(lambda labels, predictions: tf.square(tap("diff", labels - predictions)), run_eagerly=True)
    model.evaluate(X, Y, batch_size=8, verbose=0)
    reading = tap.check_second_pass("diff", Y - model(X, training=False).numpy(), model=model)
    assert (reading.call, reading.step) == ("test", 1)
