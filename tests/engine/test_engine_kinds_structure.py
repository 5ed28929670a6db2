"""The same for branches, loops and functions: each test is a fault that the engine once had."""

from __future__ import annotations

import pytest
import tensorflow as tf
from engine_kinds import causes, kinds, off, op, recorded, variable

tf1 = tf.compat.v1


def test_kinds_branches_that_exclude_each_other_do_not_race(graph, control_flow):
    v, x, flag = variable(), tf1.placeholder(tf.float32, []), tf1.placeholder(tf.bool, [])
    out = tf.cond(flag, lambda: tf.identity(v.assign(x)), lambda: v.read_value() * 2.0)

    def program(session):
        session.run(v.initializer)
        for number, way in enumerate((True, False, False)):
            session.run(out, {flag: way, x: float(number)})

    record = recorded(program)
    assert "race" not in kinds(record)
    doubled = [found for found in record.executions(3) if found.type == "Mul"]
    assert [found.status for found in doubled] == ["recomputed"]  # the write of the other branch changed nothing


def test_kinds_a_branch_and_an_outer_write_do_race(graph, control_flow):
    v, flag = variable(), tf1.placeholder(tf.bool, [])
    out = tf.cond(flag, lambda: v.read_value() * 2.0, lambda: tf.constant(0.0))
    write = v.assign_add(1.0)

    def program(session):
        session.run(v.initializer)
        session.run([out, write], {flag: True})

    assert "race" in kinds(recorded(program))


@pytest.mark.parametrize("taken", [True, False])
def test_kinds_a_read_races_with_the_write_of_whichever_branch_was_taken(graph, control_flow, taken):
    v, flag = variable(), tf1.placeholder(tf.bool, [])
    read = tf.identity(v.read_value(), name="seen")

    def adding(amount):
        def branch():
            with tf.control_dependencies([v.assign_add(amount)]):
                return tf.constant(amount)

        return branch

    out = tf.cond(flag, adding(1.0), adding(2.0))

    def program(session):
        session.run(v.initializer)
        session.run([read, out], {flag: taken})

    (race,) = [found for found in recorded(program).findings if found.kind == "race"]
    assert "ReadVariableOp" in race.ops[0]


@pytest.mark.parametrize("taken", [True, False])
def test_kinds_a_loop_that_may_write_and_an_outer_write_do_race(graph, control_flow, taken):
    v, flag = variable(), tf1.placeholder(tf.bool, [])

    def body(i, total):
        return i + 1, total + tf.cond(flag, lambda: v.assign_add(1.0) + 0.0, lambda: v.read_value() * 2.0)

    out = tf.while_loop(lambda i, _: i < 2, body, (0, 0.0))[1]
    count = tf.while_loop(lambda i, _: i < 2, lambda i, k: (i + 1, k * 2), (0, 1))[1]
    late = v.assign_add(tf.cast(count, tf.float32))

    def program(session):
        session.run(v.initializer)
        session.run([out, late], {flag: taken})
        session.run([late, out], {flag: taken})

    races = [found.ops for found in recorded(program).findings if found.kind == "race"]
    assert any(not all(name.startswith("while/") for name in ops) for ops in races)


def test_kinds_branches_in_a_loop_may_both_run_in_one_call(graph, control_flow):
    v, n = variable(), tf1.placeholder(tf.int32, [])

    def body(i, total):
        return i + 1, total + tf.cond(i % 2 > 0, lambda: v.read_value() * 2.0, lambda: tf.identity(v.assign_add(1.0)))

    out = tf.while_loop(lambda i, _: i < n, body, (0, 0.0))[1]

    def program(session):
        session.run(v.initializer)
        for _ in range(2):
            session.run(out, {n: 4})

    record = recorded(program)
    doubled = [found for found in record.executions(2) if found.type == "Mul" and found.executed]
    assert [found.status for found in doubled] == ["computed"]


