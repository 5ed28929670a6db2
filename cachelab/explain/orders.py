"""Which events of a call are surely done before an op runs, whatever the timing.

Ops wait for all their inputs, with two exceptions. A merge runs as soon as *one* of its inputs is there: what only the
branch not taken waits for may run later. And in the first iteration of a loop nothing has come round yet: what the
loop's body waits for need not be done when another part of the body runs. So an order counts only if it holds on every
way that the execution may take.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cachelab.explain.flat import LOOP_VAR, SELECT
from cachelab.explain.guards import Guards, exclusive, guards
from cachelab.explain.variant import MERGES, SWITCHES

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from cachelab.explain.closure import Closure
    from cachelab.explain.flat import FlatGraph, Ref

COMES_ROUND = frozenset({"NextIteration", "RefNextIteration"})


def surely_before(flat: FlatGraph, closed: Closure, bit: Mapping[int, int]) -> dict[int, int]:
    """Return row -> events (bits) done before it first runs; events of a loop come before each other.

    Parameters
    ----------
    flat, closed
        The graph and the closure of one signature.
    bit
        Row -> bit, for the rows that are events (reads and writes of cells that the call writes).
    """
    return _Orders(flat, closed, bit).before


class _Orders:
    def __init__(self, flat: FlatGraph, closed: Closure, bit: Mapping[int, int]) -> None:
        self._flat = flat
        self._closed = closed
        self._bit = bit
        self._event = {mask: row for row, mask in bit.items()}
        self._guards: dict[int, Guards] | None = None
        self.before: dict[int, int] = {}
        in_cycle = {row: cycle for cycle in closed.cycles for row in cycle}
        for row in closed.order:
            if row in self.before:
                continue
            cycle = in_cycle.get(row)
            if cycle is None:
                self._place(row, closed.waits[row], 0)
                continue
            waits = {member: self._first(member, set(cycle)) for member in cycle}
            together = 0
            for member in cycle:
                together |= bit.get(member, 0)
            for member in _ordered(cycle, waits):
                self._place(member, waits[member], together)

    def _place(self, row: int, waits: Iterable[int], together: int) -> None:
        branches = self._branches(row)
        alternatives = {ref[0] for ref in branches if ref is not None}
        mask = together
        for other in waits:
            if other not in alternatives:
                mask |= self._done(other)
        self.before[row] = mask | self._whichever(row, branches) if branches else mask

    def _done(self, row: int) -> int:
        return self.before.get(row, 0) | self._bit.get(row, 0)

    def _guard(self, ref: Ref | None) -> Guards:
        """Return the branches that a tensor lies in."""
        flat = self._flat
        if ref is None:
            return {}
        if self._guards is None:
            self._guards = guards(flat, self._closed)
        known = self._guards.get(ref[0], {})
        if flat.type[ref[0]] in SWITCHES:
            return {**known, flat.resolve(flat.inputs[ref[0]][1]): ref[1]}
        return known

    def _first(self, row: int, cycle: set[int]) -> tuple[int, ...]:
        """Return what a row of a loop waits for when it first runs."""
        flat, waits = self._flat, self._closed.waits[row]
        if flat.type[row] == LOOP_VAR:
            initial = flat.resolve(flat.inputs[row][0])[0]
            return tuple(other for other in waits if other == initial)
        if flat.type[row] in MERGES:
            return tuple(other for other in waits if flat.type[other] not in COMES_ROUND or other not in cycle)
        return waits

    def _branches(self, row: int) -> Sequence[Ref | None]:
        """Return the inputs of which one is enough, ``None`` for one that is fed; none for ordinary ops."""
        flat, data = self._flat, self._closed.data[row]
        if flat.type[row] in MERGES:
            coming = [ref for ref in data if flat.type[ref[0]] not in COMES_ROUND]
            return [*coming, *(None for _ in self._closed.fed.get(row, ()))] if len(data) == len(coming) else coming
        if flat.type[row] == SELECT:
            feeds = self._closed.fed_reached
            found = (flat.resolve(ref, feeds) for ref in flat.inputs[row][1:])
            return [None if ref in feeds else ref for ref in found]
        return ()

    def _whichever(self, row: int, branches: Sequence[Ref | None]) -> int:
        """Return the events done whichever branch was taken: events of a branch count if that branch implies them."""
        masks = [0 if ref is None else self._done(ref[0]) for ref in branches]
        every, some = masks[0], 0
        for mask in masks:
            every &= mask
            some |= mask
        doubtful = some & ~every
        while doubtful:
            low = doubtful & -doubtful
            doubtful ^= low
            event = self._event[low]
            if all(mask & low or self._excluded(row, event, i, branches) for i, mask in enumerate(masks)):
                every |= low
        return every

    def _excluded(self, row: int, event: int, taken: int, branches: Sequence[Ref | None]) -> bool:
        """Tell whether an event can't happen if branch ``taken`` is."""
        flat = self._flat
        if flat.type[row] == SELECT:
            bodies = flat.branches[flat.selects[row]]
            return event not in bodies[taken] and any(event in body for body in bodies)
        return exclusive(self._guard((event, 0)), self._guard(branches[taken]))


def _ordered(rows: Sequence[int], waits: Mapping[int, Sequence[int]]) -> list[int]:
    """Return ``rows`` each after those of them that it waits for, as far as that is possible."""
    members, found, seen = set(rows), [], set()
    for root in rows:
        if root in seen:
            continue
        seen.add(root)
        work = [(root, iter(waits[root]))]
        while work:
            row, children = work[-1]
            for child in children:
                if child in members and child not in seen:
                    seen.add(child)
                    work.append((child, iter(waits[child])))
                    break
            else:
                work.pop()
                found.append(row)
    return found
