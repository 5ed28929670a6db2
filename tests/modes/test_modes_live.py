"""The live session: a drop-in that serves only what is still true."""

from __future__ import annotations

import gc
import threading

import numpy as np
import pytest
import tensorflow as tf
from addresses import free_port
from modes_programs import PROGRAMS, head_training, two_fetches

from cachelab.errors import OptionError
from cachelab.modes import live
from cachelab.modes.live import Session
from cachelab.modes.live_digests import Digests, immutable
from cachelab.modes.live_store import Store

tf1 = tf.compat.v1
KEEPING = ("memo", "feed", "handle", "variable")


@pytest.fixture(autouse=True)
def _everything_is_worth_keeping(monkeypatch):
    """Timings on a busy machine must not decide what is kept."""
    monkeypatch.setattr(live, "WORTH_SECONDS", 0.0)
    monkeypatch.setattr(live, "WORTH_SECONDS_A_BYTE", 0.0)


def run_all(session, program, times=2):
    session.run(program.init)
    return [session.run(fetches, feed) for fetches, feed in program.calls * times]


@pytest.mark.parametrize("mode", live.LIVE_MODES)
@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_results_are_those_of_a_plain_session(name, mode):
    program = PROGRAMS[name]()
    program.optimizers = False
    with program.session() as session:
        config = session._config
        plain = run_all(session, program)
    count = len(program.graph.get_operations())
    with Session(graph=program.graph, config=config, mode=mode) as session:
        served = run_all(session, program)
        info = session.cache_info()
    for ours, theirs in zip(served, plain, strict=True):
        for one, other in zip(ours, theirs, strict=True):
            assert np.array_equal(one, other)
    if mode in {"run", "memo", "feed"}:
        assert len(program.graph.get_operations()) == count
        assert info.note == ""
    else:
        assert mode in info.note
    if mode == "run":
        assert info.hits == 0
    if name == "head" and mode != "run":
        assert info.hits >= 7


def executed(session, fetches, feed):
    metadata = tf1.RunMetadata()
    session.run(fetches, feed, tf1.RunOptions(trace_level=tf1.RunOptions.FULL_TRACE), metadata)
    return {node.node_name for device in metadata.step_stats.dev_stats for node in device.node_stats}


def test_served_work_does_not_run():
    program = two_fetches()
    with Session(graph=program.graph) as session:
        session.run(program.init)
        for call in program.calls * 2:
            session.run(*call)
        fetches, feed = program.calls[1]
        assert "enc/MatMul" in executed(session, fetches, {**feed, "x:0": feed["x:0"] + 1})
        assert "enc/MatMul" not in executed(session, fetches, feed)


def test_write_makes_kept_values_stale():
    program = two_fetches()
    with program.graph.as_default():
        value = tf1.placeholder(tf.float32, [30, 50])
        write = tf.raw_ops.AssignVariableOp(resource=program.graph.get_tensor_by_name("W:0"), value=value)
    fetches, feed = ["enc/Tanh:0"], program.calls[0][1]
    for mode in KEEPING:
        with Session(graph=program.graph, mode=mode) as session:
            session.run(program.init)
            before = [session.run(fetches, feed)[0] for _ in range(4)][-1]
            session.run(write, {value: np.zeros((30, 50))})
            after = session.run(fetches, feed)[0]
            assert np.any(before)
            assert not np.any(after), mode
            assert not np.any(session.run(fetches, feed)[0]), mode


def test_saver_restore_is_a_write(tmp_path):
    program = head_training()
    with program.graph.as_default():
        saver = tf1.train.Saver()
    with Session(graph=program.graph) as session:
        session.run(program.init)
        path = saver.save(session, str(tmp_path / "model"))
        first = [session.run("loss:0", program.calls[0][1]) for _ in range(3)]
        for fetches, feed in program.calls:
            session.run(fetches, feed)
        trained = session.run("loss:0", program.calls[0][1])
        saver.restore(session, path)
        assert session.run("loss:0", program.calls[0][1]) == first[0]
        assert trained != first[0]


