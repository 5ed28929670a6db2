"""Versions, keys and witnesses: walks through the log in the order of time and says who did what before.

The cost of a call is proportional to the number of its source classes, not of its ops: the classes' keys come from
one vector of source versions, and everything by op is worked out later, once for each distinct pattern.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from cachelab.explain.keys import Keys
from cachelab.explain.overlaps import Overlapped, overlapping
from cachelab.explain.plan import LAST

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from cachelab.explain.log import LoggedCall, Outcome
    from cachelab.explain.plan import Plan
    from cachelab.explain.variant import Slot, Variant


MEMO = 4096
"""Vectors of versions whose keys are remembered."""


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


@dataclass(slots=True, eq=False)
class Run:
    """The latest call of a variant with one outcome and one vector of versions."""

    variant: Variant
    outcome: Outcome
    vector: tuple[int, ...]
    config: int
    call: int


@dataclass(slots=True)
class Judged:
    """What the history says of one call.

    Attributes
    ----------
    vector
        Version numbers by slot.
    repeats
        The latest call of the graph, if it ran the very same ops on the very same versions; then nothing else
        needs to be looked up.
    same
        Otherwise, for each class, the entries with an equal key that executed before, latest first.
    groups
        The calls that ran ops of the graph before, latest first: one a (variant, outcome) of all sessions, and one of
        the call's own session.
    """

    call: LoggedCall
    variant: Variant
    outcome: Outcome
    vector: tuple[int, ...]
    repeats: int | None = None
    same: tuple[tuple[tuple[Entry, int], ...], ...] = ()
    groups: tuple[tuple[Variant, Outcome, int], ...] = ()


class History:
    """Judges the calls of a log, in the order of their starts and ends."""

    def __init__(self) -> None:
        self.versions: list[Version] = []
        self._number: dict[tuple[Any, ...], int] = {}
        self._keys = Keys()
        self._key_memo: dict[tuple[tuple[int, int], tuple[int, ...], int], tuple[tuple[int, int, int], ...]] = {}
        self._current: dict[tuple[str, str], Version] = {}
        self._epoch: dict[str, Version] = {}
        self._stamp = 0
        self._vector_at: tuple[Any, tuple[int, ...]] = (None, ())
        self._executed: dict[tuple[int, int, int, int], dict[Entry, Run]] = {}
        self._groups: dict[Any, dict[tuple[Variant, Outcome], int]] = {}
        self._latest: dict[int, Run] = {}
        self._run_of: dict[tuple[int, int], Run] = {}
        self._gone: dict[tuple[int, int], frozenset[int]] = {}
        self._writes: dict[tuple[int, int], tuple[tuple[int, str, tuple[int, ...], tuple[int, ...]], ...]] = {}
        self._overlaps: dict[tuple[tuple[int, int], int, tuple[int, int]], tuple[int, ...]] = {}
        self._vectors: dict[int, tuple[int, ...]] = {}

    def judge(self, calls: Sequence[LoggedCall], judged: list[Judged | None], settle: Callable[[Judged], None]) -> None:
        """Work through the log; fill ``judged`` by call number and pass each call to ``settle`` as it begins.

        What ``settle`` does not take from :attr:`Judged.same` and :attr:`Judged.groups` is dropped, as these are
        large. Calls without a plan stay ``None``; one whose ops are hidden may have written anything.
        """
        judged.extend([None] * (len(calls) - len(judged)))
        neighbours = overlapping(calls)
        moments = [(call.began, 1, i) for i, call in enumerate(calls)]
        moments += [(call.ended, 0, i) for i, call in enumerate(calls)]
        handles: dict[int, tuple[int, ...]] = {}
        for _, begins, i in sorted(moments):
            call = calls[i]
            if call.plan is None:
                if call.opaque and not begins:
                    self._stamp += 1
                    self._epoch[call.scope] = Version(("variable", call.scope, ""), ("hidden", call.index), call.index)
            elif begins:
                found = judged[i] = self._begin(call, [calls[j] for j in neighbours.get(i, ())], handles)
                settle(found)
                found.same, found.groups = (), ()
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

    def _version(self, call: LoggedCall, plan: Plan, slot: Slot, overlapped: Overlapped) -> Version:
        flat = plan.flat
        if slot.kind == "feed":
            assert not isinstance(slot.of, int)
            return Version(("feed", flat.id, slot.of), call.feeds.get(slot.of, ("unfed", call.handle, call.index)))
        assert isinstance(slot.of, int)
        owner = call.index if call.handle is None else ("handle", call.handle)
        if slot.kind in {"draw", "outside"}:
            return Version((flat.draws.get(slot.of, "opaque"), flat.id, slot.of), owner, call.index, slot.of)
        if slot.kind == "frozen":  # a session folds once for each set of fetches and feeds
            return Version((flat.draws[slot.of], flat.id, slot.of), ("frozen", call.session, plan.id), None, slot.of)
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
        variant = plan.variant(outcome)
        vector = self._vector(call, variant, neighbours)
        if call.handle is not None:  # what a handle reads without feeds it reads once, at its set-up
            earlier = handles.get(call.handle)
            if earlier is not None:
                vector = tuple(
                    new if slot.kind == "feed" else old
                    for slot, new, old in zip(variant.slots, vector, earlier, strict=True)
                )
            handles[call.handle] = vector
        graph = plan.flat.id
        judged = Judged(call, variant, outcome, vector, groups=self._groups_before(call, variant, outcome))
        run = self._latest.get(graph)
        if run is not None and _is_repeat(run, judged):
            judged.repeats = run.call
            return judged
        same = []
        for number, key in enumerate(self._class_keys(variant, vector, call.config)):
            found = self._executed.get((graph, *key))
            same.append(self._matching(variant, number, found, outcome) if found else ())
        judged.same = tuple(same)
        return judged

    def _vector(self, call: LoggedCall, variant: Variant, neighbours: list[LoggedCall]) -> tuple[int, ...]:
        """Return the version numbers of a call's sources; those of its last like if nothing was written since."""
        alone = not neighbours and not call.shared and call.handle is None
        moment = (variant.id, call.scope, self._stamp, tuple(call.feeds.items()))
        if alone and self._vector_at[0] == moment:
            return self._vector_at[1]
        overlapped = Overlapped([other for other in neighbours if other.scope == call.scope])
        versions = [self._version(call, variant.plan, slot, overlapped) for slot in variant.slots]
        vector = tuple(self.number(version) for version in versions)
        # Only contents and what earlier calls wrote stand still; all else belongs to this call alone.
        if alone and all(isinstance(v.value, str) or self._current.get(v.source[1:]) is v for v in versions):
            self._vector_at = (moment, vector)
        return vector

    def _groups_before(
        self, call: LoggedCall, variant: Variant, outcome: Outcome
    ) -> tuple[tuple[Variant, Outcome, int], ...]:
        """Return who ran before, latest first; one that ran the very same ops makes all earlier ones irrelevant.

        That holds for the session's own calls and for those of all sessions: another session's is no substitute.
        """
        graph, found = variant.plan.flat.id, {}
        for among in (graph, (graph, call.scope)):
            for (other, theirs), earlier in reversed(self._groups.get(among, {}).items()):
                found[earlier] = (other, theirs, earlier)
                if other is variant and theirs is outcome:
                    break
        return tuple(found[earlier] for earlier in sorted(found, reverse=True))

    def last(self, judged: Judged, number: int) -> tuple[tuple[Entry, int], ...]:
        """Return who executed ops of class ``number`` before, under any key, latest first."""
        return tuple(
            (Entry(other, theirs, outcome), call)
            for other, outcome, call in judged.groups
            for theirs in self._overlap(judged.variant, number, other.id, other)
        )

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
        certain = judged.outcome.complete and not call.failed
        for cell, place, written, last in self._written(plan, judged.variant, ran):
            kind = plan.flat.cells[cell].kind
            value: Any = (owner, last) if certain else ("may", owner, call.index)
            row = last[0] if certain else written[0]
            self._stamp += 1
            self._current[call.scope, place] = Version((kind, call.scope, place), value, call.index, row)
            if kind == "opaque":  # an unknown handle: it may have been any of them
                source = (kind, call.scope, place)
                self._epoch[call.scope] = Version(source, ("unknown", call.index), call.index, written[0])
        if not call.failed:
            self._note(judged, ran)

    def _note(self, judged: Judged, ran: frozenset[int] | None) -> None:
        """Remember what a completed call ran under which keys, as far as these can come again."""
        call, variant, outcome = judged.call, judged.variant, judged.outcome
        graph = variant.plan.flat.id
        self._vectors[call.index] = judged.vector
        for among in (graph, (graph, call.scope)):
            groups = self._groups.setdefault(among, {})
            groups.pop((variant, outcome), None)
            groups[variant, outcome] = call.index
        run = self._run_of.get(variant.id)
        if run is not None and _is_repeat(run, judged):
            run.call = call.index
        else:
            run = Run(variant, outcome, judged.vector, call.config, call.index)
            self._run_of[variant.id] = run
            gone = self._never_again(variant, ran)
            for number, key in enumerate(self._class_keys(variant, judged.vector, call.config)):
                if number not in gone:
                    self._executed.setdefault((graph, *key), {})[Entry(variant, number, outcome)] = run
        self._latest[graph] = run

    def _never_again(self, variant: Variant, ran: frozenset[int] | None) -> frozenset[int]:
        """Return the classes whose keys no later call can have: draws, and reads of what the call itself overwrote."""
        found = self._gone.get(variant.id)
        if found is None:
            final = {cell: last for cell, _place, _written, last in self._written(variant.plan, variant, ran)}
            once = {
                number
                for number, slot in enumerate(variant.slots)
                if slot.kind not in {"feed", "cell", "frozen"} or (slot.of in final and slot.after != final[slot.of])
            }
            found = frozenset(n for n, slots in enumerate(variant.classes) if once.intersection(slots))
            self._gone[variant.id] = found
        return found

    def _written(
        self, plan: Plan, variant: Variant, ran: frozenset[int] | None
    ) -> tuple[tuple[int, str, tuple[int, ...], tuple[int, ...]], ...]:
        """Return (cell, place, rows that may have written it, rows of the last writes) for what a call writes."""
        found = self._writes.get(variant.id)
        if found is None:
            cells = [(cell, plan.written(cell, ran)) for cell in plan.writers]
            found = self._writes[variant.id] = tuple(
                (cell, self._cell_key(plan, cell), rows, plan.state(LAST, cell, ran).after)
                for cell, rows in cells
                if rows
            )
        return found

    def vector(self, call: int) -> tuple[int, ...]:
        """Return the version numbers of a completed call, by slot of its variant."""
        return self._vectors[call]

    # --- which classes share ops ----------------------------------------------------------------------------------

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
        self, variant: Variant, number: int, entries: dict[Entry, Run], outcome: Outcome
    ) -> tuple[tuple[Entry, int], ...]:
        """Return the entries that share ops with class ``number``, latest first, as far as they matter."""
        found = [
            (entry, run.call)
            for entry, run in entries.items()
            if entry.number in self._overlap(variant, number, entry.variant.id, entry.variant)
        ]
        found.sort(key=lambda item: -item[1])
        for place, (entry, _call) in enumerate(found):
            if entry.variant is variant and entry.outcome is outcome:
                return tuple(found[: place + 1])
        return tuple(found)


def _is_repeat(run: Run, judged: Judged) -> bool:
    """Tell whether a call runs the very same ops on the very same versions as ``run`` did."""
    return (
        run.variant is judged.variant
        and run.outcome is judged.outcome
        and run.vector == judged.vector
        and run.config == judged.call.config
    )
