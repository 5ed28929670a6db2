"""The shell and the command line on the engine itself and on TensorFlow."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from addresses import at_a_file
from nbclient import NotebookClient

import cachelab

ROOT = Path(__file__).parent.parent.parent
ENV = {**os.environ, "PYTHONPATH": str(ROOT), "TF_CPP_MIN_LOG_LEVEL": "3"}

SCRIPT = """
import sys
print("before", "tensorflow" in sys.modules)
import numpy as np
import tensorflow as tf

tf1 = tf.compat.v1
tf1.disable_eager_execution()
x = tf1.placeholder(tf.float32, [2, 2], "x")
h = tf.matmul(x, x, name="h")
y = tf.reduce_sum(h, name="y")
with tf1.Session() as sess:
    print(sess.run(h, {x: np.eye(2)}).tolist())
    print(sess.run(y, {x: np.eye(2)}))
    check = tf.debugging.assert_less(y, 1.0, message="too large")
    with tf.control_dependencies([check]):
        late = tf.identity(y, name="late")
    sess.run(late, {x: np.eye(2)})
"""


def run(tmp_path, *command):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    return subprocess.run(
        [sys.executable, *command, str(script)], capture_output=True, text=True, env=ENV, cwd=tmp_path, check=False
    )


def test_a_script_with_tensorflow(tmp_path):
    plain = run(tmp_path)
    recorded = run(tmp_path, "-m", "cachelab", "run", "--json", "out.json", "--trace", "full")
    assert plain.returncode == recorded.returncode == 1
    assert plain.stdout == recorded.stdout == "before False\n[[1.0, 0.0], [0.0, 1.0]]\n2.0\n"
    assert "too large" in plain.stderr
    assert traceback(recorded.stderr) == traceback(plain.stderr)
    recording = cachelab.load(tmp_path / "out.json")
    assert [call.fetches for call in recording.calls] == [("h:0",), ("y:0",), ("late:0",)]
    assert [call.failed is None for call in recording.calls] == [True, True, False]
    assert recording.calls[1].op("h").status == "recomputed"
    assert recording.calls[0].line.file == "script.py"
    assert recording.calls[0].line.text.startswith("print(sess.run(h")


def traceback(text):
    """The lines of a traceback that name files, and the error itself, without the runtime's own log lines."""
    return [line for line in text.splitlines() if line.startswith(("  File ", "tensorflow."))]


CELLS = [
    "%load_ext cachelab",
    "import sys; 'tensorflow' in sys.modules",
    """%%cachelab
import numpy as np
import tensorflow as tf
tf1 = tf.compat.v1
tf1.disable_eager_execution()
x = tf1.placeholder(tf.float32, [2, 2], "x")
h = tf.matmul(x, x, name="h")
y = tf.reduce_sum(h, name="y")
with tf1.Session() as sess:
    a = sess.run(h, {x: np.eye(2)})
    b = sess.run(y, {x: np.eye(2)})
b""",
    "%cachelab why h:0",
    "%%cachelab\nz = y + 1",
    "import cachelab; call = cachelab.last().calls[1]; call.line.file, call.line.number, call.op('h').line.number",
    "%%cachelab --quiet\nwith tf1.Session() as sess:\n    sess.run(y)",
]


@pytest.fixture(scope="module")
def notebook():
    cells = [nbformat.v4.new_code_cell(source) for source in CELLS]
    made = nbformat.v4.new_notebook(cells=cells)
    client = NotebookClient(made, timeout=300, kernel_name="python3", allow_errors=True, config=at_a_file())
    client.execute(env=ENV)
    return made.cells


def shown(cell):
    return "".join(
        output.get("text", "") or output.get("data", {}).get("text/plain", "")
        for output in cell.outputs
        if output.output_type != "display_data"
    )


def test_loading_the_extension_imports_no_tensorflow(notebook):
    assert shown(notebook[1]) == "False"


def test_the_record_stands_below_the_result(notebook):
    kinds = [output.output_type for output in notebook[2].outputs if output.output_type != "stream"]
    assert kinds[:2] == ["execute_result", "display_data"]
    page = next(output for output in notebook[2].outputs if output.output_type == "display_data")
    assert {"text/html", "text/plain", "application/vnd.cachelab.recording+json"} <= set(page.data)
    assert "recomputed" in page.data["text/plain"]


def test_why_answers_in_a_sentence(notebook):
    assert "`h` was recomputed in call 1 with the same feed `x` as in call 0" in shown(notebook[3])


def test_a_cell_that_only_builds_says_so(notebook):
    assert "nothing was recorded: no run call was made" in shown(notebook[4])


def test_lines_are_the_cells_lines_header_included(notebook):
    assert shown(notebook[5]) == "('cell 3', 11, 7)"


def test_the_users_error_is_the_users(notebook):
    (error,) = [output for output in notebook[6].outputs if output.output_type == "error"]
    assert error.ename == "InvalidArgumentError"
    assert "placeholder" in error.evalue
