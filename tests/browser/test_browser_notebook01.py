"""Notebook 01 in a real JupyterLab and Notebook 7: each mode button, its figures against those of the kernel."""

from __future__ import annotations

import json

import pytest
from conftest import ROOT

pytestmark = [pytest.mark.browser, pytest.mark.timeout(1500)]

NOTEBOOK = json.loads((ROOT / "notebooks" / "01_cache_representations.ipynb").read_text(encoding="utf-8"))
CELLS = ["".join(cell["source"]) for cell in NOTEBOOK["cells"] if cell["cell_type"] == "code"]
RECORDED = next(i for i, cell in enumerate(CELLS) if "--name every_step" in cell)
RESULTS = """\
import json
shown = {one.mode: one for one in every_step.record.modes}
again = {one.mode: one.result for one in every_step.compare(list(shown))}
print(json.dumps({mode: {key: [getattr(one, key) for one in (shown[mode], again[mode])] for key in
    ("applicable", "reason", "equality", "executed", "recomputed", "reused", "bytes_held", "seconds", "setup_seconds",
     "speedup")} for mode in shown}))"""
EXPORT = """\
every_step.export("every_step.html")
print(json.dumps({op.name: op.status for op in every_step.calls[3].ops}))"""
FOUR = ("run", "partial_run", "variable", "per_example")
MORE = ("joint", "feed", "handle", "memo")


@pytest.fixture(params=["lab", "notebook7"])
def server(request):
    return request.getfixturevalue(request.param)


def time_text(seconds):
    """A time as the explorer writes it."""
    if seconds <= 0:
        return "0 ms"
    if seconds < 0.000995:
        return f"{max(1, round(seconds * 1e6))} µs"
    if seconds < 0.00995:
        return f"{seconds * 1e3:.1f} ms"
    return f"{round(seconds * 1e3)} ms" if seconds < 1 else f"{seconds:.2f} s"


def bytes_text(size):
    """A size as the explorer writes it."""
    if size < 1000:
        return f"{size} B"
    value, unit = (size / 1e3, "kB") if size < 1e6 else (size / 1e6, "MB")
    return f"{value:.{2 if value < 10 else 1 if value < 100 else 0}f} {unit}"


def test_each_mode_shows_the_figures_of_the_kernel(open_notebook, server, artifacts, chromium):
    book = open_notebook(server, f"01-{server.app}.ipynb", *CELLS, RESULTS, EXPORT, height=1500)
    book.page.set_default_timeout(240_000)
    # The notebook says cachelab.last(): what follows a recorded cell looks at that recording.
    for index in range(RECORDED + 2):
        book.run(index)
    root = book.page.locator(".cachelab-explorer .xp").first
    root.wait_for()
    refused = {}
    for mode in (*FOUR, *MORE):
        if mode in MORE:
            root.locator('[data-key="more"]').click()
        root.locator(f'[data-mode="{mode}"]').click()
        note = root.locator(".note")
        chosen = (
            root.locator(f'[data-mode="{mode}"][aria-checked="true"]')
            if mode in FOUR
            else root.locator(".more > button.on b", has_text=mode)
        )
        said = note.locator("code", has_text=mode.replace("per_example", "per-example"))
        chosen.or_(said.filter(has_not=root.locator("progress"))).first.wait_for()
        root.locator(".note progress").wait_for(state="detached")
        if not chosen.count():
            refused[mode] = note.inner_text()
        root.screenshot(path=artifacts / f"notebook01-{server.app}-{mode}.png")
    for index in range(RECORDED + 2, len(CELLS)):
        book.run(index)
    python = json.loads(book.text(len(CELLS)))
    assert set(python) == {"run", *FOUR[1:], *MORE} or set(python) == {*FOUR[1:], *MORE}
    rows = {}
    for cells in root.locator(".cmp tbody tr").all():
        rows[cells.locator("th").inner_text()] = cells.locator("td").all_inner_texts()
    for mode, figures in python.items():
        for key in ("applicable", "equality", "executed", "recomputed", "reused", "bytes_held"):
            assert figures[key][0] == figures[key][1], (mode, key, figures)
        first = {key: values[0] for key, values in figures.items()}
        if not first["applicable"]:
            assert mode in refused
            assert first["reason"].replace("`", "") in refused[mode].replace("`", "")
            continue
        row = rows[mode.replace("per_example", "per-example")]
        assert row[1:4] == [str(first[key]) for key in ("executed", "recomputed", "reused")], mode
        if mode == "run":
            continue
        assert row[4] == time_text(first["seconds"]), mode
        assert row[6] == f"{first['speedup']:.1f}×", mode
        assert row[7] == bytes_text(first["bytes_held"]), mode
        assert row[8] == time_text(first["setup_seconds"]), mode
        assert row[10].startswith(first["equality"]), mode
    assert rows["variable"][3] != "0"
    assert "partial_run" in refused
    exported_page_stands_alone(
        chromium, server.work / "every_step.html", json.loads(book.text(len(CELLS) + 1)), artifacts
    )


def exported_page_stands_alone(chromium, path, statuses, artifacts):
    """Graph, matrix, steps, inspector and the replayed modes, without kernel and network; the record without script."""
    assert path.stat().st_size < 3_000_000
    context = chromium.new_context(viewport={"width": 1300, "height": 1200}, offline=True)
    page = context.new_page()
    asked = []
    page.on("request", lambda one: asked.append(one.url))
    page.goto(path.as_uri())
    root = page.locator(".cachelab-explorer .xp")
    root.wait_for()
    root.locator('.stp [data-entry="3"]').click()
    root.locator(".find").fill("enc/representations")
    root.locator(".find").press("Enter")
    label = root.locator('svg.graph [data-id="enc/representations"]').get_attribute("aria-label")
    assert label.startswith(f"enc/representations, {statuses['enc/representations']}")
    assert root.locator('[data-group="enc/representations"][data-e="3"]').inner_text() == "R"
    assert "Ran again on equal inputs." in root.locator(".ins").inner_text()
    root.locator('[data-mode="variable"]').click()
    assert root.locator('[data-group="enc/representations"][data-e="3"]').inner_text() in {"S", "P"}
    assert not page.locator("#record section").is_visible()
    page.screenshot(path=artifacts / "notebook01-exported.png", full_page=True)
    assert all(url.startswith(("file:", "data:")) for url in asked)
    context.close()
    context = chromium.new_context(java_script_enabled=False, offline=True)
    page = context.new_page()
    page.goto(path.as_uri())
    page.locator("#record section").wait_for()
    assert "every_step" in page.locator("#record").inner_text()
    context.close()
