"""Which events of a call are surely done before an op runs, whatever the timing.

Ops wait for all their inputs, with two exceptions. A merge runs as soon as *one* of its inputs is there: what only the
branch not taken waits for may run later. And in the first iteration of a loop nothing has come round yet: what the
loop's body waits for need not be done when another part of the body runs. So an order counts only if it holds on every
way that the execution may take.

What leaves a loop comes after its last iteration, hence after all that its value, or the loop's condition, came round
with in *every* iteration; what other loop variables came round with may still be under way.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from cachelab.explain.flat import LOOP_VAR, SELECT
from cachelab.explain.guards import EXITS, Guards, exclusive, guard_of, guards
from cachelab.explain.loops import Head, counting_loops, loop_of, loop_variables
from cachelab.explain.variant import COMES_ROUND, MERGES

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from cachelab.explain.closure import Closure
    from cachelab.explain.flat import FlatGraph, Ref


class Orders(NamedTuple):
    """Row -> events (bits) that are done before it first runs; events of a loop come before each other.

    ``once``: the same, but in a loop only what is done in the same iteration. ``loops``: row -> the loops that it lies
    in.
    """

    before: dict[int, int]
    once: dict[int, int]
    loops: dict[int, frozenset[int]]


def orders(flat: FlatGraph, closed: Closure, bit: Mapping[int, int]) -> Orders:
    """Return what surely comes before what.

    Parameters
    ----------
    flat, closed
        The graph and the closure of one signature.
    bit
        Row -> bit, for the rows that are events (reads and writes of cells that the call writes).
    """
    found = _Orders(flat, closed, bit)
    return Orders(found.before, found.once, found.loops)


class _Orders:
    """``once``: row -> events done before it runs, in the same iteration where both lie in a loop."""

    def __init__(self, flat: FlatGraph, closed: Closure, bit: Mapping[int, int]) -> None:
        self._flat = flat
        self._closed = closed
        self._bit = bit
        self._event = {mask: row for row, mask in bit.items()}
        self._events = (1 << len(bit)) - 1
        self._guards: dict[int, Guards] | None = None
        self._heads = loop_variables(flat, closed, len(bit))
        self._in_loop: dict[int, list[int]] = {}
        for row, head in self._heads.items():
            self._in_loop.setdefault(head.loop, []).append(row)
        self._counts = counting_loops(flat, closed, self._heads)
        self._in_cycle = {row: cycle for cycle in closed.cycles for row in cycle}
        self._place_all({})
        if self._heads:
            self._settle()

    def _settle(self) -> None:
        """Find the loop variables that don't wait for themselves: an iteration of them tells nothing of earlier ones.

        What was done when such a variable entered the loop need not be when it comes round, if it is made of others.
        """
        loose: dict[int, int] = {}
        while more := {row for row, head in self._heads.items() if not self._chain(head)} - loose.keys():
            loose.update(dict.fromkeys(more, 0))
            self._place_all(loose)
        if loose:
            entered = {row: self._all_done(self._first(row), row) for row in loose}
            self._place_all({row: mask & self._done(self._heads[row].back, row) for row, mask in entered.items()})

    def _place_all(self, loose: Mapping[int, int]) -> None:
        """Work out the masks of all rows, given what is done whenever a loose loop variable begins an iteration."""
        self._loose = loose
        self.loops: dict[int, frozenset[int]] = {}
        self._inside: dict[int, int] = {}
        self.once: dict[int, int] = {}
        self.before: dict[int, int] = {}
        for row in self._closed.order:
            if row in self.before:
                continue
            cycle = self._in_cycle.get(row)
            if cycle is None:
                self._place(row, 0)
                continue
            together = 0
            for member in cycle:
                together |= self._bit.get(member, 0)
            for member in _ordered(cycle, {member: (*self._first(member), *self._ends(member)) for member in cycle}):
                self._place(member, together)

    def _place(self, row: int, together: int) -> None:
        waits, branches = self._first(row), self._branches(row)
        if branches:
            alternatives = {ref[0] for ref in branches if ref is not None}
            waits = tuple(other for other in waits if other not in alternatives)
        mask = self._loose[row] if row in self._loose else self._all_done(waits, row)
        if branches:
            mask |= self._whichever(row, branches)
        self.once[row] = self._round(row, mask) if self._heads else mask
        self.before[row] = (self.once[row] | together) & self._events

    def _round(self, row: int, mask: int) -> int:
        """Add what a row has to do with loops: that it begins an iteration, lies in one, or leaves the loop."""
        frame, outputs, head = self._flat.frame.get(row, ()), self._flat.outputs, self._heads.get(row)
        loops = {loop for other in self._closed.waits[row] for loop in self.loops.get(other, ())}
        loops = {loop for loop in loops if loop not in outputs}.union(frame)
        if head is not None:
            mask |= head.bit
            loops.add(head.loop)
        left = self._left(row)
        if left is not None:
            mask |= self._came_round(left, mask)
            loops.discard(left)
        if loops:
            self.loops[row] = frozenset(loops)
        for loop in loops:
            self._inside[loop] = self._inside.get(loop, 0) | self._bit.get(row, 0)
        return mask

    def _all_done(self, rows: Iterable[int], viewer: int) -> int:
        found = 0
        for row in rows:
            found |= self._done(row, viewer)
        return found

    def _done(self, row: int, viewer: int) -> int:
        """Return the events done when ``viewer`` has got what ``row`` gives it."""
        mask = self._seen(row)
        head = self._leaves(row, viewer)
        if head is not None:
            mask |= self._seen(head.condition)
            mask |= self._came_round(head.loop, mask)
        return mask

    def _seen(self, row: int) -> int:
        return self.once.get(row, 0) | self._bit.get(row, 0)

    def _leaves(self, row: int, viewer: int) -> Head | None:
        """Return the head that ``row`` is, if ``viewer`` lies outside of its loop and gets its last value."""
        if self._flat.type[row] != LOOP_VAR:
            return None
        head = self._heads.get(row)
        return head if head is not None and head.loop not in self._flat.frame.get(viewer, ()) else None

    def _left(self, row: int) -> int | None:
        """Return the loop that an exit leaves."""
        if self._flat.type[row] not in EXITS or not self._closed.data[row]:
            return None
        return loop_of(self._flat, self._closed, self._closed.data[row][0][0])

    def _came_round(self, loop: int, seen: int) -> int:
        """Return the events in a loop that are done for good when its end has seen these of its heads.

        Iterations overlap: that a variable came round in the last one says of earlier ones only what it, or the
        condition, waits for in each. What happened before the loop counts if the loop would not have turned without.
        """
        found = 0
        for row in self._in_loop.get(loop, ()):
            head = self._heads[row]
            if seen & head.bit and self._chain(head):
                found |= self._done(head.back, row)
        inside, counted = 0, set[int]()
        while loop not in counted:
            counted.add(loop)
            inside |= self._inside.get(loop, 0)
            loop = self._counts.get(loop, loop)
        return found & inside

    def _chain(self, head: Head) -> bool:
        """Tell whether a loop variable waits for itself in each iteration, or the loop's condition does."""
        return bool((self.once.get(head.back, 0) | self.once.get(head.condition, 0)) & head.bit)

    def _guard(self, ref: Ref | None) -> Guards:
        """Return the branches that a tensor lies in."""
        if ref is None:
            return {}
        if self._guards is None:
            self._guards = guards(self._flat, self._closed)
        return guard_of(self._flat, self._guards, ref)

    def _first(self, row: int) -> tuple[int, ...]:
        """Return what a row waits for when it first runs: nothing has come round a loop by then."""
        waits = self._closed.waits[row]
        if row not in self._heads:
            return waits
        if self._flat.type[row] == LOOP_VAR:
            initial = self._flat.resolve(self._flat.inputs[row][0])[0]
            return tuple(other for other in waits if other == initial)
        return tuple(other for other in waits if self._flat.type[other] not in COMES_ROUND)

    def _ends(self, row: int) -> tuple[int, ...]:
        """Return what has to be placed before a row that takes something out of a loop."""
        left = self._left(row)
        loops = set() if left is None else {left}
        loops.update(head.loop for other in self._closed.waits[row] if (head := self._leaves(other, row)) is not None)
        heads = [self._heads[head] for loop in loops for head in self._in_loop.get(loop, ())]
        return tuple(row for head in heads for row in (head.back, head.condition))

    def _branches(self, row: int) -> Sequence[Ref | None]:
        """Return the inputs of which one is enough, ``None`` for one that is fed; none for ordinary ops."""
        flat, data = self._flat, self._closed.data[row]
        if flat.type[row] in MERGES and row not in self._heads:
            return [*data, *(None for _ in self._closed.fed.get(row, ()))]
        if flat.type[row] == SELECT:
            feeds = self._closed.fed_reached
            found = (flat.resolve(ref, feeds) for ref in flat.inputs[row][1:])
            return [None if ref in feeds else ref for ref in found]
        return ()

    def _whichever(self, row: int, branches: Sequence[Ref | None]) -> int:
        """Return the events done whichever branch was taken: events of a branch count if that branch implies them."""
        masks = [0 if ref is None else self._done(ref[0], row) for ref in branches]
        every, some = masks[0], 0
        for mask in masks:
            every &= mask
            some |= mask
        doubtful = some & ~every & self._events
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
