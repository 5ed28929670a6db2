"""Groups the calls of a log into the columns that a picture can show: equal calls share one, long loops are cut."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cachelab.model import Call, Record

LIMIT = 20


@dataclass(frozen=True)
class Slot:
    """One column: the calls ``first`` to ``last``, made of log entries that share columns, fetches and failure.

    ``entries`` are indices into ``record.calls``. A slot with ``omitted`` stands for calls that are left out.
    """

    first: int
    last: int
    entries: range
    call: Call
    omitted: bool = False

    @property
    def calls(self) -> int:
        """Number of calls."""
        return self.last - self.first + 1

    @property
    def label(self) -> str:
        """``3``, or ``3–9`` for several calls."""
        return str(self.first) if self.first == self.last else f"{self.first}–{self.last}"


def slots(record: Record, limit: int = LIMIT) -> tuple[Slot, ...]:
    """Return at most ``limit`` slots in the order of the calls.

    Few calls are shown one by one. Otherwise neighbouring entries of the same kind, graph, fetches, columns and
    failure share a slot; if still too many remain, one ``omitted`` slot replaces those in the middle.
    """
    if record.call_count <= limit:
        return tuple(
            Slot(index, index, range(i, i + 1), call)
            for i, call in enumerate(record.calls)
            for index in range(call.index, call.index + call.repeat)
        )
    groups: list[Slot] = []
    for i, call in enumerate(record.calls):
        last = call.index + call.repeat - 1
        if groups and _kin(groups[-1].call, call):
            before = groups[-1]
            groups[-1] = Slot(before.first, last, range(before.entries.start, i + 1), before.call)
        else:
            groups.append(Slot(call.index, last, range(i, i + 1), call))
    return _cut(groups, limit)


def _kin(a: Call, b: Call) -> bool:
    return (a.kind, a.graph, a.session, a.columns, a.fetches, a.failed) == (
        b.kind, b.graph, b.session, b.columns, b.fetches, b.failed,
    )  # fmt: skip


def _cut(groups: Sequence[Slot], limit: int) -> tuple[Slot, ...]:
    if len(groups) <= limit:
        return tuple(groups)
    head = limit * 3 // 5
    tail = limit - head - 1
    left_out = groups[head : len(groups) - tail]
    hole = Slot(
        left_out[0].first,
        left_out[-1].last,
        range(left_out[0].entries.start, left_out[-1].entries.stop),
        left_out[0].call,
        omitted=True,
    )
    return (*groups[:head], hole, *groups[len(groups) - tail :])
