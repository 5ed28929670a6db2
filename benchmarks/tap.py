"""What a tap costs in a Keras training step, side by side with no tap and with the other ways to get the tensor.

    python benchmarks/tap.py [--rounds 300] [--sizes small medium large] [--json OUT]

All ways train the same model on the same data. A round takes one step of each way in random order; the table shows
median, tenth percentile and minimum of the time a step, each with the ratio to the step without a tap. On a busy
machine the percentile and the minimum say more. The write and the read alone are measured too.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
sys.path.insert(0, str(Path(__file__).parents[1]))

import keras
import numpy as np
import tensorflow as tf

from cachelab.tf.taps import Tap

if TYPE_CHECKING:
    from collections.abc import Callable

SIZES = {"small": (32, 16, 32), "medium": (256, 256, 512), "large": (512, 784, 1024)}
"""Model -> (batch, inputs, hidden)."""

SLOW = frozenset({"run_eagerly"})


def build(inputs: int, hidden: int, loss: Any, **options: bool) -> Any:
    keras.utils.set_random_seed(0)
    layers = keras.layers
    model = keras.Sequential(
        [keras.Input((inputs,)), layers.Dense(hidden, "relu"), layers.Dense(hidden, "relu"), layers.Dense(10)]
    )
    model.compile("adam", loss, **options)
    return model


def ways(size: str, *, jit: bool) -> dict[str, Callable[[], Any]]:
    """Return way -> function that takes one training step and leaves the difference readable."""
    batch, inputs, hidden = SIZES[size]
    draw = np.random.default_rng(0)
    x, y = tf.constant(draw.random((batch, inputs), np.float32)), tf.constant(draw.random((batch, 10), np.float32))
    options = {"jit_compile": jit}
    variable = tf.Variable(np.zeros((batch, 10), np.float32), trainable=False)
    tap, history = Tap(), Tap(history=10)
    losses = {
        "no tap": lambda labels, predictions: tf.square(labels - predictions),
        "tap": lambda labels, predictions: tf.square(tap("diff", labels - predictions)),
        "tap, history of 10": lambda labels, predictions: tf.square(history("diff", labels - predictions)),
    }

    def by_hand(labels: Any, predictions: Any) -> Any:
        difference = labels - predictions
        with tf.control_dependencies([variable.assign(difference)]):
            return tf.square(difference)

    losses["variable by hand"] = by_hand
    models = {name: build(inputs, hidden, loss, **options) for name, loss in losses.items()}
    steps = {name: lambda model=model: model.train_on_batch(x, y) for name, model in models.items()}
    again = build(inputs, hidden, losses["no tap"], **options)

    def second_pass() -> Any:
        again.train_on_batch(x, y)
        return y - again.predict_on_batch(x)

    def read() -> Any:
        models["tap"].train_on_batch(x, y)
        return tap["diff"]

    steps["tap and read"] = read
    steps["second pass (another value!)"] = second_pass
    eager = build(inputs, hidden, losses["no tap"], run_eagerly=True)
    steps["run_eagerly"] = lambda: eager.train_on_batch(x, y)
    return steps


def measure(steps: dict[str, Callable[[], Any]], rounds: int) -> dict[str, list[float]]:
    """Return way -> seconds of single steps. A round takes one step of each way, in random order; slow ways sit out."""
    for step in steps.values():
        for _warm in range(5):
            step()
    times: dict[str, list[float]] = {name: [] for name in steps}
    for number in range(rounds):
        for name in random.sample(list(steps), len(steps)):
            if name in SLOW and number % 20:
                continue
            started = time.perf_counter()
            steps[name]()
            times[name].append(time.perf_counter() - started)
    return times


def write_alone(rounds: int) -> dict[str, list[float]]:
    """Return the seconds a call of a trivial function without and with a tap."""
    tap, history = Tap(), Tap(history=10)
    x = tf.ones([256, 10])

    def plain(x: Any) -> Any:
        return x + 1

    def tapped(x: Any) -> Any:
        return tap("x", x + 1)

    def kept(x: Any) -> Any:
        return history("x", x + 1)

    bodies = {"no tap": plain, "tap": tapped, "tap, history of 10": kept}
    functions = {name: tf.function(body) for name, body in bodies.items()}
    steps = {name: lambda f=f: f(x) for name, f in functions.items()}
    steps["read alone"] = lambda: tap["x"]
    return measure(steps, rounds * 5)


def show(title: str, times: dict[str, list[float]]) -> list[tuple[Any, ...]]:
    print(f"\n{title}")
    print(f"{'way':30} {'median us':>10} {'ratio':>7} {'p10 us':>10} {'ratio':>7} {'min us':>10} {'ratio':>7}")
    base = _statistics(times["no tap"])
    rows = []
    for name, found in times.items():
        row = [name]
        for value, reference in zip(_statistics(found), base, strict=True):
            row += [value * 1e6, value / reference]
        rows.append(tuple(row))
        print("{:30} {:10.1f} {:7.3f} {:10.1f} {:7.3f} {:10.1f} {:7.3f}".format(*row))
    return rows


def _statistics(found: list[float]) -> tuple[float, float, float]:
    return statistics.median(found), sorted(found)[len(found) // 10], min(found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=300)
    parser.add_argument("--sizes", nargs="*", default=list(SIZES), choices=list(SIZES))
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    results = {"write alone": show("A function that only adds 1", write_alone(options.rounds))}
    for size in options.sizes:
        for jit in (False, True):
            title = f"{size} {SIZES[size]}{' jit_compile' if jit else ''}"
            results[title] = show(title, measure(ways(size, jit=jit), options.rounds))
    if options.json:
        options.json.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
