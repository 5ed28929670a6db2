"""The same answers in v1 graphs, ``tf.function``, eager code and Keras, for losses with all that real ones have."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from cachelab.errors import NotApplicableError, OptionError
from cachelab.tf.per_example import clipped_sum, per_example_gradients, per_example_squared_norms, plan

tf1 = tf.compat.v1
RANDOM = np.random.default_rng(2)
ALL = ("auto", "outer", "vectorized", "loop", "jacobian")


def normal(*shape):
    return RANDOM.normal(size=shape)


@pytest.mark.parametrize("resource", [True, False])
def test_v1_graph_with_its_placeholders_as_inputs(resource):
    x_value, y_value = np.float32(normal(5, 6, 6, 1)), np.float32(normal(5))
    with tf.Graph().as_default():
        x = tf1.placeholder(tf.float32, [None, 6, 6, 1])
        y = tf1.placeholder(tf.float32, [None])
        keep = tf1.placeholder(tf.float32, [])
        kernel = tf1.get_variable("k", initializer=np.float32(normal(3, 3, 1, 2)), use_resource=resource)
        dense = tf1.get_variable("w", initializer=np.float32(normal(32, 1)), use_resource=resource)
        hidden = tf.nn.relu(tf.nn.conv2d(x, kernel, 1, "VALID"))
        per = tf.square(tf.matmul(tf.reshape(hidden, [-1, 32]), dense)[:, 0] - y) * keep + 0.01 * tf.nn.l2_loss(dense)
        single = tf1.gradients(tf.reduce_mean(per), [kernel, dense])
        methods = ALL if resource else ("auto", "loop")
        gradients = {method: per_example_gradients(per, [kernel, dense], method=method) for method in methods}
        chunked = per_example_gradients(per, [kernel, dense], chunk_size=2)
        norms = [per_example_squared_norms(per, [kernel, dense], method=method) for method in ("auto", "loop")]
        norms.append(per_example_squared_norms(per, [kernel, dense], chunk_size=2))
        limit = tf1.placeholder(tf.float32, [])
        sums = [clipped_sum(per, [kernel, dense], max_norm=limit, method=m) for m in ("auto", "ghost", "loop")]
        sums.append(clipped_sum(per, [kernel, dense], max_norm=limit, chunk_size=3))
        with tf1.Session() as session:
            session.run(tf1.global_variables_initializer())
            feeds = {x: x_value, y: y_value, keep: 0.5, limit: 1.0}
            rows = [session.run(single, {x: x_value[i : i + 1], y: y_value[i : i + 1], keep: 0.5}) for i in range(5)]
            found = session.run({**gradients, "chunked": chunked}, feeds)
            found_norms, found_sums = session.run([norms, sums], feeds)
    truth = [np.stack(parts) for parts in zip(*rows, strict=True)]
    for parts in found.values():
        for got, expected in zip(parts, truth, strict=True):
            np.testing.assert_allclose(got, expected, rtol=1e-3, atol=1e-4)
    squares = sum((g.reshape(5, -1) ** 2).sum(1) for g in truth)
    for got in found_norms:
        np.testing.assert_allclose(got, squares, rtol=1e-4)
    factors = np.minimum(1, 1 / np.sqrt(squares))
    for parts in found_sums:
        for got, expected in zip(parts, truth, strict=True):
            np.testing.assert_allclose(got, np.tensordot(factors, expected, 1), rtol=1e-3, atol=1e-5)


def test_eager_function_form_keeps_its_trace_for_a_ragged_last_batch_and_a_batch_of_one(check):
    weights, bias = tf.Variable(normal(4, 3)), tf.Variable(normal(3))
    traces = []

    def loss(x, y):
        traces.append(1)
        return tf.reduce_sum(tf.square(tf.tanh(x @ weights + bias) - y), 1)

    x, y = tf.constant(normal(7, 4)), tf.constant(normal(7, 3))
    truth = check(loss, [weights, bias], [x, y])
    per_example_gradients(loss, [weights, bias], (x, y))
    before = len(traces)
    for part in (slice(0, 3), slice(3, 6), slice(6, 7)):
        found = per_example_gradients(loss, [weights, bias], (x[part], y[part]))
        np.testing.assert_allclose(found[0], truth[0][part], rtol=1e-9)
    # The fourth call of a signature compiles with XLA, which traces once more; the batch size never does.
    assert len(traces) <= before + 1
    for chunk in (2, "auto"):
        norms = per_example_squared_norms(loss, [weights, bias], (x, y), chunk_size=chunk, jit=False)
        np.testing.assert_allclose(norms, sum((g.reshape(7, -1) ** 2).sum(1) for g in truth))


def test_xla_gives_the_same(check):
    weights = tf.Variable(normal(4, 3))

    def loss(x):
        return tf.reduce_sum(tf.tanh(x @ weights), [1, 2])

    x = tf.constant(normal(3, 5, 4))
    truth = check(loss, [weights], [x])
    np.testing.assert_allclose(per_example_gradients(loss, [weights], x, jit=True)[0], truth[0], rtol=1e-9)
    assert plan(loss, [weights], x, jit=True).jit
    norms = per_example_squared_norms(loss, [weights], x, jit=True)
    np.testing.assert_allclose(norms, (truth[0].reshape(3, -1) ** 2).sum(1), rtol=1e-9)


def test_everything_that_real_losses_have(check):
    """Shared weights, a variable used twice, one without gradient, stop_gradient, custom gradients, weights, L2."""
    shared, twice = tf.Variable(normal(4, 4)), tf.Variable(normal(4))
    unused, stopped, table = tf.Variable(normal(2)), tf.Variable(normal(4, 4)), tf.Variable(normal(5, 4))

    @tf.custom_gradient
    def halved(value):
        return tf.identity(value), lambda upstream: 0.5 * upstream * tf.cos(value)

    def loss(x, ids, importance):
        hidden = tf.tanh(x @ shared) * twice
        hidden = tf.nn.relu(halved(hidden) @ shared + twice)
        hidden = hidden @ tf.stop_gradient(stopped) + tf.gather(table, ids) @ tf.transpose(shared)
        return importance * tf.reduce_sum(hidden, 1) + 0.1 * tf.nn.l2_loss(shared)

    inputs = [normal(4, 4), np.array([1, 3, 3, 0]), np.array([1.0, 0.0, 2.0, 0.5])]
    truth = check(loss, [shared, twice, unused, stopped, table], inputs)
    check(loss, [shared, twice, unused, stopped, table], inputs, ALL[2:], tasks=("gradients",))
    assert not truth[2].any()
    assert not truth[3].any()
    report = plan(loss, [shared, twice, unused], [tf.constant(value) for value in inputs])
    assert [entry.method for entry in report.variables] == ["outer", "outer", "none"]


def test_a_custom_gradient_on_the_way_of_a_weight_is_respected(check):
    weights = tf.Variable(normal(3, 2))

    @tf.custom_gradient
    def scaled(value):
        return tf.identity(value), lambda upstream: 3.0 * upstream

    check(lambda x: tf.reduce_sum(tf.sin(x @ scaled(weights)), 1), [weights], [normal(3, 3)], ("auto", "vectorized"))


def test_weights_that_are_made_from_several_variables(check):
    direction, length = tf.Variable(normal(4, 3)), tf.Variable(normal(3))

    def loss(x):
        return tf.reduce_sum(tf.sin(x @ (length * direction / tf.norm(direction, axis=0))), 1)

    check(loss, [direction, length], [normal(3, 4)], ("auto", "loop"))


def test_numbers_that_depend_on_the_batch_size_stay_those_of_the_batch():
    weights = tf.Variable(normal(3, 2))
    x = tf.constant(normal(4, 3))

    def loss(x):
        return tf.reduce_sum(tf.square(x @ weights), 1) / tf.cast(tf.shape(x)[0], tf.float64)

    with tf.GradientTape() as tape:
        value = loss(x)
    truth = tape.jacobian(value, weights)
    for method in ALL:
        np.testing.assert_allclose(per_example_gradients(loss, [weights], x, method=method)[0], truth, rtol=1e-9)


@pytest.mark.parametrize("method", ["auto", "vectorized", "loop"])
def test_dropout_uses_the_masks_of_the_one_forward_pass(method):
    weights = tf.Variable(np.ones(64, "f"))

    @tf.function(input_signature=[tf.TensorSpec([None, 64])], autograph=False)
    def both(x):
        dropped = tf.nn.dropout(x * weights, 0.5)
        losses = tf.reduce_sum(dropped, 1)
        return dropped, per_example_gradients(losses, [weights], [x], method=method)[0]

    dropped, gradients = both(tf.ones([3, 64]))
    np.testing.assert_allclose(gradients, dropped)  # with x = w = 1 both are the mask
    assert len({row.tobytes() for row in gradients.numpy()}) == 3


def test_a_batch_size_built_into_the_graph():
    """Constants of the gradient then hold it, so that a copy for one example would be silently wrong."""
    weights = tf.Variable(normal(6))

    def ask(method):
        def work(x):
            return per_example_gradients(tf.reduce_sum(tf.sin(x * weights), 1), [weights], [x], method=method)[0]

        return tf.function(work, input_signature=[tf.TensorSpec([3, 6], tf.float64)], autograph=False)

    x = normal(3, 6)
    for method in ("auto", "outer", "jacobian"):
        np.testing.assert_allclose(ask(method)(x), x * np.cos(x * weights.numpy()), rtol=1e-9)
    for method in ("vectorized", "loop"):
        with pytest.raises(NotApplicableError, match="batch size 3"):
            ask(method)(x)


@pytest.mark.parametrize("kind", ["float16", "bfloat16"])
def test_mixed_precision_norms_do_not_overflow(kind):
    weights = tf.Variable(np.full((8, 4), 0.5, "f"))

    def loss(x):
        return tf.reduce_sum(tf.cast(tf.cast(x, kind) @ tf.cast(weights, kind), tf.float32), 1)

    x = tf.constant(np.full((2, 8), 200, "f"))
    assert per_example_gradients(loss, [weights], x)[0].dtype == tf.float32
    norms = per_example_squared_norms(loss, [weights], x)
    np.testing.assert_allclose(norms, np.full(2, 32 * 200.0**2), rtol=1e-2)
    (total,) = clipped_sum(loss, [weights], x, max_norm=1.0)
    np.testing.assert_allclose(np.linalg.norm(total), 2.0, rtol=1e-2)


def test_keras_model_with_frozen_layer_and_padding_mask(check):
    keras = pytest.importorskip("keras")
    layers = keras.layers
    ids = keras.Input((6,), dtype="int32")
    hidden = layers.Embedding(11, 8, mask_zero=True)(ids)
    hidden = layers.LayerNormalization()(hidden + layers.MultiHeadAttention(2, 4)(hidden, hidden))
    hidden = layers.Dense(8, "gelu")(hidden)
    frozen = layers.Dense(8, "tanh")
    frozen.trainable = False
    model = keras.Model(ids, layers.Dense(3)(layers.GlobalAveragePooling1D()(frozen(hidden))))

    def loss(ids, labels):
        return keras.losses.sparse_categorical_crossentropy(labels, model(ids, training=True), from_logits=True)

    inputs = [RANDOM.integers(1, 11, (4, 6)).astype("int32"), np.array([0, 1, 2, 1])]
    check(loss, model.trainable_variables, inputs)
    assert plan(loss, model.trainable_variables, [tf.constant(value) for value in inputs]).method == "outer"


def test_keras_convolutions_pooling_and_normalisation(check):
    keras = pytest.importorskip("keras")
    layers = keras.layers
    model = keras.Sequential(
        [
            keras.Input((8, 8, 2)), layers.Conv2D(4, 3, padding="same", activation="relu"), layers.MaxPooling2D(),
            layers.SeparableConv2D(4, 3), layers.GroupNormalization(2), layers.BatchNormalization(),
            layers.PReLU(), layers.Flatten(), layers.Dense(3),
        ]
    )  # fmt: skip

    def loss(x, labels):
        return keras.losses.sparse_categorical_crossentropy(labels, model(x, training=False), from_logits=True)

    inputs = [np.float32(normal(3, 8, 8, 2)), np.array([0, 1, 2])]
    check(loss, model.trainable_variables, inputs)


def test_recurrent_layers_fall_back_and_say_so(check):
    keras = pytest.importorskip("keras")
    model = keras.Sequential([keras.Input((4, 2)), keras.layers.GRU(3), keras.layers.Dense(2)])

    def loss(x):
        return tf.reduce_sum(tf.square(model(x)), 1)

    x = tf.constant(np.float32(normal(3, 4, 2)))
    report = plan(loss, model.trainable_variables, x)
    assert {entry.method for entry in report.variables[:2]} == {"vectorized"}
    assert "While" in report.variables[0].reason
    assert [entry.method for entry in report.variables[3:]] == ["outer", "outer"]
    check(loss, model.trainable_variables, [x], tasks=("norms",))
    # A graph that is there already can't be built again for a batch of one: a loop over the examples.
    with tf.Graph().as_default():
        placeholder = tf1.placeholder(tf.float32, [None, 4])
        state = tf1.get_variable("s", initializer=np.float32(normal(4)))
        value = tf.while_loop(lambda i, _: i < 3, lambda i, a: (i + 1, tf.tanh(a * state)), (0, placeholder))[1]
        losses = tf.reduce_sum(value, 1)
        assert plan(losses, [state]).method == "loop"
        found = per_example_gradients(losses, [state])[0]
        single = tf1.gradients(losses, state)[0]
        data = np.float32(normal(3, 4))
        with tf1.Session() as session:
            session.run(tf1.global_variables_initializer())
            rows = [session.run(single, {placeholder: data[i : i + 1]}) for i in range(3)]
            np.testing.assert_allclose(session.run(found, {placeholder: data}), rows, rtol=1e-5)


def test_inner_functions_and_branches_fall_back(check):
    inner, flag, branch = tf.Variable(normal(3, 2)), tf.Variable(1.0), tf.Variable(normal(3, 2))

    @tf.function
    def called(x):
        return tf.tanh(x @ inner)

    def loss(x):
        other = tf.cond(flag > 0, lambda: x @ branch, lambda: tf.zeros([tf.shape(x)[0], 2], tf.float64))
        return tf.reduce_sum(called(x) + other, 1)

    check(loss, [inner, branch], [normal(3, 3)])


@pytest.mark.parametrize(
    ("loss", "inputs", "says"),
    [
        (tf.reduce_sum, [np.ones((2, 3), "f")], "one entry an example"),
        (lambda x: x, [np.ones((2, 3), "f")], "one entry an example"),
        (lambda x: x[:, 0], None, "needs `inputs`"),
        (lambda x, s: x[:, 0] * s, [np.ones((2, 3), "f"), np.float32(1)], "first axis"),
        (lambda x, y: x[:, 0], [np.ones((2, 3), "f"), np.ones(3, "f")], "different numbers"),
        (lambda x: tf.ones([2]), [np.ones((2, 3), "f")], "does not depend on the inputs"),
    ],
)
def test_what_can_not_be_asked(loss, inputs, says):
    with pytest.raises(OptionError, match=says):
        per_example_gradients(loss, [tf.Variable(1.0)], inputs)


def test_wrong_method_chunk_and_value():
    weights, x = tf.Variable(normal(3)), tf.constant(normal(2, 3))

    def loss(x):
        return tf.reduce_sum(x * weights, 1)

    with pytest.raises(OptionError, match="bookkeeping"):
        per_example_gradients(loss, [weights], x, method="bookkeeping")
    with pytest.raises(OptionError, match="chunk size"):
        per_example_gradients(loss, [weights], x, chunk_size=0)
    with pytest.raises(OptionError, match="is a value"):
        per_example_gradients(loss(x), [weights])


def test_a_graph_for_one_example(check):
    weights = tf.Variable(normal(3, 2))

    @tf.function(input_signature=[tf.TensorSpec([1, 3], tf.float64)], autograph=False)
    def ask(x):
        losses = tf.reduce_sum(tf.square(x @ weights - 0.5 * tf.reduce_mean(x, 0, keepdims=True) @ weights), 1)
        return per_example_gradients(losses, [weights], [x])[0], per_example_squared_norms(losses, [weights], [x])

    x = normal(1, 3)
    gradient, norm = ask(x)
    np.testing.assert_allclose(gradient[0], 0.5 * np.outer(x, x @ weights.numpy()), rtol=1e-9)
    np.testing.assert_allclose(norm, [(gradient.numpy() ** 2).sum()], rtol=1e-9)


def test_a_loop_with_a_shared_draw_is_copied_not_built_again():
    weights = tf.Variable(normal(3))

    def loss(x):
        noise = tf.random.normal([3], dtype=tf.float64)
        value = tf.while_loop(lambda i, _: i < 2, lambda i, a: (i + 1, tf.sin(a * weights + noise)), (0, x))[1]
        return tf.reduce_sum(value, 1)

    x = tf.constant(np.tile(normal(1, 3), [4, 1]))
    assert plan(loss, [weights], x).method == "loop"
    gradient = per_example_gradients(loss, [weights], x)[0].numpy()
    np.testing.assert_allclose(gradient, np.tile(gradient[:1], [4, 1]))  # equal examples saw the same noise
