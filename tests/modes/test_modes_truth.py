"""Replays leave the user's world alone, refuse what they can't repeat, and never claim what is not proved."""

from __future__ import annotations

import threading
from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf
from modes_programs import Program, dropout, head_training, two_fetches
from modes_tools import freeze, record
from tensorflow.python.util import deprecation

from cachelab import modes
from cachelab.errors import CacheLabError
from cachelab.material import ValueStore
from cachelab.modes.bench import Bench
from cachelab.modes.equality import same
from cachelab.tf import hooks
from cachelab.tf.recorder import Recorder

tf1 = tf.compat.v1


def test_users_graph_session_and_streams_stay_as_they_are():
    program = dropout()
    recorder = Recorder(trace="full")
    with program.session() as session:
        recorder.start()
        first = session.run(*program.calls[0])
        recorder.stop()
        graph = program.graph
        before = graph.version, graph.as_graph_def().SerializeToString(deterministic=True), dict(graph._collections)
        weights = session.run("W/Read/ReadVariableOp:0")
        for mode in ("run", "feed", "variable", "partial_run"):
            modes.replay(freeze(recorder), mode, repeats=1)
        assert (
            graph.version,
            graph.as_graph_def().SerializeToString(deterministic=True),
            dict(graph._collections),
        ) == before
        assert np.array_equal(session.run("W/Read/ReadVariableOp:0"), weights)
        second = session.run(*program.calls[0])
    with program.session() as session:  # the same stream, undisturbed
        assert [session.run(*program.calls[0]), session.run(*program.calls[0])] == [first, second]
    assert not hooks.installed()


def test_replay_inside_an_open_recording_is_not_recorded():
    program = two_fetches()
    recorder = Recorder(trace="full").start()
    with program.session() as session:
        session.run(*program.calls[0])
        session.run(*program.calls[1])
        count = recorder.call_count
        assert modes.replay(freeze(recorder), "joint", repeats=1).equality == "equal"
        assert recorder.call_count == count
    recorder.stop()


def test_python_code_is_not_repeated_unless_allowed():
    seen = []
    graph = tf.Graph()
    with graph.as_default():
        x = tf1.placeholder(tf.float32, [], "x")
        y = tf1.py_func(lambda v: (seen.append(1), np.float32(v * 2))[1], [x], tf.float32, name="log")
        tf.identity(y, name="y")
        init = tf.no_op()
    recording = record(Program(graph, init, [(["y:0"], {"x:0": 3.0})]))
    before = len(seen)
    refused = modes.replay(recording, "run")
    assert not refused.applicable
    assert refused.reason == "`log` acts outside TensorFlow; set `allow_side_effects=True`."
    assert len(seen) == before
    assert modes.replay(recording, "run", allow_side_effects=True, repeats=1).equality == "reproduced"
    assert len(seen) > before


def test_recording_from_a_file_says_that_it_can_not_be_replayed():
    recording = record(two_fetches())
    loaded = SimpleNamespace(record=recording.record, material=None)
    replay = modes.replay(loaded, "memo")
    assert not replay.applicable
    assert "loaded from a file" in replay.reason
    assert not any(one.applicable for one in modes.compare(loaded))
    assert modes.advise(loaded)


def test_values_over_the_budget_are_told():
    recording = record(two_fetches(), memory_budget=100)
    replay = modes.replay(recording, "run")
    assert not replay.applicable
    assert "budget" in replay.reason or "not kept" in replay.reason


def test_replay_that_does_not_fit_is_told_beforehand(monkeypatch):
    recording = record(two_fetches())
    monkeypatch.setattr("cachelab.modes.memory.available", lambda: 10_000)
    replay = modes.replay(recording, "feed")
    assert not replay.applicable
    assert "10.0 kB are free. Your session is unchanged." in replay.reason


def test_result_known_by_its_digest_only_is_compared_by_it():
    recording = record(two_fetches())
    lost = recording.material.calls[-1].results[-1]
    recording.material.values.arrays.pop(lost)
    assert modes.replay(recording, "run", repeats=1).equality == "reproduced"


def test_iterator_that_began_before_the_recording_is_told():
    graph = tf.Graph()
    with graph.as_default():
        numbers = tf1.data.make_one_shot_iterator(tf.data.Dataset.range(9))
        tf.identity(numbers.get_next(), name="n")
    recorder = Recorder(trace="full")
    with tf1.Session(graph=graph) as session:
        session.run("n:0")
        recorder.start()
        session.run("n:0")
        recorder.stop()
    replay = modes.replay(freeze(recorder), "run")
    assert replay.equality == "differs"
    assert "began before the recording. Record from a new session." in replay.reason
    other = modes.replay(freeze(recorder), "memo")
    assert not other.applicable


