"""Recordings as JSON: columns, not an object per op; no pickle, and no value of the user's data.

In the file a witness and the call of a cause are absolute numbers, as people read them; the model says how many
calls back they lie, so that the calls of a loop share columns. Shared columns carry ``base``, the first call that
uses them: for another call ``n`` add ``n - base``, which is what ``{call}`` in a cause's text stands for too.
Large recordings are written with packed lists, see :mod:`cachelab.packing`; there a field of columns that equals that
of earlier columns is ``{"as": k}``, and the inputs of a graph are ``{"rows", "outputs", "others"}`` (``_references``).
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cachelab._version import __version__
from cachelab.errors import CacheLabError, FormatError
from cachelab.i18n import translate as _
from cachelab.model import (
    EVIDENCES,
    FORMAT,
    FORMAT_VERSION,
    STATUSES,
    Call,
    CauseRow,
    Columns,
    Finding,
    GraphTable,
    Line,
    ModeResult,
    Record,
    Source,
)
from cachelab.packing import pack, pack_seconds, unpack

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Mapping, Sequence

PACK_ABOVE = 2_000
"""Rows of graphs and columns above which lists are packed; below, the file reads as documented in plain lists."""

_OPTIONAL = ("into", "shape", "start", "device")
_DIGITS = 4


def rounded(value: float) -> float:
    """Return seconds with four significant digits and no finer than a nanosecond."""
    if not value or not math.isfinite(value):
        return 0
    return round(value, min(9, _DIGITS - 1 - math.floor(math.log10(abs(value)))))


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
    if packed:
        inputs = _references(graph)
    return {
        "id": graph.id,
        "name": listed(graph.name),
        "type": listed(graph.type),
        "inputs": inputs,
        "control": listed([list(names) for names in graph.control]),
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


def _dereference(form: Mapping[str, Any], names: Sequence[str]) -> list[list[str]]:
    outputs, others = iter(unpack(form["outputs"])), form["others"]
    inputs = []
    for row, backs in enumerate(unpack(form["rows"])):
        found = []
        for back in backs:
            producer, output = row - back, next(outputs)
            found.append(f"{names[producer]}:{output}" if producer < len(names) else others[producer - len(names)])
        inputs.append(found)
    return inputs


class _ColumnWriter:
    """Writes each set of columns once, and each cause once per absolute call number."""

    def __init__(self, record: Record, *, packed: bool) -> None:
        self.record, self.packed = record, packed
        self.listed: Callable[[Sequence[Any]], Any] = pack if packed else list
        self.timed: Callable[[Sequence[float]], Any] = pack_seconds if packed else list
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
            "seconds": self.timed([rounded(value) for value in columns.seconds]),
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
            data["start"] = self.timed([-1 if value < 0 else rounded(value) for value in columns.start])
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
        "seconds": rounded(call.seconds),
        "failed": call.failed,
        "columns": columns,
        "repeat": call.repeat,
        "versions": [list(pair) for pair in call.versions],
        "needs": [list(names) for names in call.needs],
        "trace": call.trace,
    }


def _mode(result: ModeResult) -> dict[str, Any]:
    return {name: getattr(result, name) for name in ModeResult.__slots__}


def dumps(record: Record, *, packed: bool | None = None) -> str:
    """Return the recording as one line of JSON, see :func:`to_json`."""
    data = to_json(record, packed=packed)
    return json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False, default=str)


def save(record: Record, path: str | os.PathLike[str]) -> None:
    """Write the recording to ``path`` as JSON.

    Raises
    ------
    CacheLabError
        If the file can't be written.
    """
    write_text(path, dumps(record))


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Write a text file as UTF-8, with an error that says what to do where that fails."""
    try:
        # Names may hold lone surrogates (a Python string can); they are written as "?" rather than not at all.
        Path(path).write_text(text, encoding="utf-8", errors="replace")
    except OSError as error:
        raise CacheLabError(
            _("The file {path} can't be written: {reason}.").format(path=path, reason=error.strerror or error),
            _("Name a file in a folder that exists and that you may write to."),
        ) from error


