"""The examples in the docstrings are true."""

from __future__ import annotations

import doctest
import importlib

import pytest


@pytest.mark.parametrize("name", ["public", "derivatives"])
def test_docstrings_run(name):
    module = importlib.import_module(f"cachelab.tf.per_example.{name}")
    result = doctest.testmod(module)
    assert result.attempted >= 2
    assert result.failed == 0
