"""Faults that the fuzzer and the threads found, each kept from coming back."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.protobuf import config_pb2
from tensorflow.python.ops import control_flow_util

from cachelab.tf.nodes import parse
from cachelab.tf.recorder import Recorder

v1 = tf.compat.v1


def off() -> v1.ConfigProto:
    """Return a configuration without graph optimisation."""
    config = v1.ConfigProto()
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    config.graph_options.optimizer_options.opt_level = v1.OptimizerOptions.L0
    return config


def statuses(recorder: Recorder, call: int) -> dict[str, str]:
    """Return op name -> status."""
    return {op.name: op.status for op in recorder.record().executions(call)}


def test_recording_while_the_profiler_is_on(tmp_path):
    """A full trace opens a profiling session, and TensorFlow fails a run that can't: after its effects."""
    with tf.Graph().as_default(), v1.Session() as session:
        y = tf.tanh(tf.constant([1.0]), name="y")
        tf.profiler.experimental.start(str(tmp_path))
        try:
            recorder = Recorder(trace="full").start()
            found = session.run(y)
            recorder.stop()
        finally:
            tf.profiler.experimental.stop(save=False)
    np.testing.assert_allclose(found, np.tanh([1.0]), rtol=1e-6)
    assert recorder.record().calls[0].trace == "full"


def test_traced_runs_side_by_side():
    """Two traced runs at the same time used to raise "Another profiling session active" in the user's program."""
    with tf.Graph().as_default(), v1.Session() as session:
        x = v1.placeholder(tf.float32, [200, 200])
        y = tf.reduce_sum(x @ x @ x @ x)
        errors: list[BaseException] = []
        start = threading.Barrier(4)

        def work() -> None:
            start.wait()
            try:
                for _ in range(10):
                    session.run(y, {x: np.ones((200, 200), "f")})
            except tf.errors.OpError as error:
                errors.append(error)

        recorder = Recorder(trace="full").start()
        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        recorder.stop()
    assert not errors
    record = recorder.record()
    assert record.call_count == 40
    assert {call.trace for call in record.calls} == {"full"}


def test_what_takes_the_output_of_a_call_that_is_not_inlined():
    """Without graph optimisation a function call stays whole; its consumer was taken for fused into another op."""
    with tf.Graph().as_default(), v1.Session(config=off()) as session:
        x = v1.placeholder(tf.float32, [2])
        called = tf.function(tf.tanh, autograph=False)(x)
        taken = tf.identity(called, name="Identity")  # the function's body has an op of that name too
        total = tf.reduce_sum(taken, name="total")
        recorder = Recorder(trace="full").start()
        session.run(total, {x: [1.0, 2.0]})
        session.run(total, {x: [1.0, 2.0]})
        recorder.stop()
    assert statuses(recorder, 0)["Identity"] == "computed"
    assert statuses(recorder, 1)["Identity"] == "recomputed"
    assert statuses(recorder, 1)["total"] == "recomputed"


def test_a_callable_from_before_the_recording_that_is_under_way():
    """What a hidden call writes while another reads is not known; the read was taken for redundant."""
    with tf.Graph().as_default(), v1.Session(config=off()) as session:
        variable = v1.get_variable("v", initializer=[1.0], use_resource=True)
        read = variable.read_value()
        inside, go_on = threading.Event(), threading.Event()

        def hold(value: np.ndarray) -> np.ndarray:
            inside.set()
            assert go_on.wait(60)
            return value

        with tf.control_dependencies([variable.assign_add([1.0])]):
            held = tf.numpy_function(hold, [tf.constant([0.0])], tf.float32)
        session.run(v1.global_variables_initializer())
        hidden = session._make_callable_from_options(config_pb2.CallableOptions(fetch=[held.name]))
        recorder = Recorder(trace="full").start()
        before = session.run(read)
        thread = threading.Thread(target=hidden)
        thread.start()
        assert inside.wait(60)
        during = session.run(read)
        go_on.set()
        thread.join()
        recorder.stop()
    assert (before, during) == ([1.0], [2.0])
    record = recorder.record()
    reads = [
        next(op for op in record.executions(index) if op.name == read.op.name)
        for index in range(record.call_count)
        if record.entry(index).kind == "run"
    ]
    assert [op.status for op in reads] == ["computed", "computed"]
    assert reads[1].causes[0].kind == "overlap"


