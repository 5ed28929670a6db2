"""The kernel's end of the comm target ``cachelab``: what JupyterLab's switch and side panel show and ask for.

Messages from the front end: ``state``, ``mode`` (with ``mode``, or ``off``), ``recording`` (with ``name``), and those
of :class:`cachelab.views.replay_jobs.ReplayJobs` with the ``name`` of their recording. One ``state`` message is sent
after each cell, however many calls it made.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cachelab.i18n import translate as _
from cachelab.model import MODES
from cachelab.session_state import recordings

if TYPE_CHECKING:
    from collections.abc import Mapping

    from IPython.core.interactiveshell import ExecutionResult, InteractiveShell

    from cachelab.cells import CellRecorder
    from cachelab.config import CacheLab
    from cachelab.recording import Recording

TARGET = "cachelab"
_FINDINGS = 5


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
        self._cells_of: dict[str, str] = {}
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

        self._manager.register_target(TARGET, self._opened)
        self._keep(create_comm(target_name=TARGET, data=self.state()))

    def close(self) -> None:
        """Close every comm and take the target back."""
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
        self._comms[one.comm_id] = one
        one.on_msg(lambda message: self._receive(one, message["content"]["data"]))
        one.on_close(lambda _message: self._comms.pop(one.comm_id, None))

    def post_run_cell(self, _result: ExecutionResult | None) -> None:
        """Send the new state after a cell: an event of IPython."""
        known = self._cells_of
        cell = self._cell()
        for recording in recordings:
            known.setdefault(recording.name, cell)
        for name in set(known) - set(recordings.names()):
            del known[name]
            self._rows.pop(name, None)
        self._broadcast()

    def _cell(self) -> str:
        try:
            parent = self.shell.kernel.get_parent("shell")
        except AttributeError:
            return ""
        return str((parent.get("metadata") or {}).get("cellId", ""))

    def _broadcast(self) -> None:
        state = self.state()
        for one in tuple(self._comms.values()):
            one.send(state)

    def state(self) -> dict[str, Any]:
        """Return the mode and the list of recordings, latest first."""
        return {
            "type": "state",
            "mode": self.config.mode if self.cells.automatic else "off",
            "chosen": self.config.mode,
            "recordings": [self._row(recording) for recording in reversed(list(recordings))],
        }

    def _row(self, recording: Recording) -> dict[str, Any]:
        record = recording.record
        known = self._rows.get(recording.name)
        if known is None or known[0] is not record:
            known = self._rows[recording.name] = (record, self._count(recording))
        return {**known[1], "cell": self._cells_of.get(recording.name, "")}

    def _count(self, recording: Recording) -> dict[str, Any]:
        summary = recording.summary()
        return {
            "name": recording.name,
            "calls": summary["calls"],
            "share": summary["redundant_share_of_op_seconds"],
            "redundant": summary["op_seconds"]["recomputed"],
            "wall": summary["wall_seconds"],
            "findings": [finding.text for finding in recording.findings[:_FINDINGS]],
            "more_findings": max(0, len(recording.findings) - _FINDINGS),
        }

    def _receive(self, one: Any, message: Mapping[str, Any]) -> None:
        kind = message.get("type")
        if kind == "state":
            one.send(self.state())
        elif kind == "mode":
            self._set_mode(str(message.get("mode")))
        elif kind == "recording":
            self._send_recording(one, str(message.get("name")))
        elif kind in {"replay", "advise", "cancel"}:
            self._job(one, str(message.get("name")), message)

    def _set_mode(self, mode: str) -> None:
        if mode in MODES:
            self.config.mode = mode
        if mode in {"off", *MODES}:
            self.cells.automatic = mode != "off"
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
            one.send({"type": "recording", "name": name}, buffers=[compressed(recording.record)])

    def _job(self, one: Any, name: str, message: Mapping[str, Any]) -> None:
        from cachelab.views.replay_jobs import ReplayJobs

        recording = self._find(one, name)
        if recording is None:
            return

        def send(data: dict[str, Any], buffers: list[bytes] | None = None) -> None:
            one.send({**data, "name": name}, buffers=buffers)

        key = (one.comm_id, name)
        if key not in self._jobs:
            self._jobs[key] = ReplayJobs(recording, send)
        self._jobs[key].receive(message)
