"""The mode of a ``cachelab.Session`` that is given none: what the magic or JupyterLab's switch chose."""

from __future__ import annotations

import pytest
from shell_front import connected

SETUP = """\
import numpy as np, tensorflow as tf, cachelab
tf1 = tf.compat.v1
graph = tf.Graph()
with graph.as_default():
    x = tf1.placeholder(tf.float32, [300, 300], "x")
    h = tf.tanh(tf.matmul(x, x), name="h")
    y = tf.reduce_sum(h, name="y")
X = np.full([300, 300], 0.01, "float32")
%load_ext cachelab
%config CacheLab.widget = False
ops = len(graph.get_operations())
"""
USE = """\
with tf1.Session(graph=graph) as plain:
    expected = plain.run(h, {x: X})
for _ in range(4):
    assert np.allclose(sess.run(h, {x: X}), expected, rtol=1e-4)
"""
RECORDS = "assert get_ipython().find_line_magic('cachelab').__self__.cells.automatic"


@pytest.fixture(scope="module")
def front(tmp_path_factory):
    with connected(tmp_path_factory.mktemp("kernel")) as one:
        one.cell(SETUP, "setup")
        one.open()
        yield one


def mode_of(front, code):
    """Run a cell that makes the one session that is open, and return what the side panel says of it."""
    front.take()
    front.cell(f"sess = {code}\n{USE}", "use")
    (row,) = front.take()[-1]["live"]
    front.cell("sess.close()", "end")
    assert row["hits"] > 0
    return row["mode"], row["note"]


@pytest.mark.parametrize("mode", ["memo", "feed", "variable", "handle"])
def test_the_switch_is_live_for_new_sessions(front, mode):
    front.say(type="mode", mode=mode)
    front.cell(RECORDS, "on")
    chosen, note = mode_of(front, "cachelab.Session(graph=graph)")
    assert chosen == mode
    assert ("to your graph" in note) == (mode in {"variable", "handle"}), "who adds ops says so"
    front.say(type="mode", mode="off")
    assert mode_of(front, "cachelab.Session(graph=graph)")[0] == "memo"
    front.say(type="mode", mode=mode)
    assert mode_of(front, "cachelab.Session(graph=graph)")[0] == mode
    assert mode_of(front, "cachelab.Session(graph=graph, mode='feed')")[0] == "feed"


@pytest.mark.parametrize(
    ("line", "mode"),
    [
        ("%cachelab mode handle", "handle"),
        ("%config CacheLab.mode = 'variable'", "variable"),
        ("%cachelab off", "memo"),
        ("%cachelab mode variable", "variable"),
        ("%cachelab mode run", "memo"),
        ("%cachelab mode partial_run", "memo"),
    ],
)
def test_so_is_the_magic_and_a_mode_that_is_not_live_chooses_none(front, line, mode):
    front.say(type="mode", mode="off")
    front.cell(line, "choose")
    assert mode_of(front, "cachelab.Session(graph=graph)")[0] == mode


def test_a_plain_session_has_no_op_added_by_the_switch(front):
    front.say(type="mode", mode="variable")
    front.cell("before = len(graph.get_operations())", "count")
    front.cell("with tf1.Session(graph=graph) as plain:\n    [plain.run(h, {x: X}) for _ in range(3)]", "plain")
    front.cell("assert len(graph.get_operations()) == before", "check")
