"""What the explorer is sent: the recording once, gzipped; of a replay the columns of what it executed, no more."""

from __future__ import annotations

import dataclasses
import gzip
import json
import math
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

    from cachelab.model import ModeResult, Record

_REPLAY_KEYS = ("columns", "calls", "causes", "shapes", "devices")


def record_of(recording: Any) -> Record:
    """Return the :class:`~cachelab.model.Record` of a recording, which may be one itself."""
    record: Record = getattr(recording, "record", recording)
    return record


def replays_of(recording: Any) -> tuple[Any, ...]:
    """Return the latest replay in each mode, which a plain record does not have."""
    return tuple(getattr(recording, "replays", ()))


def replay_record(replay: Any) -> Record | None:
    """Return what a replay executed, ``None`` where the mode did not run."""
    made = getattr(replay, "record", None)
    if made is None:
        made = getattr(replay, "recording", None)
    return getattr(made, "record", made)


def replay_data(record: Record) -> dict[str, Any]:
    """Return columns, calls and causes of a replay: the graph, the lines and the sources are there already."""
    from cachelab.store import to_json

    data = to_json(record)
    return {key: data[key] for key in _REPLAY_KEYS}


def plain_result(result: ModeResult) -> dict[str, Any]:
    """Return the outcome of a replay as JSON data; a difference that is no number is told as a text."""
    data = {name: getattr(result, name) for name in type(result).__slots__}
    return {
        key: (value if not isinstance(value, float) or math.isfinite(value) else str(value))
        for key, value in data.items()
    }


def plain_advice(advice: Iterable[Any]) -> list[dict[str, Any]]:
    """Return advice as JSON data: the cut, the sentence, seconds saved and bytes held."""
    found = []
    for one in advice:
        data = dataclasses.asdict(one) if dataclasses.is_dataclass(one) and not isinstance(one, type) else vars(one)
        seconds = data.get("saved_seconds", data.get("seconds", 0.0))
        text = str(data.get("text") or data.get("reason") or one)
        cut = str(data.get("cut") or "")
        found.append({"cut": cut, "text": text, "seconds": float(seconds or 0.0), "bytes": int(data.get("bytes") or 0)})
    return found


def recording_data(record: Record, replays: Iterable[Any] = ()) -> dict[str, Any]:
    """Return a recording with earlier replays as JSON data."""
    from cachelab.store import to_json

    data = to_json(record)
    modes = {result["mode"]: result for result in data["modes"]}
    found = {}
    for replay in replays:
        modes[replay.result.mode] = plain_result(replay.result)
        made = replay_record(replay)
        if made is not None:
            found[replay.result.mode] = replay_data(made)
    data["modes"] = list(modes.values())
    if found:
        data["replays"] = found
    return data


def packed(data: Any) -> bytes:
    """Return JSON data as gzipped bytes, the same for the same data."""
    return zipped(json.dumps(data, ensure_ascii=False, separators=(",", ":"), default=str))


def zipped(text: str) -> bytes:
    """Return a text as gzipped bytes, the same for the same text."""
    return gzip.compress(text.encode("utf-8", "replace"), compresslevel=6, mtime=0)


def compressed(record: Record, replays: Iterable[Any] = ()) -> bytes:
    """Return a recording with earlier replays, gzipped."""
    return packed(recording_data(record, replays))
