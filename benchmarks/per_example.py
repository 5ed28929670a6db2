"""Per-example gradients side by side: CacheLab ``auto`` against TensorFlow's own ways and JAX, in interleaved rounds.

Run ``python benchmarks/per_example.py --peers PYTHON`` where PYTHON is an interpreter that has JAX (``make
bench-peers`` makes one); without it JAX is left out, and the table says so. Each round calls every contender once, in
random order; the table has minimum and median of a call in ms, and the ratio to the plain batch gradient (the faster
of TensorFlow's two, compiled by XLA or not). On a busy machine only minima and ratios mean something.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1])]

import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402
from per_example_models import batch, losses, parameters  # noqa: E402

from cachelab.tf import per_example  # noqa: E402


def normalise(x: tf.Tensor) -> tf.Tensor:
    centred = x - tf.reduce_mean(x, -1, keepdims=True)
    return centred * tf.math.rsqrt(tf.reduce_mean(tf.square(centred), -1, keepdims=True) + 1e-6)


OPS = SimpleNamespace(
    relu=tf.nn.relu, matmul=tf.matmul, reshape=tf.reshape, transpose=tf.transpose, softmax=tf.nn.softmax,
    mean=tf.reduce_mean, normalise=normalise, take=tf.gather, conv=lambda x, k: tf.nn.conv2d(x, k, 1, "SAME"),
    pool=lambda x: tf.nn.max_pool2d(x, 2, 2, "VALID"),
    cross_entropy=lambda z, y: tf.nn.sparse_softmax_cross_entropy_with_logits(y, z),
)  # fmt: skip


class Contenders:
    """All contenders of one cell (model, m, task): name -> function without arguments that waits for its result."""

    def __init__(self, model: str, m: int, task: str) -> None:
        self.p = {name: tf.Variable(value) for name, value in parameters(model).items()}
        self.x, self.y = (tf.constant(value) for value in batch(model, m))
        self.variables, self.task, self.model = list(self.p.values()), task, model

    def loss(self, x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
        return losses(self.model, OPS, self.p, x, y)

    def finish(self, rows: list[tf.Tensor]) -> Any:
        if self.task == "gradients":
            return rows
        norms = tf.add_n([tf.reduce_sum(tf.square(tf.reshape(g, [tf.shape(g)[0], -1])), 1) for g in rows])
        if self.task == "norms":
            return norms
        return [tf.tensordot(tf.minimum(1.0, 1.0 / tf.sqrt(norms)), g, 1) for g in rows]

    def one(self, pair: tuple[tf.Tensor, tf.Tensor]) -> list[tf.Tensor]:
        with tf.GradientTape() as tape:
            value = self.loss(pair[0][None], pair[1][None])
        return [tf.convert_to_tensor(g) for g in tape.gradient(value, self.variables)]

    def plain(self, x: tf.Tensor, y: tf.Tensor) -> list[tf.Tensor]:
        with tf.GradientTape() as tape:
            value = tf.reduce_mean(self.loss(x, y))
        return [tf.convert_to_tensor(g) for g in tape.gradient(value, self.variables)]

    def all(self, *, slow: bool) -> dict[str, Any]:
        mapped = lambda x, y: self.finish(tf.vectorized_map(self.one, (x, y)))  # noqa: E731
        found = {
            "plain": tf.function(self.plain),
            "plain, jit": tf.function(self.plain, jit_compile=True),
            "cachelab auto": self.auto,
            "vectorized_map": tf.function(mapped),
        }
        if slow:
            single = tf.function(self.plain)
            found["n calls"] = lambda x, y: self.finish(
                [tf.stack(g) for g in zip(*[single(x[i : i + 1], y[i : i + 1]) for i in range(len(x))], strict=True)]
            )
        return {name: (lambda f=function: f(self.x, self.y)) for name, function in found.items()}

    def auto(self, x: tf.Tensor, y: tf.Tensor) -> Any:
        if self.task == "gradients":
            return per_example.per_example_gradients(self.loss, self.variables, (x, y))
        if self.task == "norms":
            return per_example.per_example_squared_norms(self.loss, self.variables, (x, y))
        return per_example.clipped_sum(self.loss, self.variables, (x, y), max_norm=1.0)


class Peer:
    """The worker with JAX."""

    def __init__(self, python: str) -> None:
        script = Path(__file__).with_name("per_example_jax.py")
        self.process = subprocess.Popen(  # noqa: S603  an interpreter that the caller named
            [python, str(script)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "JAX_PLATFORMS": "cpu"},
        )

    def ask(self, **order: Any) -> dict[str, float]:
        self.process.stdin.write(json.dumps(order) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())


def wait(value: Any) -> None:
    for tensor in tf.nest.flatten(value):
        tensor.numpy() if tensor.shape.num_elements() < 1 << 16 else tensor[0].numpy()


def cell(model: str, m: int, task: str, *, rounds: int, peer: Peer | None, seconds: float) -> dict[str, list[float]]:
    contenders = Contenders(model, m, task)
    calls = contenders.all(slow=model == "mlp" and m <= 64)
    names = (
        []
        if peer is None
        else ["jax plain", "jax vmap", *(["jax ghost"] if model == "mlp" and task != "gradients" else [])]
    )
    times: dict[str, list[float]] = {name: [] for name in [*calls, *names]}
    for _warm in range(4):
        wait(calls["cachelab auto"]())
    for name in calls:
        wait(calls[name]())
    for name in names:
        peer.ask(model=model, m=m, task=task, who=name)
    start = time.perf_counter()
    for _round in range(rounds):
        order = list(times)
        random.shuffle(order)
        for name in order:
            if name in calls:
                begin = time.perf_counter()
                wait(calls[name]())
                times[name].append((time.perf_counter() - begin) * 1e3)
            else:
                times[name].append(peer.ask(model=model, m=m, task=task, who=name)["ms"])
        if time.perf_counter() - start > seconds:
            break
    return times


def agreement(model: str, peer: Peer, folder: Path) -> float:
    """Return the largest relative difference of the norms from JAX's."""
    path = folder / f"{model}.npz"
    peer.ask(model=model, m=8, task="norms", who="jax vmap", save=str(path))
    theirs = np.load(path)["arr_0"]
    ours = Contenders(model, 8, "norms")
    return float(np.abs(ours.auto(ours.x, ours.y).numpy() / theirs - 1).max())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", nargs="+", default=["mlp", "cnn", "transformer"])
    parser.add_argument("--m", nargs="+", type=int, default=[64, 256])
    parser.add_argument("--tasks", nargs="+", default=["gradients", "norms", "clipped"])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--seconds", type=float, default=60.0, help="at most so long a cell")
    parser.add_argument("--peers", help="interpreter that has JAX")
    options = parser.parse_args()
    peer = Peer(options.peers) if options.peers else None
    print(
        f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, TensorFlow {tf.__version__}, "
        f"JAX {'yes' if peer else 'not installed'}"
    )
    for model in options.models:
        if peer:
            import tempfile

            with tempfile.TemporaryDirectory() as folder:
                print(
                    f"{model}: norms differ from JAX by at most {agreement(model, peer, Path(folder)):.1e} (relative)"
                )
        for m in options.m:
            for task in options.tasks:
                if model == "transformer" and m > 64 and task == "gradients":
                    continue
                times = cell(model, m, task, rounds=options.rounds, peer=peer, seconds=options.seconds)
                best = {name: min(found) for name, found in times.items()}
                base = min(best["plain"], best["plain, jit"])
                print(f"\n{model} m={m} {task} ({len(times['plain'])} rounds)")
                for name, found in sorted(times.items(), key=lambda item: min(item[1])):
                    print(
                        f"  {name:16} min {min(found):8.2f}  median {statistics.median(found):8.2f}"
                        f"  x plain {min(found) / base:6.2f}",
                        flush=True,
                    )


if __name__ == "__main__":
    main()
