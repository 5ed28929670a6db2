"""Which sources an op's value depends on, and what they held in each call."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cachelab.i18n import translate as _

if TYPE_CHECKING:
    from collections.abc import Iterable

    from cachelab.model import Call, Record, Source


def short(source: Source) -> str:
    """Return the name as people say it: a feed without its ``:0``."""
    return source.name.removesuffix(":0") if source.kind == "feed" else source.name


class Sources:
    """Finds the sources of ops in one graph under the feeds of one call.

    Parameters
    ----------
    record
        The recording.
    call
        The call whose fed tensors stop the walk.
    """

    def __init__(self, record: Record, call: Call) -> None:
        self.record, self.call = record, call
        self.graph = record.graphs[call.graph]
        self._at = {
            source.name: row for row, source in enumerate(record.sources) if source.graph in {call.graph, self.graph.id}
        }
        self._fed = set(call.feeds)
        columns = record.columns[call.columns]
        self._idle = {row for row, status in zip(columns.op, columns.status, strict=True) if status == "t"}

    def direct(self, row: int) -> tuple[list[int], list[int]]:
        """Return the sources that op ``row`` takes directly, and the rows of its other producers."""
        found, producers = [], []
        own = self._at.get(self.graph.name[row])
        if own is not None:
            found.append(own)
        for tensor in self.graph.inputs[row]:
            op = tensor.rpartition(":")[0]
            if tensor in self._fed:
                if tensor in self._at:
                    found.append(self._at[tensor])
                continue
            producer = self.graph.index.get(op)
            if producer is not None and producer not in self._idle:
                producers.append(producer)
        return found, producers

    def of(self, rows: Iterable[int], limit: int = 20_000) -> list[int]:
        """Return the sources that the values of ``rows`` depend on, in the order of the record."""
        found: set[int] = set()
        seen = set(rows)
        todo = list(seen)
        while todo and len(seen) < limit:
            sources, producers = self.direct(todo.pop())
            found.update(sources)
            for producer in producers:
                if producer not in seen:
                    seen.add(producer)
                    todo.append(producer)
        return sorted(found)


def unchanged(record: Record, sources: Iterable[int], call: Call, other: Call) -> list[int]:
    """Return those of ``sources`` that held the same in two calls.

    A walk goes through conditionals, loops and functions as a whole, so that it also meets sources that an op does not
    depend on: these may have changed where the op's own did not. A variable is compared within its session only.
    """
    here, there = dict(call.versions), dict(other.versions)
    return [
        source
        for source in sources
        if here.get(source, "") == there.get(source)
        and (record.sources[source].kind == "feed" or call.session == other.session)
    ]


def phrases(record: Record, sources: Iterable[int], limit: int = 3) -> list[str]:
    """Return sources as words of a sentence, feeds first: names in backticks, or ``46 variables``."""
    kinds: dict[str, list[str]] = {"feed": []}
    for row in sources:
        source = record.sources[row]
        kinds.setdefault(source.kind, []).append(f"`{short(source)}`")
    many = {"feed": _("{n} feeds"), "variable": _("{n} variables")}
    said = []
    for kind, names in kinds.items():
        said += names if len(names) <= limit else [many.get(kind, _("{n} other sources")).format(n=len(names))]
    return said


def same_as_before(record: Record, entry: int) -> dict[int, bool | None]:
    """Return for each source of log entry ``entry`` whether it held the same in the last call that used it.

    ``None``: no earlier call used it. A variable is compared within its session only.
    """
    call = record.calls[entry]
    wanted = dict(call.versions)
    same: dict[int, bool | None] = dict.fromkeys(wanted)
    open_sources = set(wanted)
    for before in reversed(record.calls[max(0, entry - 1000) : entry]):
        if not open_sources:
            break
        for source, label in before.versions:
            if source not in open_sources:
                continue
            if record.sources[source].kind != "feed" and before.session != call.session:
                continue
            same[source] = label == wanted[source]
            open_sources.discard(source)
    return same
