"""The live explorer in a real JupyterLab and Notebook 7: its messages, the busy kernel, reload, restart, themes."""

from __future__ import annotations

import re

import face_samples
import pytest
from lab_page import command

pytestmark = pytest.mark.browser

SETUP = """\
from browser_samples import FakeRecording
from cachelab.views.widget import explorer
recording = FakeRecording(slow={slow})
widget = explorer(recording)
widget"""
RESULT = {mode.mode: mode for mode in face_samples.record().modes}


def show(open_notebook, server, name, *cells, slow=0.0, **options):
    book = open_notebook(server, name, SETUP.format(slow=slow), *cells, **options)
    book.run(0)
    book.root = book.page.locator(".cachelab-explorer .xp")
    book.root.wait_for()
    return book


def mode(book, name):
    return book.root.locator(f'[data-mode="{name}"]')


def letter(book, name):
    return book.root.locator(f'svg.graph [data-id="{name}"] .lt').text_content()


@pytest.fixture(params=["lab", "notebook7"])
def server(request):
    return request.getfixturevalue(request.param)


def test_buttons_replay_in_the_kernel_and_show_its_figures(open_notebook, server, artifacts):
    book = show(open_notebook, server, f"modes-{server.app}.ipynb", "print(recording.asked, set(recording.threads))")
    assert letter(book, "enc/Tanh") == "R"
    mode(book, "variable").click()
    book.root.locator('[data-mode="variable"][aria-checked="true"]').wait_for()
    assert letter(book, "enc/Tanh") == "S"
    result = RESULT["variable"]
    row = book.root.locator(".cmp tr.me").inner_text()
    for figure in (
        str(result.executed),
        str(result.recomputed),
        str(result.reused),
        "83 ms",
        "4.3×",
        "16.8 MB",
        "48 ms",
        "equal",
    ):
        assert figure in row
    mode(book, "partial_run").click()
    book.root.locator('[data-mode="partial_run"][aria-disabled="true"]').wait_for()
    assert "idx has 6 values" in book.root.locator(".note").inner_text()
    mode(book, "per_example").click()
    book.root.locator('[data-mode="per_example"][aria-disabled="true"]').wait_for()
    mode(book, "run").click()
    assert letter(book, "enc/Tanh") == "R"
    book.root.locator('[data-key="more"]').click()
    mode(book, "memo").click()
    book.root.locator(".note .bad").wait_for()
    assert "<b>memo</b> broke" in book.root.locator(".note").inner_text()
    book.page.screenshot(path=artifacts / f"live-{server.app}.png")
    asked, threads = book.text(1).rsplit(" {", 1)
    assert asked == "[('variable', ()), ('partial_run', ()), ('per_example', ()), ('memo', ())]"
    assert "MainThread" not in threads
    assert book.errors == []


def test_busy_kernel_is_said_and_the_replay_comes_after(open_notebook, server):
    book = show(open_notebook, server, f"busy-{server.app}.ipynb", "import time; time.sleep(4); print(recording.asked)")
    book.start(1)
    book.page.wait_for_timeout(500)
    mode(book, "variable").click()
    book.root.get_by_text("waits for the busy kernel").wait_for()
    # The interface goes on meanwhile.
    book.root.locator('.stp [data-entry="3"]').click()
    assert "Call 3 of 0–5" in book.root.locator(".say").first.inner_text()
    book.root.locator('[data-mode="variable"][aria-checked="true"]').wait_for(timeout=20_000)
    assert "Call 3 of 0–5" in book.root.locator(".say").first.inner_text()


def test_running_replay_reports_and_can_be_cancelled(open_notebook, lab):
    book = show(open_notebook, lab, "cancel.ipynb", "print(1 + 1)", slow=10)
    mode(book, "variable").click()
    book.root.get_by_text(re.compile(r"replaying, \d of 5")).wait_for()
    # Cells run while a replay does.
    assert book.text(1) == "2"
    book.root.locator('[data-key="cancel"]').click()
    book.root.locator(".note").get_by_text("Cancelled. Nothing was compared; your session is unchanged.").wait_for()
    assert mode(book, "run").get_attribute("aria-checked") == "true"


