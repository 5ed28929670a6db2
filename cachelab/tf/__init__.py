"""All that touches TensorFlow."""

from __future__ import annotations

from importlib import import_module
from typing import Any


def __getattr__(name: str) -> Any:
    """Import ``per_example``, which people use by its full name, on first use."""
    if name != "per_example":
        raise AttributeError(f"module 'cachelab.tf' has no attribute {name!r}")
    return import_module("cachelab.tf.per_example")