def test_a_light_loop_stays_small():
    """Every call without a trace had an outcome of its own, so columns and time grew with the square of the calls."""
    with tf.Graph().as_default(), v1.Session() as session:
        x = v1.placeholder(tf.float32, [])
        y = tf.cond(x > 0, lambda: tf.tanh(x), lambda: x * 2)
        recorder = Recorder(trace="light").start()
        for _ in range(200):
            session.run(y, {x: 1.0})
        recorder.stop()
    record = recorder.record()
    assert record.call_count == 200
    assert len(record.columns) <= 3
    assert len(record.calls) <= 4


def test_graph_optimisation_that_looks_through_a_fed_tensor():
    """TensorFlow makes one kernel of ``-(x * x)`` that takes ``x`` though the product was fed: ``x`` is a source."""
    config = v1.ConfigProto()
    config.graph_options.rewrite_options.min_graph_nodes = -1
    with tf.Graph().as_default(), v1.Session(config=config) as session:
        x = v1.placeholder(tf.float32, [3], name="x")
        product = tf.multiply(x, x, name="product")
        negative = tf.negative(product, name="negative")
        y = tf.concat([negative, negative], 0, name="y")
        recorder = Recorder(trace="full").start()
        fed = np.array([1.0, 2.0, 3.0], "f")
        results = [session.run(y, {x: np.full(3, value, "f"), product: fed}) for value in (5.0, 5.0, 7.0)]
        recorder.stop()
    for call, before in ((1, 0), (2, 1)):
        equal = results[call].tobytes() == results[before].tobytes()
        assert statuses(recorder, call)["y"] == ("recomputed" if equal else "computed")
    assert statuses(recorder, 1)["y"] == "recomputed"


