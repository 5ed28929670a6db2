"""Which sources count: those of the branch that was taken, and nothing that graph optimisation worked out before."""

from __future__ import annotations

import threading

import numpy as np
import pytest
import tensorflow as tf
from engine_kinds import causes, kinds, off, op, recorded, variable

from cachelab.tf.recorder import Recorder
from cachelab.views.why import why

tf1 = tf.compat.v1


@pytest.mark.parametrize("config", [None, off()], ids=["optimised", "as built"])
def test_kinds_a_branch_that_was_not_taken_brings_no_sources(graph, control_flow, config):
    """What the branch that was taken only passes on leaves no op of that branch in the trace."""
    x, training = tf1.placeholder(tf.float32, [3], "x"), tf1.placeholder_with_default(False, [])
    h = tf.tanh(x)
    dropped = tf.cond(training, lambda: tf.nn.dropout(h, rate=0.5), lambda: h)
    tf.reduce_sum(dropped * 2.0, name="out")

    def program(session):
        for _ in range(2):
            session.run("out:0", {x: np.ones(3, "f")})

    record = recorded(program, config, values=True)
    assert op(record, 1, "out").status == "recomputed"
    assert "same_by_coincidence" not in kinds(record)


def test_kinds_a_write_counts_for_the_branch_that_reads(graph, control_flow):
    x, flag, v = tf1.placeholder(tf.float32, [], "x"), tf1.placeholder(tf.bool, []), variable()
    tf.square(tf.cond(flag, lambda: x, lambda: v * 2.0), name="out")
    write = v.assign_add(1.0)

    def program(session):
        session.run(v.initializer)
        for flagged, fed in ((True, 1.0), (True, 1.0), (False, 1.0), (False, 5.0), (True, 5.0)):
            session.run("out:0", {flag: flagged, x: fed})
            session.run(write.op)

    record = recorded(program)
    assert op(record, 3, "out").status == "recomputed"  # `v` was written, but this branch does not read it
    assert op(record, 7, "out").status == "computed"  # the other branch, and `v` was written before
    assert [(kind, source) for kind, source, _ in causes(record, 7, "out")] == [("variable", "v")]  # not `x`
    assert op(record, 9, "out").status == "computed"


def test_kinds_a_loop_that_reads_and_writes_in_turn_does_not_race(graph):
    v = variable(value=0.0)

    def body(k, total):
        with tf.control_dependencies([v.assign_add(1.0)]):
            return k + 1, total + v.read_value()

    total = tf.while_loop(lambda k, _: k < 3, body, [0, 0.0], parallel_iterations=1)[1]

    def program(session):
        session.run(v.initializer)
        assert session.run(total) == 6.0
        session.run(total)

    assert "race" not in kinds(recorded(program))


@pytest.mark.parametrize("values", [False, True])
def test_kinds_what_optimisation_ran_itself_is_no_draw_and_runs_no_more_often_with_us(graph, values):
    count = []

    def load(z):
        count.append(z)
        return np.float32(z * 2 + len(count))

    x = tf1.placeholder(tf.float32, [], "x")
    table = tf.numpy_function(load, [tf.constant(3.0)], tf.float32, stateful=False, name="table")
    tf.add(table, x, name="plus")
    tf.multiply(table, x, name="times")
    seen = {}

    def program(session):
        count.clear()
        seen["found"] = [
            float(session.run(fetch, {x: 1.0})) for fetch in ("plus:0", "plus:0", "times:0", "plus:0", "times:0")
        ]
        seen["found"] += [float(value) for value in session.run(["plus:0", "times:0"], {x: 1.0})]
        seen["ran"] = len(count)

    with tf1.Session() as session:
        program(session)
    plain = dict(seen)
    record = recorded(program, trace="full", values=values)
    assert seen == plain
    assert plain["ran"] == 3  # once for each signature
    assert [op(record, call, "plus").status for call in (0, 1, 3)] == ["computed", "recomputed", "recomputed"]
    assert op(record, 4, "times").status == "recomputed"
    assert {op(record, call, "table").status for call in range(6)} == {"folded"}
    assert op(record, 5, "plus").status == "computed"  # it was given what `load` returned the third time
    assert "`table`" in op(record, 5, "plus").causes[0].text


