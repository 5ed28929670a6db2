"""Puts a record together: tables of graphs, calls with their columns, sources and versions, findings."""

from __future__ import annotations

import platform
from typing import TYPE_CHECKING, Any

from cachelab._version import __version__
from cachelab.explain.findings import findings
from cachelab.explain.history import History, Judged
from cachelab.explain.partial import needed_feeds
from cachelab.explain.verdicts import Verdicts
from cachelab.model import Call, GraphTable, Record, Source

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from cachelab.explain.flat import FlatGraph, Ref
    from cachelab.explain.log import LoggedCall
    from cachelab.explain.plan import Plan

SHORT = 4
"""Digits of a digest that are shown."""


class Builder:
    """Builds a record from a log.

    Parameters
    ----------
    flats
        Graph number -> flat graph.
    line_of
        (graph, row) -> index of the user's line, -1 if unknown.
    """

    def __init__(self, flats: Mapping[int, FlatGraph], line_of: Callable[[int, int], int]) -> None:
        self._flats = flats
        self._line_of = line_of
        self._rows: dict[int, list[int]] = {}
        self.tables: dict[int, dict[int, int]] = {}
        for number, flat in flats.items():
            rows = [row for row, shown in enumerate(flat.shown) if shown]
            self._rows[number] = rows
            self.tables[number] = {row: index for index, row in enumerate(rows)}
        self._sources: dict[tuple[int, str, str], int] = {}
        self._seen: dict[Any, dict[Any, int]] = {}
        self._needs: dict[int, dict[str, tuple[str, ...]]] = {}

    def table(self, number: int) -> GraphTable:
        """Return one graph as users see it: virtual rows stand for the call op that they belong to."""
        flat, rows = self._flats[number], self._rows[number]
        return GraphTable(
            id=number,
            name=tuple(flat.name[row] for row in rows),
            type=tuple(flat.type[row] for row in rows),
            inputs=tuple(tuple(self._tensor(flat, ref) for ref in flat.inputs[row] if ref[0] >= 0) for row in rows),
            control=tuple(tuple(flat.name[other] for other in flat.control[row] if flat.shown[other]) for row in rows),
            line=tuple(self._line_of(number, row) for row in rows),
        )

    @staticmethod
    def _tensor(flat: FlatGraph, ref: Ref) -> str:
        if flat.shown[ref[0]]:
            return flat.tensor_name(ref)
        name = flat.name[ref[0]]
        hub, _, index = name.partition("/" + flat.type[ref[0]] + "/")
        return f"{hub}:{index or 0}"

    def source(self, graph: int, kind: str, name: str) -> int:
        """Return the number of a source."""
        return self._sources.setdefault((graph, kind, name), len(self._sources))

    def sources(self) -> tuple[Source, ...]:
        """Return all sources named so far."""
        return tuple(Source(name, kind, graph) for graph, kind, name in self._sources)

    def versions(self, judged: Judged | None, history: History) -> tuple[tuple[int, str], ...]:
        """Return what the feeds and variables of a call held, as short labels."""
        if judged is None:
            return ()
        flat, found = judged.variant.plan.flat, {}
        for slot, number in zip(judged.variant.slots, judged.vector, strict=True):
            version = history.versions[number]
            if slot.kind == "feed":
                assert not isinstance(slot.of, int)
                label = version.value[:SHORT] if isinstance(version.value, str) else ""
                found[self.source(flat.id, "feed", flat.tensor_name(slot.of))] = label
            elif slot.kind in {"cell", "race", "unique", "restless"} and not slot.after:
                assert isinstance(slot.of, int)
                source = self.source(flat.id, flat.cells[slot.of].kind, flat.cells[slot.of].name)
                seen = self._seen.setdefault(version.source, {})
                found[source] = f"v{seen.setdefault(version.value, len(seen))}"
        return tuple(found.items())

    def needs(self, plan: Plan, fetches: Sequence[str]) -> tuple[tuple[str, ...], ...]:
        """Return for each fetch of a call the fed tensors that it really needs."""
        known = self._needs.get(plan.id)
        if known is None:
            known = self._needs[plan.id] = self._needed(plan)
        return tuple(known.get(name, ()) for name in fetches)

    @staticmethod
    def _needed(plan: Plan) -> dict[str, tuple[str, ...]]:
        masks, flat, signature = needed_feeds(plan), plan.flat, plan.signature
        feeds = sorted(plan.closure.fed_reached)

        def names(mask: int) -> tuple[str, ...]:
            return tuple(flat.tensor_name(feed) for bit, feed in enumerate(feeds) if mask >> bit & 1)

        found: dict[str, tuple[str, ...]] = {}
        for ref in signature.fetches:
            target = flat.resolve(ref, signature.feeds)
            own = (flat.tensor_name(ref),) if target in signature.feeds else ()
            found[flat.tensor_name(ref)] = own or names(masks.get(target[0], 0) | masks.get(ref[0], 0))
        found.update((flat.name[row], names(masks.get(row, 0))) for row in signature.targets)
        return found


