"""The kernel's end of the comm target ``cachelab``: what JupyterLab's switch and side panel show and ask for.

Messages from the front end: ``state``, ``mode`` (with ``mode``, or ``off``), ``recording`` (with ``name``), ``marks``,
``clear`` (with the ``number`` of a live session), and those of :class:`cachelab.views.replay_jobs.ReplayJobs` with the
``name`` of their recording. One ``state`` message is sent after each cell, however many calls it made, and to who asked
for ``marks`` one with the marks of the cells where they changed. Nothing is computed here that takes long: advice and
replays only when they are asked for, in a thread.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cachelab.cell_marks import CellBook, Origin
from cachelab.i18n import translate as _
from cachelab.live_figures import cell_row, clear, live_rows
from cachelab.model import MODES
from cachelab.panel_marks import MarksFeed
from cachelab.panel_progress import Progress
from cachelab.session_state import choice, recordings

if TYPE_CHECKING:
    from collections.abc import Mapping

    from IPython.core.interactiveshell import ExecutionInfo, ExecutionResult, InteractiveShell

    from cachelab.cells import CellRecorder
    from cachelab.config import CacheLab
    from cachelab.recording import Recording

TARGET = "cachelab"
_FINDINGS = 5
_MOST_COMMS = 8
"""Pages that were reloaded leave theirs behind; a page that is there opens another one if it loses its own."""


class Panel:
    """Answers the comms of the front ends of one shell.

    Parameters
    ----------
    shell
        The IPython shell; without a kernel nothing happens.
    cells
        What records its cells.
    config
        The defaults that the mode switch sets.
    """

    def __init__(self, shell: InteractiveShell, cells: CellRecorder, config: CacheLab) -> None:
        self.shell = shell
        self.cells = cells
        self.config = config
        self._comms: dict[str, Any] = {}
        self._book = CellBook(self._input)
        self._running = 0
        self._seen: dict[str, Recording] = {}
        self._origins: dict[str, Origin] = {}
        self._marks = MarksFeed(self._book, self._origins)
        self._progress = Progress(lambda: self.cells.calls_so_far, self._tell)
        self._jobs: dict[tuple[str, str], Any] = {}
        self._rows: dict[str, tuple[Any, dict[str, Any]]] = {}

    @property
    def _manager(self) -> Any:
        return getattr(getattr(self.shell, "kernel", None), "comm_manager", None)

    def open(self) -> None:
        """Register the target, and tell front ends that are there by opening a comm to them."""
        if self._manager is None:
            return
        from comm import create_comm

        number = self.shell.displayhook.prompt_count
        if text := self._input(number):  # The cell that loads CacheLab is running.
            self._note(number, text)
        self._manager.register_target(TARGET, self._opened)
        self._keep(create_comm(target_name=TARGET, data=self.state()))

    def close(self) -> None:
        """Close every comm and take the target back."""
        self._progress.stop()
        if self._manager is None:
            return
        for one in tuple(self._comms.values()):
            one.close()
        self._comms.clear()
        self._manager.unregister_target(TARGET, self._opened)

    def _opened(self, one: Any, _message: Any) -> None:
        self._keep(one)
        one.send(self.state())

    def _keep(self, one: Any) -> None:
        for stale in tuple(self._comms.values())[: max(0, len(self._comms) + 1 - _MOST_COMMS)]:
            stale.close()
            self._drop(stale)
        self._comms[one.comm_id] = one
        one.on_msg(lambda message: self._receive(one, message["content"]["data"]))
        one.on_close(lambda _message: self._drop(one))

    def _drop(self, one: Any) -> None:
        self._comms.pop(one.comm_id, None)
        self._marks.leave(one)

    def pre_run_cell(self, info: ExecutionInfo) -> None:
        """Note which cell runs under which number: an event of IPython."""
        if self._manager is None:
            return
        if self.cells.depth > 1:
            self._book.note_inside(self.shell.execution_count, self._running)
        elif info.store_history:
            self._note(self.shell.displayhook.prompt_count, info.raw_cell)
            if self._comms:
                self._progress.start()

    def _note(self, number: int, text: str) -> None:
        self._running = number
        self._book.note(number, self._cell(), text)

    def _input(self, number: int) -> str:
        """Return the text of an execution of this session, as it was typed; IPython notes it before it runs."""
        inputs = getattr(self.shell.history_manager, "input_hist_raw", ())
        return str(inputs[number]) if number < len(inputs) else ""

    def post_run_cell(self, _result: ExecutionResult | None) -> None:
        """Send what is new after a cell: an event of IPython."""
        self._progress.stop()
        known = self._origins
        now = {recording.name: recording for recording in recordings}
        for name in self._seen.keys() - now.keys():
            known.pop(name, None)
            self._rows.pop(name, None)
            self.cells.served.pop(name, None)
        # A name may be given again; then it is the recording of another cell. Without a kernel nobody asks.
        for name, recording in now.items() if self._manager is not None else ():
            if self._seen.get(name) is not recording:
                known[name] = self._book.origin(self._running, recording.record)
        self._seen = now
        self._broadcast()
        self._marks.send_changes()

    def _cell(self) -> str:
        try:
            parent = self.shell.kernel.get_parent("shell")
        except AttributeError:
            return ""
        return str((parent.get("metadata") or {}).get("cellId", ""))

    def _broadcast(self) -> None:
        if self._comms:  # else nobody asks for what takes an analysis of every recording
            self._send_all(self.state())

    def _tell(self, calls: int) -> None:
        self._send_all({"type": "running", "calls": calls})

    def _send_all(self, message: dict[str, Any]) -> None:
        for one in tuple(self._comms.values()):
            one.send(message)

    def state(self) -> dict[str, Any]:
        """Return the mode and the list of recordings, latest first."""
        return {
            "type": "state",
            "mode": self.config.mode if self.cells.automatic else "off",
            "chosen": self.config.mode,
            "recordings": [self._row(recording) for recording in reversed(list(recordings))],
            "live": live_rows(self.shell.user_ns),
        }

    def _row(self, recording: Recording) -> dict[str, Any]:
        record = recording.record
        known = self._rows.get(recording.name)
        if known is None or known[0] is not record:
            known = self._rows[recording.name] = (record, self._count(recording))
        origin = self._origins.get(recording.name, Origin())
        served = self.cells.served.get(recording.name)
        return {
            **known[1],
            "cell": origin.cell,
            "number": origin.number,
            "rerun": self._book.ran_after(origin.cell, origin.number),
            "live": None if served is None else cell_row(served),
        }

    def _count(self, recording: Recording) -> dict[str, Any]:
        from cachelab.views.call_rows import call_rows
        from cachelab.views.tally import Tally

        record = recording.record
        tally = Tally(record)
        total = tally.total
        return {
            "name": recording.name,
            "calls": record.call_count,
            "share": total.share,
            "redundant": total.redundant_seconds,
            "seconds": total.op_seconds,
            "wall": tally.wall_seconds,
            "findings": [finding.text for finding in record.findings[:_FINDINGS]],
            "more_findings": max(0, len(record.findings) - _FINDINGS),
            "log": call_rows(record, tally),
        }

    def _receive(self, one: Any, message: Mapping[str, Any]) -> None:
        kind = message.get("type")
        if kind == "state":
            one.send(self.state())
        elif kind == "mode":
            self._set_mode(str(message.get("mode")))
        elif kind == "marks":
            self._marks.subscribe(one)
        elif kind == "clear":
            clear(int(message.get("number", 0)))
            self._broadcast()
        elif kind == "recording":
            self._send_recording(one, str(message.get("name")))
        elif kind in {"replay", "advise", "page", "cancel"}:
            self._job(one, str(message.get("name")), message)

    def _set_mode(self, mode: str) -> None:
        if mode in MODES:
            self.config.mode = mode
        if mode in {"off", *MODES}:
            self.cells.automatic = mode != "off"
            choice.mode = mode  # also if it is the configured one again, after `off`
        self._broadcast()

    def _find(self, one: Any, name: str) -> Recording | None:
        if name in recordings.names():
            return recordings.find(name)
        text = _("The recording {name!r} is no longer kept.").format(name=name)
        one.send({"type": "gone", "name": name, "text": text})
        return None

    def _send_recording(self, one: Any, name: str) -> None:
        from cachelab.views.explorer_data import compressed

        recording = self._find(one, name)
        if recording is not None:
            one.send({"type": "recording", "name": name}, buffers=[compressed(recording.record, recording.replays)])

    def _job(self, one: Any, name: str, message: Mapping[str, Any]) -> None:
        from cachelab.views.replay_jobs import ReplayJobs

        recording = self._find(one, name)
        if recording is None:
            return

        def send(data: dict[str, Any], buffers: list[bytes] | None = None) -> None:
            one.send({**data, "name": name}, buffers=buffers)

        key = (one.comm_id, name)
        if key not in self._jobs or self._jobs[key].recording is not recording:
            self._jobs[key] = ReplayJobs(recording, send)
        self._jobs[key].receive(message)
