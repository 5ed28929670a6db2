"""The rule of design.md in its plainest form, slow and by definition, to hold the engine against."""

from __future__ import annotations

from itertools import permutations
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    from explain_worlds import World

    from cachelab.explain.flat import FlatGraph, Ref
    from cachelab.explain.log import LoggedCall


def waits_of(flat: FlatGraph, row: int, feeds: frozenset[Ref]) -> set[int]:
    """Return the rows that ``row`` waits for: producers of inputs that are not fed, and control inputs."""
    found = {ref[0] for ref in flat.inputs[row] if ref not in feeds}
    for control in flat.control[row]:
        if not (flat.type[control] == "Placeholder" and (control, 0) in feeds):
            found.add(control)
    return found


def closure_of(flat: FlatGraph, fetches: tuple[Ref, ...], targets: tuple[int, ...], feeds: frozenset[Ref]) -> set[int]:
    """Return the rows that a call needs, by recursion."""
    found: set[int] = set()

    def need(row: int) -> None:
        if row not in found:
            found.add(row)
            for other in waits_of(flat, row, feeds):
                need(other)

    for ref in fetches:
        if ref not in feeds:
            need(ref[0])
    for row in targets:
        need(row)
    return found


def extensions(flat: FlatGraph, rows: set[int], feeds: frozenset[Ref]) -> Iterator[tuple[int, ...]]:
    """Yield every order of ``rows`` in which each comes after what it waits for."""
    waits = {row: waits_of(flat, row, feeds) & rows for row in rows}
    for order in permutations(sorted(rows)):
        at = {row: place for place, row in enumerate(order)}
        if all(at[other] < at[row] for row in rows for other in waits[row]):
            yield order


def seen_in(flat: FlatGraph, order: tuple[int, ...], reader: int, cell: int) -> int | None:
    """Return the last write of ``cell`` before ``reader`` in one order, ``None`` for what the call began with."""
    last = None
    for row in order:
        if row == reader:
            return last
        if cell in flat.writes.get(row, ()):
            last = row
    return last


class Reference:
    """Keys of every op in every call of a log of graphs without control flow, aliases and hubs."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.flat = world.flat

    def may_write(self, call: LoggedCall) -> set[int]:
        """Return the cells that a call may write."""
        assert call.plan is not None
        return {cell for row in self._rows(call) for cell in self.flat.writes.get(row, ())}

    def _rows(self, call: LoggedCall) -> set[int]:
        assert call.plan is not None
        signature = call.plan.signature
        return closure_of(self.flat, signature.fetches, signature.targets, signature.feeds)

    def _ancestors(self, call: LoggedCall) -> dict[int, set[int]]:
        assert call.plan is not None
        rows, feeds = self._rows(call), call.plan.signature.feeds
        found: dict[int, set[int]] = {}

        def walk(row: int) -> set[int]:
            if row not in found:
                found[row] = set()
                for other in waits_of(self.flat, row, feeds):
                    found[row] |= {other} | walk(other)
            return found[row]

        for row in rows:
            walk(row)
        return found

    def keys(self, call: LoggedCall) -> dict[int, frozenset[Any]]:
        """Return row -> set of (source, version) that its value comes from."""
        assert call.plan is not None
        flat, feeds = self.flat, call.plan.signature.feeds
        rows, before = self._rows(call), self._ancestors(call)
        found: dict[int, frozenset[Any]] = {}

        def key(row: int) -> frozenset[Any]:
            if row in found:
                return found[row]
            own: set[Any] = set()
            for ref in flat.inputs[row]:
                if ref in feeds:
                    own.add(("feed", ref, call.feeds[ref]))
                else:
                    own |= key(ref[0])
            if row in flat.draws:
                own.add(("draw", row, call.index))
            else:
                for cell in flat.reads.get(row, ()):
                    own.add(self._version(call, row, cell, rows, before))
            found[row] = frozenset(own)
            return found[row]

        for row in rows:
            key(row)
        return found

    def _version(self, call: LoggedCall, row: int, cell: int, rows: set[int], before: dict[int, set[int]]) -> Any:
        flat, log = self.flat, self.world.calls
        writers = [w for w in rows if cell in flat.writes.get(w, ()) and w != row]
        place = ("cell", call.scope, cell)
        if any(w not in before[row] and row not in before[w] for w in writers):
            return (*place, "race", call.index, row)
        for other in log:
            together = other is not call and other.began < call.ended and call.began < other.ended
            if together and other.scope == call.scope and cell in self.may_write(other):
                return (*place, "overlap", call.index, row)
        earlier = {w for w in writers if w in before[row]}
        if earlier:
            last = {w for w in earlier if not any(w in before[other] for other in earlier)}
            return (*place, "in", call.index, frozenset(last))
        done = [other for other in log if other.ended < call.began and other.scope == call.scope
                and cell in self.may_write(other)]  # fmt: skip
        if not done:
            return (*place, "start")
        latest = max(done, key=lambda other: other.ended)
        if latest.failed:
            return (*place, "may", latest.index)
        before = self._ancestors(latest)
        wrote = {w for w in self._rows(latest) if cell in flat.writes.get(w, ())}
        last = {w for w in wrote if not any(w in before[other] for other in wrote)}
        return (*place, "in", latest.index, frozenset(last))

    def witnesses(self, call: LoggedCall) -> dict[int, set[int]]:
        """Return row -> earlier completed calls in which the same op executed with an equal key (quadratic)."""
        keys = self.keys(call)
        found: dict[int, set[int]] = {row: set() for row in keys}
        for other in self.world.calls:
            if other.failed or not other.ended < call.began or other.config != call.config:
                continue
            theirs = self.keys(other)
            for row, key in keys.items():
                if row in theirs and row in other.outcome.ran and theirs[row] == key:
                    found[row].add(other.index)
        return found
