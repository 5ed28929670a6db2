"""A tap in Keras losses, layers, metrics and train steps: the value is that of the step."""

import warnings

import keras
import numpy as np
import pytest
import tensorflow as tf

from cachelab.errors import NameNotFoundError, NotApplicableError
from cachelab.tf.taps import Tap, TapWarning

WAYS = {"graph": {}, "jit": {"jit_compile": True}, "eager": {"run_eagerly": True}}


def data(rows=8, columns=2):
    draw = np.random.default_rng(rows)
    return draw.random((rows, columns), np.float32), draw.random((rows, 1), np.float32)


def dense(tap, *, name="diff", **compiled):
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    model.compile("sgd", lambda labels, predictions: tf.square(tap(name, labels - predictions)), **compiled)
    return model


@pytest.mark.parametrize("way", WAYS)
def test_value_is_from_before_the_weight_update(way):
    tap = Tap()
    model = dense(tap, **WAYS[way])
    x, y = data()
    for step in (1, 2, 3):
        before = y - model(x).numpy()
        model.train_on_batch(x, y)
        np.testing.assert_allclose(tap["diff"], before, atol=1e-6)
        assert not np.allclose(tap["diff"], y - model(x).numpy(), atol=1e-6)
        reading = tap.last("diff")
        assert (reading.step, reading.call, reading.owner) == (step, "train", model.name)
        assert f"train step {step}" in reading.text
        assert "before" in reading.text


@pytest.mark.parametrize("way", WAYS)
def test_last_smaller_batch(way):
    tap = Tap(history=3)
    model = dense(tap, **WAYS[way])
    x, y = data()
    truth = []
    for rows in (8, 3, 1, 8):
        truth.append(y[:rows] - model(x[:rows]).numpy())
        model.train_on_batch(x[:rows], y[:rows])
        np.testing.assert_allclose(tap["diff"], truth[-1], atol=1e-6)
    kept = tap.history("diff")
    assert [reading.step for reading in kept] == [2, 3, 4]
    for reading, expected in zip(kept, truth[1:], strict=True):
        np.testing.assert_allclose(reading.value, expected, atol=1e-6)


