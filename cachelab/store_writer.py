"""A recording as JSON data of format ``cachelab.recording``, see :mod:`cachelab.store`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from cachelab._version import __version__
from cachelab.model import EVIDENCES, FORMAT, FORMAT_VERSION, STATUSES, ModeResult
from cachelab.packing import pack, pack_seconds, seconds

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from cachelab.model import Call, Columns, GraphTable, Record

PACK_ABOVE = 2_000
"""Rows of graphs and columns above which lists are packed; below, the file reads as documented in plain lists."""


def to_json(record: Record, *, packed: bool | None = None) -> dict[str, Any]:
    """Return the recording as plain JSON data of format ``cachelab.recording``.

    Parameters
    ----------
    record
        The recording.
    packed
        Whether long lists are packed; by default if the recording is large.

    Returns
    -------
    dict
        What :func:`from_json` reads. Seconds are rounded to four significant digits.
    """
    if packed is None:
        packed = sum(len(graph.name) for graph in record.graphs) + sum(len(c.op) for c in record.columns) > PACK_ABOVE
    writer = _ColumnWriter(record, packed=packed)
    calls = [_call(call, writer.place(call)) for call in record.calls]
    return {
        "format": FORMAT,
        "version": FORMAT_VERSION,
        "name": record.name,
        "environment": {"cachelab": __version__, **record.environment},
        "options": dict(record.options),
        "legend": {"status": STATUSES, "evidence": EVIDENCES},
        "graphs": [_graph(graph, packed=packed) for graph in record.graphs],
        "lines": [[line.file, line.number, line.text] for line in record.lines],
        "sources": [[source.name, source.kind, source.graph] for source in record.sources],
        "causes": writer.causes,
        "columns": writer.columns,
        "shapes": list(record.shapes),
        "devices": list(record.devices),
        "calls": calls,
        "findings": [
            {"kind": found.kind, "ops": list(found.ops), "call": found.call, "text": found.text}
            for found in record.findings
        ],
        "modes": [_mode(result) for result in record.modes],
        "summary": record.summary(),
    }


def _graph(graph: GraphTable, *, packed: bool) -> dict[str, Any]:
    listed = pack if packed else list
    inputs: Any = [list(names) for names in graph.inputs]
    control: Any = [list(names) for names in graph.control]
    if packed:
        inputs, control = _references(graph), _control_references(graph)
    return {
        "id": graph.id,
        "name": listed(graph.name),
        "type": listed(graph.type),
        "inputs": inputs,
        "control": control,
        "line": listed(graph.line),
    }


def _references(graph: GraphTable) -> dict[str, Any]:
    """Return the inputs as ``{"rows": ..., "outputs": ..., "others": [...]}``: how many rows back each producer is.

    A row that lies after the last one of the graph stands for a name in ``others``.
    """
    known, others = graph.index, dict[str, int]()
    rows, outputs = [], []
    for row, names in enumerate(graph.inputs):
        back, output = [], []
        for name in names:
            op, _colon, number = name.rpartition(":")
            producer = known.get(op)
            if producer is None or not number.isdecimal() or str(int(number)) != number:
                producer, number = len(known) + others.setdefault(name, len(others)), "0"
            back.append(row - producer)
            output.append(int(number))
        rows.append(back)
        outputs.extend(output)
    return {"rows": pack(rows), "outputs": pack(outputs), "others": list(others)}


def _control_references(graph: GraphTable) -> dict[str, Any]:
    """Return the control inputs as :func:`_references` does, without outputs."""
    known, others = graph.index, dict[str, int]()
    rows = []
    for row, names in enumerate(graph.control):
        places = [known[name] if name in known else len(known) + others.setdefault(name, len(others)) for name in names]
        rows.append([row - place for place in places])
    return {"rows": pack(rows), "others": list(others)}


class _ColumnWriter:
    """Writes each set of columns once, and each cause once per absolute call number."""

    def __init__(self, record: Record, *, packed: bool) -> None:
        self.record, self.packed = record, packed
        self.listed: Callable[[Sequence[Any]], Any] = pack if packed else list
        self.timed: Callable[[Sequence[float]], Any] = pack_seconds if packed else seconds
        self._fields: dict[tuple[str, str], int] = {}
        self.causes: list[dict[str, Any]] = []
        self.columns: list[dict[str, Any]] = []
        self._cause_at: dict[tuple[int, int | None], int] = {}
        self._written: dict[Columns, int] = {}
        self._place: dict[int, int] = {}

    def place(self, call: Call) -> int:
        """Return where the columns of ``call`` stand in the file."""
        index = self._place.get(call.columns)
        if index is None:
            columns = self.record.columns[call.columns]
            index = self._written.get(columns)
            if index is None:
                index = self._written[columns] = len(self.columns)
                self.columns.append(self._write(columns, call.index))
            self._place[call.columns] = index
        return index

    def _write(self, columns: Columns, base: int) -> dict[str, Any]:
        cells: dict[tuple[int, ...], list[int]] = {
            rows: [self._cause(row, base) for row in rows] for rows in dict.fromkeys(columns.cause)
        }
        data: dict[str, Any] = {
            "op": self.listed(columns.op),
            "status": self._letters(columns.status),
            "evidence": self._letters(columns.evidence),
            "seconds": self.timed(columns.seconds),
            "bytes": self.listed(columns.bytes),
            "count": self.listed(columns.count),
            "witness": self.listed([None if back is None else base - back for back in columns.witness]),
            "cause": self.listed([cells[rows] for rows in columns.cause]),
            "base": base,
        }
        if columns.into:
            data["into"] = self.listed(columns.into)
        if columns.shape:
            data["shape"] = self.listed(columns.shape)
        if columns.start:
            data["start"] = self.timed(columns.start)
        if columns.device:
            data["device"] = self.listed(columns.device)
        if self.packed:
            for key, value in data.items():
                if key != "base":
                    earlier = self._fields.setdefault((key, json.dumps(value)), len(self.columns))
                    data[key] = value if earlier == len(self.columns) else {"as": earlier}
        return data

    def _letters(self, letters: str) -> Any:
        """Return a string of letters as it is, or packed where that is shorter."""
        form = pack(letters) if self.packed else letters
        return form if isinstance(form, dict) and "runs" in form else letters

    def _cause(self, row: int, base: int) -> int:
        stored = self.record.causes[row]
        key = (row, None if stored.back is None else base)
        index = self._cause_at.get(key)
        if index is None:
            index = self._cause_at[key] = len(self.causes)
            call = None if stored.back is None else base - stored.back
            self.causes.append(
                {
                    "kind": stored.kind,
                    "source": stored.source,
                    "call": call,
                    "text": stored.text,
                    "may": stored.may,
                    "back": stored.back,
                }
            )
        return index


def _call(call: Call, columns: int) -> dict[str, Any]:
    return {
        "index": call.index,
        "kind": call.kind,
        "graph": call.graph,
        "session": call.session,
        "thread": call.thread,
        "fetches": list(call.fetches),
        "feeds": list(call.feeds),
        "line": call.line,
        "start": round(call.start, 6),
        "seconds": seconds([call.seconds])[0],
        "failed": call.failed,
        "columns": columns,
        "repeat": call.repeat,
        "versions": [list(pair) for pair in call.versions],
        "needs": [list(names) for names in call.needs],
        "trace": call.trace,
    }


def _mode(result: ModeResult) -> dict[str, Any]:
    return {name: getattr(result, name) for name in ModeResult.__slots__}