def load(path: str | os.PathLike[str]) -> Record:
    """Read a recording that :func:`save` wrote.

    Raises
    ------
    FormatError
        If the file is not there, is no recording, is broken or is of a version that this CacheLab doesn't know.
    """
    try:
        text = Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise FormatError(
            _("The file {path} can't be read: {reason}.").format(path=path, reason=error.strerror or error),
            _("Name a file that `recording.save` or `%cachelab export` wrote."),
        ) from error
    except UnicodeDecodeError as error:
        raise FormatError(
            _("The file {path} is no text: {reason}.").format(path=path, reason=error),
            _("Name a file that `recording.save` or `%cachelab export` wrote."),
        ) from error
    try:
        return loads(text)
    except FormatError as error:
        raise FormatError(f"{path}: {error.found}", error.todo) from error


def loads(text: str) -> Record:
    """Return the recording that a JSON text holds.

    Raises
    ------
    FormatError
        If the text is no JSON, no recording, broken or of an unknown version.
    """
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise FormatError(
            _("This is no JSON: {reason}.").format(reason=error),
            _("The file may have been cut short; save the recording again."),
        ) from error
    return from_json(data)


def from_json(data: Any) -> Record:
    """Return the recording that :func:`to_json` made ``data`` of.

    Raises
    ------
    FormatError
        If ``data`` is no recording, broken or of an unknown version.
    """
    found = data.get("format") if isinstance(data, dict) else type(data).__name__
    if found != FORMAT:
        raise FormatError(
            _("This is no recording: its format is {found!r}, not {wanted!r}.").format(found=found, wanted=FORMAT),
            _("Name a file that `recording.save` or `%cachelab export` wrote."),
        )
    if data.get("version") != FORMAT_VERSION:
        raise FormatError(
            _(
                "This recording has version {found!r} of the format; this CacheLab {mine} reads version {wanted}."
            ).format(found=data.get("version"), mine=__version__, wanted=FORMAT_VERSION),
            _("Use the CacheLab that wrote it, or record again."),
        )
    try:
        record = _read(data)
        check(record)
    except (KeyError, IndexError, TypeError, ValueError, AttributeError, StopIteration, OverflowError) as error:
        raise FormatError(
            _("This recording is broken: {kind} {reason}.").format(kind=type(error).__name__, reason=error),
            _("The file may have been edited or cut short; save the recording again."),
        ) from error
    return record


def _read(data: Mapping[str, Any]) -> Record:
    rows: dict[CauseRow, int] = {}
    at = []
    for cause in data["causes"]:
        row = CauseRow(cause["kind"], cause["source"], cause.get("back"), cause["text"], bool(cause["may"]))
        at.append(rows.setdefault(row, len(rows)))
    return Record(
        name=data.get("name", ""),
        environment=dict(data["environment"]),
        lines=tuple(Line(file, number, text) for file, number, text in data["lines"]),
        graphs=tuple(_read_graph(graph) for graph in data["graphs"]),
        sources=tuple(Source(*source) for source in data.get("sources", ())),
        causes=tuple(rows),
        columns=_read_all_columns(data["columns"], at),
        calls=tuple(_read_call(call) for call in data["calls"]),
        findings=tuple(
            Finding(found["kind"], tuple(found["ops"]), found["call"], found["text"]) for found in data["findings"]
        ),
        modes=tuple(ModeResult(**result) for result in data["modes"]),
        shapes=tuple(data.get("shapes", ())),
        devices=tuple(data.get("devices", ())),
        options=dict(data.get("options", {})),
    )


def _read_graph(data: Mapping[str, Any]) -> GraphTable:
    names = unpack(data["name"])
    inputs = data["inputs"]
    inputs = _dereference(inputs, names) if isinstance(inputs, dict) and "rows" in inputs else unpack(inputs)
    return GraphTable(
        id=data["id"],
        name=tuple(names),
        type=tuple(unpack(data["type"])),
        inputs=tuple(map(tuple, inputs)),
        control=tuple(map(tuple, unpack(data["control"]))),
        line=tuple(unpack(data["line"])),
    )


def _read_all_columns(written: Sequence[Mapping[str, Any]], cause_at: Sequence[int]) -> tuple[Columns, ...]:
    """Return the columns; a field ``{"as": k}`` is that of the columns before at ``k``."""
    fields: list[dict[str, Any]] = []
    for data in written:
        whole = {}
        for key, value in data.items():
            earlier = value.get("as") if isinstance(value, dict) else None
            whole[key] = value if earlier is None else fields[earlier][key]
        fields.append(whole)
    return tuple(_read_columns(data, cause_at) for data in fields)


