"""Issues calls in private sessions, keeps what they gave, and notes what ran."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import tensorflow as tf

from cachelab.errors import CacheLabError
from cachelab.i18n import translate as _
from cachelab.modes.arrays import own
from cachelab.modes.optimizer import taken
from cachelab.modes.traces import Ran
from cachelab.tf.tracing import trace_options

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from typing_extensions import Self

    from cachelab.material import CallMaterial
    from cachelab.modes.place import Sessions
    from cachelab.modes.script import Script
    from cachelab.modes.traces import Names

tf1 = tf.compat.v1
SHORT_TIMEOUT_MS = 500


class CancelledReplayError(CacheLabError):
    """The replay was cancelled by its user."""


@dataclass(frozen=True)
class Failure:
    """The error that a call ended with: the name of its type, and its text."""

    type: str
    text: str


@dataclass
class Runner:
    """Issues calls of a script in private sessions.

    Parameters
    ----------
    script, sessions
        What to issue, and where.
    trace
        Whether to note what ran (slower), or only to run.
    cancel
        Asked before every call; true ends the replay with :class:`CancelledReplayError`.

    Attributes
    ----------
    results
        Call -> dict of fetched tensor -> value, or :class:`Failure`.
    ran
        What ran, in order; empty without ``trace``.
    """

    script: Script
    sessions: Sessions
    trace: bool = False
    cancel: Callable[[], bool] | None = None
    results: dict[int, Any] = field(default_factory=dict)
    ran: list[Ran] = field(default_factory=list)
    _handles: dict[tuple[int, int | None], Any] = field(default_factory=dict)
    _resolved: dict[Any, Any] = field(default_factory=dict)

    def tensors(self, session: int, names: Sequence[str]) -> list[Any]:
        """Return tensors of a session's private graph by name."""
        key = (session, names)
        found = self._resolved.get(key)
        if found is None:
            graph = self.script.place.graph_of(session)
            found = self._resolved[key] = [graph.tensor(name) for name in names]
        return found

    def targets(self, session: int, names: Sequence[str]) -> list[Any]:
        """Return ops of a session's private graph by name."""
        key = (session, "ops", names)
        found = self._resolved.get(key)
        if found is None:
            graph = self.script.place.graph_of(session)
            found = self._resolved[key] = [graph.op(name) for name in names]
        return found

    def feed(self, session: int, values: Mapping[str, Any]) -> dict[Any, Any]:
        """Return a feed dict for a session from values by tensor name."""
        tensors = self.tensors(session, tuple(values))
        return dict(zip(tensors, values.values(), strict=True))

    def checkpoint(self, call: int) -> None:
        """Stop here if the user cancelled."""
        if self.cancel is not None and self.cancel():
            raise CancelledReplayError(
                _("Cancelled before call {call} of {count}. Nothing was compared; your session is unchanged.").format(
                    call=call, count=len(self.script.calls)
                )
            )

    def run(
        self,
        session: int,
        fetches: Sequence[Any],
        feed: Mapping[Any, Any],
        calls: tuple[int, ...],
        *,
        names: Names | None = None,
        copies: Mapping[str, str] | None = None,
        timeout_ms: int = 0,
    ) -> Any:
        """Run tensors and ops in a private session, traced if this runner traces.

        Parameters
        ----------
        session
            Recorded session id.
        fetches
            Tensors and ops of the private graph.
        feed
            Tensor -> value.
        calls
            The recorded calls that this run serves.
        names
            What is run in names of the user's graph: fetches, targets, feeds with kept values among them.
        copies
            Name of an op that a mode copied -> name of its original.
        timeout_ms
            Milliseconds after which to give up; 0: as the session says.

        Returns
        -------
        list
            Values, ``None`` for ops.
        """
        if not (self.trace or timeout_ms):
            return self.sessions[session].run(fetches, feed)
        if not self.trace:
            options = tf1.RunOptions(timeout_in_ms=timeout_ms)
            return self.sessions[session].run(fetches, feed, options=options)
        metadata = tf1.RunMetadata()
        note = Ran(calls)
        self.ran.append(note)
        reader = self.script.place.graph_of(session).reader
        options = trace_options(graph=reader.wants_graph(names, copies or {}, session), timeout_ms=timeout_ms)
        values = self.sessions[session].run(fetches, feed, options=options, run_metadata=metadata)
        reader.read(metadata, names, copies or {}, note, session)
        return values

    def run_watched(
        self, session: int, fetches: Sequence[Any], feed: Mapping[Any, Any], tensors: Iterable[str]
    ) -> tuple[Any, tuple[str, ...]]:
        """Run tensors and ops, untraced; return values, and which of the fed tensors the optimised graph takes."""
        metadata = tf1.RunMetadata()
        options = tf1.RunOptions(output_partition_graphs=True)
        values = self.sessions[session].run(fetches, feed, options=options, run_metadata=metadata)
        return values, taken(metadata, tensors)

    def mark(self, call: int, phase: str) -> None:
        """Note that a phase of a ``partial_run`` handle begins; only a runner that reads a log needs it."""

    def keep(self, call: CallMaterial, values: Mapping[str, Any]) -> None:
        """Keep what a call gave, by fetched tensor; copied where TensorFlow may still write its buffer."""
        if self.script.has_references:
            values = {name: own(value) for name, value in values.items()}
        self.results[call.index] = dict(values)

    def as_recorded(self, call: CallMaterial) -> None:
        """Issue a call the way it was recorded."""
        self.checkpoint(call.index)
        try:
            if call.kind == "partial_run_setup":
                self._setup(call)
            elif call.kind == "partial_run":
                self._part(call)
            else:
                fetches = [*self.tensors(call.session, call.fetches), *self.targets(call.session, call.targets)]
                feed = self.feed(call.session, self.script.feed_values(call, self.results))
                slow = call.failed_type == "DeadlineExceededError"
                values = self.run(
                    call.session, fetches, feed, (call.index,),
                    names=(call.fetches, call.targets, tuple(call.feeds)),
                    timeout_ms=SHORT_TIMEOUT_MS if slow else 0,
                )  # fmt: skip
                self.keep(call, dict(zip(call.fetches, values, strict=False)))
        except (tf.errors.OpError, RuntimeError, ValueError, TypeError) as error:
            self.results[call.index] = Failure(type(error).__name__, gist(error))

    def _setup(self, call: CallMaterial) -> None:
        fetches = [*self.tensors(call.session, call.fetches), *self.targets(call.session, call.targets)]
        feeds = self.tensors(call.session, self.script.record.entry(call.index).feeds)
        handle = self.sessions[call.session].partial_run_setup(fetches, feeds)
        self._handles[call.session, call.handle] = handle
        self.results[call.index] = {}

    def _part(self, call: CallMaterial) -> None:
        handle = self._handles[call.session, call.handle]
        fetches = self.tensors(call.session, call.fetches)
        feed = self.feed(call.session, self.script.feed_values(call, self.results))
        values = self.sessions[call.session].partial_run(handle, fetches, feed)
        self.keep(call, dict(zip(call.fetches, values, strict=True)))


def gist(error: BaseException) -> str:
    """Return the line of an error that says most: TensorFlow's begin with where, not what."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    trivial = ("Graph execution error", "Detected at node", "Node:", "[[", "File ", "Original stack")
    return next((line for line in lines if not line.startswith(trivial)), type(error).__name__)


class Clock:
    """Adds up wall time of the blocks that it is used around; a fake one makes tests exact."""

    def __init__(self, now: Callable[[], float] = time.perf_counter) -> None:
        self.now = now
        self.seconds = 0.0

    def __enter__(self) -> Self:
        self._start = self.now()
        return self

    def __exit__(self, *_error: object) -> None:
        self.seconds += self.now() - self._start