@pytest.mark.parametrize("version", [1, 2])
def test_a_read_that_only_the_end_of_a_loops_body_waits_for(version):
    """The write in the body's first half may come first: the read was taken for one before the loop."""
    before = control_flow_util.ENABLE_CONTROL_FLOW_V2
    control_flow_util.ENABLE_CONTROL_FLOW_V2 = version == 2
    try:
        with tf.Graph().as_default(), v1.Session(config=off()) as session:
            x = v1.placeholder(tf.float32, [])
            variable = v1.get_variable("v", initializer=1.0, use_resource=True)
            read = tf.identity(variable.read_value(), name="seen")

            def body(k: tf.Tensor, total: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
                written = variable.assign_add(1.0, read_value=False)
                with tf.control_dependencies([written]):
                    return k + 1, tf.identity(total) + read

            total = v1.while_loop(lambda k, _: k < 2, body, [0, x])[1]
            session.run(v1.global_variables_initializer())
            recorder = Recorder(trace="full").start()
            session.run(total, {x: 1.0})
            recorder.stop()
    finally:
        control_flow_util.ENABLE_CONTROL_FLOW_V2 = before
    assert any(finding.kind == "race" for finding in recorder.record().findings)


def test_stateful_types_that_nobody_listed_are_never_redundant():
    """TensorFlow's own word is the truth here: a stateful op without a resource does something unseen."""
    from tensorflow.core.framework import types_pb2
    from tensorflow.python.framework import op_def_registry

    from cachelab.tf.effects import LOCAL_CREATORS, PURE_THOUGH_STATEFUL, READS, VARIABLES, effects_of

    def handles(arguments: Any) -> bool:
        return any(a.is_ref or a.type == types_pb2.DT_RESOURCE for a in arguments)

    def known(name: str) -> bool:
        listed = name in PURE_THOUGH_STATEFUL | LOCAL_CREATORS | VARIABLES | READS
        return listed or name.startswith(("TensorArray", "Stack"))

    checked = 0
    for name in dir(tf.raw_ops):
        definition = op_def_registry.get(name)
        if definition is None or not definition.is_stateful or known(name):
            continue
        if handles(definition.input_arg) or handles(definition.output_arg):
            continue
        told = effects_of(name)
        assert told.draws or told.effect, name
        checked += 1
    assert checked > 100


def test_an_op_that_runs_behind_a_fed_tensor_leaves_nothing_redundant():
    """TensorFlow takes ``unstack(stack(a, b))`` for ``a, b`` though the stack was fed: then ``a`` is computed from."""
    config = v1.ConfigProto()
    config.graph_options.rewrite_options.min_graph_nodes = -1
    with tf.Graph().as_default(), v1.Session(config=config) as session:
        x = v1.placeholder(tf.float32, [2], name="x")
        first = tf.exp(x, name="first")
        stacked = tf.stack([first, x * 3.0], name="stacked")
        y = tf.multiply(stacked[0] + 1.0, 2.0, name="y")
        recorder = Recorder(trace="full").start()
        fed = np.zeros((2, 2), "f")
        results = [session.run(y, {x: np.full(2, value, "f"), stacked: fed}) for value in (1.0, 1.0, 2.0)]
        recorder.stop()
    for call in (1, 2):
        if statuses(recorder, call)["y"] == "recomputed":
            assert results[call].tobytes() == results[call - 1].tobytes()
    assert all(op.status != "recomputed" for op in recorder.record().executions(2)) or np.all(results[2] == 2.0)


@pytest.mark.parametrize("kind", ["ref", "resource"])
def test_what_comes_of_a_fed_read_is_cut_off_from_the_variable(kind):
    """Reads of a ref variable share its buffer, but a fed read is the user's array, whatever writes the variable."""
    with tf.Graph().as_default() as graph, v1.Session(config=off()) as session:
        variable = v1.get_variable("v", [2], initializer=v1.zeros_initializer(), use_resource=kind == "resource")
        read = tf.identity(variable, name="read")
        passed = tf.stop_gradient(read, name="passed")  # passes the buffer on, as unstack does
        square = tf.square(tf.stack(tf.unstack(passed)), name="square")
        step = v1.assign_add(variable, square, name="step")
        untouched = tf.negative(read, name="untouched")
        session.run(v1.global_variables_initializer())
        recorder = Recorder(trace="full").start()
        fed = {graph.get_tensor_by_name("read:0"): np.ones(2, "f")}
        results = [session.run([square, step.op], fed)[0] for _ in range(3)]
        session.run(untouched)
        session.run(untouched)
        recorder.stop()
    assert results[0].tobytes() == results[2].tobytes()
    for call in (1, 2):
        found = statuses(recorder, call)
        assert found["passed"] == found["square"] == "recomputed"
        writes = [op for op in recorder.record().executions(call) if op.type.startswith("AssignAdd")]
        assert [op.status for op in writes] == ["computed"]
    assert statuses(recorder, 3)["untouched"] == "computed"
    assert statuses(recorder, 4)["untouched"] == "recomputed"


def test_a_kernel_under_the_name_that_onednn_gives_its_type_is_the_users_op():
    """On processors with AVX-512 ``MatMul`` runs as ``_MklNativeMatMul``, whose inputs may all be constants."""
    with tf.Graph().as_default(), v1.Session(config=off()) as session:
        product = tf.matmul(tf.ones([3, 3]), tf.ones([3, 3]), name="product")
        total = tf.nn.softmax(product, name="total")
        recorder = Recorder(trace="full").start()
        for _ in range(2):
            session.run(total)
        recorder.stop()
    assert [statuses(recorder, call)["product"] for call in (0, 1)] == ["computed", "recomputed"]
    assert [statuses(recorder, call)["total"] for call in (0, 1)] == ["computed", "recomputed"]
    types = [parse(f"n = {kind}(a, b)").type for kind in ("_MklNativeMatMul", "_MklSoftmax", "_MklNativeFusedMatMul")]
    assert types == ["MatMul", "Softmax", "_MklNativeFusedMatMul"]


@pytest.mark.parametrize("config", [off(), v1.ConfigProto()], ids=["plain", "optimized"])
def test_a_fetched_read_of_a_ref_variable_shows_what_a_later_write_made_of_it(config):
    """A read of a ref variable hands on its buffer, which is copied out only at the end of the call."""
    with tf.Graph().as_default() as graph, v1.Session(config=config) as session:
        variable = v1.get_variable("v", [], initializer=v1.zeros_initializer(), use_resource=False)
        read = graph.get_tensor_by_name("v/read:0")
        with tf.control_dependencies([read]):
            step = v1.assign_add(variable, 1.0).op
        session.run(v1.global_variables_initializer())
        recorder = Recorder(trace="full").start()
        results = [session.run(read), session.run([read, step])[0], session.run(read)]
        recorder.stop()
    assert results[0] != results[1]
    assert [statuses(recorder, call)["v/read"] for call in range(3)] == ["computed"] * 3
    assert {finding.call for finding in recorder.record().findings if finding.kind == "race"} == {1}


@pytest.mark.parametrize("resource", [False, True])
@pytest.mark.parametrize("version", [1, 2])
def test_training_through_a_loop_is_no_race(version, resource):
    """All that a loop's gradient needs is done when the optimiser writes: every such step was told to be a race."""
    before = control_flow_util.ENABLE_CONTROL_FLOW_V2
    control_flow_util.ENABLE_CONTROL_FLOW_V2 = version == 2
    try:
        with tf.Graph().as_default(), v1.Session() as session:
            x = v1.placeholder(tf.float32, [4, 3])
            series = v1.placeholder(tf.float32, [5, 4, 3])
            weights = v1.get_variable("W", [3, 3], use_resource=resource)
            plain = v1.while_loop(lambda k, h: k < 3, lambda k, h: (k + 1, tf.tanh(h @ weights)), [0, x])[1]
            scanned = tf.scan(lambda h, t: tf.tanh(h @ weights + t), series, initializer=x)
            losses = [tf.reduce_sum(plain), tf.reduce_mean(scanned)]
            steps = [v1.train.GradientDescentOptimizer(0.1).minimize(loss) for loss in losses]
            late = v1.assign_add(weights, tf.ones([3, 3]))
            session.run(v1.global_variables_initializer())
            feeds = {x: np.ones((4, 3)), series: np.ones((5, 4, 3))}
            recorder = Recorder(trace="full").start()
            for loss, step in zip(losses, steps, strict=True):
                session.run([loss, step], feeds)
            session.run([losses[0], late], feeds)  # and this is one
            recorder.stop()
    finally:
        control_flow_util.ENABLE_CONTROL_FLOW_V2 = before
    races = [finding for finding in recorder.record().findings if finding.kind == "race"]
    assert {finding.call for finding in races} == {2}


@pytest.mark.parametrize("config", [v1.ConfigProto(), off()], ids=["optimised", "plain"])
def test_a_loop_variable_for_itself_alone_is_not_claimed_without_a_trace(config):
    """The runtime inlines a loop and removes what nothing takes: the start of such a variable was told as computed."""
    with tf.Graph().as_default(), v1.Session(config=config) as session:
        x = v1.placeholder(tf.float32, [2])
        start, alone = tf.exp(x, name="start"), tf.square(x, name="alone")
        counted, _rest = tf.while_loop(
            lambda a, b: tf.reduce_sum(a) < 100.0, lambda a, b: (a + 1.0, b * 2.0), [start, alone]
        )
        recorder = Recorder(trace="light").start()
        session.run(counted, {x: [1.0, 2.0]})
        recorder.stop()
        metadata = v1.RunMetadata()
        options = v1.RunOptions(trace_level=v1.RunOptions.FULL_TRACE)
        session.run(counted, {x: [1.0, 2.0]}, options, metadata)
    listed = {node.node_name for device in metadata.step_stats.dev_stats for node in device.node_stats}
    assert "start" in listed
    assert "alone" not in listed
    found = statuses(recorder, 0)
    assert found["start"] == "computed"
    assert found["alone"] == "unknown"


def test_a_feed_that_only_a_control_edge_waits_for_is_needed():
    """Such an op was told to run at the set-up of a partial run, and such a feed to be needless: without it, errors."""
    with tf.Graph().as_default(), v1.Session(config=off()) as session:
        x, y = v1.placeholder(tf.float32, [], "x"), v1.placeholder(tf.float32, [], "y")
        counter = v1.get_variable("c", initializer=0.0, use_resource=True)
        with tf.control_dependencies([x]):
            late = tf.identity(counter.assign_add(1.0), name="late")
        early, out = tf.multiply(y, 2.0), tf.multiply(x, 2.0)
        session.run(counter.initializer)
        with pytest.raises(tf.errors.InvalidArgumentError, match="feed a value"):
            session.run(late)
        counted = []
        recorder = Recorder(trace="full").start()
        session.run(late, {x: 1.0})
        handle = session.partial_run_setup([late, early, out], [x, y])
        session.partial_run(handle, early, {y: 1.0})
        counted.append(session.run(counter))
        session.partial_run(handle, out, {x: 1.0})
        session.partial_run(handle, late)
        counted.append(session.run(counter))
        recorder.stop()
    assert counted == [1.0, 2.0]
    record = recorder.record()
    assert record.entry(0).needs == (("x:0",),)
    assert not [finding for finding in record.findings if finding.kind == "unneeded_feed"]
    ran = [call for call in range(1, 6) if statuses(recorder, call).get("AssignAddVariableOp") == "computed"]
    assert ran == [4]
