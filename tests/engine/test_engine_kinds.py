"""Kinds of programs that the cases in shared/cases led to: each test is a fault that the engine once had."""

from __future__ import annotations

import pytest
import tensorflow as tf
from engine_kinds import causes, kinds, off, op, recorded, variable

from cachelab.tf.recorder import Recorder

tf1 = tf.compat.v1


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


def test_kinds_users_with_metadata_of_their_own_are_traced_and_find_what_they_asked_for(graph):
    x = tf1.placeholder(tf.float32, [])
    y = tf.exp(x * 2.0, name="y")
    found = []

    def program(session):
        for level, graphs in ((0, False), (3, False), (0, True), (3, True)):
            metadata = tf1.RunMetadata()
            options = tf1.RunOptions(trace_level=level, output_partition_graphs=graphs)
            session.run(y, {x: 1.0}, options=options, run_metadata=metadata)
            found.append((bool(metadata.step_stats.dev_stats), bool(metadata.partition_graphs)))

    record = recorded(program)
    assert found == [(False, False), (True, False), (False, True), (True, True)]
    assert [op(record, call, "y").evidence for call in range(4)] == ["measured"] * 4


def test_kinds_a_monitored_session_is_traced(graph):
    step = tf1.train.get_or_create_global_step()
    v = variable()
    y = tf.multiply(v, 2.0, name="y")
    train = tf.group(v.assign_add(1.0), step.assign_add(1))

    recorder = Recorder().start()
    with tf1.train.MonitoredSession(hooks=[tf1.train.StopAtStepHook(last_step=2)]) as session:
        while not session.should_stop():
            session.run(y)
            session.run(y)
            session.run(train)
    recorder.stop()
    record = recorder.record()
    calls = [k for k in range(record.call_count) if "y:0" in record.entry(k).fetches]
    assert [op(record, call, "y").status for call in calls] == ["computed", "recomputed", "computed", "recomputed"]
    assert {op(record, call, "y").evidence for call in calls} == {"measured"}
    (cause,) = op(record, calls[2], "y").causes
    assert (cause.kind, cause.source, cause.may) == ("variable", "v", False)


def test_kinds_values_are_looked_at_beside_ref_variables_without_a_value(graph):
    v = variable(resource=False)
    y = tf.multiply(v, 2.0, name="y")

    def program(session):
        session.run(v.initializer)  # TensorFlow would abort the process if the empty variable were copied
        session.run(y)
        session.run(y)

    record = recorded(program, values=True)
    assert op(record, 2, "y").status == "recomputed"
    assert "contradiction" not in kinds(record)


def test_kinds_a_tensor_that_is_fed_now_or_was_then_is_named_as_such(graph):
    x = tf1.placeholder(tf.float32, [], "x")
    h = tf.exp(x, name="h")
    y = tf.square(h, name="y")

    def program(session):
        session.run(y, {x: 1.0})
        session.run(y, {h: 5.0})
        session.run(y, {x: 2.0})

    record = recorded(program)
    (fed,) = op(record, 1, "y").causes
    assert (fed.kind, fed.source, fed.text) == ("feed", "h:0", "`h:0` is fed, and did not lead to it in call 0")
    (back,) = op(record, 2, "y").causes
    # Call 0 is the one to compare with, as `x:0` led to it there too.
    assert (back.kind, back.source, back.text) == ("feed", "x:0", "`x:0` was fed other content than in call 0")


