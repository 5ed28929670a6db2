"""Graph optimisation may look through a fed tensor: modes that feed kept values stay right, and say so."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from modes_programs import Program
from modes_tools import by_hand, record, same

from cachelab.modes import arrays, live, replay
from cachelab.modes.graphs import Facts
from cachelab.modes.live import Session
from cachelab.modes.optimizer import taken

tf1 = tf.compat.v1
FED = {"x:0": np.linspace(0.1, 1, 9, dtype="f").reshape(3, 3)}


def squared():
    """``x * x`` with consumers: TensorFlow makes a new node of it."""
    graph = tf.Graph()
    with graph.as_default():
        x = tf1.placeholder(tf.float32, [3, 3], "x")
        z = tf1.placeholder(tf.float32, [3, 3], "z")
        product = tf.multiply(tf.tanh(x), tf.tanh(x), name="square")
        for number in range(3):
            tf.add(tf.tanh(product + float(number)), z, name=f"out{number}")
        init = tf.no_op()
    zs = [np.full((3, 3), k, "f") for k in range(6)]
    return Program(graph, init, [(["out0:0", "out1:0", "out2:0"], {**FED, "z:0": z}) for z in zs])


def ordered():
    """A read waits for a consumer of ``m``; TensorFlow lets it wait for ``m`` itself, fed or not."""
    graph = tf.Graph()
    with graph.as_default():
        x = tf1.placeholder(tf.float32, [3, 3], "x")
        v = tf1.get_variable("v", initializer=np.eye(3, dtype="f"), use_resource=True)
        m = tf.multiply(tf.random.stateless_uniform([3, 3], seed=[1, 2]), x, name="m")
        out = tf.add(m, m, name="out")
        with tf.control_dependencies([out]):
            tf.identity(v.read_value(), name="seen")
        tf1.placeholder_with_default(x, [3, 3])
        tf.no_op(name="nothing")
        init = tf1.global_variables_initializer()
    return Program(graph, init, [(["seen:0", "out:0"], FED)] * 4)


@pytest.fixture(autouse=True)
def _stand_ins_whatever_the_size(monkeypatch):
    monkeypatch.setattr(arrays, "SMALL_BYTES", 0)


PROGRAMS = {"squared": squared, "ordered": ordered}


def loses(program, fetch, tensor):
    """Whether TensorFlow asks for ``x`` though what is fed makes it unnecessary."""
    with program.session() as session:
        try:
            session.run(fetch, {tensor: FED["x:0"]})
        except tf.errors.InvalidArgumentError as error:
            return "must feed a value for placeholder" in str(error)
    return False


def test_tensorflow_looks_through_fed_tensors():
    """What all this is for; should this fail one day, TensorFlow was mended."""
    assert loses(ordered(), ["seen:0", "out:0"], "m:0")
    graph = tf.Graph()
    with graph.as_default():
        x = tf1.placeholder(tf.float32, [3, 3], "x")
        tensors = {
            "product": x * x,
            "sum": x + x,
            "undone": tf.negative(tf.negative(x)),
            "turned": tf.transpose(tf.transpose(x)),
            "kept": tf.tanh(x),
        }
        outs = {name: tf.exp(tf.tanh(tensor) * 2.0) + tensor for name, tensor in tensors.items()}
        nothing = tf.no_op()
    program = Program(graph, nothing, [])
    assert [name for name in tensors if loses(program, outs[name], tensors[name])] == list(tensors)[:-1]


def test_replaced_ops_are_no_cuts_where_the_graph_is_optimized():
    graph = tf.Graph()
    with graph.as_default():
        x = tf1.placeholder(tf.float32, [3, 3])
        w = tf1.placeholder(tf.float32, [3, 3])
        h = tf.tanh(x)
        tensors = {
            "product": h * tf.identity(h), "sum": tf.add_n([h, h]), "undone": -h, "turned": tf.transpose(h),
            "others": h * tf.tanh(w), "bias": h + tf.reshape(w, [9])[:3], "scaled": h * 3.0, "tanh": h,
        }  # fmt: skip
    refused = {name: bool(Facts(graph).unholdable(tensor.name)) for name, tensor in tensors.items()}
    assert [name for name, no in refused.items() if no] == ["product", "sum", "undone", "turned"]
    plain = Facts(graph, optimized=False)
    assert not any(plain.unholdable(tensor.name) for tensor in tensors.values())


@pytest.mark.parametrize("mode", ["feed", "handle", "memo", "variable"])
@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_replay_is_right(name, mode):
    program = PROGRAMS[name]()
    found = replay(record(program), mode, repeats=1, cuts=["m:0"] if name == "ordered" else None)
    assert found.applicable, found.reason
    assert found.equality in {"equal", "close"}, found.reason
    looked = [note for note in found.notes if "looks through what is fed for `m:0`: `x:0`" in note]
    assert bool(looked) == (name == "ordered" and mode != "variable")
    if name == "ordered" and mode == "feed":
        results = by_hand(program, found.code)
        assert same(results[len(results) - 1][1], replayed(program), 1e-6)


def replayed(program):
    with program.session() as session:
        return session.run(program.calls[-1][0], program.calls[-1][1])[1]


@pytest.mark.parametrize("mode", ["memo", "feed", "handle", "variable"])
@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_live_session_is_right(name, mode, monkeypatch):
    monkeypatch.setattr(live, "WORTH_SECONDS", 0.0)
    monkeypatch.setattr(live, "WORTH_SECONDS_A_BYTE", 0.0)
    program = PROGRAMS[name]()
    with program.session() as session:
        plain = [session.run(*call) for call in program.calls]
    with Session(graph=program.graph, mode=mode) as session:
        session.run(program.init)
        for call, expected in zip(program.calls, plain, strict=True):
            for one, other in zip(session.run(*call), expected, strict=True):
                assert same(one, other, 1e-6)
        assert session.cache_info().hits


def test_feeds_that_an_optimized_graph_takes_are_seen():
    graph = tf.Graph()
    with graph.as_default():
        x, y = (tf1.placeholder(tf.float32, [3, 3], f"in/{name}") for name in "xy")
        out = tf.tanh(x) + 1.0
    metadata = tf1.RunMetadata()
    with tf1.Session(graph=graph) as session:
        value = np.ones((3, 3))
        session.run(out, {x: value, y: value}, tf1.RunOptions(output_partition_graphs=True), metadata)
    assert taken(metadata, ["in/x:0", "in/y:0"]) == ("in/x:0",)


def test_handle_is_fed_placeholders_that_only_control_edges_wait_for():
    graph = tf.Graph()
    with graph.as_default():
        x, y = (tf1.placeholder(tf.float32, [3], name) for name in "xy")
        tf.tanh(x, name="first")
        with tf.control_dependencies([y]):
            tf.exp(x, name="second")
        init = tf.no_op()
    feed = {"x:0": np.ones(3, "f"), "y:0": np.ones(3, "f")}
    program = Program(graph, init, [(["first:0"], feed), (["second:0"], feed)], optimizers=False)
    found = replay(record(program), "partial_run", repeats=1)
    assert found.applicable, found.reason
    assert found.equality == "equal", found.reason
