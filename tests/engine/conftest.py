"""Graphs and recorders for tests of the engine, cleaned up whatever happens."""

from __future__ import annotations

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import pytest
import tensorflow as tf
from engine_tools import plain_config, tf1

from cachelab.tf.recorder import Recorder


@pytest.fixture
def graph():
    """Return a fresh default graph."""
    with tf.Graph().as_default() as made:
        yield made


@pytest.fixture
def start():
    """Return a function that starts a recorder, stopped at the end whatever happens."""
    recorders = []

    def make(**options):
        recorder = Recorder(**options).start()
        recorders.append(recorder)
        return recorder

    yield make
    for recorder in recorders:
        recorder.stop()


@pytest.fixture(params=["plain", "optimized"])
def config(request):
    """Return a session configuration without and with graph optimisation."""
    return plain_config() if request.param == "plain" else tf1.ConfigProto()


@pytest.fixture(params=[True, False], ids=["control flow v2", "control flow v1"])
def control_flow(request):
    before = tf1.control_flow_v2_enabled()
    (tf1.enable_control_flow_v2 if request.param else tf1.disable_control_flow_v2)()
    yield
    (tf1.enable_control_flow_v2 if before else tf1.disable_control_flow_v2)()
