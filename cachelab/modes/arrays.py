"""Arrays that modes keep and feed: copies, sizes, alignment, and stand-ins for what nothing takes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

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
    copy = _room(value, np.empty)
    copy[...] = value
    return copy


def idle(value: Any) -> Any:
    """Return what to feed in the place of a value that no op takes: of the same shape and type, never written or read.

    TensorFlow wants as many feeds as before, and would copy an array that is not aligned.
    """
    if not isinstance(value, np.ndarray) or value.dtype.hasobject or value.nbytes < SMALL_BYTES:
        return value
    return _room(value, np.zeros)  # zeros of this size are memory that the system has not even given yet


def _room(value: Any, make: Callable[..., Any]) -> Any:
    """Return an aligned array of a value's shape and type."""
    store = make(value.nbytes + 64, np.uint8)
    start = -store.ctypes.data % 64
    return store[start : start + value.nbytes].view(value.dtype).reshape(value.shape)
