"""What each line of user code cost: the ops that it made, and the run calls that it issued, summed over a recording.

Op times are sums over ops, not wall time; bookkeeping ops are left out, as in all headline counts.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from cachelab.i18n import plural
from cachelab.i18n import translate as _
from cachelab.views import words
from cachelab.views.headline import estimated
from cachelab.views.tally import Tally

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from cachelab.model import Record
    from cachelab.views.tally import Table

_MOST_CAUSES = 3
_NAME = 40


@dataclass
class Why:
    """One cause of executions of a line's ops: executions, op seconds, and the heaviest op as the example."""

    letter: str
    kind: str
    ran: int = 0
    seconds: float = 0.0
    heaviest: float = -1.0
    op: str = ""
    call: int = 0
    text: str = ""


@dataclass
class OpSums:
    """What the ops that one line made did, over all calls.

    ``calls`` counts the calls in which one of them executed, ``again`` those in which all that executed were
    recomputed, ``partly`` those in which some were. ``ops`` is the number of ops that any call lists, ``ops_again``
    of those that were ever recomputed. ``letters`` counts listings of ops by status letter.
    """

    calls: int = 0
    again: int = 0
    partly: int = 0
    seconds: float = 0.0
    redundant_seconds: float = 0.0
    estimated_calls: int = 0
    ops: int = 0
    ops_again: int = 0
    letters: Counter[str] = field(default_factory=Counter)
    whys: dict[tuple[str, str], Why] = field(default_factory=dict)


@dataclass
class RunSums:
    """What the run calls that one line issued executed: figures of all ops, whichever line made them."""

    calls: int = 0
    failed: int = 0
    ran: int = 0
    recomputed: int = 0
    seconds: float = 0.0
    redundant_seconds: float = 0.0
    wall_seconds: float = 0.0
    estimated_calls: int = 0
    letters: Counter[str] = field(default_factory=Counter)


@dataclass(frozen=True)
class LineMark:
    """The mark of one line: ``at`` are the indices of the line in :attr:`Record.lines`."""

    file: str
    number: int
    text: str
    at: tuple[int, ...]
    ops: OpSums | None
    runs: RunSums | None

    @property
    def letter(self) -> str:
        """The status that matters most on this line, as the letter of the columns."""
        letters = Counter[str]()
        for sums in (self.ops, self.runs):
            if sums is not None:
                letters.update(sums.letters)
        return next((letter for letter in "rsc" if letters[letter]), next((q for q in words.ORDER if letters[q]), "x"))

    @property
    def again(self) -> int:
        """The recomputed executions of the ops that the line made."""
        return 0 if self.ops is None else self.ops.letters["r"]

    @property
    def shown(self) -> OpSums | RunSums:
        """The sums whose op time the mark shows: those of the run calls, where the line made any."""
        sums = self.runs if self.runs is not None else self.ops
        assert sums is not None
        return sums


def line_marks(record: Record) -> list[LineMark]:
    """Return a mark for every line that made an op or issued a call of the recording, in the order of the lines."""
    places: dict[tuple[str, int, str], list[int]] = {}
    for at, line in enumerate(record.lines):
        places.setdefault((line.file, line.number, line.text), []).append(at)
    # Files that are shown under one name may share a line; their sums go under its first number.
    whose = np.arange(-1, len(record.lines))
    for several in places.values():
        whose[np.asarray(several) + 1] = several[0]
    tally = Tally(record)
    ops = _op_sums(tally, whose)
    runs = _run_sums(tally, whose)
    return [
        LineMark(*place, tuple(at), ops.get(at[0]), runs.get(at[0]))
        for place, at in sorted(places.items())
        if at[0] in ops or at[0] in runs
    ]


