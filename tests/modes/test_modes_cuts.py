"""Cuts: the frontier by default, names given by users, and refusals with their reason."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from modes_programs import Program, control_flow, dropout, head_training, two_fetches
from modes_tools import record

from cachelab import modes
from cachelab.errors import NameNotFoundError, OptionError
from cachelab.modes.bench import Bench
from cachelab.modes.feed import Feed
from cachelab.modes.live import Session

tf1 = tf.compat.v1


def plan(recording, cuts=None):
    mode = Feed(Bench(recording).script(), cuts)
    return mode, mode.applies()


def test_frontier_is_what_new_work_uses():
    mode, reason = plan(record(head_training()))
    assert reason is None
    assert mode.kept == ("enc/Tanh:0",)
    last = mode.schedule.plans[5]
    assert last.serve == ("enc/Tanh:0",)
    assert last.feeds == ("pairs:0",)
    assert "enc/MatMul" not in last.needed


def test_training_consumer_gets_the_whole_frontier():
    """The backward pass uses the activations: all of them are kept, not the last one only."""
    graph = tf.Graph()
    with graph.as_default():
        x = tf1.placeholder(tf.float32, [30, 20], "x")
        w = tf1.get_variable("w", initializer=np.random.RandomState(0).randn(20, 30).astype("f"), use_resource=True)
        v = tf1.get_variable("v", initializer=np.ones((30, 4), "f"), use_resource=True)
        scale = tf1.placeholder(tf.float32, [], "scale")
        h = tf.tanh(tf.matmul(x, w, name="first"), name="h")
        out = tf.nn.sigmoid(h, name="s")
        loss = tf.add(tf.reduce_sum(tf.square(tf.matmul(out, v) * scale)), tf.reduce_sum(h * scale), name="loss")
        tf1.train.GradientDescentOptimizer(0.001).minimize(loss, var_list=[v], name="train")
        init = tf1.global_variables_initializer()
    data = np.random.RandomState(1).randn(30, 20)
    program = Program(
        graph, init, [(["loss:0", "train"], {"x:0": data, "scale:0": float(k)}) for k in range(4)], optimizers=False
    )
    recording = record(program)
    mode, reason = plan(recording)
    assert reason is None
    assert {"h:0", "s:0"} <= set(mode.kept)
    replay = modes.replay(recording, "variable", repeats=1)
    assert replay.equality in {"equal", "close"}
    ran = {op.name for op in replay.record.executions(4) if op.executed}
    assert not ran & {"first", "h", "s"}


def test_named_cut_overrides_the_frontier():
    replay = modes.replay(record(two_fetches()), "feed", cuts=["enc/MatMul"], repeats=1)
    assert replay.equality == "equal"
    assert replay.record.options["cuts"] == ("enc/MatMul:0",)


def test_unknown_tensor_suggests_the_right_one():
    with pytest.raises(
        NameNotFoundError, match=r"No tensor `enc/Tan:0` in recording test. Did you mean `enc/Tanh:0`\?"
    ):
        modes.replay(record(two_fetches()), "feed", cuts=["enc/Tan:0"])


def test_operation_is_no_cut():
    with pytest.raises(
        OptionError, match=r"`train` is an operation and has no value to keep. Name a tensor, such as `enc"
    ):
        modes.replay(record(head_training()), "variable", cuts=["train"])


def test_cut_that_changes_in_every_call_says_which_write():
    replay = modes.replay(record(head_training(train_all=True)), "variable", cuts=["enc/Tanh:0"])
    assert not replay.applicable
    assert replay.reason.startswith("`enc/Tanh:0` never had the same value twice")
    assert "`W`" in replay.reason


def test_cut_inside_a_loop_is_refused():
    recording = record(control_flow(v2=False))
    inner = next(name for name in recording.record.graphs[0].name if name.startswith("while/") and "Tanh" in name)
    replay = modes.replay(recording, "feed", cuts=[f"{inner}:0"])
    assert not replay.applicable
    assert "inside a loop or branch" in replay.reason or "never had the same value" in replay.reason


def test_resource_is_refused():
    replay = modes.replay(record(two_fetches()), "feed", cuts=["W:0"])
    assert not replay.applicable
    assert "a resource has no value outside its session" in replay.reason


def test_reference_is_refused_and_its_reader_is_kept_by_a_copy():
    program = head_training(use_resource=False)
    recording = record(program)
    replay = modes.replay(recording, "feed", cuts=["W:0"])
    assert not replay.applicable
    assert "reference to a variable" in replay.reason
    kept = modes.replay(recording, "memo", repeats=1)
    assert kept.equality == "equal"


def test_cut_that_would_drop_a_write_is_refused():
    graph = tf.Graph()
    with graph.as_default():
        x = tf1.placeholder(tf.float32, [30, 30], "x")
        count = tf1.get_variable("count", initializer=0.0, use_resource=True)
        with tf.control_dependencies([count.assign_add(1.0, name="bump", read_value=False)]):
            h = tf.tanh(tf.matmul(x, x), name="h")
        tf.reduce_sum(h, name="out")
        init = tf1.global_variables_initializer()
    data = np.random.RandomState(0).randn(30, 30)
    recording = record(Program(graph, init, [(["out:0"], {"x:0": data})] * 3))
    for mode in ("feed", "variable"):
        replay = modes.replay(recording, mode, cuts=["h:0"])
        assert not replay.applicable
        assert replay.reason == "`h:0` can't be kept: keeping `h:0` would drop the effect of `bump`."
    free = modes.replay(recording, "memo", repeats=1)
    assert not free.applicable or free.equality == "equal"


def test_array_of_one_call_is_not_torn_apart():
    """The float that stands for a v1 TensorArray can be fed, but then nobody fills the array."""
    graph = tf.Graph()
    with graph.as_default():
        x = tf1.placeholder(tf.float32, [], "x")
        y = tf1.placeholder(tf.float32, [], "y")
        handle, flow = tf.raw_ops.TensorArrayV3(size=2, dtype=tf.float32, clear_after_read=False, name="array")
        for index in range(2):
            value = x * float(index + 1)
            flow = tf.raw_ops.TensorArrayWriteV3(
                handle=handle, index=index, value=value, flow_in=flow, name=f"put{index}"
            )
        stacked = tf.raw_ops.TensorArrayGatherV3(handle=handle, indices=[0, 1], flow_in=flow, dtype=tf.float32)
        tf.multiply(stacked, y, name="out")
        init = tf.no_op()
    calls = [(["out:0"], {"x:0": 2.0, "y:0": float(k)}) for k in range(4)]
    program = Program(graph, init, calls, optimizers=False)
    recording = record(program)
    for mode in ("feed", "variable", "memo"):
        replay = modes.replay(recording, mode, cuts=["put1:0"], repeats=1)
        assert not replay.applicable or replay.result.reused == 0
        free = modes.replay(recording, mode, repeats=1)
        assert not free.applicable or free.equality == "equal", free.reason
    with Session(graph=graph) as session:
        assert [session.run("out:0", feed).tolist() for _fetches, feed in calls] == [
            [2.0 * k, 4.0 * k] for k in range(4)
        ]


def test_random_op_below_the_cut_is_never_copied():
    """Its shape comes from the kept tensor: a copy would start a stream of its own."""
    graph = tf.Graph()
    with graph.as_default():
        x = tf1.placeholder(tf.float32, [None, 40], "x")
        h = tf.tanh(tf.matmul(x, np.ones((40, 40), "f")), name="h")
        tf.reduce_sum(h * tf.random.uniform(tf.shape(h), seed=4, name="noise"), name="out")
        init = tf.no_op()
    data = np.random.RandomState(0).randn(50, 40)
    recording = record(Program(graph, init, [(["out:0"], {"x:0": data})] * 3, optimizers=False))
    replay = modes.replay(recording, "variable", cuts=["h:0"], repeats=1)
    assert not replay.applicable
    assert "draws random numbers after the cut; a copy would start its own stream (use `feed`)" in replay.reason
    assert modes.replay(recording, "feed", cuts=["h:0"], repeats=1).equality == "equal"


def test_variable_keeps_no_op_in_the_users_graph():
    program = dropout()
    recording = record(program)
    count = len(program.graph.get_operations())
    assert modes.replay(recording, "variable", repeats=1).applicable
    assert len(program.graph.get_operations()) == count


def test_small_budget_leaves_memo_the_small_cut():
    recording = record(two_fetches())
    replay = modes.replay(recording, "memo", memory_budget=100, repeats=1)
    assert not replay.applicable or replay.bytes_held <= 100
