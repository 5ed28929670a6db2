"""Arrays that modes keep and feed: copies, sizes, alignment, and stand-ins for what nothing takes."""

from __future__ import annotations

import math
import mmap
from functools import lru_cache
from typing import Any

import numpy as np

SMALL_BYTES = 1 << 16
"""What is cheaper to copy than to replace."""


def own(value: Any) -> Any:
    """Return a copy of an array, or the value itself where it is not one."""
    return value.copy() if isinstance(value, np.ndarray) else value


def size_of(value: Any) -> int:
    """Return the bytes of a fetched value; a scalar string is plain ``bytes``, an array of strings points at them."""
    size = getattr(value, "nbytes", None)
    if size is None or getattr(getattr(value, "dtype", None), "hasobject", False):
        return sum(len(item) for item in getattr(value, "flat", [value]) if isinstance(item, bytes | str))
    return int(size)


def aligned(value: Any) -> Any:
    """Return an array that TensorFlow can take without a copy: contiguous and 64-byte-aligned.

    Parameters
    ----------
    value
        An array of any shape; returned as it is where it fits already, or holds Python objects.
    """
    if not isinstance(value, np.ndarray) or value.dtype == object or value.nbytes == 0:
        return value
    if value.flags.c_contiguous and value.ctypes.data % 64 == 0:
        return value
    store = np.empty(value.nbytes + 64, np.uint8)
    start = -store.ctypes.data % 64
    copy = store[start : start + value.nbytes].view(value.dtype).reshape(value.shape)
    copy[...] = value
    return copy


def idle(value: Any) -> Any:
    """Return what to feed in the place of a value that no op takes: of the same shape and type, never written or read.

    TensorFlow wants as many feeds as before, and would copy an array that is not aligned.
    """
    if not isinstance(value, np.ndarray) or value.dtype.hasobject or value.nbytes < max(SMALL_BYTES, 1):
        return value
    return _stand_in(value.shape, value.dtype)


@lru_cache(maxsize=16)
def _stand_in(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
    """Return an array in memory that the system has not even given yet; ``np.zeros`` may clear some that was used."""
    size = math.prod(shape) * dtype.itemsize
    return np.frombuffer(mmap.mmap(-1, size), np.uint8).view(dtype).reshape(shape)  # a page is aligned well enough
