"""Small programs for the tests of the modes: a graph, its first values, and the calls to record."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

tf1 = tf.compat.v1


@dataclass
class Program:
    """A graph, an op that initialises it, and (fetches by name, feed by name) for each call."""

    graph: Any
    init: Any
    calls: list[tuple[list[str], dict[str, Any]]]
    optimizers: bool = True

    def session(self):
        config = tf1.ConfigProto()
        if not self.optimizers:
            config.graph_options.optimizer_options.opt_level = -1
            config.graph_options.rewrite_options.disable_meta_optimizer = True
        session = tf1.Session(graph=self.graph, config=config)
        session.run(self.init)
        return session


def _rng(seed=0):
    return np.random.RandomState(seed)


def _encoder(use_resource):
    x = tf1.placeholder(tf.float32, [40, 30], "x")
    w = tf1.get_variable("W", initializer=_rng().randn(30, 50).astype("f"), use_resource=use_resource)
    return x, tf.tanh(tf.matmul(x, w, name="enc/MatMul"), name="enc/Tanh")


def head_training(*, use_resource=True, optimizer="Adam", train_all=False):
    """A frozen (or trained) encoder, and a head trained on pairs of its rows."""
    graph = tf.Graph()
    with graph.as_default():
        _x, h = _encoder(use_resource)
        pairs = tf1.placeholder(tf.int32, [None], "pairs")
        u = tf1.get_variable("u", initializer=np.ones(50, "f"), use_resource=use_resource)
        loss = tf.reduce_mean(tf.square(tf.reduce_sum(tf.gather(h, pairs) * u, 1) - 1.0), name="loss")
        opt = {"Adam": tf1.train.AdamOptimizer, "SGD": tf1.train.GradientDescentOptimizer}[optimizer](0.01)
        opt.minimize(loss, var_list=None if train_all else [u], name="train")
        init = tf1.global_variables_initializer()
    data = _rng(1).randn(40, 30).astype("f")
    calls = [(["loss:0", "train"], {"x:0": data, "pairs:0": np.arange(k, k + 8)}) for k in range(5)]
    return Program(graph, init, calls)


def two_fetches():
    """Accuracy and cost of one batch in two calls, then again."""
    graph = tf.Graph()
    with graph.as_default():
        _x, h = _encoder(use_resource=True)
        y = tf1.placeholder(tf.int64, [None], "y")
        tf.reduce_mean(tf.cast(tf.equal(tf.argmax(h, 1), y), tf.float32), name="acc")
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=h)
        tf.reduce_mean(losses, name="cost")
        init = tf1.global_variables_initializer()
    feed = {"x:0": _rng(1).randn(40, 30).astype("f"), "y:0": np.arange(40) % 50}
    return Program(graph, init, [(["acc:0"], feed), (["cost:0"], feed), (["acc:0", "enc/Tanh:0"], feed)])


def batches():
    """Two batches, asked for in turn: A-B-A-B."""
    program = two_fetches()
    feeds = [{"x:0": _rng(s).randn(40, 30).astype("f"), "y:0": np.arange(40) % 50} for s in (1, 2)]
    program.calls = [(["cost:0"], feeds[k % 2]) for k in range(6)]
    return program


def examples():
    """The gradient by the parameters, one example a call."""
    graph = tf.Graph()
    with graph.as_default():
        x = tf1.placeholder(tf.float32, [1, 6], "x")
        w = tf1.get_variable("w", initializer=_rng().randn(6, 4).astype("f"), use_resource=True)
        loss = tf.reduce_sum(tf.square(tf.tanh(tf.matmul(x, w))), name="loss")
        tf.identity(tf.gradients(loss, w)[0], name="grad")
        init = tf1.global_variables_initializer()
    rows = _rng(3).randn(7, 1, 6).astype("f")
    return Program(graph, init, [(["grad:0", "loss:0"], {"x:0": row}) for row in rows])


def sampler():
    """A random draw asked for in two calls, with a consumer."""
    graph = tf.Graph()
    with graph.as_default():
        x = tf1.placeholder(tf.float32, [], "x")
        noise = tf.random.normal([3], seed=5, name="noise")
        first = tf.identity(noise * x, name="first")
        tf.identity(first * 2.0, name="second")
        init = tf.no_op()
    return Program(graph, init, [(["first:0"], {"x:0": 3.0}), (["second:0"], {"x:0": 3.0})])


def control_flow(*, v2=True):
    """The kept tensor goes into a cond and a loop."""
    graph = tf.Graph()
    with graph.as_default():
        (tf1.enable_control_flow_v2 if v2 else tf1.disable_control_flow_v2)()
        _x, h = _encoder(use_resource=True)
        flag = tf1.placeholder(tf.bool, [], "flag")
        picked = tf.cond(flag, lambda: h * 2.0, lambda: tf.reverse(h, [0]))
        total = tf.while_loop(lambda i, _a: i < 3, lambda i, a: (i + 1, tf.tanh(a + h)), [0, picked])[1]
        tf.reduce_sum(total, name="out")
        init = tf1.global_variables_initializer()
        tf1.enable_control_flow_v2()
    data = _rng(1).randn(40, 30).astype("f")
    return Program(graph, init, [(["out:0"], {"x:0": data, "flag:0": bool(k % 2)}) for k in range(4)])


def writer_between():
    """A variable is set between two reads of it."""
    graph = tf.Graph()
    with graph.as_default():
        v = tf1.get_variable("v", initializer=1.0, use_resource=True)
        x = tf1.placeholder(tf.float32, [], "x")
        tf.identity(v + 0.0, name="a")
        tf.identity(v * x, name="b")
        v.assign_add(1.0, name="bump")
        init = tf1.global_variables_initializer()
        bump = next(op for op in graph.get_operations() if op.type == "AssignAddVariableOp")
    return Program(graph, init, [(["a:0"], {}), ([bump.name], {}), (["b:0"], {"x:0": 10.0})])


def dropout():
    """A random op after the kept tensor."""
    graph = tf.Graph()
    with graph.as_default():
        _x, h = _encoder(use_resource=True)
        tf.reduce_sum(tf.nn.dropout(h, rate=0.5, seed=3), name="out")
        init = tf1.global_variables_initializer()
    data = _rng(1).randn(40, 30).astype("f")
    return Program(graph, init, [(["out:0"], {"x:0": data})] * 4)


PROGRAMS = {
    "head": head_training,
    "head_ref": lambda: head_training(use_resource=False),
    "head_sgd": lambda: head_training(optimizer="SGD"),
    "train_all": lambda: head_training(train_all=True),
    "two_fetches": two_fetches,
    "batches": batches,
    "examples": examples,
    "sampler": sampler,
    "control_flow": control_flow,
    "control_flow_v1": lambda: control_flow(v2=False),
    "writer_between": writer_between,
    "dropout": dropout,
}
