"""Recordings that belong to cells: begun by a cell's first line or by ``%cachelab on``, ended after the cell."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from cachelab.i18n import translate as _
from cachelab.session_state import recordings

if TYPE_CHECKING:
    from collections.abc import Callable

    from IPython.core.interactiveshell import ExecutionInfo, ExecutionResult, InteractiveShell

    from cachelab.config import CacheLab
    from cachelab.recording import Recording


@dataclass(frozen=True)
class CellOptions:
    """What the first line of a cell asks for."""

    mode: str
    trace: str
    values: bool
    cuts: tuple[str, ...] = ()
    name: str = ""
    quiet: bool = False
    automatic: bool = False


@dataclass
class _Open:
    """An open recording and how to show it."""

    recording: Recording
    options: CellOptions
    live: Any = None


@dataclass
class _Frame:
    """A running cell; cells that run cells have several."""

    text: str
    name: str | None = None
    opened: list[_Open] = field(default_factory=list)


class CellRecorder:
    """Opens and closes the recordings of a shell's cells.

    Parameters
    ----------
    shell
        The IPython shell.
    config
        Its defaults.
    show
        Called with each finished recording, its options and the result of the cell.
    """

    def __init__(
        self,
        shell: InteractiveShell,
        config: CacheLab,
        show: Callable[[Recording, CellOptions, ExecutionResult | None], None],
    ) -> None:
        self.shell = shell
        self.config = config
        self.show = show
        self.automatic = False
        self.served: dict[str, Any] = {}
        """Name of a recording -> what a live mode served while its cell ran."""
        self._frames: list[_Frame] = []
        self._loose = _Frame("")

    @property
    def depth(self) -> int:
        """Cells that are running: cells that run cells count as well."""
        return len(self._frames)

    @property
    def calls_so_far(self) -> int | None:
        """Calls in the recordings that are open now; ``None`` if none is."""
        opened = [one for frame in (*self._frames, self._loose) for one in frame.opened]
        return sum(one.recording.call_count for one in opened) if opened else None

    def defaults(self, **given: Any) -> CellOptions:
        """Return options with the configured defaults."""
        config = self.config
        return CellOptions(**({"mode": config.mode, "trace": config.trace, "values": config.values} | given))

    def begin(self, options: CellOptions) -> None:
        """Open a recording that ends with the running cell."""
        from cachelab.recording import record

        frame = self._frames[-1] if self._frames else self._loose
        for opened in [one for one in frame.opened if one.options.automatic]:
            # The cell's own first line wins over `%cachelab on`.
            frame.opened.remove(opened)
            _close(opened)
        recording = record(
            trace=options.trace,
            values=options.values,
            name=options.name or frame.name,
            memory_budget=self.config.memory_budget,
        )
        opened = _Open(recording.start(), options)
        try:
            opened.live = _live(options, self.config.memory_budget)
        except BaseException:
            recording.stop()
            raise
        frame.opened.append(opened)

    def pre_run_cell(self, info: ExecutionInfo) -> None:
        """Note that a cell starts; open a recording if every cell is recorded."""
        # A cell that leaves no trace in the history has no number of its own.
        name = f"cell {self.shell.displayhook.prompt_count}" if info.store_history else None
        self._frames.append(_Frame(info.raw_cell, name))
        if self.automatic and len(self._frames) == 1:
            try:
                self.begin(self.defaults(automatic=True))
            except Exception as error:  # noqa: BLE001 - the user's cell must run all the same
                _complain(_("CacheLab could not record this cell: {error}").format(error=error))

    def nested(self, begin: Callable[[], None], code: str) -> None:
        """Record code that another magic handed over as text, and show the record when it ends."""
        frame = _Frame("")
        self._frames.append(frame)
        try:
            begin()
            transformed = self.shell.transform_cell(code)
            exec(self.shell.compile(transformed, "<cell>", "exec"), self.shell.user_ns)  # noqa: S102 - the user's own cell
        finally:
            if frame in self._frames:
                self._frames.remove(frame)
            self._finish([frame], None)

    def post_execute(self) -> None:
        """Close what code outside of any announced cell opened: silent cells are not announced."""
        if not self._frames:
            self._finish([self._loose], None)

    def post_run_cell(self, result: ExecutionResult | None) -> None:
        """Close and show the recordings of the cell that ended."""
        if result is None:
            level = len(self._frames) - 1
        else:
            text = result.info.raw_cell
            level = next((i for i in reversed(range(len(self._frames))) if self._frames[i].text == text), -1)
        if level >= 0:
            ended, self._frames = self._frames[level:], self._frames[:level]
            self._finish(ended, result)

    def close(self) -> None:
        """Close everything that is open and show nothing."""
        for frame in [*self._frames, self._loose]:
            for opened in reversed(frame.opened):
                _close(opened)
            frame.opened.clear()
        self._frames.clear()

    def _finish(self, frames: list[_Frame], result: ExecutionResult | None) -> None:
        ended = [opened for frame in frames for opened in frame.opened]
        for frame in frames:
            frame.opened.clear()
        for opened in reversed(ended):
            _close(opened)
        for opened in ended:
            self._present(opened, result)

    def _present(self, opened: _Open, result: ExecutionResult | None) -> None:
        """Remember and show a recording. The user's cell has run: a fault in a view must not look like its own."""
        try:
            if opened.recording.call_count:
                recordings.keep = self.config.keep
                recordings.add(opened.recording)
                self.served.pop(opened.recording.name, None)
                if opened.live is not None:
                    self.served[opened.recording.name] = opened.live
            self.show(opened.recording, opened.options, result)
            if opened.live is not None and not opened.options.quiet:
                print(opened.live)
        except KeyboardInterrupt:
            _complain(_("CacheLab was interrupted; %cachelab report shows the recording."))
        except Exception as error:  # noqa: BLE001 - see above
            what = f"{type(error).__name__}: {error}"
            _complain(_("CacheLab could not show this recording: {error}").format(error=what))


def _close(opened: _Open) -> None:
    """Take the hooks off, whatever else goes wrong."""
    try:
        if opened.live is not None:
            opened.live.close()
    finally:
        opened.recording.stop()


def _live(options: CellOptions, budget: int) -> Any:
    """Switch the user's own sessions to a live mode, as long as the cell runs."""
    if options.mode not in {"memo", "feed"}:
        return None
    from cachelab.modes.live_cells import activate

    return activate(options.mode, options.cuts, budget)


def _complain(text: str) -> None:
    print(text, file=sys.stderr)
