"""``vectorize_calls``: n calls over an existing graph in one run, against the n calls themselves."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from cachelab.errors import NameNotFoundError, NotApplicableError
from cachelab.tf.per_example.subgraph import vectorize_calls

tf1 = tf.compat.v1
RANDOM = np.random.default_rng(0)


def run_both(graph, fetches, feeds, values):
    """Return (results of n calls stacked, results of the one run)."""
    imported = tf.Graph()
    with imported.as_default():
        tf.import_graph_def(graph.as_graph_def(), name="")
    calls = vectorize_calls(imported, fetches, feeds)
    init = [op.name for op in graph.get_operations() if op.type in {"AssignVariableOp", "Assign"}]
    with tf1.Session(graph=imported) as session:
        session.run(init)
        n = len(values[feeds[0]])
        loop = [session.run(fetches, {name: values[name][i] for name in feeds}) for i in range(n)]
        one = session.run(calls.outputs, {calls.inputs[name]: values[name] for name in feeds})
    return [np.stack(rows) for rows in zip(*loop, strict=True)], one, calls


def conv_graph(*, resource=True):
    graph = tf.Graph()
    with graph.as_default():
        x = tf1.placeholder(tf.float32, [1, 6, 6, 1], name="x")
        y = tf1.placeholder(tf.float32, [1], name="y")
        kernel = tf1.get_variable("k", initializer=np.float32(RANDOM.normal(size=(3, 3, 1, 2))), use_resource=resource)
        dense = tf1.get_variable("w", initializer=np.float32(RANDOM.normal(size=(32, 1))), use_resource=resource)
        hidden = tf.nn.relu(tf.nn.conv2d(x, kernel, 1, "VALID"))
        loss = tf.reduce_mean(tf.square(tf.matmul(tf.reshape(hidden, [-1, 32]), dense)[:, 0] - y))
        grads = tf1.gradients(loss, [kernel, dense, x])
        names = [tf.identity(g, name=f"g{i}").name for i, g in enumerate(grads)]
    return graph, [loss.name, *names]


@pytest.mark.parametrize("resource", [True, False])
def test_gradients_of_single_examples(resource):
    graph, fetches = conv_graph(resource=resource)
    values = {"x:0": np.float32(RANDOM.normal(size=(5, 1, 6, 6, 1))), "y:0": np.float32(RANDOM.normal(size=(5, 1)))}
    loop, one, calls = run_both(graph, fetches, ["x:0", "y:0"], values)
    for expected, got in zip(loop, one, strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-5)
    assert calls.vectorized > 5
    assert calls.shared == ()


def test_scalar_calls_feeding_an_inner_tensor_and_a_fetch_without_feed():
    graph = tf.Graph()
    with graph.as_default():
        x = tf1.placeholder(tf.float32, [], name="x")
        w = tf1.get_variable("w", initializer=np.float32(3.0), use_resource=True)
        inner = tf.multiply(x, 2.0, name="inner")
        fixed = tf.square(w, name="fixed")
        f = tf.identity(tf.sin(inner) * fixed, name="f")
        tf.identity(tf1.gradients(f, inner)[0], name="d")
    xs = np.linspace(-1, 1, 7).astype("f")
    loop, one, calls = run_both(graph, ["f:0", "d:0", "fixed:0", "inner:0"], ["inner:0"], {"inner:0": xs})
    for expected, got in zip(loop, one, strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-6)
    assert calls.shared == ("fixed:0",)


def test_functions_loops_and_branches_of_the_second_kind():
    was = tf1.control_flow_v2_enabled()
    tf1.enable_control_flow_v2()
    graph = tf.Graph()
    with graph.as_default():
        x = tf1.placeholder(tf.float32, [3], name="x")
        called = tf.function(lambda a: tf.tanh(a) * 2.0)(x)
        branch = tf.cond(tf.reduce_sum(called) > 0, lambda: called * 3.0, lambda: called * called)
        loop = tf.while_loop(lambda i, _: i < 3, lambda i, a: (i + 1, a * 0.5 + tf.sin(a)), (0, branch))[1]
        tf.identity(tf1.gradients(tf.reduce_sum(loop), x)[0], name="d")
        tf.identity(loop, name="y")
    if not was:
        tf1.disable_control_flow_v2()
    values = {"x:0": np.float32(RANDOM.normal(size=(6, 3)))}
    expected, got, _ = run_both(graph, ["y:0", "d:0"], ["x:0"], values)
    for a, b in zip(expected, got, strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-5, atol=1e-6)


def random_draw(x):
    return x * tf.random.uniform([3], name="draw")


def random_in_function(x):
    return tf.function(lambda a: a + tf.random.normal([3], name="draw"))(x)


def write(x):
    v = tf1.get_variable("v", initializer=np.zeros(3, "f"), use_resource=True)
    with tf.control_dependencies([v.assign_add(x, read_value=False)]):
        return tf.identity(x)


def write_ref(x):
    v = tf1.get_variable("v", initializer=np.zeros(3, "f"), use_resource=False)
    return tf1.assign_add(v, x, name="v/add")


def python_code(x):
    return tf.numpy_function(lambda a: a, [x], tf.float32, name="code")


def iterator(x):
    data = tf1.data.make_one_shot_iterator(tf.data.Dataset.from_tensors(np.ones(3, "f")).repeat())
    return x + data.get_next(name="next_one")


def queue(x):
    fifo = tf1.FIFOQueue(3, [tf.float32], shapes=[[3]])
    return x + fifo.dequeue(name="take")


def branch_v1(x):
    tf1.disable_control_flow_v2()
    try:
        return tf1.cond(tf.reduce_sum(x) > 0, lambda: x * 2.0, lambda: x)
    finally:
        tf1.enable_control_flow_v2()


@pytest.mark.parametrize(
    ("build", "says"),
    [
        (random_draw, "draw"),
        (random_in_function, "draw"),
        (write, "AssignAddVariableOp"),
        (write_ref, "v/add"),
        (python_code, "PyFunc"),
        (iterator, "next_one"),
        (queue, "take"),
        (branch_v1, "enable_control_flow_v2"),
    ],
)
def test_refused_with_the_reason(build, says):
    graph = tf.Graph()
    with graph.as_default():
        x = tf1.placeholder(tf.float32, [3], name="x")
        y = tf.identity(build(x), name="y")
    with pytest.raises(NotApplicableError, match=says):
        vectorize_calls(graph, [y.name], ["x:0"])


def test_resources_no_feeds_and_wrong_names():
    graph, fetches = conv_graph()
    with pytest.raises(NotApplicableError, match="resource"):
        vectorize_calls(graph, ["k:0"], ["x:0"])
    with pytest.raises(NotApplicableError, match="nothing"):
        vectorize_calls(graph, fetches, [])
    with pytest.raises(NameNotFoundError, match="nowhere"):
        vectorize_calls(graph, ["nowhere:0"], ["x:0"])


def test_a_long_chain_needs_no_recursion():
    graph = tf.Graph()
    with graph.as_default():
        y = tf1.placeholder(tf.float32, [], name="x")
        for _ in range(1500):
            y = y + 1.0
    loop, one, calls = run_both(graph, [y.name], ["x:0"], {"x:0": np.arange(3.0, dtype="f")})
    np.testing.assert_array_equal(one[0], loop[0])
    assert calls.vectorized == 1500
