"""Keys of classes of equal sources: equal keys, equal versions of every source."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from cachelab.explain.variant import bits

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cachelab.explain.variant import Variant


class Keys:
    """Keys of classes: each version has 128 random bits, a key is their sum over the class (after Zobrist 1970).

    Two different sets of versions share a key with a probability of about 2**-128.
    """

    def __init__(self) -> None:
        self._random = np.random.default_rng(0xCAC4E1AB)
        self._bits = self._random.integers(0, 2**63, size=(256, 2), dtype=np.uint64)
        self._layout: dict[tuple[int, int], tuple[Any, Any, Any, Any, Any]] = {}

    def of(self, variant: Variant, vector: tuple[int, ...], config: int) -> tuple[tuple[int, int, int], ...]:
        """Return the key of each class of ``variant``."""
        while vector and max(vector) >= len(self._bits):
            more = self._random.integers(0, 2**63, size=self._bits.shape, dtype=np.uint64)
            self._bits = np.concatenate([self._bits, more])
        layout = self._layout.get(variant.id)
        if layout is None:
            layout = self._layout[variant.id] = _layout(variant.masks)
        order, slots, leaves, starts, filled = layout
        keys: Any = np.zeros((len(order), 2), dtype=np.uint64)
        if len(slots):
            found: Any = self._bits[np.fromiter(vector, dtype=np.int64, count=len(vector))[slots]]
            found[leaves] = np.negative(found[leaves])  # modulo 2**64, like the sums
            steps = np.zeros_like(keys)
            steps[filled] = np.add.reduceat(found, starts, axis=0)
            keys[order] = np.cumsum(steps, axis=0, dtype=np.uint64)
        return tuple((high, low, config) for high, low in keys.tolist())


def _layout(masks: Sequence[int]) -> tuple[Any, Any, Any, Any, Any]:
    """Order classes so that each differs little from the one before; list what enters and leaves at each step.

    The classes of a training step are nested: their sizes add up to the square of the number of variables, the
    differences to little more than that number when smaller classes come first.
    """
    order = sorted(range(len(masks)), key=lambda number: (masks[number].bit_count(), masks[number]))
    slots: list[int] = []
    leaves: list[bool] = []
    starts: list[int] = []
    filled: list[int] = []
    before = 0
    for place, number in enumerate(order):
        changed = masks[number] ^ before
        if changed:
            filled.append(place)
            starts.append(len(slots))
        for slot in bits(changed):
            slots.append(slot)
            leaves.append(bool(before >> slot & 1))
        before = masks[number]
    arrays = [np.array(found, dtype=np.int64) for found in (order, slots, starts, filled)]
    return arrays[0], arrays[1], np.array(leaves, dtype=bool), arrays[2], arrays[3]
