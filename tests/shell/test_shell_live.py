"""Live modes on the sessions of a cell: same results, and every session is what it was afterwards."""

from __future__ import annotations

import re

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.protobuf import config_pb2

from cachelab.errors import OptionError
from cachelab.modes import live
from cachelab.modes.live_cells import activate
from cachelab.session_state import recordings

tf1 = tf.compat.v1


class Program:
    """A session with an encoder, a variable that is written by several ways, and what it gives for each call."""

    def __init__(self):
        self.graph = tf.Graph()
        with self.graph.as_default():
            self.x = tf1.placeholder(tf.float32, [64, 64], "x")
            start = np.random.RandomState(0).randn(64, 64).astype("float32")
            weights = tf1.get_variable("weights", initializer=start, use_resource=True)
            h = tf.tanh(tf.matmul(self.x, weights), name="h")
            self.fetches = [tf.reduce_sum(h, name="total"), tf.reduce_max(h, name="largest"), h]
            self.write = weights.assign_add(tf.ones([64, 64]) / 8).op
            self.session = tf1.Session()
            self.session.run(tf1.global_variables_initializer())
        options = config_pb2.CallableOptions(target=[self.write.name])
        self.writers = [
            lambda: self.session.run(self.write),
            self.session.make_callable(self.write),
            self.session._make_callable_from_options(options),
        ]
        self.batches = [np.full([64, 64], value, "float32") for value in (0.1, -0.2)]

    def calls(self):
        """Fetch everything several times, write by each way, and fetch again; the batches change in place too."""
        found = []
        for writer in self.writers:
            for batch in self.batches * 2:
                for _time in range(2):
                    found += [self.session.run(fetch, {self.x: batch}) for fetch in self.fetches]
            self.batches[0] += 0.01
            found += [self.session.run(fetch, {self.x: self.batches[0]}) for fetch in self.fetches]
            writer()
            found += [self.session.run(fetch, {self.x: self.batches[1]}) for fetch in self.fetches]
        return found


@pytest.mark.parametrize("mode", ["memo", "feed"])
def test_results_are_those_of_plain_calls(mode):
    plain = Program().calls()
    program = Program()
    operations = len(program.graph.get_operations())
    before = set(vars(program.session))
    activation = activate(mode)
    try:
        served = program.calls()
    finally:
        activation.close()
    for ours, theirs in zip(served, plain, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5)
    assert activation.hits > 0, "something was served, or this proves nothing"
    assert re.match(rf"mode {mode}: \d+ tensors were served", str(activation))
    assert len(program.graph.get_operations()) == operations
    assert type(program.session) is tf1.Session
    assert set(vars(program.session)) == before


def test_tensorflow_is_what_it_was():
    from tensorflow.python.client.session import BaseSession

    before = dict(vars(BaseSession)), dict(vars(BaseSession._Callable))
    activate("memo").close()
    assert (dict(vars(BaseSession)), dict(vars(BaseSession._Callable))) == before


def test_a_session_closed_inside_is_left_closed():
    activation = activate("memo")
    with tf.Graph().as_default(), tf1.Session() as session:
        y = tf.reduce_sum(tf.ones([100, 100]))
        assert [session.run(y) for _time in range(3)] == [10_000.0] * 3
    activation.close()
    with pytest.raises(RuntimeError, match="closed"):
        session.run(y)


def test_cuts_are_for_replayed_modes():
    with pytest.raises(OptionError, match="chooses by itself"):
        activate("memo", ["h:0"])


def statuses(record):
    return {op.status for call in range(record.call_count) for op in record.executions(call)}


def test_the_magic_serves_the_recorded_cells_that_follow(real_shell, monkeypatch):
    monkeypatch.setattr(live, "WORTH_SECONDS", 0.0)
    monkeypatch.setattr(live, "WORTH_SECONDS_A_BYTE", 0.0)
    names = real_shell.ip.user_ns
    names.update(calls=Program().calls, found=[])
    real_shell.cell("%cachelab mode memo")
    assert real_shell.cell("%%cachelab\nfound += calls()").success
    assert "reused" in statuses(recordings.find().record)
    real_shell.cell("%cachelab mode run")
    assert real_shell.cell("%%cachelab\nfound += calls()").success
    assert "reused" not in statuses(recordings.find().record)
    expected = Program()
    for ours, theirs in zip(names["found"], expected.calls() + expected.calls(), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5)
