"""Digests of feeds, computed once for arrays that can't change."""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np

from cachelab.tf.values import digest

SMALL = 4096
"""Bytes below which looking an array up costs more than its digest."""


class Digests:
    """Content digests of feeds. An array whose memory is immutable (``bytes`` below it) is digested once."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[Any, str]] = {}

    def of(self, value: Any) -> Any:
        """Return what stands for the content of an array or scalar: a digest, or the content itself if small."""
        array = np.asarray(value)
        if array.nbytes <= SMALL and not array.dtype.hasobject:
            # One bytes object, since that hashes its content once however many keys it is part of.
            return array.tobytes() + f"{array.dtype.str}{array.shape}".encode()
        if array.flags.writeable or not immutable(array):
            return digest(array)
        known = self._known.get(id(array))
        if known is not None and known[0]() is array:
            return known[1]
        found = digest(array)
        number = id(array)
        self._known[number] = (weakref.ref(array, lambda _gone: self._known.pop(number, None)), found)
        return found


def immutable(array: Any) -> bool:
    """Whether nobody can change an array: neither it nor what it is a view of can be written, down to ``bytes``."""
    while isinstance(array, np.ndarray):
        if array.flags.writeable or array.base is None:
            return False  # an array that owns its memory can be made writeable again
        array = array.base
    return isinstance(array, bytes)
