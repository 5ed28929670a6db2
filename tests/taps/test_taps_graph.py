"""A tap in a v1 graph: the write runs with what uses it, a read executes only the read, stale reads are reported."""

import warnings

import numpy as np
import pytest
import tensorflow as tf

from cachelab.errors import NameNotFoundError, NotApplicableError
from cachelab.tf.taps import Tap, TapWarning

tf1 = tf.compat.v1


def question(tap, *, resource):
    """Build the counter example of question 3; return (loss, increment)."""

    def variable(value):
        return tf1.Variable(value, dtype=tf.float32, use_resource=resource, name="v")

    with tf1.variable_scope("", use_resource=resource):
        one, two, counter = variable(1), variable(2), variable(1)
    scaled = tf.multiply(tf.square(two), counter)
    difference = tap("diff", tf.subtract(scaled, one, name="diff"))
    return tf.square(difference, name="loss"), tf1.assign_add(counter, 1.0), scaled


def traced(session, fetch, feed=None):
    """Run; return the value and the names of the ops that ran."""
    metadata = tf1.RunMetadata()
    value = session.run(fetch, feed, options=tf1.RunOptions(trace_level=3), run_metadata=metadata)
    return value, {node.node_name for device in metadata.step_stats.dev_stats for node in device.node_stats}


def plain_config():
    config = tf1.ConfigProto()
    config.graph_options.optimizer_options.opt_level = -1
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    return config


@pytest.fixture
def graph():
    with tf.Graph().as_default() as graph:
        yield graph


@pytest.mark.parametrize("resource", [False, True], ids=["ref", "resource"])
def test_the_values_of_question_three(graph, resource):
    tap = Tap()
    loss, increment, scaled = question(tap, resource=resource)
    start = tf1.global_variables_initializer()
    graph.finalize()
    with tf1.Session() as session:
        session.run(start)
        with pytest.raises(NameNotFoundError, match="before any step"):
            tap["diff"]
        assert session.run(loss) == 9
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert tap["diff"] == 3
            assert session.run(scaled) == 4
        session.run(increment)
        with pytest.warns(TapWarning, match="stale: `v_2` changed") as seen:
            assert tap["diff"] == 3
        assert seen[0].filename == __file__
        assert session.run(scaled) == 8
        assert session.run(loss) == 49
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            reading = tap.last("diff")
        assert (reading.value, reading.step, reading.call, reading.stale) == (7, 2, "graph", ())


@pytest.mark.parametrize("resource", [False, True], ids=["ref", "resource"])
def test_what_runs(graph, resource):
    tap = Tap()
    loss, increment, scaled = question(tap, resource=resource)
    start = tf1.global_variables_initializer()
    with tf1.Session(config=plain_config()) as session:
        session.run(start)
        _value, ran = traced(session, loss)
        assert {"diff", "loss"} <= ran
        assert sum(name.startswith("AssignVariableOp") for name in ran) >= 1
        _value, ran = traced(session, scaled)
        assert "diff" not in ran
        assert not any("AssignVariableOp" in name for name in ran), "the write belongs to the loss"
        session.run(increment)
        reads = []
        original = session.run

        def run(*args, **kwargs):
            metadata = tf1.RunMetadata()
            value = original(*args, options=tf1.RunOptions(trace_level=3), run_metadata=metadata, **kwargs)
            reads.extend(node.node_name for device in metadata.step_stats.dev_stats for node in device.node_stats)
            return value

        session.run = run
        with pytest.warns(TapWarning):
            tap.last("diff", session=session)
        assert reads
        assert not {"diff", "loss", "Square", "Mul"} & set(reads), "a read computes nothing of the user's"


def test_without_the_tap_the_same_ops_run_but_for_the_write(graph):
    ran = []
    for tap in (lambda _name, value: value, Tap(check_stale=False)):
        with tf.Graph().as_default():
            loss, _increment, _scaled = question(tap, resource=True)
            start = tf1.global_variables_initializer()
            with tf1.Session(config=plain_config()) as session:
                session.run(start)
                ran.append(traced(session, loss)[1])
    assert {"diff", "loss", "Mul", "Square"} <= ran[0] <= ran[1]


