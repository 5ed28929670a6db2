"""What live sessions hold and served, for the side panel: asked of the sessions that are open, never of TensorFlow."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_MOST_NAMES = 20_000
_MOST_SESSIONS = 50


def live_rows(names: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return a row of figures for each open :class:`cachelab.Session`, as JSON data.

    Parameters
    ----------
    names
        The user's variables, to call a session by its name.
    """
    sessions = list(_sessions())[:_MOST_SESSIONS]
    if not sessions:
        return []
    known = {id(value): name for name, value in tuple(names.items())[:_MOST_NAMES] if not name.startswith("_")}
    return [_row(session, known.get(id(session), "")) for session in sessions]


def clear(number: int) -> None:
    """Drop what the session of that number keeps."""
    for session in _sessions():
        if session.number == number:
            session.clear_cache()


def _sessions() -> Iterator[Any]:
    module = sys.modules.get("cachelab.modes.live")
    if module is not None:
        yield from module.open_sessions()


def _row(session: Any, name: str) -> dict[str, Any]:
    info = session.cache_info()
    return {
        "number": session.number,
        "name": name,
        "mode": session.mode,
        "hits": info.hits,
        "misses": info.misses,
        "bytes": info.bytes,
        "budget": session.memory_budget,
        "evictions": info.evictions,
        "saved": info.seconds_saved,
        "entries": info.entries,
        "note": info.note,
    }


def cell_row(activation: Any) -> dict[str, Any]:
    """Return what a live mode served while a cell ran, as JSON data."""
    return {
        "mode": activation.mode,
        "hits": activation.hits,
        "misses": activation.misses,
        "bytes": activation.bytes,
        "saved": activation.seconds_saved,
        "skipped": activation.skipped,
    }