def test_kinds_a_file_that_was_read_before_the_run_is_folded_with_all_that_comes_of_it(graph, tmp_path):
    path = tmp_path / "words.txt"
    path.write_text("one")
    tf.strings.length(tf.io.read_file(str(path)), name="length")

    def program(session):
        assert session.run("length:0") == 3
        path.write_text("another")
        assert session.run("length:0") == 3  # TensorFlow reads it no more

    record = recorded(program, trace="full")
    assert op(record, 1, "length").status == "folded"
    assert "folded" in why(record, "length", 1).text


def test_kinds_sentences_name_no_source_that_changed(graph):
    a, b = tf1.placeholder(tf.float32, [], "a"), tf1.placeholder(tf.float32, [], "b")
    v = variable()
    both = tf.function(lambda p, q: (p * v, tf.exp(q)))(a, b)
    tf.multiply(both[1], 2.0, name="of_b")
    tf.multiply(tf.cond(b > 0.0, lambda: tf.tanh(b), lambda: tf.tanh(v)), 2.0, name="branch")

    def program(session):
        session.run(v.initializer)
        session.run(["of_b:0", "branch:0", both[0]], {a: 2.0, b: 3.0})
        v.load(7.0, session)
        session.run(["of_b:0", "branch:0", both[0]], {a: 4.0, b: 3.0})

    record = recorded(program)
    for name in ("of_b", "branch"):
        reason = why(record, name, 3)
        assert (reason.status, reason.chain[0]) == ("recomputed", "b:0")
        assert "the same feed `b` as in call 1" in reason.text


def test_kinds_updates_do_not_race_with_asking_whether_a_variable_has_a_value(graph):
    v = variable()
    asked = tf1.is_variable_initialized(v)
    update = v.assign_add(1.0)

    def program(session):
        session.run(v.initializer)
        session.run([asked, update.op])

    assert "race" not in kinds(recorded(program))

    def first(session):
        session.run([asked, v.initializer])

    assert "race" in kinds(recorded(first))


def test_kinds_each_tensor_array_is_one_of_its_own(graph, control_flow):
    x = tf1.placeholder(tf.float32, [None])
    out = tf.map_fn(lambda one: one * 2.0, x)
    record = recorded(lambda session: session.run(out, {x: np.ones(4, "f")}))
    twice = {name for found in record.findings if found.kind == "built_twice" for name in found.ops}
    assert not [name for name in twice if "TensorArray" in op(record, 0, name).type]


def test_kinds_a_queue_that_is_filled_and_emptied_at_once_is_no_finding(graph):
    queue = tf.queue.FIFOQueue(100, [tf.float32])
    put, take = queue.enqueue(1.0), queue.dequeue()
    recorder = Recorder().start()
    with tf1.Session() as session:
        waiting = threading.Thread(target=lambda: [session.run(take) for _ in range(5)])
        waiting.start()
        for _ in range(5):
            session.run(put)
        waiting.join(60)
    recorder.stop()
    assert "overlap" not in kinds(recorder.record())


def test_kinds_a_seed_makes_equal_values_in_two_sessions(graph):
    draw = tf.random.uniform([], seed=3)
    tf.multiply(draw, 2.0, name="twice")
    recorder = Recorder(values=True).start()
    found = []
    for _ in range(2):
        with tf1.Session() as session:
            found.append(session.run("twice:0"))
    recorder.stop()
    assert found[0] == found[1]
    assert "same_by_coincidence" not in kinds(recorder.record())


def test_kinds_all_signatures_with_a_needless_feed_are_counted(graph):
    x, flag = tf1.placeholder(tf.float32, [], "x"), tf1.placeholder(tf.bool, [], "flag")
    one, two = tf.tanh(x), tf.exp(x)

    def program(session):
        for fetch in (one, two):
            session.run(fetch, {x: 1.0, flag: True})

    (told,) = [found for found in recorded(program).findings if found.kind == "unneeded_feed"]
    assert "call 1" in told.text
    assert "2 signatures" in told.text
