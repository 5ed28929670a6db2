"""Losses for which a silently wrong number was once given: each method gives the right one, or refuses."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from cachelab.errors import NotApplicableError, OptionError
from cachelab.tf.per_example import clipped_sum, derivatives, layout_rule, per_example_gradients, plan
from cachelab.tf.per_example.extents import EXAMPLES, Extent, depends_on_examples

tf1 = tf.compat.v1
RANDOM = np.random.default_rng(7)
X = tf.constant(RANDOM.normal(size=(5, 3)))
W, B = tf.Variable(RANDOM.normal(size=(3, 4))), tf.Variable(RANDOM.normal(size=4))
TABLE = tf.Variable(RANDOM.normal(size=(8, 4)))
VARIABLES = [W, B, TABLE]


def rows(value):
    return tf.reduce_sum(value, list(range(1, value.shape.rank)))


def entry_by_entry(loss, variables, x):
    """Return one array a variable, ``[m, *shape]``: the gradient of each entry of the loss of the whole batch."""
    function = tf.function(loss)
    found = []
    for i in range(len(x)):
        with tf.GradientTape() as tape:
            value = function(x)[i]
        found.append(tape.gradient(value, variables, unconnected_gradients="zero"))
    return [np.stack([np.asarray(tf.convert_to_tensor(g)) for g in parts]) for parts in zip(*found, strict=True)]


def delay_line(length, value):
    """Return a sum that ``value`` reaches only after it went through ``length`` variables of a loop."""
    empty = tf.zeros_like(value[:0])
    shapes = [tf.TensorShape([]), *[tf.TensorShape([None, *value.shape[1:]])] * length]
    line = tf.while_loop(
        lambda i, *_line: i < length + 5,
        lambda i, *line: (i + 1, value, *line[:-1]),
        [tf.constant(0), *[empty] * length],
        shape_invariants=shapes,
    )
    return tf.reduce_sum(line[-1])


@pytest.mark.parametrize("length", [11, 25])
def test_coupling_behind_a_long_delay_line_is_seen(length):
    weights = tf.Variable(RANDOM.normal(size=(3, 1)))

    def loss(x):
        value = x @ weights
        return value[:, 0] + delay_line(length, tf.square(value))

    with pytest.raises(NotApplicableError, match="couples"):
        derivatives(lambda x: x + delay_line(length, tf.square(x)), tf.constant([1.0, 2.0, 3.0]))
    with pytest.raises(NotApplicableError, match="couples"):
        plan(loss, [weights], X)


def test_a_delay_line_of_rows_keeps_examples_apart():
    length = 25

    def f(x):
        line = tf.while_loop(
            lambda i, *_line: i < length + 5,
            lambda i, *line: (i + 1, tf.square(x), *line[:-1]),
            [tf.constant(0), *[x] * length],
        )
        return line[-1]

    np.testing.assert_allclose(derivatives(f, tf.constant([1.0, 2.0, 3.0])), [2, 4, 6])


@layout_rule("Bucketize")
def _known_not_to_be_proven(flow, op):
    return None


@pytest.mark.parametrize("inside_a_function", [False, True])
def test_grouped_convolutions_by_every_method(inside_a_function):
    """TensorFlow's pfor takes the gradients of grouped filters for those of ungrouped ones."""
    kernel, x = (
        tf.Variable(RANDOM.normal(size=(2, 2, 2, 4)).astype("f")),
        tf.constant(RANDOM.normal(size=(3, 4, 4, 4)).astype("f")),
    )

    def convolved(x):
        return tf.nn.conv2d(x, kernel, 1, "VALID")

    def loss(x):
        return rows(tf.square(tf.function(convolved, autograph=False)(x) if inside_a_function else convolved(x)))

    def unproven(x):
        return loss(x) + 0 * tf.cast(tf.raw_ops.Bucketize(input=x[:, 0, 0, 0], boundaries=[0.0]), tf.float32)

    (truth,) = entry_by_entry(loss, [kernel], x)
    assert plan(unproven, [kernel], x).method == "jacobian"
    asked = [(loss, method) for method in ("auto", "vectorized", "loop", "jacobian")]
    for function, method in [*asked, (unproven, "auto")]:
        found = per_example_gradients(function, [kernel], x, method=method)[0]
        np.testing.assert_allclose(found, truth, rtol=1e-4, atol=1e-4, err_msg=method)
    norms = np.sqrt((truth.reshape(3, -1) ** 2).sum(1))
    found = clipped_sum(unproven, [kernel], x, max_norm=1.0)[0]
    np.testing.assert_allclose(found, np.tensordot(1 / norms, truth, 1), rtol=1e-4, atol=1e-4)