def test_kinds_ops_of_nested_functions_keep_apart(graph):
    v, x = variable(), tf1.placeholder(tf.float32, [], "x")

    @tf.function
    def inner(t):
        return tf.tanh(t) * v

    @tf.function
    def outer(t):
        return inner(t) + inner(t * 2.0)

    y = tf.identity(outer(x), name="y")

    def program(session):
        session.run(v.initializer)
        session.run(y, {x: 1.0})
        session.run(v.assign(3.0))
        session.run(y, {x: 1.0})

    record = recorded(program, config=off())
    first = {found.name: (found.status, found.count) for found in record.executions(1) if not found.bookkeeping}
    hub = "StatefulPartitionedCall"
    inside = (f"{hub}/Tanh", f"{hub}_1/Tanh", f"{hub}/mul", f"{hub}_1/mul", "mul", "add")
    body = [f"{hub}/{name}" for name in inside]
    assert {name: first[name] for name in body} == dict.fromkeys(body, ("computed", 1))
    assert op(record, 3, f"{hub}/{hub}/Tanh").status == op(record, 3, f"{hub}/{hub}_1/Tanh").status == "recomputed"
    assert causes(record, 3, f"{hub}/{hub}/mul") == [("variable", "v", 2)]
    assert op(record, 3, "y").status == "computed"


def test_kinds_a_branch_is_untaken_though_the_other_only_passes_a_value_on(graph, control_flow):
    x, flag = tf1.placeholder(tf.float32, [], "x"), tf1.placeholder(tf.bool, [])
    out = tf.cond(flag, lambda: tf.exp(x), lambda: x)

    def program(session):
        session.run(out, {flag: False, x: 1.0})

    (exp,) = [found for found in recorded(program).executions(0) if found.type == "Exp"]
    assert (exp.status, exp.evidence) == ("untaken", "measured")


def test_kinds_a_conditional_has_an_effect_only_where_the_taken_branch_has(graph):
    v, flag = variable(), tf1.placeholder(tf.bool, [])
    out = tf.cond(flag, lambda: tf.identity(v.assign_add(1.0)), lambda: tf.constant(2.0))

    def program(session):
        session.run(v.initializer)
        for way in (False, False, True):
            session.run(out, {flag: way})

    record = recorded(program)
    statuses = [[found.status for found in record.executions(k) if found.type == "If"] for k in (1, 2, 3)]
    assert statuses == [["computed"], ["recomputed"], ["computed"]]
    (hub,) = [found for found in record.executions(3) if found.type == "If"]
    assert [cause.kind for cause in hub.causes] == ["effect"]


def test_kinds_what_does_not_change_in_a_loop_is_equal_whatever_the_trip_count(graph, control_flow):
    x, n = tf1.placeholder(tf.float32, [], "x"), tf1.placeholder(tf.int32, [])
    out = tf.while_loop(lambda i, _: i < n, lambda i, total: (i + 1, total + tf.exp(x)), (0, 0.0))[1]

    def program(session):
        session.run(out, {x: 1.0, n: 3})
        session.run(out, {x: 1.0, n: 2})

    record = recorded(program, values=True, config=off())
    assert "contradiction" not in kinds(record)
    again = [found.status for found in record.executions(1) if found.type in {"Exp", "Enter"}]
    assert "recomputed" in again  # version 1 orders the op after the loop's pivot, but its constants come in once


def test_kinds_an_op_of_a_loop_that_its_function_renamed_is_counted_by_trip(graph):
    n = tf1.placeholder(tf.int32, [])
    out = tf.while_loop(lambda i, _: i < n, lambda i, total: (i + 1, total * 2.0), (0, 1.0))[1]

    def program(session):
        session.run(out, {n: 3})

    counts = {found.name: found.count for found in recorded(program).executions(0) if not found.bookkeeping}
    assert counts["while/body/mul"] == 3
    assert counts["while/cond/Less"] == 4


@pytest.mark.parametrize("second", [True, False])
def test_kinds_a_read_on_a_branch_that_no_call_took_races_with_nothing(graph, control_flow, second):
    """Moving averages of a batch norm are read in one branch, and updated in steps that take the other."""
    training = tf1.placeholder(tf.bool, [], "training")
    mean = variable("mean")
    update = tf1.assign_add(mean, 1.0)
    used = tf.identity(tf.cond(training, lambda: tf.constant(5.0), mean.read_value), name="used")

    def program(session):
        session.run(mean.initializer)
        session.run([used, update], {training: True})
        session.run([used, update], {training: second})

    assert ("race" in kinds(recorded(program))) is not second


