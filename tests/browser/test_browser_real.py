"""TensorFlow code recorded with ``%%cachelab`` in a real JupyterLab: the explorer shows what Python says."""

from __future__ import annotations

import json

import pytest

pytestmark = [pytest.mark.browser, pytest.mark.timeout(900)]

BUILD = """\
%load_ext cachelab
import numpy as np, tensorflow as tf
tf1 = tf.compat.v1
tf1.disable_eager_execution()
rng = np.random.default_rng(0)
x = tf1.placeholder(tf.float32, [None, 16], name="x")
idx = tf1.placeholder(tf.int32, [None, 2], name="idx")
with tf1.variable_scope("enc", use_resource=True):
    h = tf.tanh(tf.matmul(x, tf1.get_variable("W", [16, 32])), name="Tanh")
with tf1.variable_scope("head", use_resource=True):
    V = tf1.get_variable("V", [64, 1])
    out = tf.matmul(tf.reshape(tf.gather(h, idx), [-1, 64]), V)
loss = tf.reduce_mean(out ** 2, name="loss")
train = tf1.train.GradientDescentOptimizer(0.1).minimize(loss, var_list=[V], name="train")
X = np.random.rand(200, 16).astype("float32")
sess = tf1.Session()
_ = sess.run(tf1.global_variables_initializer())"""
RUN = """\
%%cachelab
for k in range(4):
    sess.run([loss, train], {x: X, idx: rng.integers(0, 200, (8, 2))})"""
ASK = """\
import json
from cachelab.session_state import recordings
recording = recordings.find()
print(json.dumps({
    "statuses": {op.name: op.status for op in recording.calls[1].ops},
    "recomputed": recording.summary()["recomputed"], "executed": recording.summary()["executed"],
    "modes": {m.mode: [m.applicable, m.reason, m.equality, m.executed, m.reused] for m in recording.record.modes}}))"""


def test_real_recording_and_replays_show_the_figures_of_python(open_notebook, lab, artifacts):
    book = open_notebook(lab, "real.ipynb", BUILD, RUN, ASK)
    book.page.set_default_timeout(240_000)
    book.run(0)
    kinds = [set(one.get("data", ())) for one in book.run(1)]
    assert any("text/html" in one for one in kinds)
    root = book.page.locator(".cachelab-explorer .xp")
    root.wait_for()
    said = json.loads(book.text(2))
    assert said["statuses"]["enc/Tanh"] == "recomputed"
    for name in ("enc/MatMul", "enc/Tanh", "loss"):
        label = root.locator(f'svg.graph [data-id="{name}"]').get_attribute("aria-label")
        assert label.startswith(f"{name}, {said['statuses'][name]}")
    cells = root.locator(".cmp tbody tr").first.locator("td").all_inner_texts()
    assert cells[1:3] == [str(said["executed"]), str(said["recomputed"])]
    root.locator('[data-mode="variable"]').click()
    root.locator('[data-mode="variable"][aria-checked="true"]').wait_for()
    assert root.locator('svg.graph [data-id="enc/Tanh"] .lt').text_content() == "S"
    root.locator('[data-mode="partial_run"]').click()
    root.locator('[data-mode="partial_run"][aria-disabled="true"]').wait_for()
    modes = json.loads(book.text(2))["modes"]
    applicable, _reason, equality, executed, reused = modes["variable"]
    assert applicable
    row = root.locator(".cmp tr.me")
    assert row.locator("td").nth(1).inner_text() == str(executed)
    assert row.locator("td").nth(3).inner_text() == str(reused)
    assert row.locator(".proof b").inner_text() == equality == "equal"
    assert modes["partial_run"][1].replace("`", "") in root.locator(".note").inner_text()
    root.screenshot(path=artifacts / "live-real.png")
