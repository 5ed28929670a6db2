"""Eight threads on one session, 2,000 calls: no call is lost, no result changed, and every verdict holds by value."""

from __future__ import annotations

import threading

import numpy as np
import tensorflow as tf
from tensorflow.core.protobuf import config_pb2
from tensorflow.python.client import pywrap_tf_session as runtime
from tensorflow.python.client import session as session_module

from cachelab.tf import hooks
from cachelab.tf.recorder import Recorder

v1 = tf.compat.v1
THREADS, EACH = 8, 250


class Graph:
    """A read of a variable, work on a feed, work on both, and writes that leave a value never held before."""

    def __init__(self) -> None:
        self.graph = tf.Graph()
        with self.graph.as_default():
            self.x = v1.placeholder(tf.float32, [2], name="x")
            self.quiet = v1.get_variable("quiet", initializer=[3.0, 4.0], use_resource=True)
            self.busy = v1.get_variable("busy", initializer=[0.0, 0.0], use_resource=True)
            self.h = tf.tanh(self.x, name="h")
            self.still = tf.multiply(self.h, self.quiet.read_value(), name="still")
            self.seen = self.busy.read_value()
            self.moving = tf.add(self.h, self.seen, name="moving")
            self.bump = self.busy.assign_add([1.0, 0.5], read_value=False, name="bump")
            with tf.control_dependencies([self.bump]):
                self.after = tf.multiply(self.busy.read_value(), 2.0, name="after")
            self.init = v1.global_variables_initializer()
        self.watched = [tensor.name for tensor in (self.h, self.still, self.seen, self.moving, self.after)]


class Truth:
    """Lies between the recorder and TensorFlow: fetches along, in the same run, all watched values that it computes."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._lock = threading.Lock()
        self._closure: dict[tuple[str, ...], list[str]] = {}
        self.local = threading.local()
        self.calls = 0

    def run(self, session, original, arguments):
        options, feeds, fetches, targets, metadata = arguments
        names = tuple(f"{runtime.TF_OperationName(f.oper)}:{f.index}" for f in fetches)
        wanted = [name for name in self._graph.watched if name in self._needed(names)]
        graph = session.graph
        outputs = [graph.get_tensor_by_name(name)._as_tf_output() for name in wanted]
        found = original(session, options, feeds, [*fetches, *outputs], targets, metadata)
        self.local.values = {
            name: np.asarray(v).tobytes() for name, v in zip(wanted, found[len(fetches) :], strict=True)
        }
        with self._lock:
            self.calls += 1
        return found[: len(fetches)]

    def _needed(self, names: tuple[str, ...]) -> list[str]:
        known = self._closure.get(names)
        if known is None:
            pending = [self._graph.graph.get_tensor_by_name(name).op for name in names]
            found: set[str] = set()
            while pending:
                operation = pending.pop()
                if operation.name + ":0" not in found:
                    found.add(operation.name + ":0")
                    pending += [t.op for t in operation.inputs] + list(operation.control_inputs)
            known = self._closure[names] = sorted(found)
        return known


def test_eight_threads_on_one_session(monkeypatch):
    graph = Graph()
    truth = Truth(graph)
    original = session_module.BaseSession._call_tf_sessionrun
    monkeypatch.setattr(
        session_module.BaseSession, "_call_tf_sessionrun", lambda self, *rest: truth.run(self, original, rest)
    )
    beneath = session_module.BaseSession._call_tf_sessionrun
    config = config_pb2.ConfigProto(inter_op_parallelism_threads=2)
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    config.graph_options.optimizer_options.opt_level = -1
    feeds = [np.array([i / 3, -i / 7], "f") for i in range(3)]
    told: list[dict[int, tuple[dict[str, bytes], list[bytes]]]] = [{} for _ in range(THREADS)]
    wrong: list[str] = []
    start = threading.Barrier(THREADS)
    patterns = (graph.h, graph.still, graph.moving, graph.still, graph.moving, graph.seen, graph.after)

    def work(number: int, session: v1.Session) -> None:
        rng = np.random.default_rng(number)
        start.wait()
        for turn in range(EACH):
            # Writes come in one stretch in the middle, so that there is quiet before and after them.
            may_write = EACH // 3 < turn < EACH // 2
            fetch = patterns[rng.integers(len(patterns) if may_write else len(patterns) - 1)]
            feed = feeds[rng.integers(3)]
            value = session.run(fetch, {graph.x: feed})
            told[number][turn] = (truth.local.values, [np.asarray(value).tobytes()])
            if truth.local.values[fetch.name] != np.asarray(value).tobytes():
                wrong.append(f"thread {number}, turn {turn}: {fetch.name} is not what was computed")
            if fetch is graph.h and not np.allclose(value, np.tanh(feed), atol=1e-6):
                wrong.append(f"thread {number}, turn {turn}: h is not tanh(x)")

    recorder = Recorder(trace="auto")
    with v1.Session(graph=graph.graph, config=config) as session:
        session.run(graph.init)
        recorder.start()
        threads = [threading.Thread(target=work, args=(number, session)) for number in range(THREADS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        recorder.stop()
    assert not wrong
    assert not recorder.faults
    assert session_module.BaseSession._call_tf_sessionrun is beneath  # the recorder's hooks are gone
    assert not hooks.installed()

    record = recorder.record()
    assert record.call_count == THREADS * EACH == truth.calls - 1
    # The calls of one thread are recorded in the order in which it made them.
    events = [record.entry(index) for index in range(record.call_count)]
    members: dict[int, list[int]] = {}
    for index, entry in enumerate(events):
        members.setdefault(entry.thread, []).append(index)
    assert sorted(map(len, members.values())) == [EACH] * THREADS
    values: dict[int, dict[str, bytes]] = {}
    for number, indices in enumerate(_by_thread(members, threads)):
        for turn, index in enumerate(indices):
            values[index] = told[number][turn][0]
    checked = redundant_reads = 0
    for index in range(record.call_count):
        for op in record.executions(index):
            if op.status != "recomputed":
                continue
            assert op.witness is not None
            assert op.witness < index
            name = f"{op.name}:0"
            assert op.type != "AssignAddVariableOp"
            if name not in values[index]:
                continue
            checked += 1
            redundant_reads += name in {graph.seen.name, graph.moving.name}
            assert name in values[op.witness], f"{name} did not run in call {op.witness}"
            assert values[index][name] == values[op.witness][name], f"{name} of call {index} against {op.witness}"
    assert checked > THREADS * EACH / 2  # what depends on feeds alone is redundant nearly always
    assert redundant_reads > 50  # before and after the writes the variable stands still
    assert any(
        op.causes and op.causes[0].kind == "overlap" for i in range(record.call_count) for op in record.executions(i)
    )


def _by_thread(members: dict[int, list[int]], threads: list[threading.Thread]) -> list[list[int]]:
    """Return the calls of each thread, in the order of ``threads``."""
    return [members[thread.ident] for thread in threads]
