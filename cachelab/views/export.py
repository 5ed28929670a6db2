"""Writes a recording to a file, in the form that the file's ending names."""

from __future__ import annotations

import csv
import io
import os
from functools import partial
from typing import TYPE_CHECKING, Any

from cachelab import store
from cachelab.errors import OptionError
from cachelab.i18n import translate as _
from cachelab.views import dot, page, svg, text, trace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from cachelab.model import Record


def export(record: Record, path: str | os.PathLike[str], replays: Iterable[Any] = ()) -> None:
    """Write the recording to ``path``.

    Parameters
    ----------
    record
        The recording.
    path
        The file; its ending is one of ``.html`` (the explorer, self-contained), ``.json`` (``cachelab.load`` reads
        it), ``.svg``, ``.dot``, ``.csv`` (a row per call and op; equal calls in a row once), ``.trace.json`` (for
        Perfetto), ``.txt``.
    replays
        Modes that can be chosen in the ``.html``.

    Raises
    ------
    OptionError
        If the ending is none of these.
    CacheLabError
        If the file can't be written.
    """
    name = os.fspath(path).lower()
    writers: dict[str, Callable[[Record], str]] = {**WRITERS, ".html": partial(page.page, replays=replays)}
    for ending, write in writers.items():
        if name.endswith(ending):
            store.write_text(path, write(record))
            return
    raise OptionError(
        _("The ending of {path} names no form that a recording can be written in.").format(path=path),
        _("Choose one of {endings}.").format(endings=", ".join(WRITERS)),
    )


def to_csv(record: Record) -> str:
    """Return a row per log entry and op; ``repeat`` is the number of equal calls in a row."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(
        (
            "call",
            "repeat",
            *text.OPS_HEADER[1:],
            "count",
            "witness",
            "into",
            "shapes",
            "device",
            "start",
            "file",
            "line",
        )
    )
    for entry in record.calls:
        for op in record.executions(entry.index):
            where = (op.line.file, op.line.number) if op.line else ("", "")
            writer.writerow((
                op.call, entry.repeat, op.name, op.type, op.status, op.evidence, f"{op.seconds:.9g}", op.bytes,
                text.cause(op), op.count, "" if op.witness is None else op.witness, op.into or "", op.shapes, op.device,
                "" if op.start is None else f"{op.start:.9g}", *where,
            ))  # fmt: skip
    return stream.getvalue()


WRITERS: dict[str, Callable[[Record], str]] = {
    ".trace.json": trace.trace_events,
    ".html": page.page,
    ".json": store.dumps,
    ".svg": svg.svg,
    ".dot": lambda record: str(dot.digraph(record).source),
    ".csv": to_csv,
    ".txt": text.report,
}
"""Ending -> writer; the longer of two endings that fit comes first."""
