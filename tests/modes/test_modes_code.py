"""Printed code that does by hand what a mode does, for kinds of programs in which it once did something else."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import tensorflow as tf
from modes_programs import Program
from modes_tools import by_hand, freeze, record, same

from cachelab import modes
from cachelab.tf.recorder import Recorder

tf1 = tf.compat.v1


def check(program, mode, **options):
    """Replay ``program`` in a mode, execute its code and compare with the recorded results."""
    recording = record(program)
    replay = modes.replay(recording, mode, **options)
    assert replay.applicable, replay.reason
    results = by_hand(program, replay.code)
    for call in recording.material.calls:
        for position, digest in enumerate(call.results):
            assert same(results[call.index][position], recording.material.values.get(digest))
    return replay


@pytest.mark.parametrize("mode", ["variable", "handle", "feed", "memo"])
def test_a_cut_may_be_kept_and_never_served(mode):
    graph = tf.Graph()
    with graph.as_default():
        x = tf1.placeholder(tf.float32, [20, 30], "x")
        h = tf.tanh(tf.matmul(x, tf.constant(np.ones((30, 40), "f"))), name="h")
        other = tf.exp(h, name="other")
        tf.reduce_sum(h * tf.sin(h), name="loss")
        tf.reduce_sum(other + h, name="accuracy")
        init = tf.no_op()
    rng = np.random.RandomState(0)
    a, b = rng.randn(20, 30).astype("f"), rng.randn(20, 30).astype("f")
    fed = [("loss:0", a), ("loss:0", b), ("loss:0", a), ("accuracy:0", b), ("accuracy:0", b)]
    check(Program(graph, init, [([name], {"x:0": data}) for name, data in fed]), mode)


def test_each_handle_asks_for_the_target_ops_of_its_calls():
    graph = tf.Graph()
    with graph.as_default():
        v = tf1.get_variable("v", initializer=0.0, use_resource=True)
        x = tf1.placeholder(tf.float32, [], "x")
        v.assign_add(1.0, name="bump", read_value=False)
        tf.tanh(x, name="y")
        tf.identity(v, name="seen")
    pair = [(["y:0"], {"x:0": 1.0}), (["bump"], {}), (["y:0"], {"x:0": 5.0}), (["bump"], {})]
    calls = [(["y:0"], {"x:0": 3.0}), *pair, (["seen:0"], {})]  # the first goes with the initialiser
    program = Program(graph, v.initializer, calls)
    recording = record(program)
    replay = modes.replay(recording, "partial_run")
    assert replay.applicable, replay.reason
    results = by_hand(program, replay.code)
    assert results[recording.material.calls[-1].index][0] == 2.0


@pytest.mark.parametrize("kind", ["scan", "map", "while"])
def test_a_loop_of_version_1_is_rebuilt_as_a_whole(kind):
    tf1.disable_control_flow_v2()
    try:
        graph = tf.Graph()
        with graph.as_default():
            x, y = tf1.placeholder(tf.float32, [4], "x"), tf1.placeholder(tf.float32, [], "y")
            h = tf.tanh(x, name="h")
            if kind == "scan":
                out = tf.scan(lambda total, one: total + one * y, h)
            elif kind == "map":
                out = tf.map_fn(lambda one: one * y, h)
            else:
                out = tf.while_loop(lambda k, _: k < 3, lambda k, total: (k + 1, total * h + y), [0, h])[1]
            tf.identity(out, name="out")
            init = tf.no_op()
        data = np.array([0.1, 0.2, 0.3, 0.4], "f")
        calls = [(["out:0"], {"x:0": data, "y:0": float(k)}) for k in range(4)]
        check(Program(graph, init, calls), "variable", cuts=["h:0"])
    finally:
        tf1.enable_control_flow_v2()


def test_what_does_not_differ_between_the_examples_has_its_value():
    graph = tf.Graph()
    with graph.as_default():
        x = tf1.placeholder(tf.float32, [1, 6], "x")
        w = tf1.get_variable("w", initializer=np.ones([6, 3], "f"), use_resource=True)
        loss = tf.reduce_sum(tf.tanh(tf.matmul(x, w)), name="loss")
        tf.identity(tf.gradients(loss, w)[0], name="grad")
        tf.nn.l2_loss(w, name="penalty")
    rows = np.random.RandomState(0).randn(5, 1, 6).astype("f")
    program = Program(graph, w.initializer, [(["grad:0", "penalty:0"], {"x:0": row}) for row in rows])
    recording = record(program)
    results = by_hand(program, modes.replay(recording, "per_example").code)
    assert [results[call.index][1] for call in recording.material.calls if call.results] == [9.0] * 5


def test_calls_of_two_sessions_have_no_code_for_one():
    graph = tf.Graph()
    with graph.as_default():
        x = tf1.placeholder(tf.float32, [], "x")
        tf.tanh(x, name="y")
    recorder = Recorder(trace="full").start()
    for _ in range(2):
        with tf1.Session(graph=graph) as session:
            session.run("y:0", {x: 1.0})
    recorder.stop()
    code = modes.replay(freeze(recorder), "run").code
    assert "2 sessions" in code
    assert "sess.run" not in code


def test_a_budget_binds_every_mode_that_keeps():
    graph = tf.Graph()
    with graph.as_default():
        x, k = tf1.placeholder(tf.float32, [256, 64], "x"), tf1.placeholder(tf.float32, [], "k")
        tf.reduce_sum(tf.tanh(x, name="h") * k, name="out")
        init = tf.no_op()
    data = np.ones((256, 64), "f")
    small = np.ones((256, 64), "f")
    calls = [(["out:0"], {"x:0": data, "k:0": float(number)}) for number in range(3)]
    calls += [(["out:0"], {"x:0": small * 2, "k:0": float(number)}) for number in range(2)]
    recording = record(Program(graph, init, calls))
    size = 256 * 64 * 4
    for mode in ("feed", "memo", "variable", "handle"):
        refused = modes.replay(recording, mode, memory_budget=1000, cuts=["h:0"])
        assert not refused.applicable
        assert "memory budget" in refused.reason
        kept = modes.replay(recording, mode, cuts=["h:0"])
        assert kept.bytes_held >= size


def test_memo_is_tried_where_nothing_pays():
    """That no cut saves more than feeding it costs is no reason not to show it."""
    graph = tf.Graph()
    with graph.as_default():
        x, k = tf1.placeholder(tf.float32, [], "x"), tf1.placeholder(tf.float32, [], "k")
        h = tf.tanh(x, name="h")
        tf.multiply(h, k, name="one")
        tf.add(tf.exp(h, name="e"), k, name="two")
        init = tf.no_op()
    calls = [(["one:0", "two:0"], {"x:0": 1.0, "k:0": float(number)}) for number in range(4)]
    recording = record(Program(graph, init, calls))
    columns = tuple(replace(one, seconds=tuple(1e-9 for _ in one.seconds)) for one in recording.record.columns)
    recording.record = replace(recording.record, columns=columns)
    replay = modes.replay(recording, "memo")
    assert replay.applicable, replay.reason
