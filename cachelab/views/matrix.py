"""The matrix op x call: sources first (an unbroken bar is an unchanged value), then ops by name scope."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from cachelab.views import words
from cachelab.views.scopes import Node, tree, unfold
from cachelab.views.slots import slots
from cachelab.views.sources import short

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cachelab.model import Record
    from cachelab.views.tally import Tally

MOST_ROWS = 44
_PER_SCOPE = 16
_MOST_SOURCES = 12
_SHARE = 0.0005
_DEEPER = 20.0


@dataclass(frozen=True)
class Span:
    """Neighbouring slots in which a source held one label; ``label`` is ``None`` where it was not used.

    ``many`` is the number of versions inside (a slot may hold many calls); ``fresh`` whether the span begins with
    a new value.
    """

    slots: int
    label: str | None
    many: int = 1
    fresh: bool = True


@dataclass(frozen=True)
class SourceRow:
    """One or several sources that changed in the same calls."""

    names: tuple[str, ...]
    kind: str
    spans: tuple[Span, ...]


@dataclass(frozen=True)
class OpRow:
    """A line of the matrix: ``cells`` holds for each slot how many ops have which letter."""

    node: Node
    depth: int
    cells: tuple[dict[str, int], ...]
    seconds: float
    redundant: float


class Matrix:
    """What the matrix shows.

    Parameters
    ----------
    record, tally
        The recording and its sums.
    limit
        Number of columns at most.
    """

    def __init__(self, record: Record, tally: Tally, limit: int = 20) -> None:
        self.record, self.tally = record, tally
        self.slots = slots(record, limit)

    @property
    def graphs(self) -> list[int]:
        """Graphs that calls use, in order."""
        return sorted({call.graph for call in self.record.calls})

    def sources(self) -> tuple[list[SourceRow], int]:
        """Return the rows of the sources and how many sources are left out."""
        spans = {
            row: self._spans(row) for row in dict.fromkeys(row for c in self.record.calls for row, _l in c.versions)
        }
        merged: dict[tuple[Any, ...], list[int]] = {}
        for row in sorted(spans):
            merged.setdefault((self.record.sources[row].kind, spans[row]), []).append(row)
        rows = [
            SourceRow(tuple(short(self.record.sources[row]) for row in members), kind, found)
            for (kind, found), members in merged.items()
        ]
        rows.sort(key=lambda row: sum(span.many for span in row.spans if span.label is not None))
        left_out = sum(len(row.names) for row in rows[_MOST_SOURCES:])
        return rows[:_MOST_SOURCES], left_out

    def _spans(self, source: int) -> tuple[Span, ...]:
        cells: list[tuple[str | None, str | None, int]] = []
        for held in self._labels:
            labels = held.get(source)
            changes = 0 if labels is None else sum(a != b for a, b in pairwise(labels))
            cells.append((labels[0], labels[-1], changes + 1) if labels else (None, None, 0))
        found: list[Span] = []
        last: str | None = None
        for first, final, many in cells:
            label = first if many <= 1 else f"{first} … {final}"
            fresh = first is not None and first != last
            before = found[-1] if found else None
            if (
                before
                and many <= 1
                and before.many <= 1
                and ((label is None and before.label is None) or (label is not None and before.label == label))
            ):
                found[-1] = Span(before.slots + 1, label, many, before.fresh)
            else:
                found.append(Span(1, label, max(many, 1) if label is not None else 0, fresh))
            last = final if final is not None else last
        return tuple(found)

    @cached_property
    def _labels(self) -> list[dict[int, list[str]]]:
        """For each slot, the labels that each source held in its calls, one after the other."""
        found = []
        for slot in self.slots:
            labels: dict[int, list[str]] = {}
            for entry in slot.entries:
                for source, label in self.record.calls[entry].versions:
                    labels.setdefault(source, []).append(label)
            found.append(labels)
        return found

    def rows(self, graph: int) -> Iterator[OpRow]:
        """Yield the lines of one graph's ops, open scopes before their children."""
        record, tally = self.record, self.tally
        table = record.graphs[graph]
        shown = np.flatnonzero(tally.listed[graph] & tally.counted[graph])
        if not len(shown):
            return
        letters = self._letters(graph)
        again, seconds = tally.redundant_seconds[graph], tally.op_seconds[graph]
        marked = tally.recomputed[graph] + (letters == ord("s")).any(0)
        root = tree(table.name, shown.tolist())
        unfold(
            root,
            MOST_ROWS,
            _PER_SCOPE,
            type_of=table.type.__getitem__,
            way_of=lambda row: letters[:, row].tobytes(),
            weight=lambda node: float((again[node.rows] + 1e-12 * (marked[node.rows] > 0)).sum()),
            share=_SHARE,
            deeper=_DEEPER,
        )

        def lines(node: Node, depth: int) -> Iterator[OpRow]:
            for child in node.shown:
                cells = tuple(self._cell(letters[k, child.rows]) for k in range(len(self.slots)))
                yield OpRow(child, depth, cells, float(seconds[child.rows].sum()), float(again[child.rows].sum()))
                yield from lines(child, depth + 1)

        yield from lines(root, 0)

    def _letters(self, graph: int) -> Any:
        """Return letters [slots, ops], 0 where a call does not list the op or the slot is left out."""
        letters: Any = np.zeros((len(self.slots), len(self.record.graphs[graph].name)), np.uint8)
        for k, slot in enumerate(self.slots):
            if slot.call.graph == graph and not slot.omitted:
                table = self.tally.table(slot.call)
                letters[k, table.op] = table.letter
        return letters

    @staticmethod
    def _cell(letters: Any) -> dict[str, int]:
        counts = np.bincount(letters, minlength=256)
        return {letter: int(counts[ord(letter)]) for letter in words.ORDER if counts[ord(letter)]}
