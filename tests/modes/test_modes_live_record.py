"""Records of calls made through live sessions: ``reused`` where a kept value stood in, never where it ran."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from modes_programs import head_training, two_fetches
from modes_tools import freeze

from cachelab.modes import live, replay
from cachelab.modes.live import Session
from cachelab.modes.live_cells import activate
from cachelab.modes.place import off
from cachelab.tf.recorder import Recorder

tf1 = tf.compat.v1
FEEDING = ("memo", "feed", "handle")


@pytest.fixture(autouse=True)
def _everything_is_worth_keeping(monkeypatch):
    monkeypatch.setattr(live, "WORTH_SECONDS", 0.0)
    monkeypatch.setattr(live, "WORTH_SECONDS_A_BYTE", 0.0)


def counted():
    """A graph whose expensive op counts its executions by a variable that a control edge ties to it."""
    graph = tf.Graph()
    with graph.as_default():
        x = tf1.placeholder(tf.float32, [3], "x")
        z = tf1.placeholder(tf.float32, [], "z")
        h = tf.tanh(tf.exp(x, name="e"), name="h")
        tf.multiply(h, z, name="out")
    return graph


def recorded(graph, mode, calls, trace="full"):
    """Return the record of calls in a live session, the names of the nodes that ran in each, and its material."""
    recorder = Recorder(trace=trace, name="live")
    recorder.start()
    try:
        with Session(graph=graph, mode=mode) as session:
            results = [session.run(*call) for call in calls]
    finally:
        recorder.stop()
    assert not recorder.faults
    return recorder, results


def statuses(record, call):
    return {op.name: op.status for op in record.executions(call)}


CALLS = [("out:0", {"x:0": np.ones(3, "f"), "z:0": float(k)}) for k in range(5)]


@pytest.mark.parametrize("trace", ["full", "light"])
@pytest.mark.parametrize("mode", FEEDING)
def test_served_tensor_is_reused_and_what_lies_behind_it_is_absent(mode, trace):
    recorder, results = recorded(counted(), mode, CALLS, trace)
    assert [float(r[0]) for r in results] == pytest.approx([k * float(np.tanh(np.e)) for k in range(5)])
    record = recorder.record()
    assert record.call_count == len(CALLS)
    first, last = statuses(record, 0), statuses(record, 4)
    assert first["h"] == "computed"
    assert last["h"] == "reused"
    assert last["out"] == "computed"
    assert "e" not in last  # it did not run, and the call did not need it
    assert not {"value_through_python", "unneeded_feed", "contradiction"} & {f.kind for f in record.findings}
    entry = record.entry(4)
    assert entry.fetches[0] == "out:0"


def test_status_says_what_the_runtime_traced():
    """A user's own trace of the same calls is the proof."""
    graph = counted()
    recorder = Recorder(trace="full")
    recorder.start()
    ran = []
    with Session(graph=graph, config=off(tf1.ConfigProto())) as session:  # so that nodes have their ops' names
        for call in CALLS:
            metadata = tf1.RunMetadata()
            session.run(*call, tf1.RunOptions(trace_level=tf1.RunOptions.FULL_TRACE), metadata)
            ran.append({node.node_name for device in metadata.step_stats.dev_stats for node in device.node_stats})
    recorder.stop()
    record = recorder.record()
    reused = 0
    for index, nodes in enumerate(ran):
        for name, status in statuses(record, index).items():
            reused += status == "reused"
            assert not (status == "reused" and name in nodes), (index, name)
            assert (status in {"computed", "recomputed"}) == (name in nodes), (index, name, status)
    assert reused >= 2


@pytest.mark.parametrize("mode", ["memo", "feed", "handle", "variable"])
def test_call_served_whole_is_in_the_record(mode):
    call = ("h:0", {"x:0": np.ones(3, "f")})
    recorder, results = recorded(counted(), mode, [call] * 5)
    record = recorder.record()
    assert record.call_count == 5
    assert statuses(record, 4) == {"h": "reused"}
    assert record.entry(4).fetches == ("h:0",)
    assert record.entry(4).line == record.entry(0).line
    assert all(np.array_equal(result, results[0]) for result in results)
    assert record.summary()["reused"] >= 1
    if mode != "variable":  # whose copies are ops of the user's graph by then
        found = replay(freeze(recorder), "run", repeats=1)
        assert found.equality == "reproduced", found.reason


def test_the_record_has_the_feeds_of_the_user():
    """Feeds that a served value makes unnecessary may be replaced by stand-ins, but not where somebody looks."""
    graph = tf.Graph()
    with graph.as_default():
        x, z = tf1.placeholder(tf.float32, [200, 200], "x"), tf1.placeholder(tf.float32, [], "z")
        tf.multiply(tf.tanh(x, name="h"), z, name="out")
    batch = np.ones((200, 200), "f")
    recorder, results = recorded(graph, "memo", [("out:0", {"x:0": batch, "z:0": float(k)}) for k in range(6)])
    assert "reused" in statuses(recorder.record(), 5).values()
    material = recorder.material
    assert all(np.array_equal(material.values.get(call.feeds["x:0"]), batch) for call in material.calls)
    assert [float(out[0, 0]) for out in results] == pytest.approx([k * float(np.tanh(1)) for k in range(6)])


def test_fetches_served_and_computed_in_one_call():
    calls = [(["h:0", "out:0"], {"x:0": np.ones(3, "f"), "z:0": float(k)}) for k in range(5)]
    recorder, results = recorded(counted(), "memo", calls)
    record = recorder.record()
    assert record.entry(4).fetches == ("h:0", "out:0")
    assert statuses(record, 4)["h"] == "reused"
    assert statuses(record, 4)["out"] == "computed"
    material = recorder.material
    for index, (h, out) in enumerate(results):
        digests = dict(zip(material.calls[index].fetches, material.calls[index].results, strict=True))
        assert np.array_equal(material.values.get(digests["h:0"]), h)
        assert np.array_equal(material.values.get(digests["out:0"]), out)


def test_what_ran_after_a_write_is_not_reused():
    program = head_training(train_all=True)
    recorder = Recorder(trace="full")
    recorder.start()
    with Session(graph=program.graph) as session:
        session.run(program.init)
        for call in program.calls:
            session.run(*call)
    recorder.stop()
    record = recorder.record()
    assert not any("reused" in statuses(record, index).values() for index in range(record.call_count))


def test_recorder_of_a_cell_sees_adopted_sessions():
    program = two_fetches()
    recorder = Recorder(trace="full")
    recorder.start()
    activation = activate("memo")
    try:
        with program.session() as session:
            for call in program.calls * 3:
                session.run(*call)
    finally:
        activation.close()
        recorder.stop()
    record = recorder.record()
    assert record.call_count == 1 + 9
    assert activation.skipped
    last = [statuses(record, index) for index in range(7, 10)]
    assert all("reused" in found.values() for found in last)
    assert not any("enc/MatMul" in found and found["enc/MatMul"] == "recomputed" for found in last)
