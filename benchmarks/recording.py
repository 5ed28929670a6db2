"""What recording costs: medians of interleaved runs in one process. Run with ``make bench`` on a quiet machine."""

from __future__ import annotations

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import argparse
import itertools
import statistics
import time
import tracemalloc
from typing import TYPE_CHECKING, Any

import numpy as np
import tensorflow as tf
from rich.console import Console
from rich.table import Table

from cachelab.explain.history import History, Judged
from cachelab.explain.verdicts import Verdicts
from cachelab.tf.places import GraphPlace
from cachelab.tf.recorder import Recorder

if TYPE_CHECKING:
    from collections.abc import Callable

tf1 = tf.compat.v1
MODES = ("plain", "off", "light", "auto", "full")
Step = tuple[Any, dict[Any, Any]]


def ten_ops() -> Step:
    """Return a graph of about ten cheap ops."""
    x = tf1.placeholder(tf.float32, [8], "x")
    y = x
    for _ in range(4):
        y = tf.tanh(y * 1.5)
    return y, {x: np.ones(8, "f")}


def mlp(width: int, depth: int, batch: int) -> Step:
    """Return an Adam training step of a dense network."""
    x, t = tf1.placeholder(tf.float32, [None, width], "x"), tf1.placeholder(tf.float32, [None, width], "t")
    h, rng = x, np.random.default_rng(0)
    for layer in range(depth):
        with tf.name_scope(f"layer{layer}"):
            start = (rng.normal(size=(width, width)) / width**0.5).astype("f")
            w = tf1.get_variable(f"w{layer}", initializer=start, use_resource=True)
            b = tf1.get_variable(f"b{layer}", initializer=np.zeros(width, "f"), use_resource=True)
            h = tf.tanh(tf.nn.bias_add(tf.matmul(h, w), b))
    loss = tf.reduce_mean(tf.square(h - t))
    train = tf1.train.AdamOptimizer(1e-4).minimize(loss)
    feeds = {x: rng.normal(size=(batch, width)).astype("f"), t: rng.normal(size=(batch, width)).astype("f")}
    return [loss, train], feeds


def overhead(build: Callable[[], Step], rounds: int, steps: int) -> tuple[int, dict[str, float]]:
    """Return the number of ops and the median seconds of a step in each mode, blocks of the modes interleaved."""
    with tf.Graph().as_default() as graph, tf1.Session() as session:
        fetches, feeds = build()
        session.run(tf1.global_variables_initializer())
        recorders = {mode: Recorder(trace=mode) for mode in MODES if mode != "plain"}
        times: dict[str, list[float]] = {mode: [] for mode in MODES}
        for number in range(rounds + 1):
            for mode in MODES if number % 2 else MODES[::-1]:
                recorder = recorders.get(mode)
                if recorder is not None:
                    recorder.start()
                for _ in range(steps):
                    begun = time.perf_counter()
                    session.run(fetches, feeds)
                    if number:  # the first round warms up
                        times[mode].append(time.perf_counter() - begun)
                if recorder is not None:
                    recorder.stop()
        return len(graph.get_operations()), {mode: statistics.median(found) for mode, found in times.items()}


def engine(depth: int) -> tuple[int, float, float, float]:
    """Return ops, seconds of the first analysis, of a new call (all variables changed) and of a repeated call."""
    with tf.Graph().as_default(), tf1.Session() as session:
        fetches, feeds = mlp(4, depth, 2)
        session.run(tf1.global_variables_initializer())
        begun = time.perf_counter()
        GraphPlace(0, session.graph).plan(_names(fetches, feeds), itertools.count()).variant(None)
        first = time.perf_counter() - begun
        recorder = Recorder(trace="light").start()
        for _ in range(20):
            session.run(fetches, feeds)
        for _ in range(40):
            session.run(fetches[0], feeds)
        recorder.stop()
        parts = recorder._capture.parts()
        tables = {0: {row: row for row in range(len(parts.graphs[0].flat.name))}}
        history, judged = History(), []
        verdicts = Verdicts(history, judged, tables)
        moments: list[float] = []

        def settle(found: Judged) -> None:
            verdicts.of(found)
            moments.append(time.perf_counter())

        history.judge(parts.calls, judged, settle)
        gaps = np.diff(moments)
        return len(tables[0]), first, float(np.median(gaps[4:20])), float(np.median(gaps[30:]))


def _names(fetches: Any, feeds: dict[Any, Any]) -> Any:
    tensors = tuple(item.name for item in fetches if isinstance(item, tf.Tensor))
    targets = tuple(item.name for item in fetches if not isinstance(item, tf.Tensor))
    return tensors, targets, frozenset(tensor.name for tensor in feeds)


def memory(calls: int) -> tuple[float, float]:
    """Return megabytes held after recording many calls of a small graph, and with the record built."""
    with tf.Graph().as_default(), tf1.Session() as session:
        fetches, feeds = ten_ops()
        tracemalloc.start()
        recorder = Recorder().start()
        run = session.make_callable(fetches, list(feeds))
        values = list(feeds.values())
        for number in range(calls):
            run(*[value + number % 7 for value in values])
        recorder.stop()
        held = tracemalloc.get_traced_memory()[0]
        recorder.record()
        built = tracemalloc.get_traced_memory()[0]
        tracemalloc.stop()
        return held / 2**20, built / 2**20


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--steps", type=int, default=60)
    options = parser.parse_args()
    console = Console()

    table = Table("graph", "ops", "plain", *(f"{mode}" for mode in MODES[1:]), title="a step, median; ratio to plain")
    graphs = {"10 ops": ten_ops, "Adam MLP": lambda: mlp(32, 8, 16), "step of ms": lambda: mlp(384, 6, 192)}
    for name, build in graphs.items():
        ops, times = overhead(build, options.rounds, options.steps)
        ratios = [f"{times[mode] / times['plain']:.2f}x" for mode in MODES[1:]]
        table.add_row(name, str(ops), f"{times['plain'] * 1e3:.3f} ms", *ratios)
    console.print(table)

    table = Table("ops", "first analysis", "a new call", "a repeated call", title="the engine")
    for depth in (15, 80, 330):
        ops, first, new, repeated = engine(depth)
        table.add_row(str(ops), f"{first:.2f} s", f"{new * 1e3:.2f} ms", f"{repeated * 1e3:.3f} ms")
    console.print(table)

    held, built = memory(10_000)
    console.print(f"10,000 calls of a small graph: {held:.1f} MB held, {built:.1f} MB with the record built")


if __name__ == "__main__":
    main()
