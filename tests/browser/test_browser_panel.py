"""The side panel and the explorer tab in a real JupyterLab: what they list, where buttons lead, what they follow."""

from __future__ import annotations

import json

import pytest
from lab_page import command, show_panel, wait_equal, wait_true

pytestmark = [pytest.mark.browser, pytest.mark.timeout(600)]

LOAD = "%load_ext cachelab\nfrom browser_marks import mark\nfrom browser_samples import FakeAdvice"
FIRST = "a = 1  # op enc/A 30 r\nb = 2  # op enc/B 10 c\n_ = mark(name='first')"
SECOND = "c = 3  # op top/C 8 r\n_ = mark(name='second')"


class Panel:
    def __init__(self, book):
        self.book, self.page = book, book.page
        self.node = show_panel(book)
        self.node.wait_for()

    def region(self, name):
        return self.node.get_by_role("region", name=name, exact=True)

    def rows(self, name):
        cells = "(rows) => rows.map((row) => [...row.querySelectorAll('th, td')].map((cell) => cell.innerText.trim()))"
        return self.region(name).locator("tbody tr").evaluate_all(cells)

    def js(self, code):
        return self.book.js(code)

    def explorer(self):
        return self.page.locator(".cachelab-Tab .cachelab-explorer .xp")

    def wait_rows(self, name, expected):
        wait_equal(self.page, lambda: self.rows(name), expected)


@pytest.fixture
def panel(open_notebook, lab_with_extension):
    def make(name, *more, run=(), **options):
        book = open_notebook(lab_with_extension, name, LOAD, FIRST, SECOND, *more, **options)
        book.run(0)
        shown = Panel(book)
        for index in run:
            book.run(index)
        return shown

    return make


def test_whoever_shows_the_panel_is_in_it(panel):
    shown = panel("shown.ipynb")
    inside = "() => document.querySelector('.cachelab-Panel').contains(document.activeElement)"
    wait_true(shown.page, inside)
    shown.book.run(1)
    shown.wait_rows("Recordings", [["first", "[2]", "3", "50 %", "60 ms"]])
    shown.js("panel.content.node.focus();")
    show_panel(shown.book)
    wait_true(shown.page, inside)
    assert shown.page.evaluate("document.activeElement.dataset.key") == "row-first"


def test_recordings_and_calls_are_listed_as_cells_run(panel, violations):
    shown = panel("listed.ipynb")
    shown.node.get_by_text("No recordings yet").wait_for()
    shown.book.run(1)
    # 3 calls of 40 ms; the op of 30 ms is recomputed in two of them.
    shown.wait_rows("Recordings", [["first", "[2]", "3", "50 %", "60 ms"]])
    assert "at most 60 ms of 120 ms op time" in shown.region("Recordings").inner_text()
    assert [row[0] + row[-1] for row in shown.rows("Calls of first")] == ["040 ms", "140 ms", "240 ms"]
    assert [row[2] for row in shown.rows("Calls of first")] == ["0 % recomputed", "75 % recomputed", "75 % recomputed"]
    shown.book.run(2)
    shown.wait_rows("Recordings", [["second", "[3]", "3", "67 %", "16 ms"], ["first", "[2]", "3", "50 %", "60 ms"]])
    assert shown.region("Calls of second").count() == 1
    shown.node.get_by_role("button", name="first", exact=True).click()
    shown.region("Calls of first").wait_for()
    assert shown.node.get_by_role("button", name="first", exact=True).get_attribute("aria-pressed") == "true"
    # Run again, the cell makes a new recording, which is shown.
    shown.book.run(1)
    shown.wait_rows("Recordings", [["first", "[4]", "3", "50 %", "60 ms"], ["second", "[3]", "3", "67 %", "16 ms"]])
    assert violations(shown.page, ".cachelab-Panel") == []
    assert shown.book.errors == []


def test_a_click_jumps_to_the_cell_also_when_it_moved_and_says_when_it_was_deleted(panel):
    shown = panel("panel-jump.ipynb", *[f"v{k} = {k}\n" * 30 for k in range(8)], run=(1, 2))
    shown.wait_rows("Recordings", [["second", "[3]", "3", "67 %", "16 ms"], ["first", "[2]", "3", "50 %", "60 ms"]])
    shown.js("book.moveCell(1, 9); book.activeCellIndex = 0;")
    shown.node.get_by_role("button", name="[2]", exact=True).click()
    wait_equal(shown.page, lambda: shown.js("return book.activeCellIndex;"), 9)
    cell = shown.page.locator(".jp-Cell", has_text="op enc/A 30 r")
    wait_true(shown.page, "() => document.activeElement.closest('.jp-NotebookPanel') !== null")
    assert cell.bounding_box()["y"] < 1300
    shown.js("book.activeCellIndex = 9; return window.jupyterapp.commands.execute('notebook:delete-cell');")
    shown.wait_rows(
        "Recordings", [["second", "[3]", "3", "67 %", "16 ms"], ["first", "[2] deleted", "3", "50 %", "60 ms"]]
    )