def _op_sums(tally: Tally, whose: Any) -> dict[int, OpSums]:
    """Return the sums by line; ``whose[line + 1]`` is the number under which a line counts."""
    record = tally.record
    guessed = Counter[tuple[int, int]]()
    first: dict[tuple[int, int], int] = {}
    for call in record.calls:
        key = (call.graph, call.columns)
        guessed[key] += call.repeat if estimated(call) else 0
        first.setdefault(key, call.index)
    found: dict[int, OpSums] = {}
    lines = [whose[np.asarray(graph.line, np.int64) + 1] for graph in record.graphs]
    for (graph, columns), times in tally.times.items():
        table = tally.of(graph, columns)
        line = lines[graph][table.op]
        keep = table.counted & (line >= 0)
        if not keep.any():
            continue
        _add(found, table, (line, keep), (times, guessed[graph, columns]))
        _add_causes(record, found, (graph, columns), (table, line, keep & table.ran), (times, first[graph, columns]))
    for graph, line in enumerate(lines):
        for row in np.flatnonzero(tally.listed[graph] & tally.counted[graph] & (line >= 0)):
            found[int(line[row])].ops += 1
            found[int(line[row])].ops_again += bool(tally.recomputed[graph][row])
    return found


def _add(found: dict[int, OpSums], table: Table, rows: Any, calls: tuple[int, int]) -> None:
    """Add the sums of one set of columns, which ``calls`` (all, with estimated times) share."""
    line, keep = rows
    times, guessed = calls
    width = int(line[keep].max()) + 1
    executed, again = keep & table.ran, keep & (table.letter == ord("r"))
    ran = np.bincount(line[executed], minlength=width)
    recomputed = np.bincount(line[again], minlength=width)
    seconds = np.bincount(line[executed], table.seconds[executed], minlength=width)
    redundant = np.bincount(line[again], table.seconds[again], minlength=width)
    pairs, counts = np.unique(line[keep] * 256 + table.letter[keep], return_counts=True)
    for pair, count in zip(pairs.tolist(), counts.tolist(), strict=True):
        found.setdefault(pair // 256, OpSums()).letters[chr(pair % 256)] += count * times
    for at in np.flatnonzero(ran).tolist():
        sums = found[at]
        sums.calls += times
        sums.estimated_calls += guessed
        sums.again += times if recomputed[at] == ran[at] else 0
        sums.partly += times if 0 < recomputed[at] < ran[at] else 0
        sums.seconds += float(seconds[at]) * times
        sums.redundant_seconds += float(redundant[at]) * times


def _add_causes(record: Record, found: dict[int, OpSums], key: tuple[int, int], rows: Any, calls: Any) -> None:
    """Add the root causes of what ran under one set of columns; the heaviest op of each is its example."""
    graph, _columns = key
    table, line, keep = rows
    times, first = calls
    at = np.flatnonzero(keep)
    at = at[np.argsort(-table.seconds[at], kind="stable")]
    if not len(at):
        return
    none = len(record.causes)
    cause = table.columns.cause
    root = np.fromiter((cause[i][0] if cause[i] else none for i in at), np.int64, len(at))
    group = (line[at] * (none + 1) + root) * 2 + (table.letter[at] == ord("r"))
    groups, example, member = np.unique(group, return_index=True, return_inverse=True)
    ran = np.bincount(member, np.maximum(table.count[at], 1))
    seconds = np.bincount(member, table.seconds[at])
    for i, number in enumerate(groups.tolist()):
        row, letter = (number // 2) % (none + 1), "r" if number % 2 else "c"
        kind = record.causes[row].kind if row < none else ""
        why = found[number // 2 // (none + 1)].whys.setdefault((letter, kind), Why(letter, kind))
        why.ran += int(ran[i]) * times
        why.seconds += float(seconds[i]) * times
        place = int(at[example[i]])
        if table.seconds[place] > why.heaviest:
            why.heaviest = float(table.seconds[place])
            why.op, why.call = record.graphs[graph].name[table.columns.op[place]], first
            why.text = record.cause(row, first).text if row < none else ""


def _run_sums(tally: Tally, whose: Any) -> dict[int, RunSums]:
    found: dict[int, RunSums] = {}
    for call in tally.record.calls:
        if call.line < 0:
            continue
        sums = found.setdefault(int(whose[call.line + 1]), RunSums())
        table = tally.table(call)
        figures = table.figures
        sums.calls += call.repeat
        sums.failed += call.repeat if call.failed is not None else 0
        sums.ran += figures.ran * call.repeat
        sums.recomputed += figures.recomputed * call.repeat
        sums.seconds += figures.op_seconds * call.repeat
        sums.redundant_seconds += figures.redundant_seconds * call.repeat
        sums.wall_seconds += call.seconds * call.repeat
        sums.estimated_calls += call.repeat if estimated(call) and figures.ran else 0
        sums.letters.update(dict.fromkeys(table.shown, call.repeat))
    return found


def told(mark: LineMark) -> list[str]:
    """Return what a mark says: one sentence of figures for the ops made here, their causes, one for the calls."""
    said = []
    if mark.ops is not None:
        said += [_ops_text(mark.ops), *_causes(mark.ops)]
    if mark.runs is not None:
        said.append(_runs_text(mark.runs))
    return said


def _about(estimated_calls: int) -> str:
    return "≈ " if estimated_calls else ""


def _ops_text(sums: OpSums) -> str:
    made = plural("{n} op made here", "{n} ops made here", sums.ops)
    if not sums.calls:
        listed = [f"{words.LETTERS[q]} {words.status_title(q)}" for q in words.ORDER if sums.letters[q]]
        return _("{made}, run in no call ({statuses})").format(made=made, statuses="; ".join(listed))
    if not sums.seconds:
        each = plural("{n} call", "{n} calls", sums.calls) + _(" (time not measured)")
    else:
        time = f"{_about(sums.estimated_calls)}{words.seconds(sums.seconds / sums.calls)}"
        each = _("{n} × {time} of op time").format(n=f"{sums.calls:,}", time=time)
    if sums.again and not sums.partly:
        again = _("{n} of {all} recomputed").format(n=f"{sums.again:,}", all=f"{sums.calls:,}")
    elif sums.partly:
        share = words.share(sums.redundant_seconds / sums.seconds) if sums.seconds else _("part")
        again = _("{share} of it recomputed, in {n} of {all} calls").format(
            share=share, n=f"{sums.again + sums.partly:,}", all=f"{sums.calls:,}"
        )
    else:
        again = _("none recomputed")
    served = plural("; {n} value served", "; {n} values served", sums.letters["s"]) if sums.letters["s"] else ""
    return f"{each}, {again} ({made}){served}"


def _runs_text(sums: RunSums) -> str:
    calls = plural("{n} call from here", "{n} calls from here", sums.calls)
    failed = plural("; {n} call failed", "; {n} calls failed", sums.failed) if sums.failed else ""
    wall = _("{time} wall").format(time=words.seconds(sums.wall_seconds))
    if not sums.seconds:
        executed = plural("{n} op executed", "{n} ops executed", sums.ran)
        return _("{calls}: {executed}, {again} recomputed, {wall}{failed}").format(
            calls=calls, executed=executed, again=sums.recomputed, wall=wall, failed=failed
        )
    return _("{calls}: {share} of {time} op time recomputed, {wall}{failed}").format(
        calls=calls,
        share=words.share(sums.redundant_seconds / sums.seconds),
        time=_about(sums.estimated_calls) + words.seconds(sums.seconds),
        wall=wall,
        failed=failed,
    )


def _causes(sums: OpSums) -> Iterator[str]:
    """Yield one sentence a cause, recomputed work first, then by op time."""
    found = sorted(sums.whys.values(), key=lambda why: (why.letter != "r", -why.seconds, -why.ran, why.kind))
    for why in found[:_MOST_CAUSES]:
        text = why.text.strip().rstrip(".") or _("no cause is recorded")
        name = words.shorten(why.op, _NAME)
        status = _("recomputed") if why.letter == "r" else _("computed")
        yield _("`{op}` {status} in call {n}: {text}.").format(op=name, status=status, n=why.call, text=text)
    left = len(found) - _MOST_CAUSES
    if left > 0:
        yield plural("{n} more cause", "{n} more causes", left)


def made_here(marks: Iterable[LineMark]) -> tuple[int, int]:
    """Return how many ops the lines made that any call needed, and how many of them were ever recomputed."""
    sums = [mark.ops for mark in marks if mark.ops is not None]
    return sum(one.ops for one in sums), sum(one.ops_again for one in sums)