def test_served_array_can_not_spoil_the_cache():
    program = two_fetches()
    feed = program.calls[0][1]
    for mode in KEEPING:
        with Session(graph=program.graph, mode=mode) as session:
            session.run(program.init)
            results = [session.run("enc/Tanh:0", feed).copy()]
            for _ in range(5):
                served = session.run("enc/Tanh:0", feed)
                results.append(served.copy())
                served[:] = 99.0
            assert all(np.array_equal(one, results[0]) for one in results), mode
            assert session.cache_info().hits >= 2


def test_changed_feed_array_is_noticed():
    """The same array object with other content is another feed."""
    program = two_fetches()
    with Session(graph=program.graph) as session:
        session.run(program.init)
        data = program.calls[0][1]["x:0"].copy()
        for _ in range(3):
            first = session.run("enc/Tanh:0", {"x:0": data})
        data[0, 0] += 1.0
        assert not np.array_equal(session.run("enc/Tanh:0", {"x:0": data}), first)


def test_immutable_array_is_digested_once(monkeypatch):
    calls = []
    digest = live.Digests.of.__globals__["digest"]
    monkeypatch.setitem(live.Digests.of.__globals__, "digest", lambda value: (calls.append(1), digest(value))[1])
    frozen = np.frombuffer(np.arange(4096, dtype="f8").tobytes(), "f8")
    digests = Digests()
    assert digests.of(frozen) == digests.of(frozen) == digest(np.arange(4096, dtype="f8"))
    assert len(calls) == 1
    owner = np.arange(4096, dtype="f8")
    owner.flags.writeable = False  # its owner can undo this
    assert not immutable(owner)
    assert not immutable(owner[:10])
    assert immutable(frozen.reshape(64, 64))


def test_fetch_structures_callables_eval_and_names():
    program = two_fetches()
    graph = program.graph
    feed = {graph.get_tensor_by_name(name): value for name, value in program.calls[0][1].items()}
    with tf1.Session(graph=graph) as session:
        session.run(program.init)
        expected = session.run({"a": "cost:0", "b": ["acc:0", ("enc/Tanh:0", "cost:0")]}, feed)
    with Session(graph=graph) as session:
        session.run(program.init)
        call = session.make_callable(["cost:0", "acc:0"], list(feed))
        for _ in range(4):
            got = session.run({"a": "cost:0", "b": ["acc:0", ("enc/Tanh:0", "cost:0")]}, feed)
            assert got["a"] == expected["a"] == got["b"][1][1]
            assert isinstance(got["b"][1], tuple)
            assert np.array_equal(got["b"][1][0], expected["b"][1][0])
            assert call(*feed.values()) == [expected["a"], expected["b"][0]]
            with session.as_default():
                assert graph.get_tensor_by_name("cost:0").eval(feed) == expected["a"]
        assert session.run(program.init) is None
        reader = session.make_callable(graph.get_tensor_by_name("W/Read/ReadVariableOp:0"))
        assert reader().shape == (30, 50)


def test_sparse_feed_and_fetch():
    graph = tf.Graph()
    with graph.as_default():
        sparse = tf1.sparse_placeholder(tf.float32)
        doubled = sparse * 2.0
    value = tf1.SparseTensorValue(np.array([[0, 1]]), np.array([3.0], "f"), np.array([2, 2]))
    with Session(graph=graph) as session:
        for _ in range(4):
            got = session.run(doubled, {sparse: value})
            assert got.values.tolist() == [6.0]


def test_partial_run_still_works_and_its_writes_are_not_served():
    graph = tf.Graph()
    with graph.as_default():
        v = tf1.get_variable("v", initializer=1.0, use_resource=True)
        x = tf1.placeholder(tf.float32, [], "x")
        read = v * 3.0
        bumped = v.assign_add(x)
        with tf.control_dependencies([bumped]):
            done = tf.constant(1.0) * x
    with Session(graph=graph) as session:
        session.run(v.initializer)
        assert [float(session.run(read)) for _ in range(3)] == [3.0] * 3
        handle = session.partial_run_setup([done], [x])
        assert session.partial_run(handle, done, {x: 2.0}) == 2.0
        assert float(session.run(read)) == 9.0