def test_variables_of_a_server_are_not_guessed():
    """Others may write them: they were not saved, and the user's server is not asked."""
    server = tf1.train.Server.create_local_server()
    graph = tf.Graph()
    with graph.as_default():
        v = tf1.get_variable("v", initializer=2.0, use_resource=True)
        x = tf1.placeholder(tf.float32, [], "x")
        tf.multiply(v, x, name="out")
        tf.multiply(x, x, name="pure")
    recorder = Recorder(trace="full")
    with tf1.Session(server.target, graph=graph) as session:
        session.run(v.initializer)
        recorder.start()
        session.run("pure:0", {x: 3.0})
        recorder.stop()
        assert modes.replay(freeze(recorder), "run", repeats=1).equality == "reproduced"
        recorder = Recorder(trace="full").start()
        session.run("out:0", {x: 3.0})
        recorder.stop()
        replay = modes.replay(freeze(recorder), "run")
        assert not replay.applicable
        assert "`v` lives on `grpc://" in replay.reason
        assert session.run("out:0", {x: 3.0}) == 6.0


def test_draws_without_a_seed_excuse_run_and_modes_are_still_compared():
    graph = tf.Graph()
    with graph.as_default():
        x = tf1.placeholder(tf.float32, [20, 20], "x")
        h = tf.tanh(tf.matmul(x, x), name="h")
        tf.reduce_sum(h * tf.random.uniform([20, 20], name="noise"), name="out")
        init = tf.no_op()
    data = np.random.RandomState(0).randn(20, 20)
    recording = record(Program(graph, init, [(["out:0"], {"x:0": data})] * 3))
    plain = modes.replay(recording, "run", repeats=1)
    assert plain.equality == "differs"
    assert "has no seed" in plain.reason
    assert "defect" not in plain.reason
    kept = modes.replay(recording, "feed", repeats=1)
    assert kept.equality == "equal"
    assert kept.result.reused == 2


def test_blocked_queue_does_not_hang_and_its_error_is_reproduced():
    graph = tf.Graph()
    with graph.as_default():
        queue = tf1.FIFOQueue(3, tf.float32, shapes=[[]])
        x = tf1.placeholder(tf.float32, [], "x")
        put = queue.enqueue(x, name="put")
        tf.identity(queue.dequeue(), name="got")
    recorder = Recorder(trace="full").start()
    with tf1.Session(graph=graph) as session:
        session.run(put, {x: 7.0})
        session.run("got:0")
        with pytest.raises(tf.errors.DeadlineExceededError):
            session.run("got:0", options=tf1.RunOptions(timeout_in_ms=100))
    recorder.stop()
    replay = modes.replay(freeze(recorder), "run", repeats=1)
    assert replay.equality == "reproduced", replay.reason
    joint = modes.replay(freeze(recorder), "joint", repeats=1)
    assert not joint.applicable
    assert "queue" in joint.reason


def test_a_piece_that_waits_in_vain_is_not_waited_for_much_longer():
    """TensorFlow overlooks that a control edge waits for a feed; the wait was taken for the time that a call takes."""
    graph = tf.Graph()
    with graph.as_default():
        x = tf1.placeholder(tf.float32, [], "x")
        with tf.control_dependencies([x]):
            tf.add(1.0, 1.0, name="late")
        tf.multiply(x, 2.0, name="out")
    recorder = Recorder(trace="full").start()
    config = tf1.ConfigProto(operation_timeout_in_ms=1000)
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    with tf1.Session(graph=graph, config=config) as session:
        session.run("out:0", {x: 1.0})
        handle = session.partial_run_setup(["late:0", "out:0"], [x])
        with pytest.raises(tf.errors.DeadlineExceededError):
            session.partial_run(handle, "late:0")
    recorder.stop()
    bench = Bench(freeze(recorder), repeats=1)
    assert bench.script().place.timeout_ms < 10_000
    replay = bench.replay("run")
    assert replay.equality == "reproduced", replay.reason