def test_no_trace_in_collections_or_checkpoints(graph, tmp_path):
    tap = Tap()
    question(tap, resource=True)
    assert len(tf1.global_variables()) == len(tf1.trainable_variables()) == 3
    assert not tf1.local_variables()
    saver = tf1.train.Saver()
    with tf1.Session() as session:
        session.run(tf1.global_variables_initializer())
        path = saver.save(session, str(tmp_path / "model"))
    assert {name for name, _shape in tf.train.list_variables(path)} == {"v", "v_1", "v_2"}


def test_a_fed_array_may_be_changed_afterwards(graph):
    tap = Tap()
    x = tf1.placeholder(tf.float32, [None])
    y = tap("x", tf.reshape(x, [-1, 1])) * 2
    with tf1.Session() as session:
        base = np.zeros(4096 * 4 + 64, np.uint8)
        start = -base.ctypes.data % 64
        array = base[start : start + 4096 * 4].view(np.float32)  # 64-byte aligned: fed without a copy
        array[:] = 1
        session.run(y, {x: array})
        array[:] = 5
        assert tap["x"].ravel().tolist() == [1.0] * 4096
        session.run(y, {x: np.zeros(3, np.float32)})
        assert tap["x"].shape == (3, 1)


def test_history_and_two_sessions(graph):
    tap = Tap(history=3)
    loss, increment, _scaled = question(tap, resource=True)
    start = tf1.global_variables_initializer()
    graph.finalize()
    with tf1.Session() as session, tf1.Session() as other:
        session.run(start)
        other.run(start)
        for _step in range(5):
            session.run(loss)
            session.run(increment)
        other.run(loss)
        kept = tap.history("diff", session=session)
        assert [(reading.step, float(reading.value)) for reading in kept] == [(3, 11.0), (4, 15.0), (5, 19.0)]
        assert [float(reading.value) for reading in tap.history("diff", session=other)] == [3.0]
        assert tap.steps("diff", session=session) == 5


def test_training_is_bitwise_the_same():
    weights = []
    for tap in (lambda _name, value: value, Tap()):
        with tf.Graph().as_default():
            tf1.set_random_seed(1)
            x, y = tf1.placeholder(tf.float32, [None, 3]), tf1.placeholder(tf.float32, [None, 1])
            w = tf1.get_variable("w", [3, 1], initializer=tf1.zeros_initializer(), use_resource=True)
            loss = tf.reduce_mean(tf.square(tap("diff", y - x @ w)))
            train = tf1.train.AdamOptimizer(0.1).minimize(loss)
            draw = np.random.default_rng(0)
            with tf1.Session() as session:
                session.run(tf1.global_variables_initializer())
                for _step in range(4):
                    feed = {x: draw.random((5, 3), np.float32), y: draw.random((5, 1), np.float32)}
                    before = feed[y] - feed[x] @ session.run(w)
                    session.run(train, feed)
                    if isinstance(tap, Tap):
                        with pytest.warns(TapWarning, match="`w` changed"):
                            value = tap.last("diff", session=session).value
                        np.testing.assert_allclose(value, before, atol=1e-6)
                weights.append(session.run(w).tobytes())
    assert weights[0] == weights[1]


def test_no_session_and_composites(graph):
    tap = Tap()
    question(tap, resource=True)
    with pytest.raises(NameNotFoundError, match=r"session=sess"):
        tap["diff"]
    with pytest.raises(NotApplicableError, match=r"values"):
        tap("ragged", tf.ragged.constant([[1], [2, 3]]))


def test_control_flow(graph):
    tap = Tap()
    x = tf1.placeholder(tf.float32, [])
    branch = tf.cond(x > 0, lambda: tap("branch", x * 2), lambda: x)
    loop = tf.while_loop(lambda i, _v: i < 3, lambda i, v: (i + 1, tap("loop", v * 2)), [0, x])[1]
    with tf1.Session() as session:
        session.run(branch, {x: -1})
        with pytest.raises(NameNotFoundError, match="before any step"):
            tap["branch"]
        session.run(branch, {x: 3})
        assert tap["branch"] == 6
        assert session.run(loop, {x: 1}) == 8
        assert (tap["loop"], tap.last("loop").step) == (8, 3)