@pytest.mark.parametrize("way", ["graph", "eager"])
def test_fit_and_callbacks_see_each_batch(way):
    tap = Tap()
    seen = []

    class Watch(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            seen.append(tap["diff"])

    model = dense(tap, **WAYS[way])
    x, y = data(10)
    model.optimizer.learning_rate = 0.0
    model.fit(x, y, batch_size=4, shuffle=False, verbose=0, callbacks=[Watch()])
    assert [value.shape for value in seen] == [(4, 1), (4, 1), (2, 1)]
    np.testing.assert_allclose(np.concatenate(seen), y - model(x).numpy(), atol=1e-6)


def test_fit_with_jit_needs_a_shape_and_says_so():
    tap = Tap()
    x, y = data(10)
    with pytest.raises(NotApplicableError, match=r"shape=\(64, 10\)"):
        dense(tap, jit_compile=True).fit(x, y, batch_size=4, verbose=0)

    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    model.compile(
        "sgd", lambda labels, predictions: tap("diff", labels - predictions, shape=(4, 1)) ** 2, jit_compile=True
    )
    model.fit(x, y, batch_size=4, verbose=0)
    assert tap["diff"].shape == (2, 1)
    assert tap.last("diff").step == 3


def test_jit_refuses_to_show_part_of_a_larger_value():
    tap = Tap()
    model = dense(tap, jit_compile=True)
    x, y = data(9)
    model.train_on_batch(x[:4], y[:4])
    model.train_on_batch(x[:3], y[:3])
    model.train_on_batch(x, y)
    with pytest.raises(NotApplicableError, match=r"shape \(9, 1\).*at most \(4, 1\).*shape=\(9, 1\)"):
        tap["diff"]
    model.train_on_batch(x[:2], y[:2])
    assert tap["diff"].shape == (2, 1)


def test_reading_before_any_step():
    tap = Tap()
    model = dense(tap)
    with pytest.raises(NameNotFoundError, match="No step"):
        tap["diff"]
    with pytest.warns(TapWarning, match="No step"):
        assert tap.get("diff") is None
    x, y = data()
    model.train_on_batch(x, y)
    with pytest.raises(NameNotFoundError, match="'diff'"):
        tap["dif"]
    with pytest.raises(NameNotFoundError, match="train"):
        tap.last("diff", call="test")
    tap.clear()
    with pytest.raises(NameNotFoundError, match="before any step"):
        tap["diff"]
    model.train_on_batch(x, y)
    assert tap.last("diff").step == 1


def test_evaluation_after_training_is_reported_and_the_training_value_is_kept():
    tap = Tap()
    model = dense(tap)
    x, y = data()
    model.train_on_batch(x, y)
    trained = tap["diff"]
    model.evaluate(x[:5], y[:5], batch_size=5, verbose=0)
    with pytest.warns(TapWarning, match="test step 1") as seen:
        value = tap["diff"]
    assert seen[0].filename == __file__
    assert value.shape == (5, 1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        np.testing.assert_array_equal(tap.last("diff", call="train").value, trained)
        assert tap.last("diff", call="test").step == 1
        model.predict(x, verbose=0)
        model.train_on_batch(x, y)
        assert tap.last("diff").call == "train"


def test_several_taps_and_models():
    tap = Tap()
    one, two = dense(tap), dense(tap)
    other = dense(tap, name="other")
    x, y = data()
    first, second = y - one(x).numpy(), y[:4] - two(x[:4]).numpy()
    one.train_on_batch(x, y)
    two.train_on_batch(x[:4], y[:4])
    other.train_on_batch(x[:2], y[:2])
    np.testing.assert_allclose(tap.last("diff", model=one).value, first, atol=1e-6)
    np.testing.assert_allclose(tap.last("diff", model=two).value, second, atol=1e-6)
    assert tap["diff"].shape == (4, 1)
    assert tap["other"].shape == (2, 1)
    assert tap.names == tuple(tap) == ("diff", "other")
    assert "diff" in tap
    assert len(tap) == 2
    assert tap.steps("diff") == 2
    assert "train" in repr(tap)
    one.train_on_batch(x, y)
    assert tap.last("diff").owner == one.name


class TappedLayer(keras.layers.Layer):
    def __init__(self, tap):
        super().__init__()
        self.tap = tap
        self.dense = keras.layers.Dense(3, "tanh")

    def call(self, inputs):
        return self.tap("hidden", self.dense(inputs))


def layered(tap):
    inputs = keras.Input((2,))
    layer = TappedLayer(tap)
    model = keras.Model(inputs, keras.layers.Dense(1)(layer(inputs)))
    model.compile("sgd", "mse")
    return model, layer


def test_layer_in_a_functional_model():
    tap = Tap()
    model, layer = layered(tap)
    assert not tap.names, "building a model is not a step"
    x, y = data()
    hidden = layer.dense(x).numpy()
    model.train_on_batch(x, y)
    np.testing.assert_allclose(tap["hidden"], hidden, atol=1e-6)
    model.predict(x[:3], verbose=0)
    with pytest.warns(TapWarning, match="predict step 1"):
        assert tap["hidden"].shape == (3, 3)


def test_never_in_weights_checkpoint_or_export(tmp_path):
    tap = Tap()
    model, _layer = layered(tap)
    names = [weight.path for weight in model.variables]
    x, y = data()
    model.train_on_batch(x, y)
    assert [weight.path for weight in model.variables] == names
    assert len(model.weights) == 4
    path = tf.train.Checkpoint(model=model).save(str(tmp_path / "ck"))
    keys = [key for key, _shape in tf.train.list_variables(path)]
    plain, _ = layered(lambda _name, value: value)
    plain.train_on_batch(x, y)
    reference = tf.train.Checkpoint(model=plain).save(str(tmp_path / "reference"))
    assert keys == [key for key, _shape in tf.train.list_variables(reference)]

    steps = tap.steps("hidden")
    model.export(str(tmp_path / "export"))
    tf.saved_model.save(model, str(tmp_path / "saved"))
    for folder in ("export", "saved"):
        loaded = tf.saved_model.load(str(tmp_path / folder))
        graph = loaded.signatures["serving_default"].graph.as_graph_def()
        ops = {node.op for function in graph.library.function for node in function.node_def}
        assert "MatMul" in ops
        assert not {op for op in ops if "Assign" in op or "TensorList" in op or op == "VarHandleOp"}
    assert tap.steps("hidden") == steps


def test_metric_and_train_step():
    tap = Tap()

    class Stepper(keras.Model):
        def __init__(self):
            super().__init__()
            self.dense = keras.layers.Dense(1)

        def call(self, inputs):
            return self.dense(inputs)

        def train_step(self, data):
            x, y = data[:2]
            with tf.GradientTape() as tape:
                loss = tap("loss", tf.reduce_mean(tf.square(self(x, training=True) - y)))
            gradients = tap("gradients", tape.gradient(loss, self.trainable_variables))
            self.optimizer.apply_gradients(zip(gradients, self.trainable_variables, strict=True))
            return {"loss": loss}

    def metric(labels, predictions):
        return tf.reduce_mean(tap("error", tf.abs(labels - predictions)))

    x, y = data()
    model = Stepper()
    model.compile("sgd")
    model(x)
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(model(x) - y))
    truth = tape.gradient(loss, model.trainable_variables)
    model.train_on_batch(x, y)
    np.testing.assert_allclose(tap["loss"], loss, rtol=1e-5)
    for found, expected in zip(tap["gradients"], truth, strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-6)

    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse", metrics=[metric])
    before = np.abs(y - model(x).numpy())
    model.train_on_batch(x, y)
    np.testing.assert_allclose(tap["error"], before, atol=1e-6)


def test_mixed_precision_keeps_the_low_precision_value():
    keras.config.set_dtype_policy("mixed_bfloat16")
    try:
        tap = Tap()
        model, layer = layered(tap)
        x, y = data()
        model.train_on_batch(x, y)
        assert tap["hidden"].dtype == layer.dense.compute_dtype == "bfloat16"
    finally:
        keras.config.set_dtype_policy("float32")


def test_steps_per_execution_counts_every_step():
    tap = Tap(history=2)
    model = dense(tap, steps_per_execution=2)
    model.optimizer.learning_rate = 0.0
    x, y = data()
    model.fit(x, y, batch_size=2, shuffle=False, verbose=0)
    kept = tap.history("diff")
    assert [reading.step for reading in kept] == [3, 4]
    np.testing.assert_allclose(kept[0].value, y[4:6] - model(x[4:6]).numpy(), atol=1e-6)


CORE = {
    "conv": lambda: [keras.Input((6, 6, 1)), keras.layers.Conv2D(2, 3), keras.layers.GlobalAveragePooling2D()],
    "rnn": lambda: [keras.Input((4, 3)), keras.layers.LSTM(3)],
    "embedding": lambda: [keras.Input((5,), dtype="int32"), keras.layers.Embedding(7, 3), keras.layers.Flatten()],
    "dropout": lambda: [keras.Input((6,)), keras.layers.Dropout(0.5), keras.layers.BatchNormalization()],
}


@pytest.mark.parametrize("kind", CORE)
def test_core_layers_give_the_loss_that_keras_reports(kind):
    tap = Tap()
    model = keras.Sequential([*CORE[kind](), keras.layers.Dense(1)])
    model.compile("adam", lambda labels, predictions: tf.square(tap("diff", labels - predictions)))
    shape = (8, *model.input_shape[1:])
    x = np.random.default_rng(1).integers(0, 7, shape).astype(model.inputs[0].dtype)
    y = np.ones((8, 1), np.float32)
    for _step in range(2):
        model.reset_metrics()  # older Keras 3 returns an average over all steps so far
        loss = model.train_on_batch(x, y)
        np.testing.assert_allclose(np.mean(tap["diff"] ** 2), loss, rtol=1e-5)
