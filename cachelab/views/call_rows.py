"""The calls of a recording as rows for a list: one a call, or one for a run of equal calls."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cachelab.views.headline import estimated, fetch_names
from cachelab.views.slots import slots
from cachelab.views.tally import Tally

if TYPE_CHECKING:
    from cachelab.model import Record

_MOST_ROWS = 12
_NAMES = 40


def call_rows(record: Record, tally: Tally | None = None, limit: int = _MOST_ROWS) -> list[dict[str, Any]]:
    """Return at most ``limit`` rows as JSON data; times are those of one call, op time (a sum) and wall time."""
    tally = tally or Tally(record)
    rows = []
    for slot in slots(record, limit):
        figures = tally.table(slot.call).figures
        row = {
            "first": slot.first,
            "label": slot.label,
            "calls": slot.calls,
            "omitted": slot.omitted,
            "fetches": fetch_names(slot.call, _NAMES),
            "seconds": figures.op_seconds,
            "redundant": figures.redundant_seconds,
            "wall": slot.call.seconds,
            "estimated": estimated(slot.call),
            "failed": slot.call.failed is not None,
        }
        rows.append(row)
    return rows
