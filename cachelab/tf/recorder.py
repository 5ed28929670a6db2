"""The recorder: notes every call while it is open, changes nothing of the user's, and judges afterwards.

This module imports no TensorFlow, so that a recording can open before the user's program imports it.
"""

from __future__ import annotations

import itertools
import threading
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from cachelab.errors import OptionError
from cachelab.i18n import translate as _
from cachelab.material import Material, ValueStore
from cachelab.tf import hooks
from cachelab.tf.lines import Lines

if TYPE_CHECKING:
    from collections.abc import Callable

    from cachelab.model import Record
    from cachelab.tf.capture import Capture
    from cachelab.tf.retrace import RetraceWatch

TRACES = ("auto", "full", "light", "off")
MEMORY_BUDGET = 256 << 20
"""Bytes of values (feeds, results, variables) that a recording keeps for replays unless told otherwise."""

_numbers = itertools.count()


class Recorder:
    """Records the calls of all sessions between :meth:`start` and :meth:`stop`.

    Parameters
    ----------
    trace
        ``full`` (every call), ``light`` (ops derived from the graph), ``off`` (calls only), or ``auto``: full for
        the first calls of each signature, then now and then.
    values
        Whether to keep a digest of every value that ran, as proof (slower).
    name
        The recording's name.
    memory_budget
        Bytes of values to keep for replays. Over it only digests are kept.

    Raises
    ------
    OptionError
        If ``trace`` is none of the four, or the budget is negative.
    """

    def __init__(
        self, *, trace: str = "auto", values: bool = False, name: str | None = None, memory_budget: int = MEMORY_BUDGET
    ) -> None:
        if trace not in TRACES:
            raise OptionError(
                _("There is no way to trace called {trace!r}.").format(trace=trace),
                _("Use one of {known}.").format(known=", ".join(TRACES)),
            )
        if memory_budget < 0:
            raise OptionError(
                _("A memory budget of {size} bytes is negative.").format(size=memory_budget),
                _("Give a number of bytes, or 0 to keep no values."),
            )
        self.name = name or f"recording {next(_numbers)}"
        self.trace = trace
        self.values = values
        self.lines = Lines()
        self.store = ValueStore(memory_budget)
        self.faults: list[str] = []
        self.origin = time.perf_counter()
        self._capture: Capture | None = None
        self._watch: RetraceWatch | None = None
        self._lock = threading.RLock()
        self._open = False
        self._record: tuple[Any, Record] | None = None
        self._material: tuple[Any, Material] | None = None

    # --- life -----------------------------------------------------------------------------------------------------

    def start(self) -> Recorder:
        """Begin to record. Works before TensorFlow was imported."""
        if not self._open:
            self._open = True
            hooks.add(self)
        return self

    def stop(self) -> None:
        """End the recording; a second time does nothing."""
        if not self._open:
            return
        self._open = False
        hooks.remove(self)
        if self._watch is not None:
            self._watch.close()
        if self._capture is not None:
            self._guard(self._capture.finish)

    @property
    def is_open(self) -> bool:
        """Whether calls are being recorded."""
        return self._open

    @property
    def call_count(self) -> int:
        """Number of calls recorded so far."""
        return 0 if self._capture is None else len(self._capture.events)

    # --- results --------------------------------------------------------------------------------------------------

    def record(self) -> Record:
        """Return everything recorded so far with its verdicts; computed again only when calls were added."""
        from cachelab.explain.build import build_record

        with self._lock:
            retraces = () if self._watch is None else self._watch.findings()
            state = (self._state(), len(retraces))
            if self._record is None or self._record[0] != state:
                parts = None if self._capture is None else self._capture.parts()
                made = build_record(self.name, parts, self.lines, self.options(), self.faults)
                self._record = (state, replace(made, findings=(*made.findings, *retraces)))
            return self._record[1]

    def _state(self) -> Any:
        """Return what changes when there is something new to say."""
        return None if self._capture is None else self._capture.state

    @property
    def material(self) -> Material:
        """What replays need: graphs, feeds, results, variable values."""
        with self._lock:
            state = self._state()
            if self._material is None or self._material[0] != state:
                made = Material(self.store) if self._capture is None else self._capture.material()
                self._material = (state, made)
            return self._material[1]

    def options(self) -> dict[str, Any]:
        """Return the options of the recording."""
        return {"trace": self.trace, "values": self.values, "memory_budget": self.store.budget}

    # --- what the hooks call --------------------------------------------------------------------------------------

    def on_run(self, session: Any, arguments: tuple[Any, ...], proceed: Callable[..., Any]) -> Any:
        """Record a run; the user's result or error passes through unchanged."""
        return self._observe(self._captured().begin_run, session, arguments, proceed)

    def on_setup(self, session: Any, arguments: tuple[Any, ...], proceed: Callable[..., Any]) -> Any:
        """Record the set-up of a partial run."""
        return self._observe(self._captured().begin_setup, session, arguments, proceed)

    def on_partial(self, session: Any, arguments: tuple[Any, ...], proceed: Callable[..., Any]) -> Any:
        """Record a piece of a partial run."""
        return self._observe(self._captured().begin_partial, session, arguments, proceed)

    def on_callable(self, made: Any, arguments: tuple[Any, ...], proceed: Callable[..., Any]) -> Any:
        """Record a call of a callable made from options."""
        return self._observe(self._captured().begin_callable, made, arguments, proceed)

    def _observe(
        self, begin: Callable[..., Any], subject: Any, arguments: tuple[Any, ...], proceed: Callable[..., Any]
    ) -> Any:
        """Note the start of a call and carry it out; if noting it failed, the user's call happens all the same."""
        event = self._guard(begin, subject, arguments)
        if event is None:
            return proceed(*arguments)
        return self._captured().carry_out(event, arguments, proceed)

    def on_served(self, session: Any, values: dict[str, Any]) -> None:
        """Record a call that a live session served whole."""
        self._guard(self._captured().note_served, session, values)

    def on_made(self, made: Any, session: Any, options: Any) -> None:
        """Remember what a callable runs."""
        self._guard(self._captured().note_callable, made, session, options)

    def on_ready(self) -> None:
        """Watch what is traced again from now on."""
        self._guard(self._watch_retraces)

    def _watch_retraces(self) -> None:
        from cachelab.tf.retrace import RetraceWatch

        if self._watch is None:
            self._watch = RetraceWatch()
        self._watch.open()

    def on_born(self, session: Any) -> None:
        """Note that a session began within the recording."""
        self._guard(self._captured().note_born, session)

    def on_close(self, session: Any) -> None:
        """Save what the variables of a session hold before it closes."""
        self._guard(self._captured().note_close, session)

    def _captured(self) -> Capture:
        if self._capture is None:
            from cachelab.tf.capture import Capture

            with self._lock:
                if self._capture is None:
                    self._capture = Capture(self)
        return self._capture

    def _guard(self, step: Callable[..., Any], *arguments: Any) -> Any:
        """Do a step of the recorder's own; a fault in it must not reach the user's program, but is told."""
        try:
            return step(*arguments)
        except Exception as error:  # noqa: BLE001
            self.fault(error)
            return None

    def fault(self, error: BaseException) -> None:
        """Note a fault of the recorder: it becomes a finding."""
        self.faults.append(f"{type(error).__name__}: {error}")