def test_users_are_told_of_what_is_deprecated_after_a_replay_in_which_a_piece_failed(monkeypatch):
    graph = tf.Graph()
    with graph.as_default():
        x = tf1.placeholder(tf.float32, [None], "x")
        tf.reshape(x, [2, 2], name="out")
        tf.add(x, 1.0, name="more")
    told = []
    recorder = Recorder(trace="full").start()
    with tf1.Session(graph=graph) as session:
        handle = session.partial_run_setup(["out:0", "more:0"], [x])
        with pytest.raises(tf.errors.InvalidArgumentError):
            session.partial_run(handle, "out:0", {x: np.ones(3)})
    recorder.stop()
    monkeypatch.setattr(deprecation.logging, "warning", lambda text, *arguments: told.append(text % arguments))
    monkeypatch.setattr(deprecation, "_PRINTED_WARNING", {})
    for mode in ("run", "partial_run"):
        modes.replay(freeze(recorder), mode, repeats=1)
    assert told == []
    with tf1.Session(graph=graph) as session:
        session.partial_run_setup(["more:0"], [x])
    assert len(told) == 1
    assert "test_modes_truth.py" in told[0]


def test_error_is_part_of_the_record():
    graph = tf.Graph()
    with graph.as_default():
        x = tf1.placeholder(tf.float32, [None], "x")
        tf.reduce_sum(tf.reshape(x, [2, 2]), name="out")
    recorder = Recorder(trace="full").start()
    with tf1.Session(graph=graph) as session:
        session.run("out:0", {x: np.ones(4)})
        with pytest.raises(tf.errors.InvalidArgumentError):
            session.run("out:0", {x: np.ones(3)})
        session.run("out:0", {x: np.ones(4)})
    recorder.stop()
    replay = modes.replay(freeze(recorder), "memo", repeats=1)
    plain = modes.replay(freeze(recorder), "run", repeats=1)
    assert plain.equality == "reproduced"
    assert plain.fetches[1, ""].kind == "equal"
    assert not replay.applicable or replay.equality == "equal"


def test_feed_that_came_from_a_fetch_follows_the_mode():
    """`joint` draws once; the call that is fed the draw must see the mode's draw, not the recorded one."""
    graph = tf.Graph()
    with graph.as_default():
        tf.random.normal([20], seed=3, name="noise")
        x = tf1.placeholder(tf.float32, [20], "x")
        tf.reduce_sum(x * 2.0, name="out")
    recorder = Recorder(trace="full").start()
    with tf1.Session(graph=graph) as session:
        session.run("noise:0")
        drawn = session.run("noise:0")
        session.run("out:0", {x: drawn})
    recorder.stop()
    recording = freeze(recorder)
    assert recording.material.calls[2].linked
    replay = modes.replay(recording, "joint", repeats=1)
    assert replay.equality == "differs"
    assert replay.fetches[1, "noise:0"].reason.startswith("random op")
    assert replay.fetches[2, "out:0"].kind == "differs"
    assert not any(one.defect for one in replay.fetches.values())


def test_cancel_stops_before_the_next_call():
    recording = record(two_fetches())
    event = threading.Event()
    event.set()
    with pytest.raises(CacheLabError, match="Cancelled before call 0 of 4"):
        modes.replay(recording, "feed", cancel=event)
    steps = []
    modes.replay(recording, "feed", repeats=1, progress=lambda done, total, what: steps.append((done, total, what)))
    assert [done for done, _total, _what in steps] == [0, 1, 2, 3, 4, 5]
    assert {total for _done, total, _what in steps} == {5}


def test_interrupted_replay_leaves_the_session_usable(monkeypatch):
    program = two_fetches()
    recording = record(program)

    def interrupt(*_arguments):
        raise KeyboardInterrupt

    with program.session() as session:
        monkeypatch.setattr("cachelab.modes.feed.Feed.serve", interrupt)
        with pytest.raises(KeyboardInterrupt):
            modes.replay(recording, "feed")
        assert session.run(*program.calls[0])
    assert not hooks._local.__dict__.get("quiet", False)


def test_difference_without_a_reason_is_reported_as_a_defect(monkeypatch):
    recording = record(two_fetches())
    monkeypatch.setattr("cachelab.modes.feed.aligned", lambda value: value + 1)
    replay = modes.replay(recording, "feed", repeats=1)
    assert replay.equality == "differs"
    assert "a defect of CacheLab. Please export and report it." in replay.reason


