"""``explain_retrace`` and ``watch_retraces``: which argument, which kind, which fix, how long, where."""

import threading

import keras
import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.eager.polymorphic_function import tracing_compilation

from cachelab.errors import NotApplicableError
from cachelab.model import FINDINGS
from cachelab.tf.retrace import explain_retrace, watch_retraces


class Thing:
    """Something that is no tensor."""


def traced(*calls, **options):
    """Return (function, list of what Python saw) after the calls, each (args, kwargs)."""
    python = []

    @tf.function(**options)
    def scale(x, n=1, *, flag=False, thing=None):
        python.append(n)
        return x["a"] * n if isinstance(x, dict) else x * tf.cast(n, x.dtype)

    for args, kwargs in calls:
        scale(*args, **kwargs)
    return scale, python


def call(*args, **kwargs):
    return args, kwargs


ONE = call(tf.ones([2]))
KINDS = {
    "number": (call(tf.ones([2]), 2), "number", "n", "tf.constant(2)"),
    "shape": (call(tf.ones([3])), "shape", "x", "tf.TensorSpec([None], tf.float32)"),
    "rank": (call(tf.ones([3, 1])), "shape", "x", "tf.TensorSpec(None, tf.float32)"),
    "dtype": (call(tf.ones([2], tf.float64)), "dtype", "x", "tf.cast(x, tf.float32)"),
    "flag": (call(tf.ones([2]), flag=True), "value", "flag", "tf.cond"),
    "object": (call(tf.ones([2]), thing=Thing()), "object", "thing", "same object"),
    "structure": (call({"a": tf.ones([2])}), "structure", "x", "same keywords"),
    "tensor for number": (call(tf.ones([2]), tf.constant(1)), "structure", "n", "kinds of argument"),
}


@pytest.mark.parametrize("what", KINDS)
def test_kind_argument_and_fix(what):
    second, kind, argument, fix = KINDS[what]
    scale, python = traced(ONE, ONE, second, second)
    assert len(python) == 2
    report = explain_retrace(scale)
    assert [trace.again for trace in report.traces] == [False, True]
    (change,) = report.traces[1].changes
    assert (change.kind, change.argument) == (kind, argument)
    assert fix in change.fix
    assert f"`{argument}`" in report.text
    assert "traced 2 times, 1 of them again" in str(report)


@pytest.mark.parametrize("what", ["number", "shape", "dtype"])
def test_the_fix_works(what):
    fixed = {
        "number": ([call(tf.ones([2]), tf.constant(1)), call(tf.ones([2]), tf.constant(2))], {}),
        "shape": ([call(tf.ones([n])) for n in (2, 3, 4, 5)], {"reduce_retracing": True}),
        "dtype": ([ONE, call(tf.cast(tf.ones([2], tf.float64), tf.float32))], {}),
    }[what]
    _scale, python = traced(*fixed[0], **fixed[1])
    assert len(python) == (2 if what == "shape" else 1)


def test_compared_with_the_most_similar_earlier_trace():
    scale, _python = traced(ONE, call(tf.ones([2, 2]), 5), call(tf.ones([2]), 5), call(tf.ones([2]), flag=True))
    last = explain_retrace(scale).traces[-1]
    assert [(change.kind, change.argument) for change in last.changes] == [("value", "flag")]


def test_new_objects_and_nested_arguments():
    kept = [Thing(), Thing()]
    scale, _python = traced(*(call(tf.ones([2]), thing=thing) for thing in kept))
    (change,) = explain_retrace(scale).traces[1].changes
    assert change.kind == "object"
    assert "Thing" in change.text

    @tf.function
    def nested(data):
        return data["x"][1]

    nested({"x": (tf.ones([1]), tf.ones([2])), "rate": 1})
    nested({"x": (tf.ones([1]), tf.ones([3])), "rate": 2})
    found = {change.argument: change.kind for change in explain_retrace(nested).traces[1].changes}
    assert found == {"data['x'][1]": "shape", "data['rate']": "number"}