def test_grouped_convolutions_in_a_graph_of_the_first_version():
    values = RANDOM.normal(size=(2, 2, 2, 4)).astype("f"), RANDOM.normal(size=(3, 4, 4, 4)).astype("f")
    with tf.Graph().as_default(), tf1.Session() as session:
        kernel, x = tf1.Variable(values[0], use_resource=True), tf1.placeholder(tf.float32, [None, 4, 4, 4])
        losses = rows(tf.square(tf.nn.conv2d(x, kernel, 1, "VALID")))
        (asked,) = per_example_gradients(losses, [kernel], method="jacobian")
        (single,) = tf1.gradients(losses, kernel)
        session.run(tf1.global_variables_initializer())
        truth = [session.run(single, {x: values[1][i : i + 1]}) for i in range(3)]
        np.testing.assert_allclose(session.run(asked, {x: values[1]}), truth, rtol=1e-4, atol=1e-4)


def count(x):
    return tf.shape(x)[0]


def number(x):
    return tf.cast(tf.shape(x)[0], tf.float64)


def square(x):
    return tf.square(x @ W)


def filled_with_its_own_size(x):
    m = count(x)
    return rows(square(x) * tf.ones([m, 4], tf.float64)) * tf.cast(tf.fill([m], m), tf.float64)


def rounds(x):
    return rows(tf.while_loop(lambda i, _h: i < count(x), lambda i, h: (i + 1, tf.tanh(h * B)), (0, x @ W))[1])


def number_in_a_loop(x):
    m = number(x)
    return rows(tf.while_loop(lambda i, _h: i < 3, lambda i, h: (i + 1, tf.tanh(h * B) / m), (0, x @ W))[1])


def number_in_a_function(x):
    return rows(tf.function(lambda x, m: tf.square(x @ W) / tf.cast(m, tf.float64), autograph=False)(x, count(x)))


def weight_by_number(m):
    return tf.cond(m > 2, lambda: W / tf.cast(m, tf.float64), lambda: tf.identity(W))


NUMBERS = {
    # Floats that meet a weight: the backward pass goes on through them.
    "weight decay spread over the batch": lambda x: rows(square(x)) + tf.nn.l2_loss(W) / number(x),
    "scaled weight": lambda x: rows(tf.square(x @ (W / tf.sqrt(number(x))))),
    "scaled bias": lambda x: rows(tf.square(x @ W + B / number(x))),
    "power of a weight": lambda x: rows(square(x)) * tf.pow(tf.abs(B[0]), number(x)),
    "part of a weight by m itself": lambda x: rows((x @ W) * TABLE[count(x)]),
    "row of a weight": lambda x: rows((x @ W) * tf.gather(TABLE, count(x))),
    "weight chosen": lambda x: rows(x @ tf.where(count(x) > 2, W, 2 * W)),
    # Integers
    "fill": lambda x: rows(square(x)) * tf.cast(tf.fill([count(x)], count(x)), tf.float64),
    "fill with the size used twice": filled_with_its_own_size,
    "broadcast number": lambda x: rows(square(x)) * tf.cast(tf.broadcast_to(count(x), [count(x)]), tf.float64),
    "broadcast to": lambda x: rows(tf.broadcast_to(square(x)[:, :1], [count(x), count(x) - 1])),
    "slice": lambda x: rows(tf.slice(square(x), [0, 0], [-1, count(x) - 2])),
    "tile": lambda x: rows(tf.tile(square(x), [1, count(x) + 1])),
    "ones": lambda x: rows(square(x)) * rows(tf.ones([count(x), count(x) - 1], tf.float64)),
    # Control flow
    "rounds of a loop": rounds,
    "number in a loop": number_in_a_loop,
    "number in a function": number_in_a_function,
    "branch": lambda x: rows(tf.cond(count(x) > 1, lambda: x @ W, lambda: 2 * (x @ W))),
    "weight in a branch": lambda x: rows(x @ weight_by_number(count(x))),
    "weight in a branch that counts": lambda x: rows(
        x @ tf.cond(count(x) > 2, lambda: W / number(x), lambda: tf.identity(W))
    ),
}