def race_in_a_call_without_fetches():
    """Fetch a read alone; let it race with a write, in a call that fetches nothing; fetch what that call wrote."""
    graph = tf.Graph()
    with graph.as_default():
        v = tf1.get_variable("v", initializer=1.0, use_resource=True)
        w = tf1.get_variable("w", initializer=0.0, use_resource=True)
        read = tf.identity(v.read_value(), name="seen")
        both = tf.group(w.assign(read + 1.0), v.assign_add(5.0), name="both")
        tf.identity(w.read_value(), name="written")
        init = tf1.global_variables_initializer()
    return Program(graph, init, [(["seen:0"], {}), ([both.name], {}), (["written:0"], {})])


@pytest.mark.parametrize(
    ("call", "reason"), [(3, "follows from call 2: "), (1, "call 1, `seen:0` differs by 93")], ids=["after", "before"]
)
def test_a_race_explains_what_comes_after_it_and_only_that(call, reason):
    recording = record(race_in_a_call_without_fetches())
    material = recording.material
    (digest,) = material.calls[call].results
    material.values.arrays[digest] = np.float32(94.0)  # as if another value had been recorded
    replay = modes.replay(recording, "run", repeats=0)
    assert reason in replay.reason
    assert replay.fetches[call, material.calls[call].fetches[0]].defect == (call == 1)


def test_final_variables_are_compared(monkeypatch):
    recording = record(head_training())
    bench = Bench(recording, repeats=1)
    replay = bench.replay("variable")
    assert replay.variables
    assert {one.kind for one in replay.variables.values()} == {"equal"}
    numbers = iter(np.arange(1000.0))
    monkeypatch.setattr("cachelab.modes.place._read", lambda *_arguments: next(numbers))
    spoilt = bench.replay("variable")
    assert spoilt.equality == "differs"
    assert "the final value of" in spoilt.reason


def test_optimizers_off_is_bitwise():
    replay = modes.replay(record(head_training()), "feed", optimizers=False, repeats=1)
    assert replay.applicable
    assert replay.equality in {"equal", "close"}


@pytest.mark.parametrize(
    ("ours", "theirs", "kind"),
    [
        (np.float32(1.0), np.float32(1.0), "equal"),
        (np.array([np.nan, 1.0]), np.array([np.nan, 1.0]), "equal"),
        (np.float32(1.0), np.float32(1.0 + 1e-6), "close"),
        (np.float32(1.0), np.float32(1.1), "differs"),
        (np.array([1, 2]), np.array([1, 3]), "differs"),
        (np.zeros(3), np.zeros(4), "differs"),
        (np.float32(np.inf), np.float32(3.0), "differs"),
        (np.array([b"a", b"b"], object), np.array([b"a", b"b"], object), "equal"),
        (np.array([b"a"], object), np.array([b"c"], object), "differs"),
        (None, np.float32(0.0), "differs"),
        (np.float32(0.0), np.float32(-0.0), "close"),
    ],
)
def test_values_compare(ours, theirs, kind):
    assert same(ours, theirs).kind == kind


def test_store_without_room_keeps_digests():
    store = ValueStore(budget=0)
    assert not store.put("a", np.ones(3))
    assert store.get("a") is None


def test_examples_whose_sizes_depend_on_values_are_not_stacked():
    graph = tf.Graph()
    with graph.as_default():
        x = tf1.placeholder(tf.float32, [3, 3], "x")
        tf.sparse.to_dense(tf.sparse.from_dense(tf.nn.relu(x)), name="dense")
        init = tf.no_op()
    rows = [np.eye(3, dtype="f"), np.ones((3, 3), "f"), np.zeros((3, 3), "f")]
    found = modes.replay(record(Program(graph, init, [(["dense:0"], {"x:0": row}) for row in rows])), "per_example")
    assert not found.applicable
    assert "gives as many rows as its values say" in found.reason


def test_tensor_fed_with_the_same_value_in_every_example_stays_fed():
    graph = tf.Graph()
    with graph.as_default():
        x = tf1.placeholder(tf.float32, [2], "x")
        h = tf.tanh(x, name="h")
        tf.add(h, x, name="out")
        init = tf.no_op()
    calls = [(["out:0"], {"x:0": np.full(2, k, "f"), "h:0": np.full(2, 5.0, "f")}) for k in range(3)]
    found = modes.replay(record(Program(graph, init, calls, optimizers=False)), "per_example")
    assert found.applicable, found.reason
    assert found.equality in {"equal", "close"}, found.reason
