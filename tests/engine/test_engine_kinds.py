"""Kinds of programs that the cases in shared/cases led to: each test is a fault that the engine once had."""

from __future__ import annotations

import pytest
import tensorflow as tf

from cachelab.tf.recorder import Recorder

tf1 = tf.compat.v1


@pytest.fixture(params=[True, False], ids=["control flow v2", "control flow v1"])
def control_flow(request):
    before = tf1.control_flow_v2_enabled()
    (tf1.enable_control_flow_v2 if request.param else tf1.disable_control_flow_v2)()
    yield
    (tf1.enable_control_flow_v2 if before else tf1.disable_control_flow_v2)()


@pytest.fixture
def graph():
    with tf1.Graph().as_default() as made:
        yield made


def recorded(program, **options):
    """Return the record of ``program(session)`` on the current graph."""
    recorder = Recorder(**options).start()
    try:
        with tf1.Session() as session:
            program(session)
    finally:
        recorder.stop()
    return recorder.record()


def op(record, call, name):
    """Return one op of a call."""
    return next(found for found in record.executions(call) if found.name == name)


def causes(record, call, name):
    """Return kind, source and call of an op's causes."""
    return [(cause.kind, cause.source, cause.call) for cause in op(record, call, name).causes]


def kinds(record):
    """Return the kinds of all findings."""
    return [finding.kind for finding in record.findings]


def variable(name="v", value=1.0, *, resource=True):
    return tf1.get_variable(name, initializer=value, use_resource=resource)


def test_kinds_a_version_seen_elsewhere_in_the_earlier_call_is_still_a_cause(graph):
    v = variable()
    before = tf.multiply(v, 2.0, name="before")
    write = v.assign(before)
    with tf.control_dependencies([write]):
        after = tf.add(v.read_value(), 0.0, name="after")

    def program(session):
        session.run(v.initializer)
        session.run(after)  # reads v before and after its write
        session.run(before)  # the version that `after` saw, but `before` had not

    assert causes(recorded(program), 2, "before") == [("variable", "v", 1)]


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


def test_kinds_a_set_up_that_was_refused_leaves_no_handle_open(graph):
    x = tf1.placeholder(tf.float32, [])
    y = x * 2.0

    def program(session):
        with pytest.raises(tf.errors.InvalidArgumentError):
            session.partial_run_setup([x, y], [x])

    assert "unfinished_handle" not in kinds(recorded(program))


@pytest.mark.parametrize("validate", [False, True])
def test_kinds_only_an_assign_that_may_replace_the_buffer_races_with_whoever_took_it(graph, validate):
    x = tf1.Variable(0.0, use_resource=False, validate_shape=validate, name="x")
    write = tf1.assign(x, 1.0 if validate else [1.0, 2.0], validate_shape=validate)
    with tf.control_dependencies([write]):
        plus = tf.add(x, 2.0, name="plus")

    def program(session):
        for _ in range(2):
            session.run(x.initializer)
            session.run(plus)

    record = recorded(program)
    assert ("race" in kinds(record)) is not validate
    assert [kind for kind, *_ in causes(record, 3, "plus")] == ["variable" if validate else "race"]


def test_kinds_a_deprecation_warning_names_the_line_of_the_users(graph, monkeypatch):
    from tensorflow.python.util import deprecation

    told = []
    monkeypatch.setattr(deprecation.logging, "warning", lambda text, *arguments: told.append(text % arguments))
    monkeypatch.setattr(deprecation, "_PRINTED_WARNING", {})
    x = tf1.placeholder(tf.float32, [])
    y = x * 2.0

    def program(session):
        handle = session.partial_run_setup([y], [x])
        session.partial_run(handle, y, {x: 1.0})

    assert [finding.kind for finding in recorded(program).findings] == []
    assert len(told) == 2
    assert all("test_engine_kinds.py" in text for text in told)
