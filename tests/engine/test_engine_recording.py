"""Recording changes nothing of the user's, and says what it could not see."""

from __future__ import annotations

import collections
import threading

import numpy as np
import pytest
import tensorflow as tf
from engine_tools import Recorded, plain_config
from tensorflow.python.client import session as session_module

from cachelab.errors import OptionError
from cachelab.tf import hooks
from cachelab.tf.recorder import Recorder

tf1 = tf.compat.v1


def methods():
    base = session_module.BaseSession
    names = ("_call_tf_sessionrun", "_call_tf_sessionprun", "partial_run_setup", "__init__", "close")
    return [getattr(base, name) for name in names] + [
        base._Callable.__call__,
        base._Callable.__init__,
        session_module.tf_session.TF_SessionPRunSetup_wrapper,
    ]


def test_hooks_exist_only_while_a_recording_is_open_and_nest(graph, start):
    before = methods()
    outer = start()
    inner = start()
    assert hooks.installed()
    x = tf1.placeholder(tf.float32, [], "x")
    y = tf.exp(x, name="y")
    with tf1.Session() as session:
        session.run(y, {x: 1.0})
        outer.stop()  # in any order
        session.run(y, {x: 1.0})
        inner.stop()
        assert methods() == before
        session.run(y, {x: 1.0})
    assert (outer.call_count, inner.call_count) == (1, 2)
    assert [op.status for op in inner.record().executions(1) if op.name == "y"] == ["recomputed"]


def test_results_structures_and_errors_pass_through(graph, start):
    Pair = collections.namedtuple("Pair", "a b")  # noqa: PYI024
    x = tf1.placeholder(tf.float32, [2], "x")
    y = tf.add(x, 1.0, name="y")
    sparse = tf.SparseTensor([[0]], tf.reshape(y[0], [1]), [2])
    fetches = {"p": Pair(y, [y.op, "y:0"]), "s": sparse, "n": [None or y]}
    with tf1.Session() as session:
        plain = session.run(fetches, {x: [1, 2]})
        recorder = start()
        seen = session.run(fetches, {x: [1, 2]})
        with pytest.raises(ValueError, match="Cannot feed value of shape") as error:
            session.run(y, {x: [1, 2, 3]})
        assert "cachelab" not in "".join(str(entry.path) for entry in error.traceback[1:])
        assert y.eval({x: [1, 2]}, session=session).tolist() == [2, 3]
        assert y.op.run({x: [1, 2]}, session=session) is None
        done = Recorded(recorder)
    assert type(seen["p"]) is Pair
    assert seen["p"].b[0] is None
    np.testing.assert_equal(seen, plain)
    assert done.record.call_count == 3


def test_nothing_is_added_to_the_graph_and_finalised_graphs_work(graph, start):
    v = tf1.get_variable("v", initializer=1.0, use_resource=True)
    write, read = v.assign_add(1.0), tf.multiply(v, 2.0)
    initializer = v.initializer
    graph.finalize()
    before = graph.as_graph_def().SerializeToString(deterministic=True)
    with tf1.Session() as session:
        recorder = start(trace="full", values=True)
        session.run(initializer)
        assert session.run([write]) == [2.0]
        assert session.run(read) == 4.0
        Recorded(recorder)
        assert session.run(v) == 2.0
    assert graph.as_graph_def().SerializeToString(deterministic=True) == before


def test_the_users_own_options_and_metadata_get_their_data(graph, start):
    x = tf1.placeholder(tf.float32, [], "x")
    y = tf.exp(x, name="y")
    with tf1.Session() as session:
        recorder = start(trace="full")
        wanted, unwanted = tf1.RunMetadata(), tf1.RunMetadata()
        options = tf1.RunOptions(trace_level=tf1.RunOptions.FULL_TRACE)
        session.run(y, {x: 1.0}, options=options, run_metadata=wanted)
        session.run(y, {x: 1.0}, run_metadata=unwanted)
        done = Recorded(recorder)
    assert any(node.node_name == "y" for device in wanted.step_stats.dev_stats for node in device.node_stats)
    assert not unwanted.step_stats.dev_stats
    assert done.status("y") == ["computed", "recomputed"]
    assert [done.op(call, "y").evidence for call in (0, 1)] == ["measured", "measured"]


