"""How fast the explorer draws real graphs: payload, first paint, expanding, recolouring, panning.

Graphs are the training steps of Keras applications (``weights=None``); statuses and times are made up from a
seed, 20 calls each. Headless Chromium shows the explorer as exported pages do.
"ms" is wall time until after the next paint, which other programs on the machine make longer; "cpu" is the time that
the page's main thread worked meanwhile, on a busy machine the better guide.

    python benchmarks/explorer.py [--models MobileNetV2 ResNet50 EfficientNetB7] [--rounds 3] [--cache FOLDER]
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import pickle
import random
import shutil
import statistics
import tempfile
from pathlib import Path
from typing import Any

from cachelab.model import Call, CauseRow, Columns, GraphTable, Record, Source
from cachelab.views import explorer_data
from cachelab.views import page as page_view

FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
CALLS = 20
GOALS = {"payload kB": 2000, "first paint ms": 1000, "expand ms": 250, "step ms": 100, "mode ms": 100}


def training_graph(model_name: str) -> tuple[list[str], list[str], list[list[str]], list[list[str]]]:
    """Names, types, inputs and control inputs of one training step with Adam."""
    import keras
    import tensorflow as tf

    model = getattr(keras.applications, model_name)(weights=None)
    optimizer = keras.optimizers.Adam()
    optimizer.build(model.trainable_variables)
    loss_of = keras.losses.SparseCategoricalCrossentropy()

    @tf.function(autograph=False)
    def step(images: Any, labels: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = loss_of(labels, model(images, training=True))
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        return loss

    size = model.input_shape[1]
    images = tf.TensorSpec([None, size, size, 3], tf.float32)
    graph = step.get_concrete_function(images, tf.TensorSpec([None], tf.int32)).graph.as_graph_def()
    inputs, control = [], []
    for node in graph.node:
        inputs.append([i if ":" in i else f"{i}:0" for i in node.input if not i.startswith("^")])
        control.append([i[1:] for i in node.input if i.startswith("^")])
    return [node.name for node in graph.node], [node.op for node in graph.node], inputs, control


def cached_graph(model_name: str, folder: Path) -> Any:
    path = folder / f"{model_name}.pickle.gz"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        path.write_bytes(gzip.compress(pickle.dumps(training_graph(model_name))))
    return pickle.loads(gzip.decompress(path.read_bytes()))  # noqa: S301 - written by this very script


def made_up_record(model_name: str, graph: Any, *, served: bool = False, seed: int = 7) -> Record:
    """A recording of 20 calls over a real graph; in each a stretch of the forward part is redundant."""
    names, types, inputs, control = graph
    draw = random.Random(seed)
    n = len(names)
    seconds = [round(draw.lognormvariate(-10, 1.5), 9) for _ in range(n)]
    sizes = [draw.choice((0, 4, 4096, 802_816)) for _ in range(n)]
    columns = []
    for call in range(5):
        kept = range(int(n * 0.05), int(n * (0.05 + 0.06 * call)))
        letter = "s" if served else "r"
        status = "".join(
            "d" if types[i] == "Placeholder" else letter if i in kept and types[i] != "Const" else "c" for i in range(n)
        )
        columns.append(
            Columns(
                op=tuple(range(n)), status=status, evidence="m" * n,
                seconds=tuple(
                    0.0 if s in "sd" else round(spent * (1 + call / 50), 9)
                    for spent, s in zip(seconds, status, strict=True)
                ),
                bytes=tuple(sizes), count=tuple(int(s in "cr") for s in status),
                witness=tuple(1 if s == "r" else None for s in status),
                cause=tuple((0,) if not call else (1,) if s in "rs" else (2,) for s in status),
            )
        )  # fmt: skip
    variables = [i for i, kind in enumerate(types) if kind == "Placeholder"][:400]
    versions = tuple((k, "v0") for k in range(len(variables)))
    calls = tuple(
        Call(
            index=k, kind="function", graph=0, session=0, thread=0, fetches=(f"{names[-1]}:0",), feeds=(),
            line=-1, start=k * 0.1, seconds=0.1, columns=k % 5, versions=versions,
        )
        for k in range(CALLS)
    )  # fmt: skip
    causes = (
        CauseRow("first", "", None, "first execution"),
        CauseRow("not_kept", names[0], 1, "ran on the inputs of call {call}; a value lives for one call only"),
        CauseRow("feed", "images:0", 0, "`images` was fed other content than in call {call}"),
    )
    table = GraphTable(0, tuple(names), tuple(types), tuple(map(tuple, inputs)), tuple(map(tuple, control)), (-1,) * n)
    sources = tuple(Source(names[i], "feed", 0) for i in variables)
    return Record(model_name, {}, (), (table,), sources, causes, tuple(columns), calls)


_WAIT = "const paint = () => new Promise((done) => requestAnimationFrame(() => setTimeout(done, 0)));"
_MOUNT = f"""async ([module, data]) => {{ {_WAIT}
  const m = await import(module);
  const place = document.getElementById('explorer');
  const start = performance.now();
  window.mounted = await m.mountPacked(place, data);
  await paint();
  return performance.now() - start;
}}"""
_EXPAND = f"""async () => {{ {_WAIT}
  const {{ explorer }} = window.mounted;
  const groups = explorer.tree().root.children.filter((one) => one.kind !== 'op');
  const largest = groups.reduce((a, b) => (b.rows.length > a.rows.length ? b : a));
  const start = performance.now();
  explorer.toggle(largest);
  await paint();
  return performance.now() - start;
}}"""
_STEP = f"""async (patch) => {{ {_WAIT}
  const start = performance.now();
  window.mounted.explorer.set(patch);
  await paint();
  return performance.now() - start;
}}"""
_PAN = """async () => {
  const { explorer } = window.mounted;
  const { view } = explorer.graphPanel;
  let frames = 0;
  const start = performance.now();
  while (performance.now() - start < 2000) {
    view.pan(frames % 120 < 60 ? -9 : 9, frames % 60 < 30 ? -4 : 4);
    frames += 1;
    await new Promise((done) => requestAnimationFrame(done));
  }
  return (1000 * frames) / (performance.now() - start);
}"""
_SIZE = """() => {
  const { picture } = window.mounted.explorer.graphPanel;
  return { wide: picture.w / 1400, items: picture.items.length, lines: picture.segments.length };
}"""


class Meter:
    """Evaluates a script that gives wall milliseconds, and measures the main thread's time beside."""

    def __init__(self, page: Any) -> None:
        self.page = page
        self.session = page.context.new_cdp_session(page)
        self.session.send("Performance.enable", {"timeDomain": "threadTicks"})
        self.found: dict[str, float] = {}

    def _thread(self) -> float:
        metrics = self.session.send("Performance.getMetrics")["metrics"]
        return next(1e3 * one["value"] for one in metrics if one["name"] == "TaskDuration")

    def take(self, name: str, script: str, arguments: list[Any]) -> None:
        walls, works = [], []
        for argument in arguments:
            before = self._thread()
            walls.append(self.page.evaluate(script, argument))
            works.append(self._thread() - before)
        self.found[f"{name} ms"] = statistics.median(walls)
        self.found[f"{name} cpu"] = statistics.median(works)


