"""Modes against hand-written caching, interleaved in one process: the combinations workload.

2000 inputs of 784 go through a frozen encoder 784-1024-1024-64; a head is trained on 200 batches of 128 pairs of
representations. Prints the median wall time of a step, and the ratio to hand-written caching of the same kind.

    python benchmarks/modes.py [--rounds N] [--steps N]
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np
import tensorflow as tf

from cachelab.modes.arrays import aligned
from cachelab.modes.bench import Bench, mode_named
from cachelab.modes.live import Session
from cachelab.modes.runner import Runner
from cachelab.tf.hooks import unobserved
from cachelab.tf.recorder import Recorder
from cachelab.tf.values import digest

tf1 = tf.compat.v1
INPUTS, BATCH = 2000, 128


def build(*, cached: bool) -> SimpleNamespace:
    """The graph; with ``cached``, the head also stands on a variable that keeps the representations."""
    rng = np.random.RandomState(0)
    sizes = [784, 1024, 1024, 64]
    graph = tf.Graph()
    with graph.as_default():
        x = tf1.placeholder(tf.float32, [INPUTS, 784], "x")
        h = x
        for layer, (before, after) in enumerate(pairwise(sizes)):
            weights = (rng.randn(before, after) / np.sqrt(before)).astype("f")
            w = tf1.get_variable(f"w{layer}", initializer=weights, trainable=False, use_resource=True)
            h = tf.tanh(tf.matmul(h, w), name=f"h{layer}")
        pairs = tf1.placeholder(tf.int32, [BATCH, 2], "pairs")
        labels = tf1.placeholder(tf.float32, [BATCH], "labels")
        u = tf1.get_variable("u", initializer=np.full(64, 0.1, "f"), use_resource=True)

        def head(representations: Any, name: str) -> tuple[Any, Any]:
            left, right = tf.gather(representations, pairs[:, 0]), tf.gather(representations, pairs[:, 1])
            logits = tf.reduce_sum(left * right * u, 1)
            losses = tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=logits)
            loss = tf.reduce_mean(losses, name=name)
            return loss, tf1.train.GradientDescentOptimizer(0.1).minimize(loss, var_list=[u])

        found = SimpleNamespace(graph=graph, x=x, pairs=pairs, labels=labels, h=h, u=u)
        found.loss, found.step = head(h, "loss")
        if cached:
            handle = tf.raw_ops.VarHandleOp(dtype=tf.float32, shape=tf.TensorShape(None), shared_name="kept")
            found.fill = tf.raw_ops.AssignVariableOp(resource=handle, value=h)
            read = tf.ensure_shape(tf.raw_ops.ReadVariableOp(resource=handle, dtype=tf.float32), h.shape)
            found.kept_loss, found.kept_step = head(read, "kept_loss")
        found.init = tf1.global_variables_initializer()
        found.reset = u.initializer
    return found


class Timed(Runner):
    """Notes when each call begins."""

    @property
    def starts(self) -> list[float]:
        return self.__dict__.setdefault("_starts", [])

    def checkpoint(self, call: int) -> None:
        super().checkpoint(call)
        self.starts.append(time.perf_counter())


def main() -> None:  # noqa: C901, PLR0915 - one table, top to bottom
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--steps", type=int, default=200)
    options = parser.parse_args()
    rng = np.random.RandomState(1)
    data = aligned(rng.randn(INPUTS, 784).astype("f"))
    frozen = np.frombuffer(data.tobytes(), "f").reshape(data.shape)
    batches = [(rng.randint(0, INPUTS, (BATCH, 2)).astype("i"), rng.randint(0, 2, BATCH).astype("f"))
               for _ in range(options.steps)]  # fmt: skip
    model = build(cached=True)
    recorder = Recorder(trace="auto", memory_budget=1 << 30, name="combinations")
    plain_model = build(cached=False)
    with tf1.Session(graph=plain_model.graph) as session:
        session.run(plain_model.init)
        recorder.start()
        for pairs, labels in batches:
            feed = {plain_model.x: data, plain_model.pairs: pairs, plain_model.labels: labels}
            session.run([plain_model.loss, plain_model.step], feed)
        recorder.stop()
    recording = SimpleNamespace(record=recorder.record(), material=recorder.material)
    bench = Bench(recording)
    contenders, last = {}, {}
    session = tf1.Session(graph=model.graph)
    session.run(model.init)

    times: dict[str, list[float]] = {}

    def step(name: str, session: Any, fetches: Any, feed: Any, begun: float | None = None) -> None:
        start = time.perf_counter() if begun is None else begun
        last[name] = session.run(fetches, feed)[0]
        times.setdefault(name, []).append(time.perf_counter() - start)

    def by_hand_plain() -> None:
        session.run(model.reset)
        for pairs, labels in batches:
            feed = {model.x: data, model.pairs: pairs, model.labels: labels}
            step("plain run", session, [model.loss, model.step], feed)

    def by_hand_variable() -> None:
        session.run(model.reset)
        session.run(model.fill, {model.x: data})
        for pairs, labels in batches:
            feed = {model.pairs: pairs, model.labels: labels}
            step("variable by hand", session, [model.kept_loss, model.kept_step], feed)

    def by_hand_feed() -> None:
        session.run(model.reset)
        kept = session.run(model.h, {model.x: data})
        for pairs, labels in batches:
            feed = {model.h: kept, model.pairs: pairs, model.labels: labels}
            step("feed by hand", session, [model.loss, model.step], feed)

    def by_hand_digest() -> None:
        session.run(model.reset)
        kept = {digest(data): session.run(model.h, {model.x: data})}
        for pairs, labels in batches:
            begun = time.perf_counter()
            feed = {model.h: kept[digest(data)], model.pairs: pairs, model.labels: labels}
            step("feed by hand, by digest", session, [model.loss, model.step], feed, begun)

    contenders |= {
        "plain run": by_hand_plain,
        "variable by hand": by_hand_variable,
        "feed by hand": by_hand_feed,
        "feed by hand, by digest": by_hand_digest,
    }
    open_sessions = [session]
    for name in ("run", "variable", "feed", "handle", "memo"):
        script = bench.script()
        mode = mode_named(name)(script)
        reason = mode.applies()
        if reason:
            raise SystemExit(f"{name}: {reason}")
        mode.prepare()
        with unobserved():
            sessions = script.place.open()
        open_sessions.append(sessions)

        def replay(mode: Any = mode, sessions: Any = sessions, script: Any = script, name: str = name) -> None:
            sessions.restore()
            mode.reset()
            runner = Timed(script, sessions)
            mode.issue(runner)
            last[f"replayed {name}"] = runner.results[len(batches) - 1]["loss:0"]
            starts = [*runner.starts, time.perf_counter()]
            times.setdefault(f"replayed {name}", []).extend(b - a for a, b in pairwise(starts))

        contenders[f"replayed {name}"] = replay
    for label, array in (("live memo", data), ("live memo, immutable feed", frozen)):
        live = Session(graph=model.graph)
        live.run(model.init)
        open_sessions.append(live)

        def run_live(live: Any = live, array: Any = array, label: str = label) -> None:
            live.run(model.reset)
            for pairs, labels in batches:
                feed = {model.x: array, model.pairs: pairs, model.labels: labels}
                step(label, live, [model.loss, model.step], feed)

        contenders[label] = run_live
    for contender in contenders.values():
        contender()  # first runs optimise graphs and fill caches
    times.clear()
    slow = {"plain run", "replayed run"}  # 100 times slower: measured once, the others in every round
    for number in range(options.rounds):
        for name in rng.permutation([name for name in contenders if not number or name not in slow]):
            contenders[name]()
    medians = {name: statistics.median(times[name]) for name in contenders}
    digesting = medians["feed by hand, by digest"] - medians["feed by hand"]
    base = {"replayed variable": "variable by hand", "replayed feed": "feed by hand", "replayed run": "plain run",
            "replayed handle": "feed by hand", "replayed memo": "feed by hand", "live memo": "feed by hand",
            "live memo, immutable feed": "feed by hand"}  # fmt: skip
    print(f"{'contender':28}{'us a step':>12}{'of by hand':>12}{'final loss':>14}")
    for name, seconds in medians.items():
        ratio = f"{seconds / medians[base[name]]:.2f}" if name in base else ""
        if name == "live memo":
            ratio = f"{(seconds - digesting) / medians[base[name]]:.2f} *"
        print(f"{name:28}{seconds * 1e6:12.0f}{ratio:>12}{last[name]:14.6f}")
    print(f"* without one digest of the feed a step, {digesting * 1e6:.0f} us")
    tiny()
    for one in open_sessions:
        one.close()


def tiny() -> None:
    """A live hit against a plain run on a tiny graph."""
    import cachelab.modes.live as live_module

    live_module.WORTH_SECONDS = 0.0
    graph = tf.Graph()
    with graph.as_default():
        x, z = tf1.placeholder(tf.float32, [4], "x"), tf1.placeholder(tf.float32, [], "z")
        out = tf.reduce_sum(tf.tanh(x * 2.0 + 1.0)) * z
    feeds = [{x: np.ones(4, "f"), z: float(k)} for k in range(2000)]
    with tf1.Session(graph=graph) as plain, Session(graph=graph) as live:
        times = {plain: [], live: []}
        for feed in feeds:
            for session, found in times.items():
                start = time.perf_counter()
                session.run(out, feed)
                found.append(time.perf_counter() - start)
        medians = [statistics.median(found[200:]) * 1e6 for found in times.values()]
        hits = live.cache_info().hits
    print(f"tiny graph: plain run {medians[0]:.0f} us, live hit {medians[1]:.0f} us ({hits} hits): "
          f"{medians[1] - medians[0]:+.0f} us")  # fmt: skip


if __name__ == "__main__":
    tf1.disable_eager_execution()
    main()
