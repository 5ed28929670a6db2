"""Replays, advice and pages that a front end asked for: each in a thread, so that the kernel goes on answering.

Messages to the front end: ``accepted``, ``progress`` (done, total, text), ``result`` (with the columns of the replay in
a buffer), ``advice``, ``page`` (HTML in a buffer), ``failed`` and ``cancelled``; all carry the ``id`` of the request
that they answer.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from cachelab.errors import CacheLabError
from cachelab.i18n import translate as _
from cachelab.views.explorer_data import (
    packed,
    plain_advice,
    plain_result,
    record_of,
    replay_data,
    replay_record,
    replays_of,
    zipped,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


class ReplayJobs:
    """The requests of one explorer; one works at a time.

    Parameters
    ----------
    recording
        What is replayed: has ``replay(mode, progress=, cancel=, cuts=)`` and ``advise()``.
    send
        Called with a message (a dict of JSON data) and perhaps a list of buffers, from any thread.
    """

    def __init__(self, recording: Any, send: Callable[..., Any]) -> None:
        self.recording = recording
        self.send = send
        self._cancels: dict[int, threading.Event] = {}
        self._working = threading.Lock()

    def receive(self, message: Mapping[str, Any]) -> None:
        """Take a message of the front end: ``replay``, ``advise``, ``page`` or ``cancel``; others are not for here."""
        kind, job = message.get("type"), message.get("id")
        if not isinstance(job, int):
            return
        if kind == "replay":
            self._start(job, self._replay, str(message.get("mode")), tuple(message.get("cuts") or ()))
        elif kind == "advise":
            self._start(job, self._advise)
        elif kind == "page":
            self._start(job, self._page)
        elif kind == "cancel" and job in self._cancels:
            self._cancels[job].set()

    def _start(self, job: int, work: Callable[..., None], *arguments: Any) -> None:
        cancel = self._cancels[job] = threading.Event()
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
            if cancel.is_set() and job in self._cancels:
                self._end(job, cancel, "")
        finally:
            self._cancels.pop(job, None)

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
        made = replay_record(replay)
        buffers = [] if made is None else [packed(replay_data(made))]
        self.send({"type": "result", "id": job, "result": plain_result(replay.result)}, buffers)
        self._cancels.pop(job, None)

    def _advise(self, job: int, _cancel: threading.Event) -> None:
        self.send({"type": "advice", "id": job, "advice": plain_advice(self.recording.advise())})

    def _page(self, job: int, _cancel: threading.Event) -> None:
        from cachelab.views.page import page

        text = page(record_of(self.recording), replays_of(self.recording))
        self.send({"type": "page", "id": job}, [zipped(text)])
