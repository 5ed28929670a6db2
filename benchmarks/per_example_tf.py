"""The worker with TensorFlow: CacheLab ``auto`` and the ways that TensorFlow has by itself."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
sys.path[:0] = [str(Path(__file__).parents[1])]

import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402
from per_example_models import batch, losses, parameters  # noqa: E402
from per_example_worker import serve  # noqa: E402

from cachelab.tf import per_example  # noqa: E402


def normalise(x: tf.Tensor) -> tf.Tensor:
    centred = x - tf.reduce_mean(x, -1, keepdims=True)
    return centred * tf.math.rsqrt(tf.reduce_mean(tf.square(centred), -1, keepdims=True) + 1e-6)


def dense(p: Any, x: tf.Tensor, w: str, b: str | None = None) -> tf.Tensor:
    # Not `x @ w` for sequences: vectorized_map makes a broadcast product of it that crashes in oneDNN.
    product = tf.matmul(x, p[w]) if x.shape.rank == 2 else tf.tensordot(x, p[w], 1)
    return product if b is None else product + p[b]


OPS = SimpleNamespace(
    dense=dense, relu=tf.nn.relu, matmul=tf.matmul, reshape=tf.reshape, transpose=tf.transpose, softmax=tf.nn.softmax,
    mean=tf.reduce_mean, normalise=normalise,
    # Read first: vectorized_map has no converter for look-ups in the variable itself and would loop.
    take=lambda p, ids, table: tf.gather(tf.convert_to_tensor(p[table]), ids),
    affine=lambda p, x, scale, shift: x * p[scale] + p[shift],
    conv=lambda p, x, k, b: tf.nn.conv2d(x, p[k], 1, "SAME") + p[b],
    pool=lambda x: tf.nn.max_pool2d(x, 2, 2, "VALID"),
    cross_entropy=lambda z, y: tf.nn.sparse_softmax_cross_entropy_with_logits(y, z),
)  # fmt: skip


class Contenders:
    """All contenders of one model, batch size and task."""

    def __init__(self, model: str, m: int, task: str) -> None:
        self.model, self.task = model, task
        self.p = {name: tf.Variable(value) for name, value in parameters(model).items()}
        self.variables = list(self.p.values())
        self.x, self.y = (tf.constant(value) for value in batch(model, m))

    def loss(self, x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
        return losses(self.model, OPS, self.p, x, y)

    def plain(self, x: tf.Tensor, y: tf.Tensor) -> list[tf.Tensor]:
        with tf.GradientTape() as tape:
            value = tf.reduce_sum(self.loss(x, y))
        return [tf.convert_to_tensor(g) for g in tape.gradient(value, self.variables)]

    def finish(self, rows: list[tf.Tensor]) -> Any:
        if self.task == "gradients":
            return rows
        norms = tf.add_n([tf.reduce_sum(tf.square(tf.reshape(g, [tf.shape(g)[0], -1])), 1) for g in rows])
        if self.task == "norms":
            return norms
        return [tf.tensordot(tf.minimum(1.0, 1.0 / tf.sqrt(norms)), g, 1) for g in rows]

    def mapped(self, x: tf.Tensor, y: tf.Tensor) -> Any:
        return self.finish(tf.vectorized_map(lambda pair: self.plain(pair[0][None], pair[1][None]), (x, y)))

    def auto(self, x: tf.Tensor, y: tf.Tensor) -> Any:
        if self.task == "gradients":
            return per_example.per_example_gradients(self.loss, self.variables, (x, y))
        if self.task == "norms":
            return per_example.per_example_squared_norms(self.loss, self.variables, (x, y))
        return per_example.clipped_sum(self.loss, self.variables, (x, y), max_norm=1.0)

    def one_by_one(self) -> Any:
        single = tf.function(self.plain)

        def together(x: tf.Tensor, y: tf.Tensor) -> Any:
            rows = [single(x[i : i + 1], y[i : i + 1]) for i in range(len(x))]
            return self.finish([tf.stack(g) for g in zip(*rows, strict=True)])

        return together

    def fill(self) -> Any:
        """Return what writes as many numbers as the gradients have, to memory that is there already."""
        numbers = np.ones(
            (len(self.x), sum(v.shape.num_elements() for v in self.variables)), self.variables[0].dtype.name
        )
        return lambda _x, _y: numbers.fill(2)

    def named(self, name: str) -> Any:
        """Return a contender as a function without arguments; in eager code on CPU a result is there on return."""
        made = {
            "plain": lambda: tf.function(self.plain),
            "plain, XLA": lambda: tf.function(self.plain, jit_compile=True),
            "auto": lambda: self.auto,
            "vectorized_map": lambda: tf.function(self.mapped),
            "n calls": self.one_by_one,
            "fill": self.fill,
        }[name]()
        if name == "auto":  # The trial of XLA takes 22 calls at most.
            for _call in range(22):
                made(self.x, self.y)
        return lambda: made(self.x, self.y)


def names(_model: str, m: int, task: str) -> list[str]:
    plain = ["plain", "plain, XLA", "auto", "vectorized_map"]
    return [*plain, *(["n calls"] if m <= 64 else []), *(["fill"] if task == "gradients" else [])]


def arrays(model: str, task: str, result: Any) -> dict[str, np.ndarray]:
    if task == "norms":
        return {"norms": result.numpy()}
    return {name: value.numpy() for name, value in zip(parameters(model), result, strict=True)}


if __name__ == "__main__":
    serve(names, lambda model, m, task, name: Contenders(model, m, task).named(name), arrays)