def test_kinds_an_op_is_told_apart_from_the_execution_most_like_it(graph):
    """An evaluation after a step differs by the variable, though the step's own read came later and was fed other x."""
    x = tf1.placeholder(tf.float32, [], "x")
    w, shift = variable("w"), variable("shift")
    h = tf.multiply(x, w, name="h")
    step = w.assign_add(h, read_value=False)
    served = tf.multiply(tf.add(h, shift, name="shifted"), 2.0, name="served")
    read = shift.read_value()
    alone = tf.square(read, name="alone")

    def program(session):
        session.run([w.initializer, shift.initializer])
        session.run([served, alone], {x: 1.0})  # 1
        session.run(step, {x: 2.0})  # 2
        session.run([served, alone], {x: 1.0})  # 3
        session.run(alone, {read: 5.0})  # 4
        session.run(shift.assign(3.0))  # 5
        session.run(alone)  # 6

    record = recorded(program, config=off())
    assert causes(record, 2, "h") == [("feed", "x:0", 1)]
    assert op(record, 2, "h").causes[0].text == "`x:0` was fed other content than in call 1"
    assert causes(record, 3, "h") == [("variable", "w", 2)]  # not the feed: call 1 was fed the same
    assert causes(record, 3, "served") == [("variable", "w", 2)]
    assert causes(record, 6, "alone") == [("variable", "shift", 5)]


def test_kinds_each_session_is_compared_with_itself(graph):
    v = variable()
    y = tf.multiply(v, 2.0, name="y")
    add = v.assign_add(1.0, read_value=False)

    def program(session):
        with tf1.Session() as other:
            for one in (session, other):
                one.run(v.initializer)
            for one in (session, other):
                one.run(y)  # 2 and 3
            session.run(add)  # 4
            session.run(y)  # 5
            other.run(y)  # 6

    record = recorded(program)
    assert causes(record, 3, "y") == [("new_session", "v", 2)]
    assert causes(record, 5, "y") == [("variable", "v", 4)]
    assert (op(record, 6, "y").status, op(record, 6, "y").witness) == ("recomputed", 3)


def test_kinds_a_fed_tensor_above_another_counts_only_if_the_optimiser_may_have_used_it(graph):
    x = tf1.placeholder(tf.float32, [], "x")
    h = tf.py_function(tf.exp, [x], tf.float32)
    y = tf.square(h, name="y")
    z = tf.square(x, name="z")

    def program(session):
        session.run(y, {h: 5.0})
        session.run([y, z], {h: 5.0, x: 1.0})
        session.run([y, z], {h: 5.0, x: 2.0})

    record = recorded(program)
    assert [op(record, call, "y").status for call in range(3)] == ["computed", "recomputed", "recomputed"]


def iterated(function):
    """Return the initialiser and the next element of an iterator over a mapped dataset."""
    iterator = tf1.data.make_initializable_iterator(tf.data.Dataset.range(9).map(function))
    return iterator.initializer, tf.identity(iterator.get_next())


def test_kinds_a_variable_that_a_dataset_writes_is_never_known(graph):
    v = variable()
    y = tf.multiply(v, 2.0, name="y")

    def program(session):
        session.run(v.initializer)
        session.run(y)
        first, following = iterated(lambda _: v.assign_add(1.0))
        session.run(first)
        values = []
        for _ in range(2):
            values.append(session.run(y))
            session.run(following)  # writes v, though it takes no variable, and may run ahead
        assert values[0] < values[1]

    record = recorded(program, values=True, config=off())
    assert [op(record, call, "y").status for call in (1, 3, 5)] == ["computed"] * 3
    (cause,) = op(record, 5, "y").causes
    assert (cause.kind, cause.source, cause.may) == ("variable", "v", True)
    assert "dataset" in cause.text
    assert "contradiction" not in kinds(record)


def test_kinds_a_variable_that_a_dataset_only_reads_is_left_alone(graph):
    v = variable()
    y = tf.multiply(v, 2.0, name="y")
    first, following = iterated(lambda i: tf.cast(i, tf.float32) * v)

    def program(session):
        session.run(v.initializer)
        session.run(y)
        session.run(first)
        session.run(following)
        session.run(y)

    record = recorded(program)
    assert op(record, 4, "y").status == "recomputed"
    mapped = [found for found in record.executions(2) if found.type.startswith("MapDataset")]
    assert [(found.status, causes(record, 2, found.name)) for found in mapped] == [("computed", [("first", "", None)])]
