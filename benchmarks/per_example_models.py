"""The three models of the per-example benchmark: shapes of the parameters, batches and losses, framework-free."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

MODELS = ("mlp", "cnn", "transformer")
TASKS = ("gradients", "norms", "clipped")
WIDTH, HEADS, HIDDEN, LENGTH, WORDS, CLASSES = 128, 4, 512, 64, 2048, 10
DTYPE = os.environ.get("PER_EXAMPLE_DTYPE", "float32")
"""``float64`` where results are compared instead of times."""


def parameters(model: str) -> dict[str, np.ndarray]:
    """Return named parameters with fixed random values."""
    random = np.random.default_rng(0)
    shapes: dict[str, tuple[int, ...]] = {}
    if model == "mlp":
        for i, (rows, columns) in enumerate([(784, 512), (512, 512), (512, 512), (512, CLASSES)]):
            shapes |= {f"w{i}": (rows, columns), f"b{i}": (columns,)}
    elif model == "cnn":
        shapes = {"k0": (3, 3, 3, 32), "b0": (32,), "k1": (3, 3, 32, 64), "b1": (64,)}
        shapes |= {"w": (4096, CLASSES), "b": (CLASSES,)}
    else:
        shapes["embedding"] = (WORDS, WIDTH)
        for i in range(2):
            shapes |= {f"{i}/{name}": (WIDTH, WIDTH) for name in ("query", "key", "value", "out")}
            shapes |= {f"{i}/up": (WIDTH, HIDDEN), f"{i}/up_b": (HIDDEN,)}
            shapes |= {f"{i}/down": (HIDDEN, WIDTH), f"{i}/down_b": (WIDTH,)}
            shapes |= {f"{i}/scale{j}": (WIDTH,) for j in range(2)} | {f"{i}/shift{j}": (WIDTH,) for j in range(2)}
        shapes |= {"head": (WIDTH, CLASSES)}
    made = {}
    for name, shape in shapes.items():
        fan = int(np.prod(shape[:-1])) or 1
        made[name] = random.normal(size=shape) / np.sqrt(fan) if len(shape) > 1 else np.zeros(shape)
        made[name] = (made[name] + ("scale" in name)).astype(DTYPE)
    return made


def batch(model: str, m: int) -> tuple[np.ndarray, np.ndarray]:
    """Return m inputs and labels."""
    random = np.random.default_rng(1)
    labels = random.integers(0, CLASSES, m).astype("int32")
    if model == "mlp":
        return random.normal(size=(m, 784)).astype(DTYPE), labels
    if model == "cnn":
        return random.normal(size=(m, 32, 32, 3)).astype(DTYPE), labels
    return random.integers(0, WORDS, (m, LENGTH)).astype("int32"), labels


def losses(model: str, ops: Any, p: dict[str, Any], x: Any, y: Any) -> Any:
    """Return the loss of each example; ``ops`` is a thin layer over the framework.

    ``ops.dense``, ``conv``, ``affine`` and ``take`` are where a parameter meets the examples: by their names in ``p``,
    so that a method by hand can keep the activations there.
    """
    if model == "mlp":
        for i in range(3):
            x = ops.relu(ops.dense(p, x, f"w{i}", f"b{i}"))
        return ops.cross_entropy(ops.dense(p, x, "w3", "b3"), y)
    if model == "cnn":
        for i in range(2):
            x = ops.pool(ops.relu(ops.conv(p, x, f"k{i}", f"b{i}")))
        return ops.cross_entropy(ops.dense(p, ops.reshape(x, (-1, 4096)), "w", "b"), y)
    x = ops.take(p, x, "embedding")
    for i in range(2):
        h = ops.affine(p, ops.normalise(x), f"{i}/scale0", f"{i}/shift0")
        q, k, v = (
            ops.transpose(
                ops.reshape(ops.dense(p, h, f"{i}/{name}"), (-1, LENGTH, HEADS, WIDTH // HEADS)), (0, 2, 1, 3)
            )
            for name in ("query", "key", "value")
        )
        weights = ops.softmax(ops.matmul(q, ops.transpose(k, (0, 1, 3, 2))) / (WIDTH // HEADS) ** 0.5)
        mixed = ops.reshape(ops.transpose(ops.matmul(weights, v), (0, 2, 1, 3)), (-1, LENGTH, WIDTH))
        x = x + ops.dense(p, mixed, f"{i}/out")
        h = ops.affine(p, ops.normalise(x), f"{i}/scale1", f"{i}/shift1")
        x = x + ops.dense(p, ops.relu(ops.dense(p, h, f"{i}/up", f"{i}/up_b")), f"{i}/down", f"{i}/down_b")
    return ops.cross_entropy(ops.dense(p, ops.mean(x, 1), "head"), y)
