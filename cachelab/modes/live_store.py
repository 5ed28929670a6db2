"""Kept values of a live session within a memory budget."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple


class CacheInfo(NamedTuple):
    """What a live session's cache did so far.

    ``hits`` and ``misses`` count tensors served and tensors that could have been; ``bytes`` is held now;
    ``seconds_saved`` is op time (a sum over ops) that serving saved, estimated from a trace; ``entries`` the number
    of values held; ``note`` says what the mode did to the graph.
    """

    hits: int
    misses: int
    bytes: int
    evictions: int
    seconds_saved: float
    entries: int
    note: str = ""


@dataclass(slots=True)
class Entry:
    """One kept value: what it holds (an array, a handle, a variable), its bytes, what a hit saves, its rank."""

    value: Any
    size: int
    saved: float
    rank: float
    at: int


class Store:
    """Values by (tensor, key), least worth evicted first.

    The rank of a value is the clock plus its saved time per byte; evicting moves the clock to the rank of the victim,
    so that what was once worth much but is not used any more leaves too (GreedyDual-Size, Cao and Irani 1997).

    Parameters
    ----------
    budget
        Bytes that may be held, ``None`` for no limit.
    slots
        Values that one tensor may hold, ``None`` for any number.
    """

    def __init__(self, budget: int | None, slots: int | None) -> None:
        self.budget = budget
        self.slots = slots
        self.clear()

    def clear(self) -> None:
        """Drop every value and forget the counts."""
        self.entries: dict[Any, dict[str, Entry]] = {}
        self.held = self.hits = self.misses = self.evictions = 0
        self.saved = 0.0
        self._clock = 0.0
        self._count = 0
        self._keys: dict[str, dict[Any, None]] = {}

    def get(self, key: Any, tensor: str) -> Any:
        """Return what is kept of a tensor under a key, counting the hit."""
        entry = self.entries[key][tensor]
        entry.rank = self._clock + entry.saved / max(entry.size, 1)
        self.hits += 1
        self.saved += entry.saved
        return entry.value

    def put(self, key: Any, tensor: str, value: Any, size: int, saved: float) -> bool:
        """Keep a value; return whether it fits the budget."""
        if self.budget is not None and size > self.budget:
            return False
        keys = self._keys.setdefault(tensor, {})
        if key in keys:
            self._drop(key, tensor)
        while self.slots is not None and len(keys) >= self.slots:
            self._drop(next(iter(keys)), tensor)
        while self.budget is not None and self.held + size > self.budget:
            self._evict()
        self._count += 1
        rank = self._clock + saved / max(size, 1)
        self.entries.setdefault(key, {})[tensor] = Entry(value, size, saved, rank, self._count)
        keys[key] = None
        self.held += size
        return True

    def _evict(self) -> None:
        key, tensor, entry = min(
            ((key, tensor, entry) for key, held in self.entries.items() for tensor, entry in held.items()),
            key=lambda item: (item[2].rank, item[2].at),
        )
        self._clock = entry.rank
        self.evictions += 1
        self._drop(key, tensor)

    def _drop(self, key: Any, tensor: str) -> None:
        entry = self.entries[key].pop(tensor)
        if not self.entries[key]:
            del self.entries[key]
        del self._keys[tensor][key]
        self.held -= entry.size

    def holds(self, tensor: str) -> bool:
        """Tell whether a value of a tensor is kept."""
        return bool(self._keys.get(tensor))

    def forget(self, tensor: str) -> None:
        """Drop what is kept of a tensor."""
        for key in list(self._keys.get(tensor, ())):
            self._drop(key, tensor)

    def forget_all(self) -> None:
        """Drop every value; the counts go on."""
        for tensor in list(self._keys):
            self.forget(tensor)

    def tensors(self, key: Any) -> frozenset[str]:
        """Return the tensors kept under a key."""
        return frozenset(self.entries.get(key, ()))

    def info(self, note: str = "") -> CacheInfo:
        """Return the counts."""
        entries = sum(len(held) for held in self.entries.values())
        return CacheInfo(self.hits, self.misses, self.held, self.evictions, self.saved, entries, note)
