"""The live explorer: an anywidget over the bundle that ``labext`` builds, and the same as a page without a kernel.

The recording goes to the browser once, as gzipped JSON in a binary buffer; a replay adds the columns of what it
executed and nothing else. Replays run in a thread, so that the kernel goes on answering.
"""

from __future__ import annotations

import base64
import dataclasses
import gzip
import html
import json
import math
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anywidget
import traitlets

from cachelab.errors import CacheLabError
from cachelab.i18n import translate as _

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from cachelab.model import ModeResult, Record

BUNDLE = Path(__file__).parent.parent / "static" / "widget.js"
_REPLAY_KEYS = ("columns", "calls", "causes", "shapes", "devices")


def explorer(recording: Any, replays: Iterable[Any] = ()) -> ExplorerWidget:
    """Return the live explorer of a recording.

    Parameters
    ----------
    recording
        A :class:`cachelab.recording.Recording`, or anything with ``record`` and ``replay``; a plain
        :class:`cachelab.model.Record` is shown without replays.
    replays
        What :meth:`Recording.replay` returned earlier; their modes can be chosen at once.

    Returns
    -------
    ExplorerWidget
        Displays itself at the end of a cell.
    """
    return ExplorerWidget(recording, replays)


class ExplorerWidget(anywidget.AnyWidget):
    """The explorer as a Jupyter widget.

    Parameters
    ----------
    recording
        As for :func:`explorer`.
    replays
        As for :func:`explorer`.

    Attributes
    ----------
    data
        The recording in format ``cachelab.recording``, gzipped.
    catalogue
        Translations: English template -> text.
    """

    _esm = BUNDLE
    data = traitlets.Bytes().tag(sync=True)
    catalogue = traitlets.Dict().tag(sync=True)

    def __init__(self, recording: Any, replays: Iterable[Any] = (), **options: Any) -> None:
        super().__init__(**options)
        self._jobs: dict[int, threading.Event] = {}
        self._working = threading.Lock()
        self.on_msg(self._receive)
        self.show(recording, replays)

    def show(self, recording: Any, replays: Iterable[Any] = ()) -> None:
        """Show another recording in the same place."""
        self.recording = recording
        self.data = compressed(record_of(recording), replays)

    # --- messages of the browser

    def _receive(self, _widget: Any, message: Mapping[str, Any], _buffers: Any) -> None:
        kind, job = message.get("type"), message.get("id")
        if kind == "replay" and isinstance(job, int):
            self._start(job, self._replay, str(message.get("mode")), tuple(message.get("cuts") or ()))
        elif kind == "advise" and isinstance(job, int):
            self._start(job, self._advise)
        elif kind == "cancel" and job in self._jobs:
            self._jobs[job].set()

    def _start(self, job: int, work: Callable[..., None], *arguments: Any) -> None:
        cancel = self._jobs[job] = threading.Event()
        self.send({"type": "accepted", "id": job})
        thread = threading.Thread(
            target=self._guard, args=(job, cancel, work, arguments), name=f"cachelab-explorer-{job}", daemon=True
        )
        thread.start()

    def _guard(self, job: int, cancel: threading.Event, work: Callable[..., None], arguments: tuple[Any, ...]) -> None:
        """Run one job; whatever it raises is told in the browser, where it was asked for."""
        try:
            with self._working:
                if not cancel.is_set():
                    work(job, cancel, *arguments)
        except Exception as error:  # noqa: BLE001 - shown where the button was pressed
            text = str(error) if isinstance(error, CacheLabError) else f"{type(error).__name__}: {error}"
            self._end(job, cancel, text)
        else:
            if cancel.is_set() and job in self._jobs:
                self._end(job, cancel, "")
        finally:
            self._jobs.pop(job, None)

    def _end(self, job: int, cancel: threading.Event, text: str) -> None:
        if cancel.is_set():
            text = _("Cancelled. Nothing was compared; your session is unchanged.")
            self.send({"type": "cancelled", "id": job, "text": text})
        else:
            self.send({"type": "failed", "id": job, "text": text})

    def _replay(self, job: int, cancel: threading.Event, mode: str, cuts: tuple[str, ...]) -> None:
        def progress(done: int, total: int, text: str = "") -> None:
            self.send({"type": "progress", "id": job, "done": done, "total": total, "text": text})

        options: dict[str, Any] = {"progress": progress, "cancel": cancel}
        if cuts:
            options["cuts"] = list(cuts)
        replay = self.recording.replay(mode, **options)
        if cancel.is_set():
            return
        keep = getattr(self.recording, "keep_modes", None)
        if keep is not None:
            keep([replay.result])
        made = replay_record(replay)
        buffers = [] if made is None else [packed(replay_data(made))]
        self.send({"type": "result", "id": job, "result": plain_result(replay.result)}, buffers)
        self._jobs.pop(job, None)

    def _advise(self, job: int, _cancel: threading.Event) -> None:
        self.send({"type": "advice", "id": job, "advice": plain_advice(self.recording.advise())})


def record_of(recording: Any) -> Record:
    """Return the :class:`~cachelab.model.Record` of a recording, which may be one itself."""
    record: Record = getattr(recording, "record", recording)
    return record


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
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"), default=str)
    return gzip.compress(text.encode("utf-8", "replace"), compresslevel=6, mtime=0)


def compressed(record: Record, replays: Iterable[Any] = ()) -> bytes:
    """Return a recording with earlier replays, gzipped."""
    return packed(recording_data(record, replays))


def explorer_page(recording: Any, replays: Iterable[Any] = ()) -> str:
    """Return one HTML page with the explorer; it needs no kernel and no network.

    Parameters
    ----------
    recording
        A recording or a :class:`cachelab.model.Record`.
    replays
        As for :func:`explorer`: modes that can be chosen in the page.

    Returns
    -------
    str
        The page; the recording in it is gzipped.
    """
    record = record_of(recording)
    bundle = base64.b64encode(BUNDLE.read_bytes()).decode()
    data = base64.b64encode(compressed(record, replays)).decode()
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f"<title>CacheLab: {html.escape(record.name)}</title>"
        '<meta name="viewport" content="width=device-width"><style>body{margin:16px;background:#fff}'
        "@media (prefers-color-scheme:dark){body{background:#111317}}</style></head>"
        f'<body><main id="explorer"></main><script type="text/plain" id="recording">{data}</script>'
        f'<script type="module">const m=await import("data:text/javascript;base64,{bundle}");'
        'await m.mountPacked(document.getElementById("explorer"),document.getElementById("recording").textContent);'
        "</script></body></html>"
    )