def test_callables_made_before_and_within_the_recording(graph, start):
    x = tf1.placeholder(tf.float32, [], "x")
    y = tf.exp(x, name="y")
    with tf1.Session(config=plain_config()) as session:
        earlier = session.make_callable(y, [x])
        single = session.make_callable(tf.constant(3.0, name="three"))
        recorder = start()
        assert earlier(1.0) == pytest.approx(np.e)
        assert session.make_callable(y, [x])(1.0) == pytest.approx(np.e)
        assert single() == 3.0
        done = Recorded(recorder)
    assert done.status("y")[:2] == ["computed", "recomputed"]
    assert done.record.call_count == 3


def test_low_level_callables_made_before_the_recording_hide_their_ops(graph, start):
    from tensorflow.core.protobuf import config_pb2

    v = tf1.get_variable("v", initializer=1.0, use_resource=True)
    write = v.assign_add(1.0, read_value=False)
    y = tf.multiply(v, 2.0, name="y")
    options = config_pb2.CallableOptions(target=[write.name])
    with tf1.Session(config=plain_config()) as session:
        session.run(v.initializer)
        earlier = session._make_callable_from_options(options)
        recorder = start()
        assert session.run(y) == 2.0
        earlier()
        assert session.run(y) == 4.0
        later = session._make_callable_from_options(options)
        later()
        assert session.run(y) == 6.0
        done = Recorded(recorder)
    assert done.status("y") == ["computed", None, "computed", None, "computed"]
    assert [finding.call for finding in done.findings("trace_missing")] == [1]


def test_sessions_closed_inside_and_several_graphs(start):
    recorder = start()
    for _ in range(2):
        with tf.Graph().as_default(), tf1.Session() as session:
            v = tf1.get_variable("v", initializer=1.0, use_resource=True)
            session.run(v.initializer)
            session.run(v.assign_add(1.0))
    done = Recorded(recorder)
    assert len(done.record.graphs) == 2
    material = recorder.material
    finals = [place.final["v"].digest for place in material.sessions.values()]
    assert [float(material.values.get(digest)) for digest in finals] == [2.0, 2.0]
    initials = [place.initial["v"].digest for place in material.sessions.values()]
    assert initials == ["uninitialized"] * 2


def test_values_before_the_first_write_are_kept(graph, start):
    v = tf1.get_variable("v", initializer=1.5, use_resource=True)
    r = tf1.get_variable("r", initializer=2.5, use_resource=False)
    with tf1.Session() as session:
        session.run(tf1.global_variables_initializer())
        recorder = start()
        session.run([v.assign_add(1.0), tf1.assign_add(r, 1.0)])
        session.run([v.assign_add(1.0), tf1.assign_add(r, 1.0)])
        Recorded(recorder)
        assert session.run([v, r]) == [3.5, 4.5]
    material = recorder.material
    place = material.sessions[0]
    for name, first, last in (("v", 1.5, 3.5), ("r", 2.5, 4.5)):
        assert float(material.values.get(place.initial[name].digest)) == first
        assert float(material.values.get(place.final[name].digest)) == last


def test_over_the_budget_only_digests_stay(graph, start):
    x = tf1.placeholder(tf.float32, [1000], "x")
    y = tf.exp(x, name="y")
    with tf1.Session() as session:
        recorder = start(memory_budget=100)
        session.run(y, {x: np.zeros(1000)})
        session.run(y, {x: np.zeros(1000)})
        done = Recorded(recorder)
    assert done.status("y") == ["computed", "recomputed"]
    assert done.findings("not_replayable")
    assert recorder.material.values.held <= 100


def test_interrupts_pass_through(graph, start):
    def interrupt(value):
        raise KeyboardInterrupt

    recorder = start()
    with tf1.Session() as session:
        original = session_module.tf_session.TF_SessionRun_wrapper
        session_module.tf_session.TF_SessionRun_wrapper = lambda *_: interrupt(None)
        try:
            with pytest.raises(KeyboardInterrupt):
                session.run(tf.constant(1.0) + 1.0)
        finally:
            session_module.tf_session.TF_SessionRun_wrapper = original
        assert session.run(tf.constant(1.0) + 1.0) == 2.0
    done = Recorded(recorder)
    assert done.record.entry(0).failed
    assert done.record.call_count == 2


