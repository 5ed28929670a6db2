"""What changed between two recordings: redundant op time, ops, statuses, findings."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from html import escape
from typing import TYPE_CHECKING

from cachelab.i18n import plural
from cachelab.i18n import translate as _
from cachelab.model import STATUSES
from cachelab.views import words
from cachelab.views.style import ROOT, stylesheet
from cachelab.views.tally import Figures, Tally

if TYPE_CHECKING:
    from cachelab.model import Finding, Record

_MOST = 30


@dataclass(frozen=True)
class OpChange:
    """One op of both recordings: calls per status and redundant op seconds, before and after."""

    name: str
    before: dict[str, int]
    after: dict[str, int]
    redundant_before: float
    redundant_after: float


@dataclass(frozen=True)
class Diff:
    """Two recordings side by side; show it, or read its parts.

    ``changes`` holds the ops whose statuses changed, the largest change of redundant op time first. ``gone`` and
    ``new`` are ops that only one recording lists; ``findings_gone`` and ``findings_new`` likewise.
    """

    names: tuple[str, str]
    before: Figures
    after: Figures
    calls: tuple[int, int]
    wall_seconds: tuple[float, float]
    changes: tuple[OpChange, ...]
    gone: tuple[str, ...]
    new: tuple[str, ...]
    findings_gone: tuple[Finding, ...]
    findings_new: tuple[Finding, ...]

    @property
    def redundant_seconds(self) -> float:
        """Redundant op seconds after minus before: negative is an improvement."""
        return self.after.redundant_seconds - self.before.redundant_seconds

    @property
    def headline(self) -> str:
        """One sentence on the redundant op time."""
        old, new = self.before.redundant_seconds, self.after.redundant_seconds
        if not (old or new):
            return _("Neither recording has redundant op time.")
        return _("Redundant op time went from {old} to {new} ({a} to {b} recomputed op executions).").format(
            old=words.seconds(old), new=words.seconds(new), a=self.before.recomputed, b=self.after.recomputed
        )

    @cached_property
    def rows(self) -> list[tuple[str, str, str]]:
        """The figures: what, before, after."""
        a, b = self.before, self.after
        return [
            (_("calls"), str(self.calls[0]), str(self.calls[1])),
            (_("op executions"), str(a.ran), str(b.ran)),
            (_("recomputed"), str(a.recomputed), str(b.recomputed)),
            (_("op time (a sum)"), words.seconds(a.op_seconds), words.seconds(b.op_seconds)),
            (_("redundant op time"), words.seconds(a.redundant_seconds), words.seconds(b.redundant_seconds)),
            (_("redundant share"), words.share(a.share), words.share(b.share)),
            (_("wall time"), words.seconds(self.wall_seconds[0]), words.seconds(self.wall_seconds[1])),
        ]

    @property
    def lists(self) -> list[tuple[str, list[str]]]:
        """The lists below the figures, with their headings."""
        changes = [
            f"{change.name}: {_mix(change.before)} → {_mix(change.after)}"
            + (f", {words.seconds(change.redundant_before)} → {words.seconds(change.redundant_after)}"
               if change.redundant_before or change.redundant_after else "")
            for change in self.changes
        ]  # fmt: skip
        found = [
            (_("ops that went another way (redundant op time)"), changes),
            (_("ops only in the first"), list(self.gone)),
            (_("ops only in the second"), list(self.new)),
            (_("findings that are gone"), [f"{finding.kind}: {finding.text}" for finding in self.findings_gone]),
            (_("findings that are new"), [f"{finding.kind}: {finding.text}" for finding in self.findings_new]),
        ]
        return [(title, _cut(lines)) for title, lines in found if lines]

    @property
    def text(self) -> str:
        """The whole as plain text."""
        lines = [self.headline, "", f"{'':<20}{self.names[0]:>16}{self.names[1]:>16}"]
        lines += [f"{what:<20}{a:>16}{b:>16}" for what, a, b in self.rows]
        for title, items in self.lists:
            lines += ["", title, *(f"  {item}" for item in items)]
        return "\n".join(lines)

    @property
    def html(self) -> str:
        """The whole as static HTML."""
        heads = "".join(f'<th class="r">{escape(name)}</th>' for name in self.names)
        rows = "".join(
            f'<tr><td>{what}</td><td class="r">{a}</td><td class="r">{b}</td></tr>' for what, a, b in self.rows
        )
        lists = "".join(
            f'<div class="blk"><h3>{escape(title)}</h3>'
            + "".join(f'<p class="m s1">{escape(i)}</p>' for i in items)
            + "</div>"
            for title, items in self.lists
        )
        return (
            f'<section class="{ROOT}"><style>{stylesheet()}</style><h2 class="hl">{escape(self.headline)}</h2>'
            f'<div class="blk"><table style="width:auto"><tr><th></th>{heads}</tr>{rows}</table></div>{lists}</section>'
        )

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        return self.html


def diff(before: Record, after: Record) -> Diff:
    """Return what changed from one recording to another; ops are matched by name.

    Parameters
    ----------
    before, after
        Two recordings, such as of one cell before and after a change.
    """
    first, second = Tally(before), Tally(after)
    old, new = _ways(first), _ways(second)
    changes = [
        OpChange(name, old[name][0], new[name][0], old[name][1], new[name][1])
        for name in old
        if name in new and old[name][0] != new[name][0]
    ]
    changes.sort(key=lambda change: -abs(change.redundant_after - change.redundant_before))
    told_old = {(f.kind, f.ops) for f in before.findings}
    told_new = {(f.kind, f.ops) for f in after.findings}
    titles = before.name or _("before"), after.name or _("after")
    return Diff(
        names=(words.shorten(titles[0], 15), words.shorten(titles[1], 15)),
        before=first.total,
        after=second.total,
        calls=(before.call_count, after.call_count),
        wall_seconds=(first.wall_seconds, second.wall_seconds),
        changes=tuple(changes),
        gone=tuple(name for name in old if name not in new),
        new=tuple(name for name in new if name not in old),
        findings_gone=tuple(f for f in before.findings if (f.kind, f.ops) not in told_new),
        findings_new=tuple(f for f in after.findings if (f.kind, f.ops) not in told_old),
    )


def _ways(tally: Tally) -> dict[str, tuple[dict[str, int], float]]:
    """Return op name -> (calls per status letter, redundant op seconds), bookkeeping left out."""
    ways: dict[str, tuple[Counter[str], float]] = {}
    for (graph, columns), times in tally.times.items():
        table = tally.of(graph, columns)
        names = tally.record.graphs[graph].name
        for i, row in enumerate(table.columns.op):
            if table.counted[i]:
                letter = table.columns.status[i]
                counts, seconds = ways.get(names[row], (Counter(), 0.0))
                counts[letter] += times
                seconds += table.columns.seconds[i] * times if letter == "r" else 0.0
                ways[names[row]] = counts, seconds
    return {name: (dict(sorted(counts.items())), seconds) for name, (counts, seconds) in ways.items()}


def _mix(counts: dict[str, int]) -> str:
    return ", ".join(f"{counts[q]} {STATUSES[q]}" for q in words.ORDER if counts.get(q))


def _cut(lines: list[str]) -> list[str]:
    if len(lines) <= _MOST:
        return lines
    return [*lines[:_MOST], plural("… {n} more", "… {n} more", len(lines) - _MOST)]
