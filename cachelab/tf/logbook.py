"""From noted calls to the log that verdicts are made from: traces read, outcomes filled in."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tensorflow.core.protobuf import config_pb2

from cachelab.explain.log import LoggedCall, Outcome
from cachelab.explain.partial import derived
from cachelab.tf.events import Parts
from cachelab.tf.replayable import call_material
from cachelab.tf.trace import TraceReader

if TYPE_CHECKING:
    from cachelab.explain.plan import Plan
    from cachelab.tf.events import Event
    from cachelab.tf.places import GraphPlace, SessionPlace
    from cachelab.tf.recorder import Recorder

PENDING = 16 << 20
"""Bytes of traces kept unread; reading waits until then, or until the record is asked for."""


class Logbook:
    """Reads the traces of noted calls, one reader a plan and configuration.

    Parameters
    ----------
    recorder
        The recorder, which is told of faults.
    events
        The calls; the list grows while the recording is open.
    """

    def __init__(self, recorder: Recorder, events: list[Event]) -> None:
        self._recorder = recorder
        self._events = events
        self._readers: dict[tuple[int, bytes], TraceReader] = {}
        self._outcomes: dict[Any, Any] = {}
        self._pending = 0
        self._lock = threading.RLock()

    def reader(self, plan: Plan, place: SessionPlace) -> TraceReader:
        """Return the reader for the traces of a plan in a session's configuration."""
        key = (plan.id, place.config)
        reader = self._readers.get(key)
        if reader is None:
            reader = self._readers[key] = TraceReader(plan, place.graph.twins, optimized=optimized(place.config))
        return reader

    def add(self, event: Event, metadata: bytes) -> None:
        """Keep the trace of a call to be read later."""
        event.metadata = metadata
        self._pending += len(metadata)
        if self._pending > PENDING:
            self.read_traces()

    def read_traces(self) -> None:
        """Read all traces that wait."""
        with self._lock:
            for event in self._events:
                if event.metadata:
                    self._read(event)
            self._pending = 0

    def _read(self, event: Event) -> None:
        assert event.plan is not None
        metadata = config_pb2.RunMetadata()
        data, event.metadata = event.metadata, b""
        try:
            metadata.ParseFromString(data)
            reader = self.reader(event.plan, event.place)
            if metadata.partition_graphs and not reader.has_graph:
                reader.graph(metadata.partition_graphs)
            read = reader.read(metadata.step_stats)
        except Exception as error:  # noqa: BLE001  the call itself went well
            self._recorder.fault(error)
            read = None
        if read is None:
            event.trace = "missing"
        else:
            event.outcome, event.measured = read

    def parts(self, graphs: dict[int, GraphPlace], sessions: dict[int, SessionPlace], now: int) -> Parts:
        """Return the log at moment ``now``, all traces read, with what the record is built from."""
        configs = list(dict.fromkeys(place.config for place in sessions.values()))
        with self._lock:
            self.read_traces()
            calls = [self._logged(event, now, configs) for event in self._events]
        import tensorflow as tf

        materials = [call_material(event, self._recorder) for event in self._events]
        return Parts(
            calls,
            graphs,
            sessions,
            self._events,
            self._recorder.lines,
            [(made.index, made.unreadable) for made in materials if made.unreadable],
            tf.__version__,
            any(map(optimized, configs)),
        )

    def _logged(self, event: Event, now: int, configs: list[bytes]) -> LoggedCall:
        place, plan = event.place, event.plan
        outcome = event.outcome
        if plan is not None and outcome is None:
            reader = self.reader(plan, place)
            outcome = reader.assumed()
            if outcome is None:
                if plan.id not in self._outcomes:
                    self._outcomes[plan.id] = derived(plan)
                outcome = self._outcomes[plan.id]
            event.outcome = outcome
        elif plan is not None and (event.handle is not None or event.failed):
            # Equal outcomes are one object, so that equal calls are seen to be equal.
            key = (plan.id, outcome.ran, tuple(sorted(outcome.fates.items())), outcome.complete)
            outcome = event.outcome = self._outcomes.setdefault(key, outcome)
        if event.served and plan is not None:
            outcome = event.outcome = self._reused(event, plan, outcome)
        ended = now if event.ended is None else event.ended
        began = event.began
        if event.handle is not None:
            began, ended = event.handle.began, now if event.handle.ended is None else event.handle.ended
        refs = {} if plan is None else {place.graph.ref(name): found for name, found in event.feeds.items()}
        return LoggedCall(
            index=event.index,
            kind=event.kind,
            plan=plan,
            session=place.number,
            scope=place.scope,
            config=configs.index(place.config),
            thread=event.thread,
            feeds=refs,
            began=began,
            ended=ended,
            start=event.start - self._recorder.origin,
            seconds=event.seconds,
            line=event.line,
            outcome=outcome,
            measured=event.measured,
            failed=event.failed,
            shared=place.shared,
            handle=None if event.handle is None else event.handle.number,
            trace=event.trace,
            results=event.results,
            values=event.values,
            optimized=optimized(place.config),
            fetches=event.names[0] + event.names[1],
            fed=event.names[2],
            graph=place.graph.number,
            opaque=bool(event.unreadable),
            served=bool(event.served),
        )

    def _reused(self, event: Event, plan: Plan, outcome: Any) -> Outcome:
        """Return an outcome in which what was fed from values that a live session had kept is reused, not fed."""
        rows = frozenset(event.place.graph.ref(name)[0] for name in event.served)
        fed = {row for row in rows - outcome.ran if outcome.fates.get(row, ("d", -1))[0] == "d"}
        if not fed:
            return outcome
        key = (plan.id, outcome, rows)
        if key not in self._outcomes:
            fates = {**outcome.fates, **dict.fromkeys(fed, ("s", -1))}
            self._outcomes[key] = replace(outcome, fates=fates)
        return self._outcomes[key]


def optimized(config: bytes) -> bool:
    """Tell whether graph optimisation is on in a session configuration."""
    parsed = config_pb2.ConfigProto()
    parsed.ParseFromString(config)
    return not parsed.graph_options.rewrite_options.disable_meta_optimizer
