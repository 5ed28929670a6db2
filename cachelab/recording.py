"""The public face of a recording: :func:`record`, :class:`Recording`, :func:`load`, :func:`diff`."""

from __future__ import annotations

from dataclasses import replace
from itertools import count
from typing import TYPE_CHECKING, Any

from cachelab.calls import CallView, views_of
from cachelab.errors import NotApplicableError
from cachelab.i18n import plural
from cachelab.i18n import translate as _
from cachelab.options import MEMORY_BUDGET, TRACES, check_choice, parse_bytes
from cachelab.session_state import recordings

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable
    from types import TracebackType

    from typing_extensions import Self

    from cachelab.material import Material
    from cachelab.model import Finding, Record

_numbers = count(1)


class Recording:
    """What was recorded, and all that can be asked of it.

    Made by :func:`record` (it is the context manager itself), ``%%cachelab`` or :func:`load`. A recording that is
    still open may be read at any time: it then says what it knows so far.
    """

    def __init__(self, record: Record | None = None, recorder: Any = None, name: str | None = None) -> None:
        self._recorder = recorder
        self._loaded = record
        self._replays: dict[str, Any] = {}
        self._views: tuple[Record, tuple[CallView, ...]] | None = None
        self._merged: tuple[Record, Record] | None = None
        self.name = name if name is not None else record.name if record is not None else f"recording {next(_numbers)}"

    def start(self) -> Self:
        """Start to record; also before TensorFlow is imported. Returns itself.

        Raises
        ------
        NotApplicableError
            The recording was read from a file, and is what it is.
        """
        if self._recorder is None:
            raise NotApplicableError(
                _("{name!r} was read from a file and can't go on.").format(name=self.name),
                _("Open a new one with cachelab.record()."),
            )
        self._recorder.start()
        return self

    def stop(self) -> None:
        """Stop recording and take all hooks off. Stopping twice is fine."""
        if self._recorder is not None:
            self._recorder.stop()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()
        recordings.add(self)

    # --- what was recorded

    @property
    def record(self) -> Record:
        """The record itself: columns over graphs and calls, for views and tools."""
        if self._recorder is None:
            assert self._loaded is not None
            found = self._loaded
        else:
            found = self._recorder.record()
        if not self._replays:
            return found
        if self._merged is None or self._merged[0] is not found:
            modes = {result.mode: result for result in (*found.modes, *(one.result for one in self.replays))}
            self._merged = (found, replace(found, modes=tuple(modes.values())))
        return self._merged[1]

    @property
    def material(self) -> Material | None:
        """Graphs, feeds, results and variable values, for replays; ``None`` for a recording read from a file."""
        return None if self._recorder is None else self._recorder.material

    @property
    def call_count(self) -> int:
        """Number of recorded calls."""
        if self._recorder is not None:
            return int(self._recorder.call_count)
        return self.record.call_count

    @property
    def calls(self) -> tuple[CallView, ...]:
        """Every call, in order of its start."""
        record = self.record
        if self._views is None or self._views[0] is not record:
            self._views = (record, views_of(record))
        return self._views[1]

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What is worth knowing beyond the verdict on each op: races, unneeded feeds, ops built twice, ..."""
        return self.record.findings

    def summary(self) -> dict[str, Any]:
        """Return counts, op seconds and bytes per status, and the redundant share of op time.

        Op times are sums over ops, which run in parallel: they are not wall time.
        """
        return self.record.summary()

    def why(self, name: str, call: int | None = None) -> Any:
        """Return why an op was computed, again or at all.

        Parameters
        ----------
        name
            A tensor (``"h:0"``) or an op (``"h"``).
        call
            Number of the call; by default the last one that lists the op.

        Returns
        -------
        Reason
            ``.text`` is one sentence, root cause first; ``.causes`` are the causes behind it.

        Raises
        ------
        NameNotFoundError
            No recorded graph has such an op.
        OptionError
            The recording has no such call.
        """
        from cachelab.views.why import why

        return why(self.record, name, call)

    def assert_not_recomputed(self, pattern: str) -> None:
        """Raise an :class:`AssertionError` if an op whose name matches ``pattern`` was recomputed.

        See :func:`cachelab.checks.assert_not_recomputed`.
        """
        from cachelab.checks import assert_not_recomputed

        assert_not_recomputed(self.record, pattern)

    # --- what it would be otherwise

    def replay(self, mode: str, **options: Any) -> Any:
        """Issue the recorded calls again under a mode, in a private session; see :func:`cachelab.modes.replay`."""
        from cachelab.modes import replay
        from cachelab.tf.hooks import unobserved

        with unobserved():  # A recording may be open around this; the replay's calls are not the user's.
            done = replay(self, mode, **options)
        self._keep([done])
        return done

    def compare(self, modes: Iterable[str] | None = None, **options: Any) -> Any:
        """Replay under several modes (all by default) and compare results, times and memory."""
        from cachelab.modes import compare
        from cachelab.tf.hooks import unobserved

        with unobserved():
            comparison = compare(self, None if modes is None else list(modes), **options)
        self._keep(comparison.replays)
        return comparison

    @property
    def replays(self) -> tuple[Any, ...]:
        """The latest replay in each mode that was asked for; the explorer and exported pages show them."""
        return tuple(self._replays.values())

    def _keep(self, replays: Iterable[Any]) -> None:
        """Add the outcome of replays to the record, so that views and files show them."""
        self._replays |= {replay.mode: replay for replay in replays}
        self._merged = None

    def advise(self, memory_budget: int | str | None = None) -> Any:
        """Return which tensors to keep between the calls, what that saves, or why it is impossible."""
        from cachelab.modes import advise
        from cachelab.tf.hooks import unobserved

        with unobserved():
            return advise(self, None if memory_budget is None else parse_bytes(memory_budget))

    # --- views

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the recording as JSON; :func:`load` reads it."""
        from cachelab.store import save

        save(self.record, path)

    def to_html(self, path: str | os.PathLike[str] | None = None) -> str:
        """Return the recording as one HTML page that needs no kernel and no network; write it if a path is given."""
        from cachelab.store import write_text
        from cachelab.views.page import page

        text = page(self.record, self.replays)
        if path is not None:
            write_text(path, text)
        return text

    def export(self, path: str | os.PathLike[str]) -> None:
        """Write ``.html``, ``.json``, ``.svg``, ``.dot``, ``.csv`` or ``.trace.json``, by the ending."""
        from cachelab.views.export import export

        export(self.record, path, self.replays)

    def graph(self, **options: Any) -> Any:
        """Return the graph with statuses as a :class:`graphviz.Digraph`; large graphs come collapsed."""
        from cachelab.views.dot import digraph

        return digraph(self.record, **options)

    def plot_timeline(self, ax: Any = None, *, call: int | None = None) -> Any:
        """Draw what ran when in a call (the longest one by default) with matplotlib; returns the axes."""
        from cachelab.views.plots import plot_timeline

        return plot_timeline(self.record, call=call, ax=ax)

    def plot_matrix(self, ax: Any = None) -> Any:
        """Draw the matrix of ops and calls with matplotlib, into ``ax`` if given; returns the axes."""
        from cachelab.views.plots import plot_matrix

        return plot_matrix(self.record, ax=ax)

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        from cachelab.views.mime import mimebundle

        bundle: dict[str, Any] = mimebundle(self.record)
        return {
            kind: data
            for kind, data in bundle.items()
            if (not include or kind in include) and not (exclude and kind in exclude)
        }

    def __str__(self) -> str:
        from cachelab.views.text import report

        return str(report(self.record))

    def __repr__(self) -> str:
        return f"<cachelab.Recording {self.name!r}: {self.headline()}>"

    def headline(self) -> str:
        """Return the counts in one line, for lists."""
        if not self.call_count:
            return _("no calls")
        summary = self.summary()
        return _("{calls}, {ops} executed, {recomputed} recomputed").format(
            calls=plural("{n} call", "{n} calls", summary["calls"]),
            ops=plural("{n} op", "{n} ops", summary["executed"]),
            recomputed=summary["recomputed"],
        )


