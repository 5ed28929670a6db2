"""Plain TensorFlow code that does by hand what a mode does."""

from __future__ import annotations


def _todo(*_args):
    return ""


run = feed = memo = handle = variable = joint = partial_run = per_example = _todo
