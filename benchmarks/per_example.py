"""Per-example gradients side by side: CacheLab ``auto``, TensorFlow's own ways, JAX, torch.func and Opacus.

Run ``python benchmarks/per_example.py --peers PYTHON`` where PYTHON is an interpreter with the packages of
``benchmarks/peers.txt`` (``make bench-peers`` makes one); without it the table has TensorFlow only. Each framework runs
in a process of its own, and each round calls every contender of a cell once, in random order. It prints the tables of
docs/per_example.md: minimum and median of a call in ms, in brackets the ratio of the minima to the plain batch gradient
(the faster of TensorFlow's two, compiled by XLA or not); the goals that are met or missed; with ``--memory`` the peaks.
"""

from __future__ import annotations

import argparse
import os
import random
import statistics
import sys
import time
from contextlib import closing

from per_example_models import MODELS, TASKS
from per_example_worker import Worker

COLUMNS = ["auto", "vectorized_map", "n calls", "JAX vmap", "JAX by hand", "torch.func", "Opacus hooks", "Opacus ghost"]
TITLES = {"auto": "CacheLab `auto`", "vectorized_map": "TF `vectorized_map`", "JAX vmap": "JAX `vmap`"}
GOALS = {
    ("mlp", "norms"): 1.0, ("cnn", "norms"): 1.6, ("transformer", "norms"): 1.0,
    ("mlp", "clipped"): 1.3, ("cnn", "clipped"): 1.8, ("transformer", "clipped"): 1.3,
}  # fmt: skip
"""(model, task) -> at most so many times the plain batch gradient."""
Cell = tuple[str, int, str]
Times = dict[str, list[float]]


def measure(workers: list[Worker], cell: Cell, *, rounds: int, seconds: float, skip: list[str], clock: str) -> Times:
    """Return the times in ms of each contender of a cell, in interleaved rounds."""
    order = dict(zip(("model", "m", "task"), cell, strict=True))
    places = {name: worker for worker in workers for name in worker.ask(**order) if name not in skip}
    for name, worker in places.items():
        for _warm in range(2):
            worker.ask(**order, name=name)
    times: Times = {name: [] for name in places}
    start = time.perf_counter()
    for _round in range(rounds):
        for name in random.sample(list(places), len(places)):
            times[name].append(places[name].ask(**order, name=name)[clock])
        if time.perf_counter() - start > seconds:
            break
    return times


def plain(times: Times) -> float:
    """Return the time of a plain batch gradient."""
    return min(min(times[name]) for name in ("plain", "plain, XLA") if name in times)


def shown(times: Times, name: str) -> str:
    """Return the entry of the table for a contender."""
    if name not in times:
        return ""
    least = min(times[name])
    return f"{least:.3g} / {statistics.median(times[name]):.3g} ({least / plain(times):.2f})"


def table(header: list[str], rows: list[list[str]]) -> str:
    """Return a table in markdown."""
    return "\n".join("| " + " | ".join(row) + " |" for row in [header, ["---"] * len(header), *rows])


def goals(cell: Cell, times: Times) -> list[str]:
    """Return one line for each goal of the cell: met or missed, and by how much."""
    least = {name: min(found) for name, found in times.items()}
    wanted = [(name, 1.0) for name in ("JAX vmap", "torch.func", "Opacus hooks", "Opacus ghost")]
    wanted += [("JAX by hand", 1.5), *([("fill", 1.2)] if cell[0] == "mlp" else [])]
    checks = [(name, least["auto"] / least[name], limit) for name, limit in wanted if name in least]
    if (cell[0], cell[2]) in GOALS:
        checks.append(("plain", least["auto"] / plain(times), GOALS[cell[0], cell[2]]))
    return [
        f"{cell[0]} {cell[1]} {cell[2]}: {ratio:.2f} x {name} (goal {limit}) {'met' if ratio <= limit else 'MISSED'}"
        for name, ratio, limit in checks
    ]


def peaks(commands: dict[str, str], cell: Cell, skip: list[str]) -> dict[str, float]:
    """Return by contender the MB that two calls need above a fresh process, compilation included."""
    order = dict(zip(("model", "m", "task"), cell, strict=True))
    found: dict[str, float] = {}
    for framework, python in commands.items():
        with closing(Worker(framework, python)) as worker:
            names = [name for name in worker.ask(**order) if name not in skip]
        for name in names:
            with closing(Worker(framework, python)) as worker:
                worker.ask(**order)
                answers = [worker.ask(**order, name=name), worker.ask(**order, name=name)]
                found[name] = max(answers[0]["peak_mb"], 0)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="+", default=MODELS, choices=MODELS)
    parser.add_argument("--m", nargs="+", type=int, default=[64, 256])
    parser.add_argument("--tasks", nargs="+", default=TASKS, choices=TASKS)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--seconds", type=float, default=30.0, help="at most so long a cell")
    parser.add_argument("--peers", help="interpreter that has JAX, torch and Opacus")
    parser.add_argument("--skip", nargs="+", default=[], help="contenders to leave out")
    parser.add_argument(
        "--cpu", action="store_true", help="CPU time of all threads in place of wall time, for busy machines"
    )
    parser.add_argument("--memory", action="store_true", help="measure peak memory instead of time")
    options = parser.parse_args()
    commands = {"tf": sys.executable} | (dict.fromkeys(("jax", "torch"), options.peers) if options.peers else {})
    cells = [(model, m, task) for model in options.models for m in options.m for task in options.tasks]
    columns = [name for name in COLUMNS if name not in options.skip]
    if options.memory:
        rows = []
        for cell in cells:
            found = peaks(commands, cell, options.skip)
            rows.append(
                [f"{cell[0]} {cell[1]}, {cell[2]}", *(f"{found[n]:.0f}" if n in found else "" for n in columns)]
            )
            print(rows[-1], file=sys.stderr, flush=True)
        print(table(["peak MB", *(TITLES.get(name, name) for name in columns)], rows))
        return
    clock = "cpu_ms" if options.cpu else "ms"
    workers = [Worker(framework, python) for framework, python in commands.items()]
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    rows, checks, base = [], [], []
    for cell in cells:
        times = measure(workers, cell, rounds=options.rounds, seconds=options.seconds, skip=options.skip, clock=clock)
        title = f"{cell[0]} {cell[1]}, {cell[2]}"
        rows.append([title, *(shown(times, name) for name in columns)])
        kinds = ("plain", "plain, XLA", "JAX plain", "torch plain", "fill")
        base.append([title, *(f"{min(times[k]):.3g}" if k in times else "" for k in kinds)])
        checks += goals(cell, times)
        print(" | ".join(rows[-1]), file=sys.stderr, flush=True)
    print("\n" + table(["min / median ms (x plain)", *(TITLES.get(name, name) for name in columns)], rows))
    print("\n" + table(["plain batch gradient, min ms", "TF", "TF, XLA", "JAX", "torch", "write m x P"], base))
    print("\n" + "\n".join(checks))


if __name__ == "__main__":
    main()
