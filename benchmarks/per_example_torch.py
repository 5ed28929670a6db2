"""The worker with PyTorch: ``torch.func.vmap(grad)``, and Opacus with hooks and with ghost clipping."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import torch
from per_example_models import CLASSES, DTYPE, HEADS, HIDDEN, LENGTH, WIDTH, WORDS, batch, parameters
from per_example_worker import serve
from torch import nn
from torch.nn import functional

warnings.filterwarnings("ignore")
torch.set_default_dtype(getattr(torch, DTYPE))


class Block(nn.Module):
    """One layer of the transformer."""

    def __init__(self) -> None:
        super().__init__()
        self.norm0, self.norm1 = nn.LayerNorm(WIDTH, eps=1e-6), nn.LayerNorm(WIDTH, eps=1e-6)
        self.query, self.key, self.value, self.out = (nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(4))
        self.up, self.down = nn.Linear(WIDTH, HIDDEN), nn.Linear(HIDDEN, WIDTH)

    def forward(self, x: Any) -> Any:
        h = self.norm0(x)
        q, k, v = (
            layer(h).reshape(-1, LENGTH, HEADS, WIDTH // HEADS).transpose(1, 2)
            for layer in (self.query, self.key, self.value)
        )
        weights = torch.softmax(q @ k.transpose(2, 3) / (WIDTH // HEADS) ** 0.5, -1)
        x = x + self.out((weights @ v).transpose(1, 2).reshape(-1, LENGTH, WIDTH))
        return x + self.down(torch.relu(self.up(self.norm1(x))))


class Transformer(nn.Module):
    """The blocks between an embedding and a head."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.blocks = nn.Embedding(WORDS, WIDTH), nn.Sequential(Block(), Block())
        self.head = nn.Linear(WIDTH, CLASSES, bias=False)

    def forward(self, x: Any) -> Any:
        return self.head(self.blocks(self.embedding(x)).mean(1))


def as_linear(w: np.ndarray) -> np.ndarray:
    return w.T


def as_kernel(k: np.ndarray) -> np.ndarray:
    return k.transpose(3, 2, 0, 1)


def from_kernel(k: np.ndarray) -> np.ndarray:
    return k.transpose(2, 3, 1, 0)


def after_flatten(w: np.ndarray) -> np.ndarray:
    """Reorder the rows for channels that come first."""
    return w.reshape(8, 8, 64, CLASSES).transpose(3, 2, 0, 1).reshape(CLASSES, -1)


def before_flatten(w: np.ndarray) -> np.ndarray:
    return w.reshape(CLASSES, 64, 8, 8).transpose(2, 3, 1, 0).reshape(-1, CLASSES)


def same(a: np.ndarray) -> np.ndarray:
    return a


def build_model(model: str) -> tuple[nn.Module, dict[str, tuple[str, Any, Any]]]:
    """Return a module and, by the common names of the parameters: its own name, and the layout there and back."""
    linear, kernel = (as_linear, as_linear), (as_kernel, from_kernel)
    places: dict[str, tuple[str, Any, Any]] = {}
    if model == "mlp":
        sizes = [784, 512, 512, 512, CLASSES]
        layers: list[nn.Module] = []
        for i in range(4):
            layers += [nn.Linear(sizes[i], sizes[i + 1]), nn.ReLU()]
            places |= {f"w{i}": (f"{2 * i}.weight", *linear), f"b{i}": (f"{2 * i}.bias", same, same)}
        return nn.Sequential(*layers[:-1]), places
    if model == "cnn":
        pool = nn.MaxPool2d(2)
        module = nn.Sequential(
            nn.Conv2d(3, 32, 3, padding=1), nn.ReLU(), pool, nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(), pool,
            nn.Flatten(), nn.Linear(4096, CLASSES),
        )  # fmt: skip
        for i, at in enumerate((0, 3)):
            places |= {f"k{i}": (f"{at}.weight", *kernel), f"b{i}": (f"{at}.bias", same, same)}
        return module, places | {"w": ("7.weight", after_flatten, before_flatten), "b": ("7.bias", same, same)}
    places = {"embedding": ("embedding.weight", same, same), "head": ("head.weight", *linear)}
    for i in range(2):
        for name in ("query", "key", "value", "out", "up", "down"):
            places[f"{i}/{name}"] = (f"blocks.{i}.{name}.weight", *linear)
        places |= {f"{i}/{name}_b": (f"blocks.{i}.{name}.bias", same, same) for name in ("up", "down")}
        for j in range(2):
            places[f"{i}/scale{j}"] = (f"blocks.{i}.norm{j}.weight", same, same)
            places[f"{i}/shift{j}"] = (f"blocks.{i}.norm{j}.bias", same, same)
    return Transformer(), places


