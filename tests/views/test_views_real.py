"""The views on real recordings: every view takes what the engine makes, and none says what the record does not."""

import json

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow", reason="real recordings need TensorFlow")
tf1 = tf.compat.v1

from test_views_html import Page  # noqa: E402 - after the skip

from cachelab import store  # noqa: E402
from cachelab.tf.recorder import Recorder  # noqa: E402
from cachelab.views import html, mime, svg, text  # noqa: E402
from cachelab.views.diff import diff  # noqa: E402
from cachelab.views.dot import digraph  # noqa: E402
from cachelab.views.export import WRITERS  # noqa: E402
from cachelab.views.tally import Tally  # noqa: E402
from cachelab.views.why import why  # noqa: E402


@pytest.fixture(scope="module")
def record():
    """An encoder under a variable that is written once, random numbers, a branch, a loop, an error."""
    with tf.Graph().as_default():
        x = tf1.placeholder(tf.float32, [3], "x")
        with tf1.variable_scope("enc"):
            weight = tf1.get_variable("W", initializer=np.float32(2), use_resource=True)
            h = tf.tanh(x * weight, name="Tanh")
        y = tf.reduce_sum(h, name="y")
        noisy = tf.add(y, tf1.random_uniform([], seed=1), name="noisy")
        write = weight.assign_add(1.0, name="write")
        branch = tf1.cond(y > 0, lambda: tf.exp(y), lambda: tf.sin(y))
        loop = tf.while_loop(lambda i: i < 3, lambda i: i + 1, [0])
        checked = tf1.debugging.assert_less(y, -100.0, message="too large")
        init = tf1.global_variables_initializer()
        recorder = Recorder(name="real", trace="full").start()
        with tf1.Session() as session:
            feed = {x: [1, 2, 3]}
            session.run(init)  # call 0
            session.run(h, feed)
            session.run(y, feed)  # call 2: enc/Tanh again
            session.run(write)
            session.run(y, feed)  # call 4: after a write
            session.run([noisy, branch, loop], feed)
            session.run(y, {h: [1, 1, 1]})
            with pytest.raises(tf.errors.InvalidArgumentError):
                session.run(checked, feed)  # call 7
            for _ in range(30):
                session.run(y, feed)
        recorder.stop()
    return recorder.record()


def test_why_tells_of_reuse_and_of_the_write(record):
    again = why(record, "enc/Tanh:0", call=2).text
    assert again == (
        "`enc/Tanh` was recomputed in call 2 with the same feed `x` and the same variable `enc/W` as in call 1: "
        "values live for one call only."
    )
    written = why(record, "enc/Tanh", call=4)
    assert written.text.startswith("`enc/Tanh` had to be computed in call 4: ")
    assert "enc/W" in written.text
    assert "call 3" in written.text
    assert written.chain[0] == "enc/W"
    assert written.chain[-1] == "enc/Tanh"


def test_every_op_of_every_call_has_a_sentence(record):
    for call in range(record.call_count):
        for op in record.executions(call):
            reason = why(record, op.name, call)
            assert f"`{op.name}`" in reason.text
            assert reason.text.endswith(".")
            assert "{" not in reason.text
            assert reason.status == op.status


def test_json_comes_back(record):
    back = store.from_json(json.loads(store.dumps(record)))
    for call in range(record.call_count):
        ours, theirs = list(back.executions(call)), list(record.executions(call))
        assert [(o.name, o.status, o.witness, o.causes, o.line) for o in ours] == [
            (o.name, o.status, o.witness, o.causes, o.line) for o in theirs
        ]
    assert back.findings == record.findings
    assert [call.versions for call in back.calls] == [call.versions for call in record.calls]


def test_sums_agree_with_the_summary(record):
    total, summary = Tally(record).total, record.summary()
    assert (total.ran, total.recomputed) == (summary["executed"], summary["recomputed"])
    page = Page(html.fragment(record))
    assert f"{summary['recomputed']:,} of {summary['executed']:,} op executions recomputed" in page.text
    assert page.row("7")[1] == "assert_less/Assert/AssertGuard/Identity" or "failed" in page.text


def test_the_matrix_shows_the_statuses_of_the_record(record):
    page = Page(html.fragment(record))
    letters = {
        "computed": "C",
        "recomputed": "R",
        "fed": "F",
        "fused": "U",
        "merged": "M",
        "folded": "K",
        "unknown": "X",
    }
    shown = page.row("Tanh") if any(row and row[0] == "Tanh" for row in page.rows) else None
    assert shown is not None
    for call in range(7):
        status = next((op.status for op in record.executions(call) if op.name == "enc/Tanh"), None)
        assert shown[1 + call] == ("" if status is None else letters[status])


def test_all_views_take_it(record):
    bundle = mime.mimebundle(record)
    assert len(bundle["text/html"]) < 300_000
    Page(svg.svg(record))
    digraph(record)
    for write in WRITERS.values():
        assert write(record)
    assert diff(record, record).changes == ()
    assert "Calls 7" in text.report(record) or "Call 7 failed" in text.report(record)