def _read_columns(data: Mapping[str, Any], cause_at: Sequence[int]) -> Columns:
    base = data.get("base", 0)
    cells: dict[tuple[int, ...], tuple[int, ...]] = {}
    causes = []
    for rows in unpack(data["cause"]):
        key = tuple(rows)
        if key not in cells:
            cells[key] = tuple(cause_at[row] for row in key)
        causes.append(cells[key])
    return Columns(
        op=tuple(unpack(data["op"])),
        status="".join(_plain(data["status"])),
        evidence="".join(_plain(data["evidence"])),
        seconds=tuple(map(float, unpack(data["seconds"]))),
        bytes=tuple(unpack(data["bytes"])),
        count=tuple(unpack(data["count"])),
        witness=tuple(None if call is None else base - call for call in unpack(data["witness"])),
        cause=tuple(causes),
        into=tuple(unpack(data.get("into", []))),
        shape=tuple(unpack(data.get("shape", []))),
        start=tuple(map(float, unpack(data.get("start", [])))),
        device=tuple(unpack(data.get("device", []))),
    )


def _plain(letters: Any) -> Any:
    return letters if isinstance(letters, str) else unpack(letters)


def _read_call(data: Mapping[str, Any]) -> Call:
    return Call(
        index=data["index"],
        kind=data["kind"],
        graph=data["graph"],
        session=data["session"],
        thread=data["thread"],
        fetches=tuple(data["fetches"]),
        feeds=tuple(data["feeds"]),
        line=data["line"],
        start=float(data["start"]),
        seconds=float(data["seconds"]),
        columns=data["columns"],
        failed=data["failed"],
        repeat=data["repeat"],
        versions=tuple((row, label) for row, label in data.get("versions", ())),
        needs=tuple(map(tuple, data.get("needs", ()))),
        trace=data.get("trace", "full"),
    )


def check(record: Record) -> None:
    """Raise ``ValueError`` where lengths or indices of a recording don't fit each other."""
    for graph in record.graphs:
        rows = len(graph.name)
        if not rows == len(graph.type) == len(graph.inputs) == len(graph.control) == len(graph.line):
            raise ValueError(_("the columns of graph {id} differ in length").format(id=graph.id))
        _within("line", graph.line, len(record.lines))
    for number, columns in enumerate(record.columns):
        rows = len(columns.op)
        needed = (columns.status, columns.evidence, columns.seconds, columns.bytes, columns.count, columns.witness)
        lengths = {len(column) for column in (*needed, columns.cause)}
        lengths |= {len(column) for name in _OPTIONAL if (column := getattr(columns, name))}
        if lengths != {rows}:
            raise ValueError(_("columns {n} differ in length").format(n=number))
        if not (set(columns.status) <= set(STATUSES) and set(columns.evidence) <= set(EVIDENCES)):
            raise ValueError(_("columns {n} hold an unknown status or evidence").format(n=number))
        _within("shape", columns.shape, len(record.shapes))
        _within("device", columns.device, len(record.devices))
    expected = 0
    for call in record.calls:
        if call.index != expected or call.repeat < 1:
            raise ValueError(_("call {n} is out of order").format(n=call.index))
        expected += call.repeat
        _within("line", (call.line,), len(record.lines))
        if not (0 <= call.graph < len(record.graphs) and 0 <= call.columns < len(record.columns)):
            raise ValueError(_("call {n} names a graph or columns that are not there").format(n=call.index))
        columns, rows = record.columns[call.columns], len(record.graphs[call.graph].name)
        if columns.op and not (min(columns.op) >= 0 and max(columns.op) < rows):
            raise ValueError(_("call {n} names an op that is not there").format(n=call.index))
        _within("into", columns.into, rows)


def _within(name: str, indices: Sequence[int], length: int) -> None:
    """Raise if an index other than -1 (none) lies outside a list of ``length``."""
    if indices and not (min(indices) >= -1 and max(indices) < length):
        raise ValueError(_("an index in {name!r} lies outside").format(name=name))