@pytest.mark.parametrize("mode", ["handle", "variable"])
def test_a_graph_finalized_meanwhile_gets_no_more_ops(mode):
    """Values were kept already when it was finalized; serving them added ops, and that error reached the user."""
    graph = tf.Graph()
    with graph.as_default():
        x = tf1.placeholder(tf.float32, [600], "x")
        h = tf.sort(tf.tanh(x))
        y, z = tf.reduce_sum(h), tf.reduce_max(h)
    feed = {x: np.linspace(-1.0, 1.0, 600, dtype="f")}
    with Session(graph=graph, mode=mode) as session:
        before = [session.run(y, feed) for _ in range(3)]
        graph.finalize()
        assert [session.run(y, feed) for _ in range(3)] == before
        assert session.run(z, feed) == np.tanh(np.float32(1.0))
        assert "finalized" in session.cache_info().note


def test_finalized_graph_feeds_arrays_instead_and_says_so():
    program = two_fetches()
    program.graph.finalize()
    with Session(graph=program.graph, mode="variable") as session:
        run_all(session, program)
        assert "finalized" in session.cache_info().note
        assert session.cache_info().hits


def test_graph_that_grows_goes_on_being_served():
    program = two_fetches()
    with Session(graph=program.graph) as session:
        run_all(session, program)
        with program.graph.as_default():
            extra = program.graph.get_tensor_by_name("enc/Tanh:0") * 2.0
        feed = program.calls[0][1]
        hits = session.cache_info().hits
        expected = session.run("enc/Tanh:0", feed) * 2.0
        assert np.array_equal(session.run(extra, feed), expected)
        assert session.cache_info().hits > hits


def test_clear_cache_and_budget():
    program = two_fetches()
    with Session(graph=program.graph, memory_budget="9KB") as session:
        for shift in range(4):
            feed = {**program.calls[0][1], "x:0": program.calls[0][1]["x:0"] + shift}
            session.run(program.init) if not shift else None
            for _ in range(3):
                session.run(["enc/Tanh:0"], feed)
        info = session.cache_info()
        assert info.bytes <= 9000
        assert info.evictions == 3
        session.clear_cache()
        assert session.cache_info() == live.CacheInfo(0, 0, 0, 0, 0.0, 0, "")
    with pytest.raises(OptionError, match="A size was asked for"):
        Session(graph=program.graph, memory_budget="plenty")
    with pytest.raises(OptionError, match="no live mode `joint`"):
        Session(graph=program.graph, mode="joint")


@pytest.mark.parametrize("mode", KEEPING)
def test_a_session_keeps_and_serves_while_the_profiler_is_on(mode, tmp_path):
    """What measures op times must not need a profiling session, of which a process can have one."""
    program = two_fetches()
    with Session(graph=program.graph, mode=mode) as session:
        session.run(program.init)
        tf.profiler.experimental.start(str(tmp_path))
        try:
            found = [session.run(*call) for call in program.calls * 2]
        finally:
            tf.profiler.experimental.stop(save=False)
        assert session.cache_info().hits
    with program.session() as session:
        for ours, call in zip(found, program.calls * 2, strict=True):
            for one, other in zip(ours, session.run(*call), strict=True):
                np.testing.assert_allclose(one, other, rtol=1e-5)


@pytest.mark.parametrize("mode", KEEPING)
def test_a_session_that_an_error_has_killed_closes(mode):
    """TensorFlow cancels all that a session runs from then on when a part of a handle fails."""
    graph = tf.Graph()
    with graph.as_default():
        x = tf1.placeholder(tf.float32, [3], "x")
        h = tf.tanh(tf.exp(x), name="h")
        with tf.control_dependencies([tf1.assert_less(x, 5.0)]):
            out = tf.identity(h * 2.0, name="out")
    with Session(graph=graph, mode=mode) as session:
        for _time in range(3):
            session.run(h, {x: np.ones(3)})
        handle = session.partial_run_setup([out], [x])
        with pytest.raises(tf.errors.InvalidArgumentError):
            session.partial_run(handle, out, {x: np.full(3, 9.0)})
        with pytest.raises(tf.errors.CancelledError):
            session.run(out, {x: np.ones(3)})
    with pytest.raises(RuntimeError, match="closed"):
        session.run(out, {x: np.ones(3)})


