"""Sums over a record that the text, the page and the pictures share, made once with numpy.

Headline counts leave out bookkeeping ops, as :meth:`cachelab.model.Record.summary` does.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from cachelab.model import BOOKKEEPING

if TYPE_CHECKING:
    from cachelab.model import Call, Columns, Record

RAN: Any = np.zeros(256, bool)
RAN[[ord("c"), ord("r")]] = True


@dataclass(frozen=True)
class Figures:
    """Sums of one call or of all: op executions and op seconds, without bookkeeping."""

    ran: int = 0
    recomputed: int = 0
    op_seconds: float = 0.0
    redundant_seconds: float = 0.0
    bookkeeping: int = 0

    @property
    def share(self) -> float:
        """Redundant share of the op time, 0 to 1."""
        return self.redundant_seconds / self.op_seconds if self.op_seconds else 0.0


@dataclass
class CauseSum:
    """Executions and op seconds of one (letter, kind of cause), with the sources that brought them about."""

    letter: str
    kind: str
    ran: int = 0
    seconds: float = 0.0
    rows: Counter[int] = field(default_factory=Counter)


class Table:
    """The columns of one call as arrays, one entry an op row."""

    def __init__(self, columns: Columns, counted: Any) -> None:
        self.columns = columns
        self.op = np.asarray(columns.op, np.int64)
        self.letter = np.frombuffer(columns.status.encode("ascii"), np.uint8)
        self.seconds = np.asarray(columns.seconds, float)
        self.bytes = np.asarray(columns.bytes, np.int64)
        self.count = np.asarray(columns.count, np.int64)
        self.counted = counted[self.op] if len(self.op) else np.zeros(0, bool)
        self.ran = RAN[self.letter]

    @cached_property
    def at(self) -> dict[int, int]:
        """Row of the graph -> position in the columns."""
        return {row: i for i, row in enumerate(self.columns.op)}

    @cached_property
    def shown(self) -> str:
        """The letters of the ops that are no bookkeeping, each once."""
        return "".join(chr(letter) for letter in np.unique(self.letter[self.counted]))

    @cached_property
    def figures(self) -> Figures:
        """Sums of one call with these columns."""
        ran = self.ran & self.counted
        again = ran & (self.letter == ord("r"))
        times = np.maximum(self.count, 1)
        return Figures(
            ran=int(times[ran].sum()),
            recomputed=int(times[again].sum()),
            op_seconds=float(self.seconds[self.counted & self.ran].sum()),
            redundant_seconds=float(self.seconds[again].sum()),
            bookkeeping=int(self.count[self.ran & ~self.counted].sum()),
        )


class Tally:
    """Sums over the calls of ``record``; every part is made on first use.

    Parameters
    ----------
    record
        The recording.
    """

    def __init__(self, record: Record) -> None:
        self.record = record
        self._tables: dict[tuple[int, int], Table] = {}
        self.counted = [
            np.fromiter((kind not in BOOKKEEPING for kind in graph.type), bool, len(graph.type))
            for graph in record.graphs
        ]
        self.times: Counter[tuple[int, int]] = Counter()
        for call in record.calls:
            self.times[call.graph, call.columns] += call.repeat

    def table(self, call: Call) -> Table:
        """Return the columns of ``call`` as arrays."""
        return self.of(call.graph, call.columns)

    def of(self, graph: int, columns: int) -> Table:
        """Return columns of a graph as arrays."""
        found = self._tables.get((graph, columns))
        if found is None:
            found = self._tables[graph, columns] = Table(self.record.columns[columns], self.counted[graph])
        return found

    @cached_property
    def total(self) -> Figures:
        """Sums over all calls."""
        parts = [(self.of(*key).figures, times) for key, times in self.times.items()]
        return Figures(
            ran=sum(part.ran * times for part, times in parts),
            recomputed=sum(part.recomputed * times for part, times in parts),
            op_seconds=sum(part.op_seconds * times for part, times in parts),
            redundant_seconds=sum(part.redundant_seconds * times for part, times in parts),
            bookkeeping=sum(part.bookkeeping * times for part, times in parts),
        )

    @cached_property
    def wall_seconds(self) -> float:
        """Wall time of all calls."""
        return sum(call.seconds * call.repeat for call in self.record.calls)

    @cached_property
    def op_seconds(self) -> list[Any]:
        """For each graph, op seconds of each row over all calls (executed only)."""
        return self._rows("seconds", b"cr")

    @cached_property
    def redundant_seconds(self) -> list[Any]:
        """For each graph, op seconds of each row's recomputed executions."""
        return self._rows("seconds", b"r")

    @cached_property
    def ran(self) -> list[Any]:
        """For each graph, the number of calls in which each row executed."""
        return self._rows(None, b"cr")

    @cached_property
    def recomputed(self) -> list[Any]:
        """For each graph, the number of calls in which each row was recomputed."""
        return self._rows(None, b"r")

    @cached_property
    def listed(self) -> list[Any]:
        """For each graph, which rows any call lists."""
        seen: list[Any] = [np.zeros(len(graph.name), bool) for graph in self.record.graphs]
        for graph, columns in self.times:
            seen[graph][self.of(graph, columns).op] = True
        return seen

    def _rows(self, what: str | None, letters: bytes) -> list[Any]:
        sums = [np.zeros(len(graph.name)) for graph in self.record.graphs]
        chosen: Any = np.zeros(256, bool)
        chosen[list(letters)] = True
        for (graph, columns), times in self.times.items():
            table = self.of(graph, columns)
            keep = chosen[table.letter]
            weights: Any = times * (np.ones(len(table.op)) if what is None else getattr(table, what))
            sums[graph] += np.bincount(table.op[keep], weights[keep], minlength=len(sums[graph]))
        return sums

    @cached_property
    def causes(self) -> list[CauseSum]:
        """Executions by root cause: recomputed first, then by op time."""
        sums: dict[tuple[str, str], CauseSum] = {}
        record = self.record
        width = len(record.causes) + 1
        for (graph, columns), times in self.times.items():
            table = self.of(graph, columns)
            root = np.fromiter((c[0] if c else width - 1 for c in table.columns.cause), np.int64, len(table.op))
            for letter in "rc":
                keep = (table.letter == ord(letter)) & table.counted
                seconds = np.bincount(root[keep], table.seconds[keep], minlength=width)
                counts = np.bincount(root[keep], np.maximum(table.count[keep], 1), minlength=width)
                for row in np.flatnonzero(counts):
                    kind = record.causes[row].kind if row < width - 1 else ""
                    found = sums.setdefault((letter, kind), CauseSum(letter, kind))
                    found.ran += int(counts[row]) * times
                    found.seconds += float(seconds[row]) * times
                    if row < width - 1:
                        found.rows[int(row)] += int(counts[row]) * times
        return sorted(sums.values(), key=lambda found: (found.letter != "r", -found.seconds, found.kind))
