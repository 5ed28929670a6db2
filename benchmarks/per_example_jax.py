"""The worker with JAX: ``jit(vmap(grad))``, and the best known methods written by hand."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from per_example_models import DTYPE, batch, losses, parameters
from per_example_worker import serve

jax.config.update("jax_enable_x64", DTYPE == "float64")


def normalise(x: Any) -> Any:
    centred = x - x.mean(-1, keepdims=True)
    return centred / jnp.sqrt((centred**2).mean(-1, keepdims=True) + 1e-6)


def pool(x: Any) -> Any:
    return jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")


def convolve(x: Any, kernel: Any) -> Any:
    return jax.lax.conv_general_dilated(x, kernel, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))


def patches(x: Any) -> Any:
    """Return ``[m, positions, 9 * channels]``: shifted copies, joined (twice as fast as JAX's own patches here)."""
    size = x.shape[1]
    padded = jnp.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)))
    parts = [padded[:, i : i + size, j : j + size] for i in range(3) for j in range(3)]
    return jnp.concatenate(parts, -1).reshape(x.shape[0], size * size, -1)


OPS = SimpleNamespace(
    dense=lambda p, x, w, b=None: x @ p[w] + (p[b] if b else 0), relu=jax.nn.relu, matmul=jnp.matmul,
    reshape=jnp.reshape, transpose=jnp.transpose, softmax=jax.nn.softmax, pool=pool, mean=jnp.mean,
    normalise=normalise, take=lambda p, ids, table: jnp.take(p[table], ids, axis=0),
    affine=lambda p, x, scale, shift: x * p[scale] + p[shift], conv=lambda p, x, k, b: convolve(x, p[k]) + p[b],
    cross_entropy=lambda z, y: -jnp.take_along_axis(jax.nn.log_softmax(z), y[:, None], 1)[:, 0],
)  # fmt: skip


class Tapped:
    """The losses with a zero added where a parameter has met the examples; their gradients are the deltas."""

    def __init__(self, taps: dict[str, Any] | None) -> None:
        self.taps, self.kept, self.shapes = taps, {}, {}

    def __getattr__(self, kind: str) -> Any:
        plain = getattr(OPS, kind)
        if kind not in {"dense", "conv", "affine", "take"}:
            return plain

        def tapped(p: Any, x: Any, *names: str) -> Any:
            out = plain(p, x, *names)
            self.kept[names[0]] = (x, kind, names)
            self.shapes[names[0]] = jnp.zeros(out.shape, out.dtype)
            return out if self.taps is None else out + self.taps[names[0]]

        return tapped


def row_norms(a: Any) -> Any:
    return (a.reshape(a.shape[0], -1) ** 2).sum(1)


def norms_at(kind: str, x: Any, d: Any, names: tuple[str, ...], shapes: dict[str, tuple[int, ...]]) -> Any:
    """Return the squared norms at one place: Goodfellow's, Gram matrices or products, whichever is cheapest."""
    over = tuple(range(1, d.ndim - 1))
    bias = row_norms(d.sum(over)) if len(names) > 1 else 0
    if kind == "affine":
        return row_norms((d * x).sum(over)) + bias
    if kind == "take":
        same = (x[:, :, None] == x[:, None, :]).astype(d.dtype)
        return (same * (d @ d.transpose(0, 2, 1))).sum((1, 2))
    if kind == "conv":
        x, d = patches(x), d.reshape(d.shape[0], -1, d.shape[-1])
    if d.ndim == 2:
        return (x**2).sum(1) * (d**2).sum(1) + bias
    if 2 * d.shape[1] ** 2 < np.prod(shapes[names[0]]):
        return ((x @ x.transpose(0, 2, 1)) * (d @ d.transpose(0, 2, 1))).sum((1, 2)) + bias
    return row_norms(x.transpose(0, 2, 1) @ d) + bias


def sums_at(kind: str, x: Any, d: Any, names: tuple[str, ...], p: dict[str, Any]) -> dict[str, Any]:
    """Return the sums of the scaled gradients at one place (book-keeping)."""
    over = tuple(range(d.ndim - 1))
    if kind == "affine":
        return {names[0]: (d * x).sum(over), names[1]: d.sum(over)}
    if kind == "take":
        return {names[0]: jnp.zeros_like(p[names[0]]).at[x.reshape(-1)].add(d.reshape(-1, d.shape[-1]))}
    if kind == "conv":
        weight = jax.vjp(lambda k: convolve(x, k), p[names[0]])[1](d)[0]
    else:
        weight = x.reshape(-1, x.shape[-1]).T @ d.reshape(-1, d.shape[-1])
    return {names[0]: weight} | ({names[1]: d.sum(over)} if len(names) > 1 else {})


def by_hand(model: str, task: str) -> Any:
    def run(p: Any, x: Any, y: Any) -> Any:
        look = Tapped(None)
        jax.eval_shape(lambda: losses(model, look, p, x, y))
        zeros = {name: jnp.zeros(found.shape, found.dtype) for name, found in look.shapes.items()}
        sites = {name: (kind, names) for name, (_x, kind, names) in look.kept.items()}

        def total(taps: Any) -> Any:
            tapped = Tapped(taps)
            return losses(model, tapped, p, x, y).sum(), {name: kept[0] for name, kept in tapped.kept.items()}

        deltas, kept = jax.grad(total, has_aux=True)(zeros)
        shapes = {name: value.shape for name, value in p.items()}
        norms = sum(norms_at(kind, kept[k], deltas[k], names, shapes) for k, (kind, names) in sites.items())
        if task == "norms":
            return norms
        factor = jnp.minimum(1.0, 1.0 / jnp.sqrt(norms))
        found: dict[str, Any] = {}
        for k, (kind, names) in sites.items():
            scaled = deltas[k] * factor.reshape([-1] + [1] * (deltas[k].ndim - 1))
            found |= sums_at(kind, kept[k], scaled, names, p)
        return {name: found[name] for name in p}

    return run


def by_vmap(model: str, task: str) -> Any:
    def one(p: Any, x: Any, y: Any) -> Any:
        return losses(model, OPS, p, x[None], y[None])[0]

    rows = jax.vmap(jax.grad(one), (None, 0, 0))

    def finish(g: Any) -> Any:
        if task == "gradients":
            return g
        norms = sum(row_norms(a) for a in g.values())
        if task == "norms":
            return norms
        factor = jnp.minimum(1.0, 1.0 / jnp.sqrt(norms))
        return {name: jnp.tensordot(factor, a, 1) for name, a in g.items()}

    return lambda p, x, y: finish(rows(p, x, y))


def build(model: str, m: int, task: str, name: str) -> Any:
    p = {key: jnp.asarray(value) for key, value in parameters(model).items()}
    x, y = (jnp.asarray(value) for value in batch(model, m))
    function = {
        "JAX plain": lambda: jax.grad(lambda p, x, y: losses(model, OPS, p, x, y).sum()),
        "JAX vmap": lambda: by_vmap(model, task),
        "JAX by hand": lambda: by_hand(model, task),
    }[name]()
    compiled = jax.jit(function)
    return lambda: jax.block_until_ready(compiled(p, x, y))


def names(_model: str, _m: int, task: str) -> list[str]:
    return ["JAX plain", "JAX vmap", *([] if task == "gradients" else ["JAX by hand"])]


def arrays(_model: str, task: str, result: Any) -> dict[str, np.ndarray]:
    return {"norms": np.asarray(result)} if task == "norms" else {k: np.asarray(v) for k, v in result.items()}


if __name__ == "__main__":
    serve(names, build, arrays)
