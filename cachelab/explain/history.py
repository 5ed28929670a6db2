"""Versions, keys and witnesses: walks through the log in the order of time and says who did what before.

The cost of a call is proportional to the number of its source classes, not of its ops: the classes' keys come from
one vector of source versions, and everything by op is worked out later, once for each distinct pattern.
"""

from __future__ import annotations

import bisect
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from cachelab.explain.plan import LAST

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from cachelab.explain.log import LoggedCall, Outcome
    from cachelab.explain.plan import Plan
    from cachelab.explain.variant import Slot, Variant


class Entry(NamedTuple):
    """Ops that executed together with equal keys: a class of a variant, less those that did not run."""

    variant: Variant
    number: int
    outcome: Outcome


class Version(NamedTuple):
    """A source at one moment.

    ``source`` is (kind, place, identity). ``value`` is what tells moments apart: a digest, or (call, rows of the
    last writes). ``call`` is the call that brought it about, ``row`` the op that did, if one can be named.
    """

    source: tuple[Any, ...]
    value: Any
    call: int | None = None
    row: int | None = None


@dataclass(slots=True)
class Judged:
    """What the history says of one call.

    ``vector``: version numbers by slot. ``same``: for each class the entries with an equal key that executed
    before, latest first, with their calls. ``last``: likewise for entries with any key.
    """

    call: LoggedCall
    variant: Variant
    outcome: Outcome
    vector: tuple[int, ...]
    same: tuple[tuple[tuple[Entry, int], ...], ...]
    last: tuple[tuple[tuple[Entry, int], ...], ...]


class _Keys:
    """Keys of classes: each version has 128 random bits, a key is their sum over the class (after Zobrist 1970).

    Two different sets of versions share a key with a probability of about 2**-128.
    """

    def __init__(self) -> None:
        self._random = np.random.default_rng(0xCAC4E1AB)
        self._bits = self._random.integers(0, 2**63, size=(256, 2), dtype=np.uint64)
        self._layout: dict[tuple[int, int], tuple[Any, Any]] = {}

    def of(self, variant: Variant, vector: tuple[int, ...], config: int) -> tuple[tuple[int, int, int], ...]:
        """Return the key of each class of ``variant``."""
        while vector and max(vector) >= len(self._bits):
            more = self._random.integers(0, 2**63, size=self._bits.shape, dtype=np.uint64)
            self._bits = np.concatenate([self._bits, more])
        layout = self._layout.get(variant.id)
        if layout is None:
            flat = np.array([slot for slots in variant.classes for slot in slots], dtype=np.int64)
            ends = np.cumsum([0] + [len(slots) for slots in variant.classes])
            layout = self._layout[variant.id] = (flat, ends)
        flat, ends = layout
        keys: Any = np.zeros((len(variant.classes), 2), dtype=np.uint64)
        if len(flat):
            versions = np.fromiter(vector, dtype=np.int64, count=len(vector))
            bits = self._bits[versions[flat]]
            filled = np.flatnonzero(np.diff(ends))
            keys[filled] = np.add.reduceat(bits, ends[:-1][filled], axis=0)
        return tuple((high, low, config) for high, low in keys.tolist())


