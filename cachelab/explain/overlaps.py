"""Calls that overlap in time, and what they may write meanwhile."""

from __future__ import annotations

import bisect
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from cachelab.explain.log import LoggedCall


def overlapping(calls: Sequence[LoggedCall]) -> dict[int, list[int]]:
    """Return for each call the others whose spans overlap its own (pieces of one handle do not count)."""
    found: dict[int, list[int]] = {}
    active: list[tuple[int, int]] = []
    for i in sorted(range(len(calls)), key=lambda j: calls[j].began):
        call = calls[i]
        active = active[bisect.bisect_right(active, (call.began, len(calls))) :]
        for _, j in active:
            if call.handle is None or calls[j].handle != call.handle or calls[j].session != call.session:
                found.setdefault(i, []).append(j)
                found.setdefault(j, []).append(i)
        bisect.insort(active, (call.ended, i))
    return found


class Overlapped:
    """What the calls that overlap one call in time may write: by place, or anything where that is hidden."""

    def __init__(self, neighbours: Iterable[LoggedCall]) -> None:
        self._places: dict[str, int] = {}
        self._hidden: int | None = None
        for other in neighbours:
            if other.plan is None:
                self._hidden = other.index if other.opaque else self._hidden
                continue
            for cell in other.plan.writers:
                known = other.plan.flat.cells[cell]
                self._places[known.key] = other.index
                if known.kind == "opaque":
                    self._hidden = other.index

    def of(self, place: str) -> int | None:
        """Return a call that may have written ``place`` meanwhile, ``None`` if none may."""
        return self._places.get(place, self._hidden)