def test_kinds_a_control_edge_inside_a_branch_carries_no_value(graph, control_flow):
    """It says that the branch is taken, so the predicate counts; what the op before it was given does not."""
    flag, x, z = (
        tf1.placeholder(kind, [], name) for kind, name in ((tf.bool, "flag"), (tf.float32, "x"), (tf.float32, "z"))
    )

    def branch():
        with tf.control_dependencies([tf.exp(z)]):
            return tf.multiply(x, 2.0)

    out = tf.identity(tf.cond(flag, branch, lambda: x), name="out")

    def program(session):
        for way, other in ((True, 1.0), (True, 2.0), (False, 2.0), (True, 3.0)):
            session.run(out, {flag: way, x: 1.0, z: other})

    record = recorded(program, config=off())
    assert [op(record, call, "out").status for call in range(4)] == ["computed", "recomputed", "computed", "recomputed"]
    assert op(record, 3, "out").witness == 1
    assert causes(record, 2, "out") == [("feed", "flag:0", 1)]


def test_kinds_a_loop_that_writes_one_variable_and_sums_another_is_redundant(graph, control_flow):
    n, count, step = tf1.placeholder(tf.int32, [], "n"), variable("count"), variable("step")

    def body(i, total):
        with tf.control_dependencies([count.assign_add(1.0)]):
            return i + 1, total + step

    total = tf.identity(tf.while_loop(lambda i, _: i < n, body, (0, 0.0))[1], name="total")
    counted = tf.identity(count.read_value(), name="counted")

    def program(session):
        session.run([count.initializer, step.initializer])
        for trips in (2, 2, 3):
            session.run(total, {n: trips})
            session.run(counted)

    record = recorded(program, config=off())
    assert [op(record, call, "total").status for call in (1, 3, 5)] == ["computed", "recomputed", "computed"]
    assert [op(record, call, "counted").status for call in (2, 4, 6)] == ["computed"] * 3


def test_kinds_what_the_other_branch_hands_on_is_not_seen(graph, control_flow):
    """Moving averages of scripts with ref variables: the branch that trains hands on the batch's mean."""
    flag, x = tf1.placeholder(tf.bool, [], "flag"), tf1.placeholder(tf.float32, [], "x")
    mean = variable("mean", resource=tf1.control_flow_v2_enabled())
    batch = tf.multiply(x, 2.0, name="batch")

    def update():
        with tf.control_dependencies([tf1.assign(mean, mean * 0.5 + batch)]):
            return tf.identity(batch)

    out = tf.identity(tf.cond(flag, update, lambda: tf.identity(mean)) + 1.0, name="out")

    def program(session):
        session.run(mean.initializer)
        for way in (False, True, False, True):
            session.run(out, {flag: way, x: 3.0})

    record = recorded(program)
    assert [op(record, call, "out").status for call in range(1, 5)] == [
        "computed",
        "computed",
        "computed",
        "recomputed",
    ]
    assert op(record, 4, "out").witness == 2
    assert causes(record, 3, "out") == [("variable", "mean", 2)]  # told apart from call 1, which took the same branch
    assert "race" not in kinds(record)


def test_kinds_writes_of_a_loop_that_follow_each_other_in_turn(graph, control_flow):
    v, n = variable(resource=tf1.control_flow_v2_enabled()), tf1.placeholder(tf.int32, [], "n")

    def body(i):
        with (
            tf.control_dependencies([tf1.assign_add(v, tf.cast(i, tf.float32))]),
            tf.control_dependencies([tf1.assign(v, v * 2.0)]),
        ):
            return i + 1

    done = tf.while_loop(lambda i: i < n, body, [0])
    read = tf.identity(v + 0.0, name="read")

    def program(session):
        session.run(v.initializer)
        session.run(read)
        session.run(done, {n: 3})
        session.run(read)
        session.run(read)

    record = recorded(program, config=off())
    assert [op(record, call, "read").status for call in (1, 3, 4)] == ["computed", "computed", "recomputed"]
    assert [(kind, source) for kind, source, _ in causes(record, 3, "read")] == [("variable", "v")]
