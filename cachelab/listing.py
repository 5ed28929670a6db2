"""One line per call and op, for terminals and for other programs: ``cachelab show FILE.json --ops``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cachelab.model import Record

HEADER: Final = ("call", "op", "type", "status", "evidence", "seconds", "bytes", "cause")
_GAP: Final = "  "


def rows(record: Record) -> Iterator[tuple[str, ...]]:
    """Yield one tuple of text per call and op, in the order of :data:`HEADER`, repeats expanded."""
    for index in range(record.call_count):
        for op in record.executions(index):
            cause = "; ".join(cause.text for cause in op.causes)
            yield str(index), op.name, op.type, op.status, op.evidence, f"{op.seconds:.9f}", str(op.bytes), cause


def tab_separated(record: Record) -> Iterator[str]:
    """Yield lines with tabs between the columns; tabs and line ends inside a cause become spaces."""
    yield "\t".join(HEADER)
    for row in rows(record):
        yield "\t".join(" ".join(cell.split()) for cell in row)


def aligned(record: Record) -> Iterator[str]:
    """Yield lines with the columns aligned."""
    names = [name for graph in record.graphs for name in graph.name]
    types = [type_ for graph in record.graphs for type_ in graph.type]
    widths = (
        max(len("call"), len(str(record.call_count))),
        max(map(len, names), default=2),
        max(map(len, types), default=4),
        len("not_reached"),
        len("measured"),
        11,
        12,
    )
    for row in ((HEADER), *rows(record)):
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=False))
        yield (_GAP.join(cells) + _GAP + row[-1]).rstrip()