def test_nothing_is_cut_off_in_the_narrowest_panel(panel):
    shown = panel("panel-narrow.ipynb", "_ = mark(name='a long name that somebody gave')  # op a/B 3000 r", run=(1, 3))
    shown.js("book.activeCellIndex = 3; return window.jupyterapp.commands.execute('notebook:delete-cell');")
    shown.node.get_by_text("[3] deleted").wait_for()
    shown.js("book.activeCellIndex = 1;")
    shown.region("Lines of cell 2").wait_for()
    width, needed = shown.node.evaluate("(node) => [node.clientWidth, node.scrollWidth]")
    assert width == 250, "what JupyterLab gives at least"
    assert needed == width


def test_the_explorer_opens_at_a_call_and_follows_new_recordings_until_told_not_to(panel):
    shown = panel("tab-follows.ipynb", run=(1,))
    shown.region("Calls of first").get_by_role("button", name="2", exact=True).click()
    shown.explorer().get_by_text("Call 2 of 0–2").wait_for()
    shown.region("Calls of first").get_by_role("button", name="0", exact=True).click()
    shown.explorer().get_by_text("Call 0 of 0–2").wait_for()
    shown.book.run(2)
    shown.explorer().locator('svg.graph [data-id="top/C"]').wait_for()
    assert shown.page.locator(".cachelab-Tab").count() == 1
    shown.page.get_by_label("Follow new recordings").uncheck()
    shown.book.run(1)
    shown.wait_rows("Recordings", [["first", "[4]", "3", "50 %", "60 ms"], ["second", "[3]", "3", "67 %", "16 ms"]])
    shown.page.wait_for_timeout(500)
    assert shown.explorer().locator('svg.graph [data-id="top/C"]').count() == 1
    shown.node.get_by_role("button", name="Open explorer").click()
    shown.explorer().locator('svg.graph [data-id="enc/B"]').wait_for()
    assert shown.book.errors == []


ADVICE = """\
import threading, time
from browser_marks import Marked
asked = []
def advise(self):
    asked.append(threading.current_thread().name)
    time.sleep(1)
    if len(asked) == 2:
        raise ValueError("<b>no</b>")
    return [FakeAdvice("enc/A:0", "keep `enc/A`: saves 30 ms", 0.06, 4)]
Marked.advise = advise"""


def test_advice_is_asked_for_by_a_click_and_cells_run_meanwhile(panel):
    shown = panel("advice.ipynb", ADVICE, "print(asked)", "print(1 + 1)", run=(3, 1, 2))
    shown.region("Advice on second").get_by_text("Worked out when you ask").wait_for()
    assert shown.book.text(4) == "[]", "nobody asked"
    shown.region("Advice on second").get_by_role("button").click()
    shown.region("Advice on second").get_by_text("The kernel works it out").wait_for()
    assert shown.book.text(5) == "2"
    shown.region("Advice on second").locator("li", has_text="saves 30 ms").wait_for()
    assert shown.region("Advice on second").locator("li code").inner_text() == "enc/A"
    assert "MainThread" not in shown.book.text(4)
    shown.node.get_by_role("button", name="first", exact=True).click()
    shown.region("Advice on first").get_by_role("button").click()
    shown.region("Advice on first").get_by_text("ValueError: <b>no</b>").wait_for()
    # What was known stays.
    shown.node.get_by_role("button", name="second", exact=True).click()
    shown.region("Advice on second").locator("li", has_text="saves 30 ms").wait_for()


def test_a_restart_empties_the_panel_and_a_reload_fills_it_again(panel):
    shown = panel("panel-restart.ipynb", run=(1, 2))
    listed = [["second", "[3]", "3", "67 %", "16 ms"], ["first", "[2]", "3", "50 %", "60 ms"]]
    shown.wait_rows("Recordings", listed)
    shown.book.reload()
    again = Panel(shown.book)
    again.wait_rows("Recordings", listed)
    shown.book.restart()
    again.node.get_by_text("CacheLab is not loaded in this kernel.").wait_for()
    again.node.get_by_role("button", name="Load CacheLab").click()
    again.node.get_by_text("No recordings yet").wait_for()
    shown.book.run(0)
    shown.book.run(2)
    again.wait_rows("Recordings", [["second", "[2]", "3", "67 %", "16 ms"]])


def test_the_panel_is_of_the_notebook_in_front(panel, lab_with_extension):
    shown = panel("front.ipynb", run=(1,))
    shown.wait_rows("Recordings", [["first", "[2]", "3", "50 %", "60 ms"]])
    lab_with_extension.write("behind.ipynb", f"{LOAD}\n{SECOND}")
    behind = shown.book.beside("behind.ipynb")
    shown.node.get_by_text("CacheLab is not loaded in this kernel.").wait_for()
    behind.run(0)
    shown.wait_rows("Recordings", [["second", "[1]", "3", "67 %", "16 ms"]])
    shown.book.activate()
    shown.wait_rows("Recordings", [["first", "[2]", "3", "50 %", "60 ms"]])
    assert shown.book.errors == []


