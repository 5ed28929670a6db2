"""A worker in the peers' environment: takes orders from per_example.py by line, so that rounds can be interleaved."""

from __future__ import annotations

import json
import resource
import sys
import time
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from per_example_models import batch, losses, parameters


def normalise(x: Any) -> Any:
    centred = x - x.mean(-1, keepdims=True)
    return centred / jnp.sqrt((centred**2).mean(-1, keepdims=True) + 1e-6)


def pool(x: Any) -> Any:
    return jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")


OPS = SimpleNamespace(
    relu=jax.nn.relu, matmul=jnp.matmul, reshape=jnp.reshape, transpose=jnp.transpose, softmax=jax.nn.softmax,
    pool=pool, mean=jnp.mean, normalise=normalise, take=lambda table, ids: jnp.take(table, ids, axis=0),
    conv=lambda x, k: jax.lax.conv_general_dilated(x, k, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")),
    cross_entropy=lambda z, y: -jnp.take_along_axis(jax.nn.log_softmax(z), y[:, None], 1)[:, 0],
)  # fmt: skip


def build(model: str, task: str, who: str) -> Any:
    def one(p: Any, x: Any, y: Any) -> Any:
        return losses(model, OPS, p, x[None], y[None])[0]

    rows = jax.vmap(jax.grad(one), (None, 0, 0))

    def norms(g: Any) -> Any:
        return sum((a.reshape(a.shape[0], -1) ** 2).sum(1) for a in g.values())

    def clipped(g: Any) -> Any:
        factor = jnp.minimum(1.0, 1.0 / jnp.sqrt(norms(g)))
        return {name: jnp.tensordot(factor, a, 1) for name, a in g.items()}

    def ghost(p: Any, x: Any, y: Any) -> Any:
        """Norms of the MLP by hand: Goodfellow's formula."""
        zeros = [jnp.zeros((x.shape[0], p[f"b{i}"].shape[0])) for i in range(4)]

        def with_taps(taps: Any) -> Any:
            h, kept = x, []
            for i in range(4):
                kept.append(h)
                h = h @ p[f"w{i}"] + p[f"b{i}"] + taps[i]
                h = jax.nn.relu(h) if i < 3 else h
            return OPS.cross_entropy(h, y).sum(), kept

        deltas, kept = jax.grad(with_taps, has_aux=True)(zeros)
        parts = [((a**2).sum(1) + 1) * (d**2).sum(1) for a, d in zip(kept, deltas, strict=True)]
        if task == "norms":
            return sum(parts)
        factor = jnp.minimum(1.0, 1.0 / jnp.sqrt(sum(parts)))[:, None]
        return [(a.T @ (factor * d), (factor * d).sum(0)) for a, d in zip(kept, deltas, strict=True)]

    if who == "jax plain":
        return jax.jit(jax.grad(lambda p, x, y: losses(model, OPS, p, x, y).mean()))
    if who == "jax ghost":
        return jax.jit(ghost)
    finish = {"gradients": lambda g: g, "norms": norms, "clipped": clipped}[task]
    return jax.jit(lambda p, x, y: finish(rows(p, x, y)))


def main() -> None:
    made: dict[tuple[Any, ...], Any] = {}
    for line in sys.stdin:
        order = json.loads(line)
        key = (order["model"], order["m"], order["task"], order["who"])
        if key not in made:
            p = {name: jnp.asarray(value) for name, value in parameters(order["model"]).items()}
            x, y = (jnp.asarray(value) for value in batch(order["model"], order["m"]))
            function = build(order["model"], order["task"], order["who"])
            made[key] = lambda f=function, a=(p, x, y): jax.block_until_ready(f(*a))
            result = made[key]()
            if order.get("save"):
                flat = jax.tree_util.tree_leaves(result)
                np.savez(order["save"], *[np.asarray(a) for a in flat])
        start = time.perf_counter()
        made[key]()
        seconds = time.perf_counter() - start
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(json.dumps({"ms": seconds * 1e3, "peak_mb": peak}), flush=True)


if __name__ == "__main__":
    main()
