"""The comm between JupyterLab and its kernels: several notebooks, kernels and consoles; messages; busy kernels."""

from __future__ import annotations

import json
import re

import pytest
from lab_page import RECORDING, command, load, mode_shown, show_panel, switch, wait_equal, wait_true

pytestmark = [pytest.mark.browser, pytest.mark.timeout(900)]

TELL = "%cachelab mode"
OPEN_CONSOLE = """async (path) => {
  const { commands, shell } = window.jupyterapp;
  const kernel = path
    ? { id: [...shell.widgets('main')].find((one) => one.context?.path === path).sessionContext.session.kernel.id }
    : { name: 'python3' };
  const options = { kernelPreference: kernel, activate: true, path: path || '' };
  const panel = await commands.execute('console:create', options);
  await panel.sessionContext.ready;
  window.consoles = [...(window.consoles ?? []), panel];
  return panel.sessionContext.session.kernel.id;
}"""
IN_CONSOLE = """async ([index, code]) => {
  await window.consoles[index].console.inject(code);
}"""
MODE = """
  const select = panel.toolbar.node.querySelector('.cachelab-Switch select');
  return !select || select.disabled ? null : select.value;"""
COUNT = """
  window.counted = { all: 0, comm: 0 };
  panel.sessionContext.session.kernel.anyMessage.connect((_, { msg, direction }) => {
    if (direction !== 'recv') return;
    window.counted.all += 1;
    window.counted.comm += msg.header.msg_type.startsWith('comm_');
  });"""
BUILD = """\
%load_ext cachelab
import time
import numpy as np, tensorflow as tf
tf1 = tf.compat.v1
tf1.disable_eager_execution()
x = tf1.placeholder(tf.float32, [None, 4], name="x")
y = tf.tanh(x, name="y")
X = np.ones([2, 4], "float32")
sess = tf1.Session()"""


def wait_mode(book, mode):
    wait_equal(book.page, lambda: book.js(MODE), mode)


def test_notebooks_kernels_and_consoles_at_once(open_notebook, lab_with_extension):
    first = open_notebook(lab_with_extension, "first.ipynb", "%load_ext cachelab", RECORDING)
    page = first.page
    first.run(0)
    wait_mode(first, "off")
    lab_with_extension.write("second.ipynb", "%load_ext cachelab", TELL)
    second = first.beside("second.ipynb")
    wait_mode(second, None)
    second.run(0)
    wait_mode(second, "off")

    # A console on the kernel of the first notebook steers that one, and that one only.
    page.evaluate(OPEN_CONSOLE, "first.ipynb")
    page.evaluate(IN_CONSOLE, [0, "%cachelab on\n%cachelab mode feed"])
    wait_mode(first, "feed")
    assert second.js(MODE) == "off"
    page.locator(".cachelab-Status").get_by_text("CacheLab: feed").wait_for()

    # A console with a kernel of its own.
    page.evaluate(OPEN_CONSOLE, "")
    page.locator(".cachelab-Status").get_by_text("CacheLab: not loaded").wait_for()
    page.evaluate(IN_CONSOLE, [1, "%load_ext cachelab\n%cachelab on\n%cachelab mode joint"])
    page.locator(".cachelab-Status").get_by_text("CacheLab: joint").wait_for()
    assert first.js(MODE) == "feed"
    assert second.js(MODE) == "off"

    # The panel goes with the notebook that is in use.
    first.run(1)
    show_panel(first).get_by_text("recording 3").first.wait_for()
    second.run(1)
    page.locator(".cachelab-Panel").get_by_text("No recordings yet").wait_for()

    # The notebook is closed, its kernel lives on in the console, which still hears of it.
    first.js("panel.dispose();")
    page.evaluate("() => window.jupyterapp.shell.activateById(window.consoles[0].id)")
    page.evaluate(IN_CONSOLE, [0, "%cachelab mode memo"])
    page.locator(".cachelab-Status").get_by_text("CacheLab: memo").wait_for()
    assert [error for error in first.errors if "omm" in error] == []


