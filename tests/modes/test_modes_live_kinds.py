"""Kinds of programs in which a live session once served too much: checks, callables, budgets, odd types."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from cachelab.modes import live
from cachelab.modes.live import Session

tf1 = tf.compat.v1
KEEPING = ("memo", "feed", "handle", "variable")
GOOD, BAD = np.ones(4, "f"), np.full(4, np.nan, "f")


@pytest.fixture(autouse=True)
def _everything_is_worth_keeping(monkeypatch):
    """Timings on a busy machine must not decide what is kept."""
    monkeypatch.setattr(live, "WORTH_SECONDS", 0.0)
    monkeypatch.setattr(live, "WORTH_SECONDS_A_BYTE", 0.0)


def checked(kind):
    """Return ``x``, which is checked, ``z``, which is not, and a result that depends on ``z`` alone."""
    x, z = tf1.placeholder(tf.float32, [4], "x"), tf1.placeholder(tf.float32, [4], "z")

    def guarded(x, z):
        with tf.control_dependencies([tf.debugging.check_numerics(x, "bad")]):
            return tf.reduce_sum(tf.tanh(z))

    if kind == "function":
        return x, z, tf.function(guarded)(x, z)
    if kind == "branch":
        return x, z, tf.cond(tf1.placeholder_with_default(True, []), lambda: guarded(x, z), lambda: 0.0)
    return x, z, guarded(x, z)


@pytest.mark.parametrize("mode", KEEPING)
@pytest.mark.parametrize("kind", ["graph", "function", "branch"])
def test_a_check_of_what_the_result_does_not_depend_on_still_runs(kind, mode):
    graph = tf.Graph()
    with graph.as_default():
        x, z, out = checked(kind)
    with tf1.Session(graph=graph) as plain, pytest.raises(tf.errors.InvalidArgumentError):
        plain.run(out, {x: BAD, z: GOOD})
    with Session(graph=graph, mode=mode) as session:
        first = [session.run(out, {x: GOOD, z: GOOD}) for _ in range(4)]
        assert len(set(first)) == 1
        with pytest.raises(tf.errors.InvalidArgumentError):
            session.run(out, {x: BAD, z: GOOD})


@pytest.mark.parametrize("mode", KEEPING)
def test_a_check_of_what_the_result_depends_on_is_served_with_it(mode):
    graph = tf.Graph()
    with graph.as_default():
        z = tf1.placeholder(tf.float32, [4], "z")
        with tf.control_dependencies([tf.debugging.check_numerics(z, "bad")]):
            out = tf.reduce_sum(tf.tanh(z))
    with Session(graph=graph, mode=mode) as session:
        for _ in range(4):
            session.run(out, {z: GOOD})
        assert session.cache_info().hits


@pytest.mark.parametrize("mode", KEEPING)
@pytest.mark.parametrize("options", [False, True])
def test_what_a_callable_writes_is_not_served_from_before(mode, options):
    graph = tf.Graph()
    with graph.as_default():
        v = tf1.get_variable("v", initializer=1.0, use_resource=True)
        y, up = tf.square(v), v.assign_add(1.0)
    with Session(graph=graph, mode=mode) as session:
        session.run(v.initializer)
        step = session.make_callable(up, accept_options=options)
        before = [session.run(y) for _ in range(3)]
        step(options=tf1.RunOptions()) if options else step()
        assert before == [1.0] * 3
        assert session.run(y) == 4.0


def test_variables_of_what_is_not_kept_any_more_are_freed():
    graph = tf.Graph()
    with graph.as_default():
        x = tf1.placeholder(tf.float32, [1000], "x")
        parts = [tf.tanh(x * float(k + 1), name=f"part{k}") for k in range(4)]
        k = tf1.placeholder(tf.float32, [], "k")
        sums = [tf.reduce_sum(part * k) for part in parts]
    with Session(graph=graph, mode="variable", memory_budget=5000) as session:  # room for one part
        data = np.ones(1000, "f")
        for place, out in enumerate(sums):
            for number in range(3):
                session.run(out, {x: data, k: 10.0 * place + number})
        assert session.cache_info().evictions
        assert session.cache_info().bytes <= 5000
        filled = [op for op in graph.get_operations() if op.type == "VarHandleOp"]
        with graph.as_default():
            asked = [tf.raw_ops.VarIsInitializedOp(resource=op.outputs[0]) for op in filled]
        there = [bool(session.run(one)) for one in asked]
        assert sum(there) == session.cache_info().entries


@pytest.mark.parametrize("mode", KEEPING)
def test_values_that_tensorflow_can_not_copy_are_computed(mode):
    graph = tf.Graph()
    with graph.as_default():
        x = tf1.placeholder(tf.float32, [3], "x")
        coarse = tf.cast(x * 2.0, tf.dtypes.experimental.float8_e5m2)
        out = tf.cast(coarse, tf.float32) * tf1.placeholder_with_default(1.0, [])
    with Session(graph=graph, mode=mode) as session:
        found = [session.run(out, {x: [1.0, 2.0, 3.0]}).tolist() for _ in range(4)]
    assert found == [[2.0, 4.0, 6.0]] * 4


def test_a_closed_session_still_tells_what_it_served():
    graph = tf.Graph()
    with graph.as_default():
        x = tf1.placeholder(tf.float32, [], "x")
        out = tf.tanh(x)
    session = Session(graph=graph)
    for _ in range(4):
        session.run(out, {x: 1.0})
    hits = session.cache_info().hits
    session.close()
    assert hits
    assert session.cache_info()._replace(bytes=0, entries=0) == session.cache_info()
    assert session.cache_info().hits == hits