def test_cut_from_the_selected_tensor_reaches_the_replay(open_notebook, lab):
    book = show(open_notebook, lab, "cut.ipynb", "print(recording.asked)")
    book.root.locator('svg.graph [data-id="enc/BiasAdd"]').click()
    book.root.locator('[data-key="cut"]').click()
    book.root.locator('svg.graph [data-id="enc/Tanh"]').click()
    book.root.get_by_text("saves 55 ms per call, holds 16.8 MB").wait_for()
    mode(book, "variable").click()
    book.root.locator('[data-mode="variable"][aria-checked="true"]').wait_for()
    assert book.text(1) == "[('variable', ('enc/BiasAdd:0',))]"


def test_keyboard_alone_reaches_everything_and_shortcuts_of_the_notebook_stay_out(open_notebook, server):
    book = show(open_notebook, server, f"keys-{server.app}.ipynb", "print(len(get_ipython().user_ns['In']))")
    cells = "return book.widgets.length;"
    before = book.js(cells)
    mode(book, "run").focus()
    for key in ("ArrowRight", "ArrowRight", "Enter"):
        book.page.keyboard.press(key)
    book.root.locator('[data-mode="variable"][aria-checked="true"]').wait_for()
    graph = book.root.locator('svg.graph [tabindex="0"]')
    graph.focus()
    # In command mode of the notebook these keys add, delete and merge cells.
    for key in ("a", "b", "x", "ArrowRight", "ArrowDown", "Enter", "0", "+", "-"):
        book.page.keyboard.press(key)
    assert book.js(cells) == before
    book.page.keyboard.press("/")
    book.page.keyboard.type("head/MatMul")
    book.page.keyboard.press("Enter")
    assert "head/MatMul" in book.root.locator(".ins .hd").inner_text()
    stops = []
    book.root.locator(".find").focus()
    for _ in range(40):
        book.page.keyboard.press("Tab")
        stops.append(
            book.page.evaluate(
                "() => { const e = document.querySelector('.cachelab-explorer').shadowRoot.activeElement;"
                " return e ? (e.getAttribute('role') ?? e.dataset.key ?? e.tagName) : null; }"
            )
        )
    for stop in ("radio", "export", "slider", "tab", "gridcell", "button", "legend-C"):
        assert stop in stops or stop == "slider", (stop, stops)


def test_page_reload_brings_the_explorer_back(open_notebook, server):
    book = show(open_notebook, server, f"reload-{server.app}.ipynb", "print(2)")
    book.reload()
    book.root.wait_for()
    mode(book, "variable").click()
    book.root.locator('[data-mode="variable"][aria-checked="true"]').wait_for()


def test_kernel_restart_leaves_a_readable_explorer_until_the_cell_runs_again(open_notebook, server):
    book = show(open_notebook, server, f"restart-{server.app}.ipynb", "print(3)")
    book.restart()
    book.page.wait_for_timeout(1500)
    book.root.locator('.stp [data-entry="4"]').click()
    assert "Call 4 of 0–5" in book.root.locator(".say").first.inner_text()
    mode(book, "variable").click()
    book.root.locator(".note").get_by_text(re.compile("[Rr]un the cell again")).wait_for()
    book.wait_ready()
    book.run(0)
    book.root.locator(".note").wait_for(state="hidden")
    mode(book, "variable").click()
    book.root.locator('[data-mode="variable"][aria-checked="true"]').wait_for()
    assert book.errors == []


def test_dark_theme_and_axe(open_notebook, server, violations, artifacts):
    book = show(open_notebook, server, f"dark-{server.app}.ipynb", height=1500)
    assert violations(book.page) == []
    light = book.root.evaluate("e => getComputedStyle(e).backgroundColor")
    command(book, "apputils:change-theme", theme="JupyterLab Dark")
    book.page.locator('body[data-jp-theme-light="false"]').wait_for(state="attached")
    book.page.wait_for_timeout(600)
    mode(book, "variable").click()
    book.root.locator('[data-mode="variable"][aria-checked="true"]').wait_for()
    book.root.locator('svg.graph [data-id="enc/Tanh"]').click()
    assert book.root.evaluate("e => getComputedStyle(e).backgroundColor") != light
    assert violations(book.page) == []
    book.page.screenshot(path=artifacts / f"live-{server.app}-dark.png")
    command(book, "apputils:change-theme", theme="JupyterLab Light")
