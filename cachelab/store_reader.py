"""A recording from JSON data of format ``cachelab.recording``, see :mod:`cachelab.store`; checked before use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cachelab._version import __version__
from cachelab.errors import FormatError
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
from cachelab.packing import unpack

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_OPTIONAL = ("into", "shape", "start", "device")


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
    inputs, control = (
        _dereference(form, names) if isinstance(form, dict) and "rows" in form else unpack(form)
        for form in (data["inputs"], data["control"])
    )
    return GraphTable(
        id=data["id"],
        name=tuple(names),
        type=tuple(unpack(data["type"])),
        inputs=tuple(map(tuple, inputs)),
        control=tuple(map(tuple, control)),
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
            cells[key] = tuple(cause_at[row] if row >= 0 else -1 for row in key)
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
        if any(not 0 <= row < len(record.causes) for rows in set(columns.cause) for row in rows):
            raise ValueError(_("columns {n} name a cause that is not there").format(n=number))
        _within("shape", columns.shape, len(record.shapes))
        _within("device", columns.device, len(record.devices))
    _check_calls(record)


def _check_calls(record: Record) -> None:
    expected = 0
    for call in record.calls:
        if call.index != expected or call.repeat < 1:
            raise ValueError(_("call {n} is out of order").format(n=call.index))
        expected += call.repeat
        _within("line", (call.line,), len(record.lines))
        if not (0 <= call.graph < len(record.graphs) and 0 <= call.columns < len(record.columns)):
            raise ValueError(_("call {n} names a graph or columns that are not there").format(n=call.index))
        if any(not 0 <= row < len(record.sources) for row, _label in call.versions):
            raise ValueError(_("call {n} names a source that is not there").format(n=call.index))
        columns, rows = record.columns[call.columns], len(record.graphs[call.graph].name)
        if columns.op and not (min(columns.op) >= 0 and max(columns.op) < rows):
            raise ValueError(_("call {n} names an op that is not there").format(n=call.index))
        _within("into", columns.into, rows)


def _within(name: str, indices: Sequence[int], length: int) -> None:
    """Raise if an index other than -1 (none) lies outside a list of ``length``."""
    if indices and not (min(indices) >= -1 and max(indices) < length):
        raise ValueError(_("an index in {name!r} lies outside").format(name=name))


def _dereference(form: Mapping[str, Any], names: Sequence[str]) -> list[list[str]]:
    outputs, others = iter(unpack(form["outputs"])) if "outputs" in form else None, form["others"]
    inputs = []
    for row, backs in enumerate(unpack(form["rows"])):
        found = []
        for back in backs:
            producer = row - back
            ending = "" if outputs is None else f":{next(outputs)}"
            found.append(names[producer] + ending if producer < len(names) else others[producer - len(names)])
        inputs.append(found)
    return inputs
