"""Lines of code with TensorFlow in a real kernel: marks stand where people wrote the code, whatever magic ran it."""

from __future__ import annotations

import pytest

pytest.importorskip("tensorflow")

from shell_front import connected

BUILD = """\

# one line above is empty
%load_ext cachelab
%config CacheLab.widget = False
import tensorflow as tf
tf1 = tf.compat.v1
tf1.disable_eager_execution()
x = tf1.placeholder(tf.float32, [4], name="x")
def twice(v):
    return v * 2.0  # twice
a = tf.tanh(x, name="a")
sess = tf1.Session()"""
TIMED = """\
%%time

b = tf.sin(a, name="b")
def thrice(v):
    return v * 3.0  # thrice
c = twice(b) + 1.0
d = thrice(c)"""
LINE = """\
%time e = tf.exp(d, name="e")
f = e * 5.0"""
CAPTURED = """\
%%capture
g = tf.square(f, name="g")"""
TIMEIT = """\
%%timeit -n1 -r1 -q
global h
h = tf.sqrt(g, name="h")"""
RUN = """\
%%cachelab --quiet
%%time
for _ in range(2):
    sess.run(h, {x: [1, 2, 3, 4]})
"""
AGAIN = """\
g = tf.square(f, name="g")
print(sess.run(g, {x: [1, 2, 3, 4]}))"""


@pytest.fixture(scope="module")
def marks(tmp_path_factory):
    """Cell -> texts of its marked lines -> what the mark says first."""
    with connected(tmp_path_factory.mktemp("ipython")) as front:
        for name, code in (
            ("build", BUILD), ("timed", TIMED), ("line", LINE), ("captured", CAPTURED), ("timeit", TIMEIT),
            ("run", RUN), ("again", AGAIN),
        ):  # fmt: skip
            front.cell(code, name)
        front.open()
        front.say(type="marks")
        (message,) = [one for one in front.take() if one["type"] == "marks"]
    return {
        cell["id"]: {cell["source"].splitlines()[mark["line"] - 1].strip(): mark["said"] for mark in cell["marks"]}
        for cell in message["cells"]
    }


def test_ops_are_marked_on_the_line_of_the_function_that_made_them(marks):
    assert set(marks["build"]) == {'a = tf.tanh(x, name="a")', "return v * 2.0  # twice"}


def test_below_a_cell_magic_that_compiles_its_cell_lines_are_those_of_the_cell(marks):
    assert set(marks["timed"]) == {'b = tf.sin(a, name="b")', "c = twice(b) + 1.0", "return v * 3.0  # thrice"}
    assert set(marks["captured"]) == {'g = tf.square(f, name="g")'}


def test_a_line_magic_is_marked_on_its_line_and_timeit_on_its_first(marks):
    assert set(marks["line"]) == {'%time e = tf.exp(d, name="e")', "f = e * 5.0"}
    assert set(marks["timeit"]) == {"%%timeit -n1 -r1 -q"}


def test_calls_below_two_headers_are_marked_where_they_were_made(marks):
    assert set(marks["run"]) == {"sess.run(h, {x: [1, 2, 3, 4]})"}
    (said,) = marks["run"].values()
    assert said[0].startswith("2 calls from here: ")


def test_a_later_cell_with_the_same_line_has_no_part_in_it(marks):
    assert "again" not in marks
