"""Graph mode for the tests of the modes."""

from __future__ import annotations

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import pytest
import tensorflow as tf


@pytest.fixture(autouse=True)
def _graph_mode():
    with tf.Graph().as_default():
        yield
