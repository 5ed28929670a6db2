"""CacheLab: which TensorFlow work had been done before, why was it done again, and how to reuse it."""

from __future__ import annotations

from cachelab._version import __version__

__all__ = ["__version__"]