def made(model: str) -> nn.Module:
    module, places = build_model(model)
    values = parameters(model)
    own = dict(module.named_parameters())
    with torch.no_grad():
        for name, (path, to, _back) in places.items():
            own[path].copy_(torch.from_numpy(np.ascontiguousarray(to(values[name]))))
    return module


def row_norms(g: Any) -> Any:
    return g.reshape(len(g), -1).square().sum(1)


def finish(task: str, rows: dict[str, Any]) -> Any:
    if task == "gradients":
        return rows
    norms = sum(row_norms(g) for g in rows.values())
    if task == "norms":
        return norms
    factor = (1 / norms.sqrt()).clamp(max=1)
    return {name: torch.tensordot(factor, g, 1) for name, g in rows.items()}


def build(model: str, m: int, task: str, name: str) -> Any:
    x, y = (torch.from_numpy(value) for value in batch(model, m))
    x, y = (x.permute(0, 3, 1, 2).contiguous() if model == "cnn" else x), y.long()
    module = made(model)

    def losses(network: Any) -> Any:
        return functional.cross_entropy(network(x), y, reduction="none")

    if name == "torch plain":
        weights = dict(module.named_parameters())
        return lambda: dict(
            zip(weights, torch.autograd.grad(losses(module).sum(), list(weights.values())), strict=True)
        )
    if name == "torch.func":
        weights = {key: value.detach() for key, value in module.named_parameters()}

        def one(p: Any, x: Any, y: Any) -> Any:
            out = torch.func.functional_call(module, p, (x[None],))
            return functional.cross_entropy(out, y[None])

        rows = torch.func.vmap(torch.func.grad(one), (None, 0, 0))
        return lambda: finish(task, rows(weights, x, y))
    return opacus(module, losses, task, name)


def opacus(module: nn.Module, losses: Any, task: str, name: str) -> Any:
    from opacus.grad_sample import GradSampleModule
    from opacus.grad_sample.grad_sample_module_fast_gradient_clipping import GradSampleModuleFastGradientClipping

    if name == "Opacus hooks":
        wrapped = GradSampleModule(module, loss_reduction="sum")

        def hooks() -> Any:
            wrapped.zero_grad(set_to_none=True)
            losses(wrapped).sum().backward()
            return finish(task, {key: p.grad_sample for key, p in module.named_parameters()})

        return hooks
    ghost = GradSampleModuleFastGradientClipping(module, loss_reduction="sum", max_grad_norm=1.0)

    def run() -> Any:
        ghost.zero_grad(set_to_none=True)
        values = losses(ghost)
        values.sum().backward(retain_graph=task == "clipped")
        if task == "norms":
            return ghost.get_norm_sample().square()
        factor = ghost.get_clipping_coef()
        ghost.zero_grad(set_to_none=True)
        ghost.disable_hooks()
        (factor * values).sum().backward()
        ghost.enable_hooks()
        return {key: p.grad for key, p in module.named_parameters()}

    return run


def names(_model: str, _m: int, task: str) -> list[str]:
    return ["torch plain", "torch.func", "Opacus hooks", *([] if task == "gradients" else ["Opacus ghost"])]


def arrays(model: str, task: str, result: Any) -> dict[str, np.ndarray]:
    if task == "norms":
        return {"norms": result.detach().numpy()}
    found = {}
    for name, (path, _to, back) in build_model(model)[1].items():
        value = result[path].detach().numpy()
        found[name] = np.stack([back(row) for row in value]) if task == "gradients" else back(value)
    return found


if __name__ == "__main__":
    serve(names, build, arrays)
