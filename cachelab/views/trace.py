"""A recording in the trace event format that Perfetto and Chrome open."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from cachelab.i18n import translate as _
from cachelab.views.headline import fetch_names
from cachelab.views.text import cause

if TYPE_CHECKING:
    from cachelab.model import Call, OpExecution, Record

_MICRO = 1e6
_MOST_CALLS = 2000


def trace_events(record: Record) -> str:
    """Return calls and ops as JSON: a process a session, a track for its calls, tracks for the ops of each device.

    An op whose start was not measured is placed after the one before it, on a track that says so. Of equal calls in
    a row the first is written, with their number.
    """
    writer = _Writer()
    for call in record.calls[:_MOST_CALLS]:
        writer.call(record, call)
    left_out = max(0, len(record.calls) - _MOST_CALLS)
    return json.dumps(
        {
            "traceEvents": [*writer.names(), *writer.events],
            "displayTimeUnit": "ms",
            "otherData": {"name": record.name, "calls left out": left_out},
        },
        ensure_ascii=False,
        separators=(",", ":"),
    )


class _Writer:
    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []
        self._tracks: dict[tuple[int, str, int], int] = {}
        self._busy: dict[tuple[int, str], list[float]] = {}

    def call(self, record: Record, call: Call) -> None:
        """Write one call and its ops."""
        arguments = {"kind": call.kind, "feeds": list(call.feeds), "repeat": call.repeat, "failed": call.failed}
        title = f"{call.index}: {fetch_names(call)}"
        self._event(call.session, "calls", title, (call.start, call.seconds), arguments)
        clock = call.start
        for op in record.executions(call.index):
            if not op.executed:
                continue
            if op.start is None:
                track, start = _("ops in graph order (starts not measured)"), clock
                clock += op.seconds
            else:
                track, start = op.device or "ops", call.start + op.start
            self._event(call.session, track, op.name, (start, op.seconds), _told(op))

    def _event(self, session: int, track: str, name: str, time: tuple[float, float], told: dict[str, Any]) -> None:
        """Write one slice (start, seconds) on the first free lane of a track: slices of a lane must not overlap."""
        start, seconds = time
        lanes = self._busy.setdefault((session, track), [])
        lane = next((i for i, end in enumerate(lanes) if end <= start + 1e-9), len(lanes))
        lanes[lane : lane + 1] = [start + seconds]
        thread = self._tracks.setdefault((session, track, lane), len(self._tracks) + 1)
        event = {"name": name, "ph": "X", "pid": session, "tid": thread, "ts": round(start * _MICRO, 3)}
        self.events.append(
            {**event, "dur": round(seconds * _MICRO, 3), "cat": told.get("status", "call"), "args": told}
        )

    def names(self) -> list[dict[str, Any]]:
        """Return the events that name processes and tracks."""
        sessions = sorted({session for session, _track, _lane in self._tracks})
        named = [
            {"name": "process_name", "ph": "M", "pid": session, "args": {"name": _("session {n}").format(n=session)}}
            for session in sessions
        ]
        for (session, track, lane), thread in self._tracks.items():
            label = f"{track} #{lane + 1}" if lane else track
            named.append({"name": "thread_name", "ph": "M", "pid": session, "tid": thread, "args": {"name": label}})
            order = {"sort_index": thread}
            named.append({"name": "thread_sort_index", "ph": "M", "pid": session, "tid": thread, "args": order})
        return named


def _told(op: OpExecution) -> dict[str, Any]:
    return {
        "type": op.type,
        "status": op.status,
        "evidence": op.evidence,
        "bytes": op.bytes,
        "count": op.count,
        "cause": cause(op),
        "witness": op.witness,
    }
