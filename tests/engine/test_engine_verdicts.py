"""Verdicts against counters in the graph, the runtime's own trace, and values."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from engine_tools import Recorded, plain_config, ran

tf1 = tf.compat.v1


def counted(function, calls, name):
    """Return an op that counts its executions in the list ``calls``."""
    return tf1.py_func(lambda value: (calls.append(1), function(value))[1], [name], tf.float32)


def test_same_feed_is_recomputed_and_other_feed_is_not(graph, start, config):
    x = tf1.placeholder(tf.float32, [2], "x")
    h = tf.tanh(x, name="h")
    y = tf.exp(h, name="y")
    with tf1.Session(config=config) as session:
        recorder = start(trace="full")
        for feed in ([1, 2], [1, 2], [3, 4]):
            session.run(y, {x: feed})
        done = Recorded(recorder)
    assert done.status("h") == ["computed", "recomputed", "computed"]
    assert done.op(1, "h").witness == 0
    assert done.causes(1, "h") == [("not_kept", "")]
    assert done.causes(2, "h") == [("feed", "x:0")]
    assert done.op(2, "h").evidence == "measured"
    assert done.op(0, "x").status == "fed"


def test_equal_sources_do_not_make_an_op_that_never_ran_recomputed(graph, start, config):
    x = tf1.placeholder(tf.float32, [2], "x")
    h = tf.tanh(x, name="h")
    y = tf.exp(h, name="y")
    with tf1.Session(config=config) as session:
        recorder = start()
        session.run(h, {x: [1, 2]})
        session.run(y, {x: [1, 2]})
        done = Recorded(recorder)
    assert done.status("h") == ["computed", "recomputed"]
    assert done.status("y") == [None, "computed"]
    assert done.causes(1, "y") == [("first", "")]


def test_reads_before_and_after_an_assign_in_one_call(graph, start):
    x = tf1.placeholder(tf.float32, [], "x")
    v = tf1.get_variable("v", initializer=2.0, use_resource=True)
    before = tf.multiply(v.read_value(), x, name="before")
    with tf.control_dependencies([before]):
        write = v.assign_add(1.0, read_value=False)
    with tf.control_dependencies([write]):
        after = tf.multiply(v.read_value(), x, name="after")
    with tf1.Session(config=plain_config()) as session:
        session.run(v.initializer)
        recorder = start()
        values = [session.run([before, after], {x: 10.0}) for _ in range(2)]
        values.append([session.run(before, {x: 10.0})])
        done = Recorded(recorder)
    assert values[0] == [20.0, 30.0]
    assert values[1] == [30.0, 40.0]
    # `before` of call 1 sees what `after` of call 0 saw, but it is another op: nothing was computed twice.
    assert done.status("before")[:2] == ["computed", "computed"]
    assert done.status("after")[:2] == ["computed", "computed"]
    assert done.causes(1, "before") == [("variable", "v")]
    assert done.findings("race") == []


def test_a_read_repeated_after_the_last_write_is_redundant(graph, start):
    v = tf1.get_variable("v", initializer=2.0, use_resource=True)
    y = tf.multiply(v, 3.0, name="y")
    write = v.assign_add(1.0, read_value=False)
    with tf1.Session(config=plain_config()) as session:
        session.run(v.initializer)
        recorder = start()
        for target in (y, y, write, y, y):
            session.run(target)
        done = Recorded(recorder)
    assert done.status("y") == ["computed", "recomputed", None, "computed", "recomputed"]
    assert done.causes(3, "y") == [("variable", "v")]
    assert done.op(3, "y").causes[0].call == 2


def test_a_witness_may_lie_further_back(graph, start):
    x = tf1.placeholder(tf.float32, [], "x")
    y = tf.exp(x, name="y")
    with tf1.Session(config=plain_config()) as session:
        recorder = start()
        for feed in (1.0, 2.0, 1.0):
            session.run(y, {x: feed})
        done = Recorded(recorder)
    assert done.status("y") == ["computed", "computed", "recomputed"]
    assert done.op(2, "y").witness == 0


def test_iterations_of_a_loop_never_witness_each_other(graph, start):
    calls = []
    x = tf1.placeholder(tf.float32, [], "x")

    def body(i, total):
        seen = counted(np.sin, calls, x)
        seen.set_shape([])
        return i + 1, total + seen * 0.0 + tf.cos(x, name="c")

    total = tf.while_loop(lambda i, _: i < 3, body, [0, 0.0], name="loop")[1]
    with tf1.Session(config=plain_config()) as session:
        recorder = start()
        session.run(total, {x: 1.0})
        session.run(total, {x: 1.0})
        done = Recorded(recorder)
    assert len(calls) == 6
    assert done.status("loop/body/c") == ["computed", "recomputed"]
    assert done.op(0, "loop/body/c").count == 3
    assert done.op(0, "loop").count == 3
    counted_op = next(op.name for op in done.record.executions(0) if op.type == "PyFunc")
    assert done.status(counted_op) == ["computed", "computed"]
    assert done.op(1, counted_op).count == 3


@pytest.mark.parametrize("use_resource", [True, False])
def test_a_call_that_fails_after_its_assign(graph, start, use_resource):
    v = tf1.get_variable("v", initializer=1.0, use_resource=use_resource)
    y = tf.multiply(v, 10.0, name="y")
    write = tf1.assign(v, 5.0)
    with tf.control_dependencies([write]):
        bad = tf.debugging.assert_equal(tf.constant(1) * tf1.placeholder_with_default(1, []), 2, message="never")
    with tf1.Session(config=plain_config()) as session:
        session.run(v.initializer)
        recorder = start()
        assert session.run(y) == 10.0
        with pytest.raises(tf.errors.InvalidArgumentError):
            session.run(bad)
        assert session.run(y) == 50.0
        done = Recorded(recorder)
    assert done.record.entry(1).failed
    assert done.status("y") == ["computed", None, "computed"]
    cause = done.op(2, "y").causes[0]
    assert (cause.kind, cause.source, cause.call, cause.may) == ("variable", "v", 1, True)


def test_a_failed_call_is_no_witness(graph, start):
    x = tf1.placeholder(tf.float32, [], "x")
    h = tf.exp(x, name="h")
    checked = tf.debugging.check_numerics(h / tf.constant(0.0), "no", name="checked")
    with tf1.Session(config=plain_config()) as session:
        recorder = start()
        with pytest.raises(tf.errors.InvalidArgumentError):
            session.run(checked, {x: 1.0})
        session.run(h, {x: 1.0})
        session.run(h, {x: 1.0})
        done = Recorded(recorder)
    assert done.status("h")[1:] == ["computed", "recomputed"]
    assert done.op(0, "checked").status in {"computed", "unknown"}


def test_a_folded_constant_under_a_users_name_is_not_the_users_op(graph, start):
    x = tf1.placeholder(tf.float32, [2], "x")
    m = tf.multiply(x, 1.1, name="m")
    y = tf.multiply(m, 3.3, name="y")
    with tf1.Session() as session:
        _, names = ran(session, y, {x: [1, 2]})
        recorder = start(trace="full")
        session.run(y, {x: [1, 2]})
        session.run(y, {x: [1, 2]})
        session.run(m, {x: [1, 2]})
        done = Recorded(recorder)
    assert "m" in names  # the trace lists it, as a constant: the name alone lies
    assert done.status("m") == ["folded", "folded", "computed"]
    assert done.status("y") == ["computed", "recomputed", None]


def test_fused_and_merged_are_told_from_reuse(graph, start):
    x = tf1.placeholder(tf.float32, [2, 2], "x")
    w = tf1.get_variable("w", initializer=np.ones((2, 2), "f"), use_resource=True)
    b = tf1.get_variable("b", initializer=np.ones(2, "f"), use_resource=True)
    h = tf.nn.relu(tf.nn.bias_add(tf.matmul(x, w, name="mm"), b, name="ba"), name="rl")
    twice = tf.add(tf.tanh(h, name="t1"), tf.tanh(h, name="t2"), name="sum")
    with tf1.Session() as session:
        session.run([w.initializer, b.initializer])
        recorder = start(trace="full")
        for _ in range(2):
            session.run(twice, {x: np.eye(2)})
        done = Recorded(recorder)
    assert done.status("mm") == ["fused", "fused"]
    assert done.op(0, "mm").into == "rl"
    assert done.status("rl") == ["computed", "recomputed"]
    assert sorted([done.status("t1")[0], done.status("t2")[0]]) == ["computed", "merged"]
    merged = "t1" if done.status("t1")[0] == "merged" else "t2"
    assert done.op(0, merged).into in {"t1", "t2"}
    assert done.findings("built_twice")[0].ops == ("t1", "t2")
    assert "reused" not in {op.status for call in (0, 1) for op in done.record.executions(call)}


def test_one_of_two_outputs_fed(graph, start):
    x = tf1.placeholder(tf.float32, [4], "x")
    first, second = tf.split(x, 2, name="parts")
    a, b = tf.exp(first, name="a"), tf.exp(second, name="b")
    with tf1.Session(config=plain_config()) as session:
        recorder = start()
        session.run([a, b], {x: [1, 2, 3, 4]})
        session.run([a, b], {x: [1, 2, 3, 4], first: [7, 7]})
        session.run(a, {first: [7, 7]})
        done = Recorded(recorder)
    assert done.status("parts") == ["computed", "recomputed", "fed"]
    assert done.status("a") == ["computed", "computed", "recomputed"]
    assert done.status("b") == ["computed", "recomputed", None]
    assert done.causes(1, "a") == [("feed", "parts:0")]


def test_an_array_mutated_in_place_is_new_content(graph, start):
    x = tf1.placeholder(tf.float32, [3], "x")
    y = tf.exp(x, name="y")
    array = np.zeros(3, "f")
    with tf1.Session(config=plain_config()) as session:
        recorder = start()
        session.run(y, {x: array})
        array[1] = 5.0
        session.run(y, {x: array})
        array[1] = 0.0
        session.run(y, {x: array})
        done = Recorded(recorder)
    assert done.status("y") == ["computed", "computed", "recomputed"]
    assert done.op(2, "y").witness == 0


@pytest.mark.parametrize("seed", [None, 7])
def test_random_ops_and_what_depends_on_them(graph, start, seed):
    x = tf1.placeholder(tf.float32, [2], "x")
    noise = tf.random.normal([2], seed=seed, name="noise")
    y = tf.add(x, noise, name="y")
    pure = tf.random.stateless_normal([2], seed=[1, 2], name="pure")
    with tf1.Session(config=plain_config()) as session:
        recorder = start()
        values = [session.run([y, pure], {x: [1, 2]}) for _ in range(2)]
        done = Recorded(recorder)
    assert not np.array_equal(values[0][0], values[1][0])
    np.testing.assert_array_equal(values[0][1], values[1][1])
    assert done.status("noise/RandomStandardNormal") == ["computed", "computed"]
    assert done.causes(1, "y") == [("random", "noise/RandomStandardNormal")]
    pure_op = next(op for op in done.record.executions(1) if op.type.startswith("StatelessRandomNormal"))
    assert pure_op.status == "recomputed"
    assert len(done.findings("stream_shift")) == (1 if seed else 0)


def test_iterators_step_and_initialise(graph, start):
    iterator = tf1.data.make_initializable_iterator(tf1.data.Dataset.range(3))
    y = tf.add(iterator.get_next(), 1, name="y")
    with tf1.Session(config=plain_config()) as session:
        recorder = start()
        session.run(iterator.initializer)
        values = [session.run(y), session.run(y)]
        done = Recorded(recorder)
    assert values == [1, 2]
    assert done.status("IteratorGetNext") == [None, "computed", "computed"]
    assert done.causes(2, "y") == [("iterator", "IteratorGetNext")]
    assert done.causes(2, "IteratorGetNext")[0][0] == "iterator"


def test_an_optimiser_step_is_never_redundant_but_its_forward_pass_is(graph, start):
    x = tf1.placeholder(tf.float32, [2, 3], "x")
    w = tf1.get_variable("w", initializer=np.ones((3, 1), "f"), use_resource=True)
    loss = tf.reduce_mean(tf.square(tf.matmul(x, w, name="mm")), name="loss")
    train = tf1.train.AdamOptimizer(0.1).minimize(loss, name="train")
    with tf1.Session(config=plain_config()) as session:
        session.run(tf1.global_variables_initializer())
        recorder = start()
        session.run(loss, {x: np.ones((2, 3))})
        session.run([loss, train], {x: np.ones((2, 3))})
        session.run(loss, {x: np.ones((2, 3))})
        done = Recorded(recorder)
    assert done.status("mm") == ["computed", "recomputed", "computed"]
    apply = next(op for op in done.record.executions(1) if op.type == "ResourceApplyAdam")
    assert (apply.status, apply.causes[0].kind) == ("computed", "effect")
    cause = done.op(2, "mm").causes[0]
    assert (cause.kind, cause.source, cause.call) == ("variable", "w", 1)
    assert "train" in cause.text


def test_unordered_read_and_write_is_a_race_and_never_a_witness(graph, start):
    v = tf1.get_variable("v", initializer=1.0, use_resource=True)
    y = tf.multiply(v.read_value(), 2.0, name="y")
    write = v.assign(3.0, read_value=False)
    with tf1.Session(config=plain_config()) as session:
        session.run(v.initializer)
        recorder = start()
        for _ in range(3):
            session.run([y, write])
        done = Recorded(recorder)
    assert done.status("y") == ["computed"] * 3
    assert done.causes(2, "y") == [("race", "v")]
    assert done.findings("race")


@pytest.mark.parametrize("resource", [True, False])
def test_unordered_writes_are_a_race_and_ordered_ones_are_not(graph, start, resource):
    v = tf1.get_variable("v", initializer=1.0, use_resource=resource)
    w = tf1.get_variable("w", initializer=1.0, use_resource=resource)
    one, other = tf1.assign(v, 2.0, name="one").op, tf1.assign(v, 3.0, name="other").op
    with tf.control_dependencies([tf1.assign(w, 2.0).op]):
        last = tf1.assign(w, 3.0).op
    with tf1.Session(config=plain_config()) as session:
        session.run([v.initializer, w.initializer])
        recorder = start()
        session.run([one, other, last])
        done = Recorded(recorder)
    (race,) = done.findings("race")
    assert set(race.ops) == {one.name, other.name}
    assert "`v`" in race.text
    assert "either may be the last" in race.text


def after(op, value):
    with tf.control_dependencies([op]):
        return tf.identity(value)


def test_writes_of_branches_functions_and_loops_are_no_race_with_themselves(graph, start, control_flow):
    p = tf1.placeholder(tf.bool, [], "p")
    v, w, u = (tf1.get_variable(name, initializer=1.0, use_resource=True) for name in "vwu")
    branch = tf1.cond(p, lambda: v.assign_add(1.0).op, lambda: v.assign_add(2.0).op)
    loop = tf1.while_loop(lambda k: k < 3, lambda k: (after(w.assign_add(1.0).op, k + 1),), [0])

    @tf.function(autograph=False)
    def twice():
        u.assign(2.0)
        u.assign(3.0)
        return u.read_value()

    called = twice()
    with tf1.Session(config=plain_config()) as session:
        session.run(tf1.global_variables_initializer())
        recorder = start()
        for value in (True, False):
            session.run([branch, loop, called], {p: value})
        session.run(called)
        done = Recorded(recorder)
    assert not done.findings("race")


def test_untaken_branches_contribute_no_sources(graph, start):
    p = tf1.placeholder(tf.bool, [], "p")
    x = tf1.placeholder(tf.float32, [], "x")
    v = tf1.get_variable("v", initializer=1.0, use_resource=True)
    y = tf.cond(p, lambda: tf.exp(x, name="e"), lambda: tf.multiply(x, v, name="m"), name="branch")
    z = tf.sin(y, name="z")
    with tf1.Session(config=plain_config()) as session:
        session.run(v.initializer)
        recorder = start(trace="full")
        session.run(z, {p: True, x: 1.0})
        session.run(v.assign(2.0))
        session.run(z, {p: True, x: 1.0})
        session.run(z, {p: False, x: 1.0})
        done = Recorded(recorder)
    assert done.status("z") == ["computed", None, "recomputed", "computed"]
    assert done.status("branch/else/m") == ["untaken", None, "untaken", "computed"]
    assert done.status("branch/then/e") == ["computed", None, "recomputed", "untaken"]


def test_two_sessions_have_variables_of_their_own(graph, start):
    v = tf1.get_variable("v", initializer=1.0, use_resource=True)
    x = tf1.placeholder(tf.float32, [], "x")
    y, pure = tf.multiply(v, x, name="y"), tf.exp(x, name="pure")
    recorder = start()
    for value in (1.0, 2.0):
        with tf1.Session(config=plain_config()) as session:
            session.run(v.initializer)
            session.run(v.assign(value))
            session.run([y, pure], {x: 1.0})
    done = Recorded(recorder)
    assert [status for status in done.status("y") if status] == ["computed", "computed"]
    assert done.op(5, "y").causes[0].kind == "new_session"
    assert [status for status in done.status("pure") if status] == ["computed", "recomputed"]


def test_a_handle_passed_on_is_the_same_variable(graph, start):
    v = tf1.get_variable("v", initializer=2.0, use_resource=True)
    handle = tf.identity(v.handle, name="handle")
    y = tf.multiply(tf.raw_ops.ReadVariableOp(resource=handle, dtype=tf.float32), 3.0, name="y")
    with tf1.Session(config=plain_config()) as session:
        session.run(v.initializer)
        recorder = start()
        values = [session.run(y), session.run(y), session.run(v.assign(5.0)), session.run(y)]
        done = Recorded(recorder)
    assert values == [6.0, 6.0, 5.0, 15.0]
    assert done.status("y") == ["computed", "recomputed", None, "computed"]
    assert done.causes(3, "y") == [("variable", "v")]


def test_a_variable_read_in_a_branch_of_control_flow_version_1(graph, start):
    tf1.disable_control_flow_v2()
    try:
        p, x = tf1.placeholder(tf.bool, [], "p"), tf1.placeholder(tf.float32, [], "x")
        v = tf1.get_variable("v", initializer=2.0, use_resource=True)
        y = tf.sin(tf.cond(p, lambda: v * 2.0, lambda: x), name="y")
    finally:
        tf1.enable_control_flow_v2()
    with tf1.Session(config=plain_config()) as session:
        session.run(v.initializer)
        recorder = start(trace="full")
        feeds = {p: True, x: 1.0}
        values = [session.run(y, feeds), session.run(y, feeds), session.run(v.assign(5.0)), session.run(y, feeds)]
        done = Recorded(recorder)
    assert values[0] == values[1] != values[3]
    assert done.status("y") == ["computed", "recomputed", None, "computed"]
    assert done.causes(3, "y") == [("variable", "v")]