def test_threads_that_read_and_write_see_no_torn_state():
    """One thread sets v to whole numbers; a reader of v*v must always see a square of one of them."""
    graph = tf.Graph()
    with graph.as_default():
        v = tf1.get_variable("v", initializer=np.zeros(100, "f"), use_resource=True)
        x = tf1.placeholder(tf.float32, [100])
        write = v.assign(x)
        square = tf.square(tf.tanh(v * 1.0) * 0.0 + v, name="square")
        total = square + 0.0
    problems = []
    with Session(graph=graph) as session:
        session.run(v.initializer)

        def reader():
            for _ in range(150):
                found = session.run(total)
                if len(set(found.tolist())) != 1 or float(np.sqrt(found[0])) % 1.0:
                    problems.append(found)

        threads = [threading.Thread(target=reader) for _ in range(2)]
        for thread in threads:
            thread.start()
        for number in range(100):
            session.run(write, {x: np.full(100, number % 7)})
        for thread in threads:
            thread.join()
        session.run(write, {x: np.full(100, 5.0)})
        assert session.run(total)[0] == 25.0
    assert not problems


def test_what_was_served_is_told_to_recorders():
    program = two_fetches()
    with Session(graph=program.graph) as session:
        run_all(session, program)
        session.run(*program.calls[1])
        told = live.served()
        assert told.serve == ("cost:0",)
        assert told.skipped
        session.run(program.init)
        assert live.served() is None


def one_server():
    """Return what the first and the second client connect to, and where the variable lives: one server."""
    server = tf1.train.Server.create_local_server()
    return server.target, server.target, "", [server]


def two_servers():
    """The same with a worker, and a parameter server that keeps the variable."""
    cluster = {job: [f"localhost:{free_port()}"] for job in ("ps", "worker")}
    servers = [tf1.train.Server(cluster, job_name=job, task_index=0) for job in cluster]
    return servers[1].target, servers[0].target, "/job:ps/task:0", servers


@pytest.mark.parametrize("start", [one_server, two_servers])
def test_another_client_of_a_server_is_noticed(start):
    """What depends on a variable is not served there, what depends on feeds alone is."""
    target, other_target, place, _servers = start()
    graph = tf.Graph()
    with graph.as_default():
        with tf1.device(place):
            v = tf1.get_variable("v", initializer=np.ones((30, 30), "f"), use_resource=True)
        x = tf1.placeholder(tf.float32, [30, 30], "x")
        pure = tf.tanh(tf.matmul(x, x), name="pure")
        out = tf.reduce_sum(tf.matmul(pure, v))
        write = v.assign(np.zeros((30, 30), "f"))
    data = np.eye(30, dtype="f")
    with Session(target, graph=graph) as session, tf1.Session(other_target, graph=graph) as other:
        session.run(v.initializer)
        before = [session.run(out, {x: data}) for _ in range(4)]
        assert session.cache_info().hits
        other.run(write)
        assert before[-1] == before[0] != 0.0
        assert session.run(out, {x: data}) == 0.0


def test_store_evicts_what_saves_least_a_byte():
    store = Store(budget=100, slots=None)
    store.put("k1", "small_and_dear", 1, 10, 1.0)
    store.put("k1", "large_and_cheap", 2, 80, 1.0)
    store.put("k2", "new", 3, 40, 1.0)
    assert store.tensors("k1") == {"small_and_dear"}
    assert store.tensors("k2") == {"new"}
    assert store.held == 50
    assert not store.put("k3", "too_large", 4, 101, 9.0)
    one = Store(budget=None, slots=1)
    one.put("k1", "t", 1, 10, 1.0)
    one.put("k2", "t", 2, 10, 1.0)
    assert one.tensors("k1") == frozenset()
    assert one.get("k2", "t") == 2


@pytest.mark.filterwarnings("error::pytest.PytestUnraisableExceptionWarning")
def test_handles_may_outlive_their_session():
    """TensorFlow frees handles ten at a time, by a run; after the session closed that is an error in ``__del__``."""
    graph = tf.Graph()
    with graph.as_default():
        x = tf1.placeholder(tf.float32, [3], "x")
        outs = [tf.tanh(x + float(number)) for number in range(12)]
        makers = [tf1.get_session_handle(out) for out in outs]
    with Session(graph=graph, mode="run") as session:
        handles = session.run(makers, {x: np.ones(3)})
    del handles  # an error here is a warning that fails the test
    gc.collect()