@pytest.mark.parametrize("name", NUMBERS)
def test_numbers_of_the_batch_are_never_those_of_a_copy(name):
    """Every method that copies, and chunks, give the gradients of the entries of the batch's loss, or refuses."""
    loss = NUMBERS[name]
    truth = entry_by_entry(loss, VARIABLES, X)

    @tf.function(input_signature=[tf.TensorSpec([None, 3], tf.float64)], autograph=False)
    def ask(x):
        losses, found = loss(x), {}
        for method, chunk in [("auto", None), ("vectorized", None), ("loop", None), ("auto", 2)]:
            try:
                asked = per_example_gradients(losses, VARIABLES, [x], method=method, chunk_size=chunk)
            except (NotApplicableError, OptionError):
                continue
            found[f"{method} {chunk or ''}"] = asked
        return found

    found = ask(X)
    assert "auto " in found
    for method, parts in found.items():
        for got, wanted in zip(parts, truth, strict=True):
            np.testing.assert_allclose(got, wanted, rtol=1e-9, atol=1e-12, err_msg=method)


@pytest.mark.parametrize("name", ["scaled weight", "weight decay spread over the batch"])
def test_numbers_of_the_batch_do_not_keep_rules_from_serving(name):
    assert plan(NUMBERS[name], VARIABLES, X).method == "outer"


@pytest.mark.parametrize("name", ["rounds of a loop", "number in a loop"])
def test_refusals_name_the_loop(name):
    for method in ("vectorized", "loop"):
        with pytest.raises(NotApplicableError, match=r"`while` \(While\) uses the batch size"):
            plan(NUMBERS[name], VARIABLES, X, method=method)
    with pytest.raises(OptionError, match="batch size"):
        per_example_gradients(NUMBERS[name], VARIABLES, X, chunk_size=2)


def _halved(x):
    return rows(square(x)) / number(x)


def _drawn(x):
    return rows(square(x)) * tf.random.stateless_uniform([count(x)], [1, 2], dtype=tf.float64)


@pytest.mark.parametrize("loss", [_halved, _drawn])
def test_chunks_of_a_function_keep_what_is_of_the_batch(loss):
    truth = entry_by_entry(loss, [W], X)[0]
    norms = np.sqrt((truth.reshape(5, -1) ** 2).sum(1))
    limit = float(np.median(norms))
    for chunk in (1, 2, 5, 7):
        found = per_example_gradients(loss, [W], X, chunk_size=chunk)[0]
        np.testing.assert_allclose(found, truth, rtol=1e-9, err_msg=str(chunk))
        found = clipped_sum(loss, [W], X, max_norm=limit, chunk_size=chunk)[0]
        np.testing.assert_allclose(found, np.tensordot(np.minimum(1, limit / norms), truth, 1), rtol=1e-9)


def test_a_jacobian_is_not_taken_in_chunks_of_a_graph():
    def ask(x):
        losses = rows(square(x)) + tf.cast(tf.raw_ops.Bucketize(input=x[:, 0], boundaries=[0.0]), tf.float64)
        return per_example_gradients(losses, [W], [x], chunk_size=2)

    with pytest.raises(OptionError, match="in chunks"):
        tf.function(ask, input_signature=[tf.TensorSpec([None, 3], tf.float64)], autograph=False)(X)


def _by_static_size(x):
    return rows(tf.tanh(x @ W)) / x.shape[0]


@pytest.mark.parametrize("loss", [_halved, _by_static_size, rounds])
def test_a_known_batch_size_is_no_constant_of_a_loss_built_again(loss):
    """Inside a function with a known batch size ``m`` is a constant, of which the graph tells nothing."""
    (truth,) = entry_by_entry(loss, [W], X)
    for method in ("auto", "vectorized"):

        @tf.function(autograph=False)
        def ask(x, method=method):
            return per_example_gradients(loss, [W], x, method=method)[0]

        if method == "vectorized":
            with pytest.raises(NotApplicableError, match="batch size 5"):
                ask(X)
        else:
            np.testing.assert_allclose(ask(X), truth, rtol=1e-9)


def test_sizes_made_from_the_number_of_examples_are_marked():
    m, other = Extent.of(EXAMPLES), Extent.unknown()
    assert all(map(depends_on_examples, (m, 2 * m, m - 1, 1 - m, m // 2, 7 // m, m % 2, other + m, (m - 1) * other)))
    assert not any(map(depends_on_examples, (3, other, other - 1, other * 2 // 2, m // m)))