def build_record(name: str, parts: Any, lines: Any, options: Mapping[str, Any], faults: Sequence[str]) -> Record:
    """Return the record of a log.

    Parameters
    ----------
    name
        The recording's name.
    parts
        The log (``calls``) with its graphs and sessions, or ``None`` if nothing was recorded.
    lines
        The lines that ops and calls refer to.
    options
        The options of the recording.
    faults
        Faults of the recorder, each of which becomes a finding.
    """
    environment = {"cachelab": __version__, "python": platform.python_version(), **_framework(parts)}
    if parts is None:
        return Record(name, environment, tuple(lines.all), (), (), (), (), (), options=options)
    flats = {number: place.flat for number, place in parts.graphs.items()}
    builder = Builder(flats, lambda graph, row: parts.graphs[graph].line_of(row, lines))
    history = History()
    judged: list[Judged | None] = []
    verdicts = Verdicts(history, judged, builder.tables)
    for call in parts.calls:
        if call.measured is not None and call.plan is not None:
            verdicts.estimates.add(call.plan, call.measured)
    columns: dict[int, int] = {}

    def settle(found: Judged) -> None:
        columns[found.call.index] = verdicts.of(found)

    history.judge(parts.calls, judged, settle)
    calls: list[Call] = []
    for call in parts.calls:
        found = judged[call.index]
        entry = _entry(call, columns.get(call.index, -1), builder.versions(found, history), builder)
        if entry.columns < 0:
            entry = _entry(call, verdicts.empty(), (), builder)
        if calls and _same(calls[-1], entry):
            calls[-1] = _merged(calls[-1], entry)
        else:
            calls.append(entry)
    found_findings = findings(parts, judged, history, faults, verdicts)
    tables = tuple(builder.table(number) for number in sorted(flats))
    return Record(
        name=name,
        environment=environment,
        lines=tuple(lines.all),
        graphs=tables,
        sources=builder.sources(),
        causes=tuple(verdicts.causes),
        columns=tuple(verdicts.columns),
        calls=tuple(calls),
        findings=tuple(found_findings),
        shapes=tuple(verdicts.shapes),
        devices=tuple(verdicts.devices),
        options=options,
    )


def _framework(parts: Any) -> dict[str, Any]:
    """Return the version of TensorFlow and whether graph optimisation was on."""
    if parts is None:
        return {"tensorflow": "", "optimizers": True}
    return {"tensorflow": parts.tensorflow, "optimizers": parts.optimizers}


def _entry(call: LoggedCall, columns: int, versions: tuple[tuple[int, str], ...], builder: Builder) -> Call:
    return Call(
        index=call.index,
        kind=call.kind,
        graph=call.graph,
        session=call.session,
        thread=call.thread,
        fetches=call.fetches,
        feeds=call.fed,
        line=call.line,
        start=call.start,
        seconds=call.seconds,
        columns=columns,
        failed=call.failed,
        versions=versions,
        needs=() if call.plan is None else builder.needs(call.plan, call.fetches),
        trace=call.trace,
    )


def _same(one: Call, other: Call) -> bool:
    """Tell whether a call is one more repeat of the entry before it."""
    return (
        one.columns == other.columns
        and one.failed is None
        and other.failed is None
        and (one.kind, one.graph, one.session, one.thread, one.line, one.trace)
        == (other.kind, other.graph, other.session, other.thread, other.line, other.trace)
        and one.fetches == other.fetches
        and one.feeds == other.feeds
        and one.versions == other.versions
    )


def _merged(entry: Call, more: Call) -> Call:
    """Return an entry with one more repeat; its seconds are the mean."""
    from dataclasses import replace

    seconds = (entry.seconds * entry.repeat + more.seconds) / (entry.repeat + 1)
    return replace(entry, repeat=entry.repeat + 1, seconds=seconds)