def test_a_fault_of_the_recorder_does_not_reach_the_user(graph, start, monkeypatch):
    from cachelab.tf import capture

    recorder = start()
    monkeypatch.setattr(capture, "digest", lambda value: 1 / 0)
    x = tf1.placeholder(tf.float32, [], "x")
    with tf1.Session() as session:
        assert session.run(x + 1.0, {x: 1.0}) == 2.0
    recorder.stop()
    assert [finding.kind for finding in recorder.record().findings] == ["trace_missing"]


def test_lines_of_ops_and_calls(graph, start):
    y = tf.exp(tf1.placeholder_with_default(1.0, [], "x"), name="y")  # built here
    with tf1.Session() as session:
        recorder = start()
        session.run(y)  # called here
        done = Recorded(recorder)
    assert done.op(0, "y").line.text.endswith("# built here")
    assert done.record.line(done.record.entry(0).line).text.endswith("# called here")


def test_ten_thousand_equal_calls_are_stored_once(graph, start):
    x = tf1.placeholder(tf.float32, [], "x")
    y = tf.exp(x, name="y")
    with tf1.Session() as session:
        recorder = start(trace="light")
        run = session.make_callable(y, [x])
        for _ in range(10_000):
            run(1.0)
        done = Recorded(recorder)
    assert done.record.call_count == 10_000
    assert len(done.record.calls) <= 3
    assert len(done.record.columns) <= 3
    assert done.op(9_999, "y").status == "recomputed"
    assert done.op(9_999, "y").witness == 9_998


def test_threads_are_all_recorded(graph, start):
    x = tf1.placeholder(tf.float32, [], "x")
    y = tf.exp(x, name="y")
    recorder = start()
    with tf1.Session() as session:
        together = threading.Barrier(4)  # the number of a thread that ended is given to another

        def work():
            together.wait()
            for _ in range(20):
                session.run(y, {x: 1.0})
            together.wait()

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    done = Recorded(recorder)
    assert done.record.call_count == 80
    assert len({call.thread for call in done.record.calls}) == 4


def test_findings_on_feeds(graph, start):
    x, unused = tf1.placeholder(tf.float32, [3], "x"), tf1.placeholder(tf.float32, [], "unused")
    h = tf.exp(x, name="h")
    y = tf.sin(h, name="y")
    with tf1.Session() as session:
        recorder = start()
        value = session.run(h, {x: [0.1, 0.2, 0.3], unused: 1.0})
        session.run(y, {h: value})
        done = Recorded(recorder)
    assert done.findings("unneeded_feed")[0].ops == ("unused:0",)
    assert done.findings("value_through_python")[0].ops == ("h:0", "h:0")
    assert done.record.entry(0).needs == (("x:0",),)
    assert recorder.material.calls[1].linked == {"h:0": (0, "h:0")}


def test_a_graph_that_grows_between_calls(graph, start):
    x = tf1.placeholder(tf.float32, [], "x")
    with tf1.Session() as session:
        recorder = start()
        session.run(tf.exp(x), {x: 1.0})
        session.run(tf.sin(x, name="late"), {x: 1.0})  # grows here
        done = Recorded(recorder)
    finding = done.findings("graph_grew")[0]
    assert finding.call == 1
    assert finding.ops == ("late",)


@pytest.mark.parametrize("options", [{"trace": "fast"}, {"memory_budget": -1}])
def test_options_that_do_not_exist(options):
    with pytest.raises(OptionError):
        Recorder(**options)


def test_trace_off_and_light(graph, start):
    x = tf1.placeholder(tf.float32, [], "x")
    y = tf.exp(x, name="y")
    with tf1.Session() as session:
        off, light = start(trace="off"), start(trace="light")
        for _ in range(2):
            session.run(y, {x: 1.0})
        off.stop()
        done = Recorded(light)
    assert off.record().call_count == 2
    assert list(off.record().executions(1)) == []
    assert done.status("y") == ["computed", "recomputed"]
    assert done.op(1, "y").evidence == "derived"
