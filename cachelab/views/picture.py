"""What the graph picture shows of one call: visible nodes, edges between them, and the sources docked on them.

Scopes with redundant or reused work are open, others closed; never more than about thirty nodes.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from cachelab.views.scopes import Node, tree, unfold
from cachelab.views.sources import Sources, same_as_before

if TYPE_CHECKING:
    from collections.abc import Callable

    from cachelab.model import Call, Record
    from cachelab.views.tally import Table, Tally

MOST_NODES = 28
_PER_SCOPE = 16
_SHARE = 0.05
_WHOLE = 10
_MOST = 0.6


@dataclass
class View:
    """A visible box: a leaf (op, series or closed scope) or an open scope with ``parts``."""

    key: int
    node: Node
    letters: Counter[str]
    seconds: float
    parts: list[View] = field(default_factory=list)
    sources: dict[int, bool | None] = field(default_factory=dict)
    fetched: bool = False
    parent: View | None = None

    @property
    def open(self) -> bool:
        """Whether the parts are shown."""
        return bool(self.parts)

    @property
    def letter(self) -> str:
        """The status of a single op, ``""`` for several."""
        return next(iter(self.letters)) if self.node.kind == "op" else ""


@dataclass
class Picture:
    """One call as boxes and edges between visible leaves."""

    call: Call
    index: int
    root: View
    leaves: dict[int, View]
    edges: dict[tuple[int, int], str]
    compared: bool


def picked(record: Record, tally: Tally) -> tuple[int, int] | None:
    """Return (entry, call number) of the call worth a picture: the one with most redundant op time, or most reuse."""
    if not record.calls:
        return None

    def worth(entry: int) -> tuple[int, float, int, float, int]:
        table = tally.table(record.calls[entry])
        figures = table.figures
        served = table.columns.status.count("s")
        return (served, round(figures.redundant_seconds, 9), figures.recomputed, round(figures.op_seconds, 9), -entry)

    seen: dict[tuple[int, int], int] = {}
    for entry, call in enumerate(record.calls):
        seen.setdefault((call.graph, call.columns), entry)
    if all(not any(worth(entry)[:3]) for entry in seen.values()):
        # Nothing was redundant: the call that ran most says most.
        best = max(seen.values(), key=worth)
    else:
        best = _typical(list(seen.values()), worth)
    return best, record.calls[best].index


def _typical(entries: list[int], worth: Callable[[int], tuple[int, float, int, float, int]]) -> int:
    """Return the earliest entry with most of what the most redundant one has: the first repetition is clearest."""
    best = max(entries, key=worth)
    served, seconds, count = worth(best)[:3]
    for entry in sorted(entries):
        mine = worth(entry)
        if mine[0] >= served and mine[1] >= _MOST * seconds and mine[2] >= _MOST * count:
            return entry
    return best


def picture(record: Record, tally: Tally, entry: int, *, most: int = MOST_NODES, whole: int = _WHOLE) -> Picture:
    """Return the picture of log entry ``entry``.

    Parameters
    ----------
    record, tally
        The recording and its sums.
    entry
        Index into ``record.calls``.
    most
        Number of visible nodes at most (about).
    whole
        A call with no more ops than this is shown with all scopes open.
    """
    call = record.calls[entry]
    graph, table = record.graphs[call.graph], tally.table(call)
    rows = [int(row) for row in table.op[table.counted]]
    views = _Views(tree(graph.name, rows), table, graph.type, most, opened=len(rows) <= whole)
    docking = _Docking(record, entry, views)
    edges = docking.edges()
    for name in call.fetches:
        op, colon, _number = name.rpartition(":")
        row = graph.index.get(op if colon else name, -1)
        if row in docking.leaf_of:
            views.leaves[docking.leaf_of[row]].fetched = True
    compared = any(same is not None for leaf in views.leaves.values() for same in leaf.sources.values())
    return Picture(call, call.index, views.root, views.leaves, edges, compared)


class _Views:
    """Makes a view of each visible node of the tree, for the columns of one call."""

    def __init__(self, root: Node, table: Table, types: tuple[str, ...], most: int, *, opened: bool) -> None:
        self.table = table
        self.leaves: dict[int, View] = {}
        self._next = 0
        status = table.columns.status
        again = {
            int(row): float(table.seconds[i]) + 1e-12
            for i, row in enumerate(table.op)
            if status[i] in "rs" and table.counted[i]
        }
        unfold(
            root,
            most,
            _PER_SCOPE,
            type_of=types.__getitem__,
            way_of=lambda row: status[table.at[row]],
            weight=lambda node: float(len(node.rows)) if opened else sum(again.get(row, 0.0) for row in node.rows),
            share=0.0 if opened else _SHARE,
        )
        self.root = self._view(root, None)

    def _view(self, node: Node, parent: View | None) -> View:
        at = [self.table.at[row] for row in node.rows]
        status = self.table.columns.status
        letters = Counter(status[i] for i in at)
        seconds = sum(float(self.table.seconds[i]) for i in at if status[i] in "cr")
        view = View(self._next, node, letters, seconds, parent=parent)
        self._next += 1
        view.parts = [self._view(child, view) for child in node.shown]
        if not view.parts and parent is not None:
            self.leaves[view.key] = view
        return view


class _Docking:
    """Docks the sources on leaves and draws edges through the bookkeeping ops in between."""

    def __init__(self, record: Record, entry: int, views: _Views) -> None:
        self.views = views
        self.finder = Sources(record, record.calls[entry])
        self.same = same_as_before(record, entry)
        self.leaf_of = {row: leaf.key for leaf in views.leaves.values() for row in leaf.node.rows}
        self._reached: dict[int, tuple[frozenset[int], frozenset[int]]] = {}

    def edges(self) -> dict[tuple[int, int], str]:
        """Dock all sources; return the edges between leaves and their class."""
        found: dict[tuple[int, int], str] = {}
        for row, key in self.leaf_of.items():
            sources, shown = self._inputs(row)
            docked = self.views.leaves[key].sources
            for source in sorted(sources):
                docked.setdefault(source, self.same.get(source))
            for producer in shown:
                pair = self.leaf_of[producer], key
                if pair[0] != key:
                    kind = self._kind(producer, row)
                    before = found.get(pair, kind)
                    found[pair] = kind if before == kind else "S" if "S" in {kind, before} else ""
        return found

    def _kind(self, producer: int, consumer: int) -> str:
        letter, follower = self._letter(producer), self._letter(consumer)
        return "S" if letter == "s" else "P" if follower in "ptn" or letter in "ptn" else ""

    def _letter(self, row: int) -> str:
        return self.views.table.columns.status[self.views.table.at[row]]

    def _inputs(self, row: int) -> tuple[set[int], set[int]]:
        """Return the sources and the shown rows whose values reach ``row``."""
        direct, producers = self.finder.direct(row)
        sources, shown = set(direct), set()
        for producer in producers:
            if producer in self.leaf_of:
                shown.add(producer)
            else:
                more, passed = self._reach(producer)
                sources |= more
                shown |= passed
        return sources, shown

    def _reach(self, start: int) -> tuple[frozenset[int], frozenset[int]]:
        """Return the sources and shown rows that a row outside the picture passes on."""
        stack, met = [start], {start}
        while stack and start not in self._reached:
            row = stack[-1]
            sources, producers = self.finder.direct(row)
            hidden = [p for p in producers if p not in self.leaf_of]
            waiting = [p for p in hidden if p not in self._reached and p not in met]
            if waiting:
                stack += waiting
                met.update(waiting)
                continue
            stack.pop()
            known = [self._reached[p] for p in hidden if p in self._reached]
            self._reached[row] = (
                frozenset(sources).union(*(part[0] for part in known)),
                frozenset(p for p in producers if p in self.leaf_of).union(*(part[1] for part in known)),
            )
        return self._reached[start]
