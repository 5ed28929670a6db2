"""From judged calls to columns: the status, evidence, witness and causes of every op in every call."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from cachelab.explain import causes as why
from cachelab.i18n import translate as _
from cachelab.model import CauseRow, Columns

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cachelab.explain.history import Entry, History, Judged
    from cachelab.explain.log import Measured
    from cachelab.explain.plan import Plan


class Estimates:
    """Mean op seconds, bytes and counts of the traced calls of each plan, for its calls without a trace.

    What the first traced call took counts only where no other was traced: it warms up kernels, memory and threads.
    """

    def __init__(self) -> None:
        self._first: dict[int, dict[int, tuple[float, int, int]]] = defaultdict(dict)
        self._sums: dict[int, dict[int, list[float]]] = defaultdict(dict)

    def add(self, plan: Plan, measured: Measured) -> None:
        """Take in what a trace measured."""
        first, sums = self._first[plan.id], self._sums[plan.id]
        for row, seconds in measured.seconds.items():
            if row not in first:
                first[row] = (seconds, measured.bytes.get(row, 0), max(1, measured.count.get(row, 1)))
                continue
            entry = sums.setdefault(row, [0.0, 0.0, 0.0, 0.0])
            entry[0] += 1
            entry[1] += seconds
            entry[2] += measured.bytes.get(row, 0)
            entry[3] += measured.count.get(row, 1)

    def of(self, plan: Plan, row: int) -> tuple[float, int, int]:
        """Return (seconds, bytes, count) of an op as estimated from traced calls; zeros and 1 if there are none."""
        entry = self._sums[plan.id].get(row)
        if entry is None:
            return self._first[plan.id].get(row, (0.0, 0, 1))
        return entry[1] / entry[0], round(entry[2] / entry[0]), max(1, round(entry[3] / entry[0]))


class Verdicts:
    """Builds and interns columns; calls with the same pattern of verdicts share one set.

    Parameters
    ----------
    history, judged
        The history and its judgements so far, by call.
    tables
        Graph -> row of the flat graph -> row of the table that users see.
    """

    def __init__(self, history: History, judged: list[Judged | None], tables: Mapping[int, Mapping[int, int]]) -> None:
        self._tables = tables
        self.columns: list[Columns] = []
        self.causes: list[CauseRow] = []
        self.shapes: list[str] = []
        self.devices: list[str] = []
        self.estimates = Estimates()
        self._reasons = why.Reasons(history, judged)
        self._history = history
        self._judged = judged
        self._cause_index: dict[CauseRow, int] = {}
        self._text_index: dict[tuple[int, str], int] = {}
        self._patterns: dict[Any, int] = {}
        self.witnessed: list[tuple[int, int, int]] = []
        self.apart: list[tuple[int, int, int]] = []

    def cause(self, row: CauseRow) -> int:
        """Return the number of a cause."""
        number = self._cause_index.setdefault(row, len(self.causes))
        if number == len(self.causes):
            self.causes.append(row)
        return number

    def empty(self) -> int:
        """Return the number of columns without rows, for calls whose ops are not known."""
        return self._intern("empty", lambda: Columns((), "", "", (), (), (), (), ()))

    def of(self, call: Judged) -> int:
        """Return the number of the columns of a call."""
        if call.call.measured is not None:
            return self._intern(("measured", call.call.index), lambda: self._build(call))
        return self._intern(self._pattern(call), lambda: self._build(call))

    def _intern(self, pattern: Any, build: Any) -> int:
        number = self._patterns.get(pattern)
        if number is None:
            number = self._patterns[pattern] = len(self.columns)
            self.columns.append(build())
        return number

    def _pattern(self, call: Judged) -> Any:
        """Return what decides the columns of an untraced call, with all calls relative to it."""
        index = call.call.index

        def relative(entries: tuple[tuple[tuple[Entry, int], ...], ...]) -> Any:
            return tuple(
                tuple((entry.outcome, entry.variant.id, entry.number, index - other) for entry, other in found)
                for found in entries
            )

        if call.repeats is not None:
            return (call.variant.id, call.outcome, index - call.repeats)
        groups, moved = [], set()
        for other, outcome, earlier in call.groups:
            if other is call.variant:
                slots: Any = tuple(sorted(self._reasons.moved(call, earlier)))
                moved.update(slots)
            else:
                slots = tuple(
                    self._reasons.changed(call, number, entry, other_call)
                    for number in range(len(call.variant.classes))
                    for entry, other_call in self._history.last(call, number)
                    if entry.variant is other and other_call == earlier
                )
                moved.update(slot for part in slots for slot, _known in part)
            groups.append((other.id, outcome, index - earlier, self._reasons.same_scope(call, earlier), slots))
        named = tuple(
            (slot, *self._reasons.writer(call, version), _state(version.value))
            for slot in sorted(moved)
            for version in (self._history.versions[call.vector[slot]],)
        )
        return (call.variant.id, call.outcome, relative(call.same), tuple(groups), named)

    # --- one call -------------------------------------------------------------------------------------------------

    def _build(self, call: Judged) -> Columns:
        verdicts: dict[int, tuple[str, int | None, tuple[int, ...]]] = {}
        for number, members in enumerate(call.variant.members):
            memo = _Memo()
            for row in members:
                verdicts[row] = self._verdict(call, number, row, memo)
        order, table = call.variant.plan.shown, self._tables[call.variant.plan.flat.id]
        outcome, measured = call.outcome, call.call.measured
        rows = [row for row in order if row in verdicts and self._listed(call, row)]
        seconds, sizes, counts = [], [], []
        if call.call.values:
            self._compare_values(call, verdicts)
        for row in rows:
            ran = verdicts[row][0] in "cr"
            taken = self._measure(call, row, ran=ran)
            seconds.append(taken[0])
            sizes.append(taken[1])
            counts.append(taken[2])
        extra: dict[str, Any] = {}
        if measured is not None:
            extra["start"] = tuple(measured.start.get(row, -1.0) for row in rows)
            extra["shape"] = tuple(self._text(0, self.shapes, measured.shape.get(row)) for row in rows)
            extra["device"] = tuple(self._text(1, self.devices, measured.device.get(row)) for row in rows)
        return Columns(
            op=tuple(table[row] for row in rows),
            status="".join(verdicts[row][0] for row in rows),
            evidence="".join(outcome.evidence.get(row, outcome.default) for row in rows),
            seconds=tuple(seconds),
            bytes=tuple(sizes),
            count=tuple(counts),
            witness=tuple(verdicts[row][1] for row in rows),
            cause=tuple(verdicts[row][2] for row in rows),
            into=tuple(table.get(outcome.fates[row][1], -1) if row in outcome.fates else -1 for row in rows),
            **extra,
        )

    def _compare_values(self, call: Judged, verdicts: Mapping[int, tuple[str, int | None, tuple[int, ...]]]) -> None:
        """Note which ops can be checked by value: (row, call, earlier call), recomputed or computed anew."""
        index = call.call.index
        for number, members in enumerate(call.variant.members):
            for row in members:
                letter, back, _causes = verdicts[row]
                if letter == "r" and back is not None:
                    self.witnessed.append((row, index, index - back))
                elif letter == "c" and not self._has_effect(call, row):
                    last = _latest(self._history.last(call, number), row)
                    if last is not None and not self._by_seed(call, number, last[1]):
                        self.apart.append((row, index, last[1]))

    def _by_seed(self, call: Judged, number: int, other: int) -> bool:
        """Tell whether ops of a class draw from streams that began with the same seed in another session."""
        earlier = self._judged[other]
        flat, slots = call.variant.plan.flat, (call.variant.slots[slot] for slot in call.variant.classes[number])
        apart = earlier is not None and earlier.call.session != call.call.session
        return apart and any(slot.kind == "draw" and slot.of in flat.seeded for slot in slots)

    @staticmethod
    def _listed(call: Judged, row: int) -> bool:
        """Tell whether a piece of a partial run lists a row: what ran in it, or was served to it."""
        return call.call.handle is None or row in call.outcome.ran or row in call.outcome.fates

    def _measure(self, call: Judged, row: int, *, ran: bool) -> tuple[float, int, int]:
        measured = call.call.measured
        if not ran:
            return 0.0, 0, 0
        if measured is not None:
            return measured.seconds.get(row, 0.0), measured.bytes.get(row, 0), measured.count.get(row, 1)
        return self.estimates.of(call.variant.plan, row)

    def _text(self, kind: int, texts: list[str], text: str | None) -> int:
        if not text:
            return -1
        number = self._text_index.setdefault((kind, text), len(texts))
        if number == len(texts):
            texts.append(text)
        return number

    def _verdict(self, call: Judged, number: int, row: int, memo: _Memo) -> tuple[str, int | None, tuple[int, ...]]:
        """Return (status letter, calls back to the witness, causes) of one op."""
        outcome, index = call.outcome, call.call.index
        if row not in outcome.ran:
            letter = outcome.fates.get(row, ("x", -1))[0]
            return letter, None, ()
        if self._has_effect(call, row):
            cause = CauseRow(why.effect_kind(call, row), self._effect_source(call, row), 0, why.effect_text(call, row))
            return "c", None, (self.cause(cause),)
        earlier = call.repeats
        if earlier is None:
            witness = _latest(call.same[number], row)
            earlier = None if witness is None else witness[1]
        if earlier is not None:
            back = index - earlier
            kept = CauseRow(
                "not_kept", "", back, _("ran on the same values in call {call}; values live for one call only")
            )
            return "r", back, (self.cause(kept),)
        last = self._nearest(call, number, row, memo)
        if last is None:
            return "c", None, (self.cause(CauseRow("first", "", None, _("no earlier completed call ran this op"))),)
        entry, earlier = last
        if (earlier, entry.number) not in memo.causes:
            found = self._reasons.differing(call, number, entry, earlier)
            memo.causes[earlier, entry.number] = tuple(self.cause(cause) for cause in found)
        listed = memo.causes[earlier, entry.number]
        if call.call.shared and all(self.causes[cause].kind == "overlap" for cause in listed):
            return "x", None, listed
        return "c", None, listed

    def _nearest(self, call: Judged, number: int, row: int, memo: _Memo) -> tuple[Entry, int] | None:
        """Return the execution that an op is compared with: with the same sources, of which the fewest differ.

        An evaluation after some training steps is told apart from the evaluation of the same batch before them, not
        from the last step or from another batch. Failing such, it is the latest execution; so it is among equals.
        """
        if memo.last is None:
            memo.last = self._history.last(call, number)
        ran = [found for found in memo.last if _executed(found[0], row)]
        best: tuple[int, tuple[Entry, int] | None] = (-1, ran[0] if ran else None)
        for entry, earlier in ran:
            if (earlier, entry.number) not in memo.apart:
                memo.apart[earlier, entry.number] = self._reasons.apart(call, number, entry, earlier)
            apart = memo.apart[earlier, entry.number]
            if apart is not None and (best[0] < 0 or apart < best[0]):
                best = (apart, (entry, earlier))
        return best[1]

    @staticmethod
    def _has_effect(call: Judged, row: int) -> bool:
        """Tell whether an op has an effect; a conditional has one only if the branch that was taken has."""
        flat, outcome = call.variant.plan.flat, call.outcome
        if row not in flat.effects:
            return row in call.variant.plan.groups
        if row not in flat.branches or not outcome.complete:
            return True
        return any(member in outcome.ran and member in flat.effects for member in flat.members[row])

    @staticmethod
    def _effect_source(call: Judged, row: int) -> str:
        flat = call.variant.plan.flat
        if row in call.variant.plan.groups:
            return ""
        written = flat.writes.get(row, ())
        return flat.cells[written[0]].name if written and row not in flat.draws else flat.name[row]


@dataclass(slots=True)
class _Memo:
    """What the verdicts on the ops of one class share: who executed before, how far apart, and the causes."""

    last: tuple[tuple[Entry, int], ...] | None = None
    apart: dict[tuple[int, int], int | None] = field(default_factory=dict)
    causes: dict[tuple[int, int], tuple[int, ...]] = field(default_factory=dict)


def _latest(entries: tuple[tuple[Entry, int], ...], row: int) -> tuple[Entry, int] | None:
    """Return the latest of ``entries`` in which ``row`` executed, with its call."""
    return next((found for found in entries if _executed(found[0], row)), None)


def _executed(entry: Entry, row: int) -> bool:
    return row in entry.outcome.ran and entry.variant.class_of.get(row) == entry.number


def _state(value: Any) -> Any:
    """Return the part of a version's value that says how it came about, without call numbers."""
    if isinstance(value, tuple) and value and isinstance(value[0], str):
        return value[0]
    return value[1] if isinstance(value, tuple) and len(value) > 1 else None