def record(
    trace: str = "auto",
    values: bool = False,
    name: str | None = None,
    memory_budget: int | str = MEMORY_BUDGET,
) -> Recording:
    """Record the TensorFlow calls made inside ``with cachelab.record() as recording:``.

    Parameters
    ----------
    trace
        ``"full"`` takes the runtime's trace of every call, ``"light"`` derives what ran from the graph, ``"off"``
        keeps only the calls, ``"auto"`` traces the first calls of each kind fully and then one now and then.
    values
        Whether to keep the values of fetched tensors.
    name
        The name in ``%cachelab list`` and in files.
    memory_budget
        Bytes, or a size such as ``"1GB"``, kept of feeds and variable values for replays. Over it only digests stay,
        and the record says which calls can't be replayed.

    Returns
    -------
    Recording
        A context manager that records while it is open, and is the recording afterwards.

    Raises
    ------
    OptionError
        No such ``trace``, or ``memory_budget`` is no size.
    """
    check_choice("trace", trace, TRACES)
    budget = parse_bytes(memory_budget)
    from cachelab.tf.recorder import Recorder

    name = name if name is not None else f"recording {next(_numbers)}"
    return Recording(recorder=Recorder(trace=trace, values=values, name=name, memory_budget=budget), name=name)


def load(path: str | os.PathLike[str]) -> Recording:
    """Read a recording that :meth:`Recording.save` wrote.

    Raises
    ------
    FormatError
        The file is broken, is no recording, or is of an unknown version.
    """
    from cachelab import store

    return Recording(record=store.load(path))


def last(name: str = "") -> Recording:
    """Return the last recording of this notebook, or the one of that name.

    Raises
    ------
    NameNotFoundError
        There is none.
    """
    return recordings.find(name)


def diff(before: Recording, after: Recording) -> Any:
    """Return what changed between two recordings: redundant seconds, ops, findings, results."""
    from cachelab.views.diff import diff as view

    return view(before.record, after.record)


def explorer(recording: Recording, **options: Any) -> Any:
    """Return the live widget on a recording: modes, matrix, graph and causes, linked to each other."""
    from cachelab.views.widget import explorer as widget

    return widget(recording, **options)