class History:
    """Judges the calls of a log, in the order of their starts and ends."""

    def __init__(self) -> None:
        self.versions: list[Version] = []
        self._number: dict[tuple[Any, ...], int] = {}
        self._keys = _Keys()
        self._key_memo: dict[tuple[tuple[int, int], tuple[int, ...], int], tuple[tuple[int, int, int], ...]] = {}
        self._current: dict[tuple[str, str], Version] = {}
        self._epoch: dict[str, Version] = {}
        self._executed: dict[tuple[int, int, int, int], dict[Entry, int]] = {}
        self._latest: dict[int, dict[tuple[tuple[int, int], int], dict[Entry, int]]] = {}
        self._overlaps: dict[tuple[tuple[int, int], int, tuple[int, int]], tuple[int, ...]] = {}
        self._variants: dict[int, dict[tuple[int, int], Variant]] = {}
        self._vectors: dict[int, tuple[int, ...]] = {}

    def judge(self, calls: Sequence[LoggedCall], judged: list[Judged | None], settle: Callable[[Judged], None]) -> None:
        """Work through the log; fill ``judged`` by call number and pass each call to ``settle`` as it begins.

        What ``settle`` does not take from :attr:`Judged.same` and :attr:`Judged.last` is dropped, as these are
        large. Calls without a plan stay ``None``; one whose ops are hidden may have written anything.
        """
        judged.extend([None] * (len(calls) - len(judged)))
        neighbours = _overlapping(calls)
        moments = [(call.began, 1, i) for i, call in enumerate(calls)]
        moments += [(call.ended, 0, i) for i, call in enumerate(calls)]
        handles: dict[int, tuple[int, ...]] = {}
        for _, begins, i in sorted(moments):
            call = calls[i]
            if call.plan is None:
                if call.opaque and not begins:
                    self._epoch[call.scope] = Version(("variable", call.scope, ""), ("hidden", call.index), call.index)
            elif begins:
                found = judged[i] = self._begin(call, [calls[j] for j in neighbours.get(i, ())], handles)
                settle(found)
                found.same = found.last = ()
            else:
                self._end(call, judged[i])

    # --- versions -------------------------------------------------------------------------------------------------

    def number(self, version: Version) -> int:
        """Return the number of a version; equal (source, value) pairs share one."""
        key = (version.source, version.value)
        number = self._number.get(key)
        if number is None:
            number = self._number[key] = len(self.versions)
            self.versions.append(version)
        return number

    def _cell_key(self, plan: Plan, cell: int) -> str:
        flat = plan.flat
        # Ops of two graphs can share a variable only through a shared place, where names decide.
        return flat.cells[cell].key

    def _version(self, call: LoggedCall, plan: Plan, slot: Slot, overlapped: _Overlapped) -> Version:
        flat = plan.flat
        if slot.kind == "feed":
            assert not isinstance(slot.of, int)
            return Version(("feed", flat.id, slot.of), call.feeds.get(slot.of, ("unfed", call.handle, call.index)))
        assert isinstance(slot.of, int)
        owner = call.index if call.handle is None else ("handle", call.handle)
        if slot.kind in {"draw", "outside"}:
            return Version((flat.draws.get(slot.of, "opaque"), flat.id, slot.of), owner, call.index, slot.of)
        key = self._cell_key(plan, slot.of)
        source = (flat.cells[slot.of].kind, call.scope, key)
        if slot.kind in {"race", "unique", "restless"}:
            return Version(source, (slot.kind, owner, slot.after), call.index, slot.after[0])
        together = overlapped.of(key)
        if together is not None:
            return Version(source, ("overlap", owner, slot.after), together)
        if flat.cells[slot.of].kind == "opaque":  # which one it is may differ from call to call
            return Version(source, ("unknown", owner, slot.after), call.index, slot.after[0] if slot.after else None)
        if call.shared:
            return Version(source, ("shared", owner, slot.after), None)
        if slot.after:
            return Version(source, (owner, slot.after), call.index, slot.after[0])
        epoch = self._epoch.get(call.scope)
        current = self._current.get((call.scope, key))
        if current is None or (epoch is not None and (epoch.call or 0) > (current.call or 0)):
            return Version(source, "start") if epoch is None else Version(source, epoch.value, epoch.call, epoch.row)
        return current

    # --- the two moments of a call --------------------------------------------------------------------------------

    def _begin(self, call: LoggedCall, neighbours: list[LoggedCall], handles: dict[int, tuple[int, ...]]) -> Judged:
        plan, outcome = call.plan, call.outcome
        assert plan is not None
        assert outcome is not None
        variant = plan.variant(outcome.ran if outcome.complete else None)
        overlapped = _Overlapped([other for other in neighbours if other.scope == call.scope])
        vector = tuple(self.number(self._version(call, plan, slot, overlapped)) for slot in variant.slots)
        if call.handle is not None:  # what a handle reads without feeds it reads once, at its set-up
            earlier = handles.get(call.handle)
            if earlier is not None:
                vector = tuple(
                    new if slot.kind == "feed" else old
                    for slot, new, old in zip(variant.slots, vector, earlier, strict=True)
                )
            handles[call.handle] = vector
        same, last = [], []
        latest = self._latest.setdefault(plan.flat.id, {})
        self._register(plan.flat.id, variant)
        for number, key in enumerate(self._class_keys(variant, vector, call.config)):
            found = self._executed.get((plan.flat.id, *key))
            same.append(self._matching(variant, number, found.items() if found else (), call))
            everything: list[tuple[Entry, int]] = []
            for other_id, other in self._variants[plan.flat.id].items():
                for other_number in self._overlap(variant, number, other_id, other):
                    everything.extend(latest.get((other_id, other_number), {}).items())
            last.append(_latest_first(everything))
        return Judged(call, variant, outcome, vector, tuple(same), tuple(last))

    def _class_keys(self, variant: Variant, vector: tuple[int, ...], config: int) -> tuple[tuple[int, int, int], ...]:
        memo = (variant.id, vector, config)
        keys = self._key_memo.get(memo)
        if keys is None:
            if len(self._key_memo) > MEMO:
                self._key_memo.clear()
            keys = self._key_memo[memo] = self._keys.of(variant, vector, config)
        return keys

    def _end(self, call: LoggedCall, judged: Judged | None) -> None:
        assert judged is not None
        assert call.plan is not None
        plan = call.plan
        ran = judged.outcome.ran if judged.outcome.complete else None
        owner = call.index if call.handle is None else ("handle", call.handle)
        for cell in plan.writers:
            written = plan.written(cell, ran)
            if not written:
                continue
            place = self._cell_key(plan, cell)
            source = (plan.flat.cells[cell].kind, call.scope, place)
            if judged.outcome.complete and not call.failed:
                after = plan.state(LAST, cell, ran).after
                value: Any = (owner, after)
            else:
                value, after = ("may", owner, call.index), written
            self._current[call.scope, place] = Version(source, value, call.index, after[0])
            if plan.flat.cells[cell].kind == "opaque":  # an unknown handle: it may have been any of them
                self._epoch[call.scope] = Version(source, ("unknown", call.index), call.index, written[0])
        if call.failed:
            return
        latest = self._latest.setdefault(plan.flat.id, {})
        variant = judged.variant
        for number, key in enumerate(self._class_keys(variant, judged.vector, call.config)):
            entry = Entry(variant, number, judged.outcome)
            latest.setdefault((variant.id, number), {})[entry] = call.index
            self._executed.setdefault((plan.flat.id, *key), {})[entry] = call.index
        self._vectors[call.index] = judged.vector

    def vector(self, call: int) -> tuple[int, ...]:
        """Return the version numbers of a completed call, by slot of its variant."""
        return self._vectors[call]

    # --- which classes share ops ----------------------------------------------------------------------------------

    def _register(self, graph: int, variant: Variant) -> None:
        self._variants.setdefault(graph, {})[variant.id] = variant

    def _overlap(self, variant: Variant, number: int, other_id: tuple[int, int], other: Variant) -> tuple[int, ...]:
        """Return the classes of ``other`` that share ops with class ``number`` of ``variant``."""
        if other_id == variant.id:
            return (number,)
        memo = (variant.id, number, other_id)
        found = self._overlaps.get(memo)
        if found is None:
            shared = {other.class_of[row] for row in variant.members[number] if row in other.class_of}
            found = self._overlaps[memo] = tuple(sorted(shared))
        return found

    def _matching(
        self, variant: Variant, number: int, entries: Iterable[tuple[Entry, int]], call: LoggedCall
    ) -> tuple[tuple[Entry, int], ...]:
        found = [
            (entry, index)
            for entry, index in entries
            if (call.handle is None or index != call.index)
            and entry.number in self._overlap(variant, number, entry.variant.id, entry.variant)
        ]
        return _latest_first(found)


class _Overlapped:
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


MEMO = 4096
"""Vectors of versions whose keys are remembered."""


def _latest_first(entries: list[tuple[Entry, int]]) -> tuple[tuple[Entry, int], ...]:
    return tuple(sorted(entries, key=lambda item: -item[1]))


def _overlapping(calls: Sequence[LoggedCall]) -> dict[int, list[int]]:
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