def test_variable_made_on_the_first_call():
    class Counter(tf.Module):
        value = None

        @tf.function
        def step(self):
            if self.value is None:
                self.value = tf.Variable(0)
            return self.value.assign_add(1)

    counter = Counter()
    assert [int(counter.step()) for _ in range(3)] == [1, 2, 3]
    report = explain_retrace(counter.step)
    assert len(report.traces) == counter.step.experimental_get_tracing_count() == 2
    assert [change.kind for change in report.traces[1].changes] == ["variable"]


def test_surroundings():
    scale, _python = traced(ONE)
    with tf.Graph().as_default():
        scale(tf.ones([2]))
    (change,) = explain_retrace(scale).traces[1].changes
    assert change.kind == "context"
    assert "graph" in change.text


def test_times_and_lines_while_watched():
    scale, _python = traced(ONE)
    with watch_retraces() as watch:
        scale(tf.ones([3]))
        scale(tf.ones([3]))
    report = explain_retrace(scale)
    assert report.traces[0].seconds is None
    assert 0 < report.traces[1].seconds < 60
    assert report.seconds == report.traces[1].seconds
    assert report.traces[1].line.text == "scale(tf.ones([3]))"
    (trace,) = watch.traces
    assert trace.number == 2
    assert " ms" in trace.text
    (finding,) = watch.findings(call=4)
    assert (finding.kind, finding.ops, finding.call) == ("retrace", ("scale",), 4)
    assert finding.kind in FINDINGS
    assert watch.take(4) == (finding,)
    assert watch.take(5) == ()


def test_measure_traces_a_copy():
    scale, python = traced(ONE, call(tf.ones([2]), 2))
    report = explain_retrace(scale, measure=True)
    assert all(trace.seconds > 0 for trace in report.traces)
    assert python == [1, 2, 1, 2]
    assert scale.experimental_get_tracing_count() == 2


def test_tf_function_in_a_loop():
    with watch_retraces() as watch:
        for _again in range(3):
            tf.function(lambda x: x + 1)(tf.ones([]))
    assert [[change.kind for change in trace.changes] for trace in watch.traces] == [
        [],
        ["new_function"],
        ["new_function"],
    ]
    assert "outside of the loop" in watch.findings()[0].text


def test_keras_steps():
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    x, y = np.ones((8, 2), np.float32), np.ones((8, 1), np.float32)
    with watch_retraces() as watch:
        model.train_on_batch(x, y)
        first = len(watch.again)
        model.train_on_batch(x[:3], y[:3])
        model.train_on_batch(x[:5], y[:5])
    assert first == 0
    # Keras 3.0 has a second function around this one, which is traced again for each new generator.
    (trace,) = (trace for trace in watch.again if trace.function == "one_step_on_data")
    assert {change.argument for change in trace.changes} == {"data[0]", "data[1]"}
    assert {change.kind for change in trace.changes} == {"shape"}
    assert "serves all sizes" in trace.text
    assert trace.line.text == "model.train_on_batch(x[:3], y[:3])"


def test_nothing_stays_hooked():
    before = tracing_compilation._create_concrete_function
    with watch_retraces() as outer:
        with watch_retraces() as inner:
            traced(ONE)
        traced(ONE)
    assert tracing_compilation._create_concrete_function is before
    assert len(inner.traces) == 1
    assert len(outer.traces) == 2
    with pytest.raises(Exception, match="division by zero"), watch_retraces():
        tf.function(lambda: 1 / 0)()
    assert tracing_compilation._create_concrete_function is before


def test_threads_are_all_seen():
    with watch_retraces() as watch:
        threads = [threading.Thread(target=traced, args=(ONE, call(tf.ones([k + 3])))) for k in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(watch.traces) == 6


def test_what_is_no_tf_function():
    with pytest.raises(NotApplicableError, match=r"tf\.function"):
        explain_retrace(len)
    assert "not traced yet" in explain_retrace(tf.function(lambda x: x)).text
