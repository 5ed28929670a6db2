"""Content digests of feeds, fetches and variables."""

from __future__ import annotations

from typing import Any

import numpy as np
import xxhash


def digest(value: Any) -> str:
    """Return a digest of dtype, shape and content of an array or scalar (128 bits, as hexadecimal text).

    Arrays that share a digest have the same bytes, up to a probability of about 2**-128. ``-0.0`` differs from
    ``0.0``, and NaNs are equal if their bits are.
    """
    array = np.asarray(value)
    hasher = xxhash.xxh3_128(f"{array.dtype.str}{array.shape}".encode())
    if array.dtype.hasobject:
        for item in array.ravel():
            data = item if isinstance(item, bytes) else str(item).encode()
            hasher.update(len(data).to_bytes(8, "little"))
            hasher.update(data)
    elif array.size:
        hasher.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
    return hasher.hexdigest()


def is_telling(value: Any) -> bool:
    """Tell whether a value is so particular that two equal ones hardly come from different places."""
    array = np.asarray(value)
    if array.dtype.hasobject or array.dtype.kind in "SUb":
        return array.size >= MANY
    if array.dtype.kind in "fc":
        finite = array[np.isfinite(array)]
        return bool(finite.size) and bool(np.any(finite != np.round(finite)))
    return array.size >= MANY and bool(np.any(array != array.flat[0]))


MANY = 16
"""Elements from which on equal content is no coincidence."""