def measure(browser: Any, record: Record, replay: Record, shots: Path | None) -> dict[str, float]:
    """One page: mount, expand, step, mode, pan."""
    import base64

    data = explorer_data.recording_data(record)
    data["replays"] = {"variable": explorer_data.replay_data(replay)}
    sent = explorer_data.compressed(record)
    page = browser.new_page(viewport={"width": 1400, "height": 1200})
    with tempfile.TemporaryDirectory() as folder:
        blank = Path(folder) / "blank.html"
        blank.write_text("<!doctype html><html lang=en><title>bench</title><body><main id=explorer></main>")
        page.goto(blank.as_uri())
        module = "data:text/javascript;base64," + base64.b64encode(page_view.BUNDLE.read_bytes()).decode()
        both = base64.b64encode(explorer_data.packed(data)).decode()
        found = {"ops": len(record.graphs[0].name), "payload kB": len(sent) / 1e3}
        meter = Meter(page)
        meter.take("first paint", _MOUNT, [[module, base64.b64encode(sent).decode()]])
        found |= {f"first {key}": value for key, value in page.evaluate(_SIZE).items()}
        if shots:
            page.screenshot(path=shots / f"bench-{record.name}.png", full_page=True)
        page.evaluate(_MOUNT, [module, both])
        meter.take("step", _STEP, [{"entry": k} for k in (3, 4, 5, 6, 7)])
        meter.take("mode", _STEP, [{"mode": mode} for mode in ("variable", "run", "variable")])
        page.evaluate("() => window.mounted.explorer.set({ open: new Set() })")
        page.wait_for_timeout(300)
        meter.take("expand", _EXPAND, [None])
        found |= meter.found
        found |= {f"expanded {key}": value for key, value in page.evaluate(_SIZE).items()}
        found["pan frames/s"] = page.evaluate(_PAN)
        if shots:
            page.screenshot(path=shots / f"bench-{record.name}-open.png", full_page=True)
    page.close()
    return found


def main() -> None:
    from playwright.sync_api import sync_playwright

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="*", default=["MobileNetV2", "ResNet50", "EfficientNetB7"])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--cache", type=Path, default=Path(tempfile.gettempdir()) / "cachelab-graphs")
    parser.add_argument("--shots", type=Path, help="folder for screenshots")
    parser.add_argument("--json", type=Path, help="file for the figures")
    options = parser.parse_args()
    results = {}
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
        for name in options.models:
            graph = cached_graph(name, options.cache)
            record = made_up_record(name, graph)
            replay = made_up_record(name, graph, served=True)
            rounds = [measure(browser, record, replay, options.shots) for _ in range(options.rounds)]
            results[name] = {key: statistics.median(one[key] for one in rounds) for key in rounds[0]}
            print(name, f"(load of the machine {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores)")
            for key, value in results[name].items():
                goal = GOALS.get(key)
                print(
                    f"  {key:18} {value:10.1f}"
                    + (f"   goal {goal}: {'met' if value <= goal else 'MISSED'}" if goal else "")
                )
        browser.close()
    if options.json:
        options.json.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