def test_two_views_of_one_notebook_and_a_change_of_kernel(open_notebook, lab_with_extension):
    book = open_notebook(lab_with_extension, "views.ipynb", TELL, width=2400)
    page = book.page
    load(book)
    command(book, "docmanager:clone")
    wait_true(page, "() => document.querySelectorAll('.cachelab-Switch').length === 2")
    switch(book).last.select_option("feed")
    values = "() => [...document.querySelectorAll('.cachelab-Switch select')].every((one) => one.value === 'feed')"
    wait_true(page, values)
    book.js("return panel.sessionContext.changeKernel({ name: 'python3' });")
    wait_true(
        page,
        "() => [...document.querySelectorAll('.cachelab-Switch select')].every((one) => one.disabled"
        " && one.title === 'CacheLab is not loaded in this kernel.')",
    )
    page.locator(".cachelab-Switch button:visible").last.click()
    mode_shown(book, "off")


def test_recording_1000_calls_takes_few_messages_and_typing_arrives(open_notebook, lab_with_extension):
    record = "%%cachelab\nfor k in range(1000):\n    sess.run(y, {x: X})"
    slow = """\
%%cachelab
print("begun")
for k in range(60):
    sess.run(y, {x: X + k})
    time.sleep(0.1)
ended = time.time()"""
    book = open_notebook(lab_with_extension, "many.ipynb", BUILD, record, slow, "", "print(ended)")
    page = book.page
    book.run(0)
    mode_shown(book, "off")
    book.js(COUNT)
    book.run(1)
    show_panel(book).get_by_text("1000").first.wait_for()
    page.wait_for_timeout(1000)
    counted = page.evaluate("() => window.counted")
    assert counted["all"] < 100, counted
    assert counted["comm"] < 100, counted
    assert book.js("return book.widgets.length;") == 5

    # Keys that are typed while a recording runs are in the cell before the recording ends.
    book.start(2)
    page.locator(".jp-Cell").nth(2).get_by_text("begun").wait_for()
    page.locator(".jp-Cell").nth(3).locator(".cm-content").click()
    typed = "alpha = 'the quick brown fox jumps over the lazy dog'; beta = 12345"
    page.keyboard.type(typed, delay=15)
    source = "return book.widgets[3].model.sharedModel.getSource();"
    wait_equal(page, lambda: book.js(source)[:8], typed[:8])
    running = page.locator(".jp-Cell").nth(2).locator(".jp-InputPrompt").inner_text()
    written = book.js(source)
    assert "[*]" in running, "the recording ended before the typing did"
    assert written.replace('"', "'").startswith("alpha = 'the quick brown fox jumps over the lazy dog'; beta = 12345")
    assert float(book.text(4)) > 0


def test_the_mode_of_the_switch_changes_what_the_next_cell_does(open_notebook, lab_with_extension):
    ask = """\
import cachelab, json
recording = cachelab.last()
one = [call.op("y").status for call in recording.calls]
print(json.dumps([recording.name, one]))"""
    # Work of a millisecond, so that keeping its result is worth it on any machine.
    build = BUILD + '\nbig = np.ones([200_000, 4], "float32")'
    run = "for k in range(3):\n    out = sess.run(y, {x: big})"
    book = open_notebook(lab_with_extension, "next.ipynb", build, run, ask)
    book.run(0)
    mode_shown(book, "off")

    def ran(mode):
        switch(book).select_option(mode)
        mode_shown(book, mode)
        outputs = book.run(1)
        switch(book).select_option("off")
        mode_shown(book, "off")
        return outputs, json.loads(book.text(2).splitlines()[-1])

    _outputs, (first, statuses) = ran("run")
    assert statuses == ["computed", "recomputed", "recomputed"]
    outputs, (second, statuses) = ran("memo")
    assert second != first
    said = "".join("".join(one.get("text", "")) for one in outputs)
    served = int(re.search(r"mode memo: (\d+) tensors? w\w+ served", said)[1])
    assert served == statuses.count("reused") > 0
    assert len(statuses) == 3
    outputs, (third, statuses) = ran("joint")
    assert third != second
    # The cell ran plainly; what follows is the replay, compared.
    assert statuses == ["computed", "recomputed", "recomputed"]
    told = "".join("".join(one.get("data", {}).get("text/plain", "")) for one in outputs)
    assert "joint" in told
    assert book.run(1) == [], "off records nothing"