BUILD = """\
%load_ext cachelab
import numpy as np, tensorflow as tf, json, time
tf1 = tf.compat.v1
tf1.disable_eager_execution()
x = tf1.placeholder(tf.float32, [None, 200], name="x")
W = tf1.get_variable("W", [200, 300], use_resource=True)
h = tf.tanh(tf.matmul(x, W), name="h")
y = tf.reduce_sum(h * 2.0, name="y")
X = np.ones((500, 200), "float32")
sess = tf1.Session()
_ = sess.run(W.initializer)"""
RUN = """\
%%cachelab --quiet
for _ in range(3):
    sess.run(y, {x: X})
sess.run(h, {x: X})
pass"""
COUNT = """\
from cachelab.session_state import recordings
found = {}
record = recordings.find().record
for call in range(record.call_count):
    for op in record.executions(call):
        if op.executed and not op.bookkeeping and op.line:
            sums = found.setdefault(op.line.text, [0, set(), set()])
            sums[0] += op.seconds
            sums[1].add(call)
            if op.status == "recomputed":
                sums[2].add(call)
print(json.dumps({text: [s, len(ran), len(again)] for text, (s, ran, again) in found.items()}))"""
LIVE = """\
import cachelab
live = cachelab.Session(mode="memo", memory_budget="64MB")
live.run(W.initializer)
for _ in range(5):
    live.run(h, {x: X})
print(json.dumps(live.cache_info()._asdict()))"""
MEMO = """\
%%cachelab --quiet --mode memo
for _ in range(5):
    sess.run(h, {x: X})"""
SLOW = """\
%%cachelab --quiet
for _ in range(30):
    sess.run(y, {x: X})
    time.sleep(0.15)"""


@pytest.mark.parametrize("dark", [False, True])
def test_tensorflow_code_and_live_sessions_show_the_figures_of_python(
    open_notebook, lab_with_extension, artifacts, dark
):

    theme = "dark" if dark else "light"
    book = open_notebook(lab_with_extension, f"real-{theme}.ipynb", BUILD, RUN, COUNT, LIVE, MEMO, SLOW, dark=dark)
    if dark:
        command(book, "apputils:change-theme", theme="JupyterLab Dark")
    book.run(0)
    shown = Panel(book)
    book.run(1)
    counted = json.loads(book.text(2))
    marked = {}
    for cell in (0, 1):
        lines = shown.page.locator(".jp-Cell >> visible=true").nth(cell).locator(".cm-line").all_inner_texts()
        shown.js(f"book.activeCellIndex = {cell};")
        shown.region(f"Lines of cell {cell + 1}").wait_for()
        for row in shown.region(f"Lines of cell {cell + 1}").locator(".cachelab-LineRow").all():
            marked[lines[int(row.inner_text().split()[0]) - 1].strip()] = row.inner_text()
    assert set(marked) == {*counted, "sess.run(y, {x: X})", "sess.run(h, {x: X})"}
    assert set(counted) >= {'h = tf.tanh(tf.matmul(x, W), name="h")', 'y = tf.reduce_sum(h * 2.0, name="y")'}
    for text, (_seconds, ran, again) in counted.items():
        assert f"{ran} × " in marked[text]
        assert f"{again} of {ran} recomputed" in marked[text]
    assert "3 calls from here" in marked["sess.run(y, {x: X})"]
    info = json.loads(book.text(3))
    held = shown.region("Live session")
    held.get_by_text("live, memo").wait_for()
    assert info["hits"]
    figures = dict(shown.rows("Live session"))
    asked = info["hits"] + info["misses"]
    assert figures["hits"].startswith(f"{info['hits']} of {asked} values, {round(100 * info['hits'] / asked)} %")
    assert "of 64.0 MB" in figures["held"]
    shown.page.screenshot(path=artifacts / f"panel-{theme}.png")
    held.get_by_role("button", name="Clear kept values").click()
    wait_true(
        shown.page,
        "() => [...document.querySelectorAll('.cachelab-Figures')].some((t) => t.innerText.includes('0 B of'))",
    )
    book.run(4)
    shown.region("Served in cell 5").wait_for()
    served = shown.page.locator(".jp-Cell >> visible=true").nth(4).locator(".cachelab-Badge")
    served.get_by_text("hit rate").wait_for()
    book.start(5)
    shown.node.get_by_text("calls so far").wait_for()
    shown.page.locator(".jp-Cell >> visible=true").nth(0).locator(".cachelab-Mark").first.hover()
    shown.page.locator(".cachelab-Hover").wait_for()
    shown.page.screenshot(path=artifacts / f"marks-{theme}.png")
    shown.region("Calls of cell 6").wait_for()
    assert shown.node.get_by_text("calls so far").count() == 0
    assert book.errors == []
