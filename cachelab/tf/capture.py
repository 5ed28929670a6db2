"""What the recorder notes while calls happen: signatures, digests, times, traces."""

from __future__ import annotations

import itertools
import re
import threading
import time
import weakref
from typing import TYPE_CHECKING, Any

import numpy as np
from tensorflow.core.protobuf import config_pb2
from tensorflow.python.client import pywrap_tf_session as runtime

from cachelab.explain.partial import HandleSteps, failed
from cachelab.material import CallMaterial, Material
from cachelab.tf import hooks
from cachelab.tf.effects import BELIEVED
from cachelab.tf.events import Event, Handle
from cachelab.tf.logbook import Logbook
from cachelab.tf.places import GraphPlace, SessionPlace
from cachelab.tf.replayable import call_material
from cachelab.tf.tracing import Tracing, wanted
from cachelab.tf.values import digest, is_telling

if TYPE_CHECKING:
    from collections.abc import Callable

    from cachelab.tf.dumps import Dump, Folders
    from cachelab.tf.events import Parts
    from cachelab.tf.recorder import Recorder

REFUSED = re.compile(
    "has already been f|Must run 'setup'|can't be computed from the feeds|was not specified in|requires empty"
)
"""What TensorFlow says when it refuses a piece of a partial run before anything ran."""

CULPRIT = re.compile(r"\{\{node ([^}]+)\}\}")


class Capture:
    """Notes the calls of one recorder."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self.events: list[Event] = []
        self.graphs: dict[int, GraphPlace] = {}
        self.sessions: dict[int, SessionPlace] = {}
        self._graph_of: dict[int, GraphPlace] = {}
        self._session_of: weakref.WeakKeyDictionary[Any, SessionPlace] = weakref.WeakKeyDictionary()
        self._callables: weakref.WeakKeyDictionary[Any, tuple[Any, Any]] = weakref.WeakKeyDictionary()
        self._born: weakref.WeakSet[Any] = weakref.WeakSet()
        self._handles: dict[tuple[int, str], Handle] = {}
        self._handle_numbers = itertools.count()
        self._moments = itertools.count()
        self._plan_numbers = itertools.count()
        self._counts: dict[tuple[int, bytes], int] = {}
        self._book = Logbook(recorder, self.events)
        self._results: dict[str, tuple[int, str]] = {}
        self._fed_at: dict[str, int] = {}
        self._finished = 0
        self._folders: Folders | None = None
        self._watched: dict[tuple[int, int], list[tuple[str, int]]] = {}
        self._lock = threading.RLock()

    @property
    def state(self) -> tuple[int, int, int]:
        """What changes when there is something new to say."""
        done = sum(event.ended is not None for event in self.events[-64:])
        return len(self.events), done, self._finished

    # --- places ---------------------------------------------------------------------------------------------------

    def place(self, session: Any) -> SessionPlace:
        """Return the recording's notes on a session."""
        place = self._session_of.get(session)
        if place is None:
            graph = session.graph
            known = self._graph_of.get(id(graph))
            if known is None:
                known = self._graph_of[id(graph)] = GraphPlace(len(self.graphs), graph)
                self.graphs[known.number] = known
            place = SessionPlace(len(self.sessions), session, known, born=session in self._born)
            self._session_of[session] = self.sessions[place.number] = place
        return place

    def note_born(self, session: Any) -> None:
        """Note a session made within the recording."""
        self._born.add(session)

    def note_close(self, session: Any) -> None:
        """Save the variables of a session that is about to close, and end its handles."""
        place = self._session_of.get(session)
        if place is None:
            return
        with self._lock:
            place.finish(self.recorder.store)
            for (number, _), handle in self._handles.items():
                if number == place.number and handle.ended is None:
                    handle.ended = next(self._moments)
            self._finished += 1

    def finish(self) -> None:
        """Save the variables of sessions that are still open."""
        for place in self.sessions.values():
            session = place.session()
            if session is not None and not session._closed and self.recorder.trace != "off":
                place.finish(self.recorder.store)
        self._finished += 1

    def note_callable(self, made: Any, session: Any, options: Any) -> None:
        """Remember what a callable feeds, fetches and runs."""
        copy = config_pb2.CallableOptions()
        copy.CopyFrom(options)
        self._callables[made] = (session, copy)

    # --- beginnings -----------------------------------------------------------------------------------------------

    def begin_run(self, session: Any, arguments: tuple[Any, ...]) -> Event:
        """Note the start of ``_call_tf_sessionrun``."""
        options, feeds, fetches, targets, metadata = arguments
        values = {tensor_name(tensor): value for tensor, value in feeds.items()}
        issued = tuple(tensor_name(tensor) for tensor in fetches)
        note = hooks.serving_now()
        served = note.serve & values.keys() if note else frozenset()
        asked = () if note is None else tuple(n for n in note.fetches if n in served or n in issued)
        names = (
            tuple(dict.fromkeys((*asked, *issued))),
            tuple(runtime.TF_OperationName(target) for target in targets),
            tuple(values),
        )
        event = self._begin("run", session, names, values, served=served)
        event.issued = issued
        if event.plan is None:
            return event
        key = (event.plan.id, event.place.config)
        count = self._counts[key] = self._counts.get(key, -1) + 1
        trace = wanted(self.recorder.trace, count, conditional=event.plan.conditional)
        reader = self._book.reader(event.plan, event.place)
        graph = trace and not reader.asked and not event.place.shared
        reader.asked = reader.asked or graph
        event.tracing = Tracing(options, metadata, trace=trace, graph=graph, dump=self._dump(event))
        event.trace = "full" if event.tracing.traced else "light"
        return event

    def note_served(self, session: Any, values: dict[str, Any]) -> None:
        """Note a call all of whose fetches a live session served: nothing ran."""
        names = (tuple(values), (), tuple(values))
        event = self._begin("run", session, names, values, served=frozenset(values))
        event.start = time.perf_counter()
        self._done(event, [])

    def _dump(self, event: Event) -> Dump | None:
        """Return a place for the values of a call, if they are wanted."""
        plan = event.plan
        if not self.recorder.values or event.place.shared or plan is None:
            return None
        from cachelab.tf.dumps import Dump, Folders

        if self._folders is None:
            self._folders = Folders()
        key = (plan.id, event.place.config)
        tensors = self._watched.get(key)
        if tensors is None:
            tensors = [*event.place.graph.tensors(plan), *self._book.reader(plan, event.place).inner_tensors()]
            if any(plan.flat.type[row] in BELIEVED for row in plan.closure.order):
                self._watched[key] = tensors  # another list would make TensorFlow fold, and hence run, them again
        return Dump(tensors, self._folders)

    def begin_setup(self, session: Any, arguments: tuple[Any, ...]) -> Event:
        """Note the start of the set-up of a partial run."""
        feeds, fetches, targets = arguments
        names = (
            tuple(tensor_name(tensor) for tensor in fetches),
            tuple(runtime.TF_OperationName(target) for target in targets),
            tuple(tensor_name(tensor) for tensor in feeds),
        )
        event = self._begin("partial_run_setup", session, names, {})
        steps = None
        if event.plan is not None:
            steps = HandleSteps(event.plan)
            event.outcome = steps.step(set(), set())
        declared = set(names[0]) | set(names[1])
        event.handle = Handle(next(self._handle_numbers), event.plan, declared, steps, event.began)
        return event

    def begin_partial(self, session: Any, arguments: tuple[Any, ...]) -> Event:
        """Note the start of a piece of a partial run."""
        name, feeds, fetches = arguments
        values = {tensor_name(tensor): value for tensor, value in feeds.items()}
        names = (tuple(tensor_name(tensor) for tensor in fetches), (), tuple(values))
        place = self.place(session)
        handle = self._handles.get((place.number, str(name)))
        event = self._begin("partial_run", session, names, values, plan=handle.plan if handle else None)
        event.handle = handle
        if handle is None:
            event.unreadable = "the handle was set up before the recording"
            return event
        event.held = sum(np.asarray(value).nbytes for value in values.values())
        event.feeds = {**handle.fed, **event.feeds}
        return event

    def _advance(self, event: Event) -> None:
        """Note what a piece of a partial run made ready, now that it went well."""
        handle, graph = event.handle, event.place.graph
        assert handle is not None
        handle.fed.update(event.feeds)
        handle.fetches -= set(event.names[0])
        if not handle.fetches:
            handle.ended, handle.unfinished = event.ended, False
        if handle.steps is not None:
            refs = {graph.ref(tensor) for tensor in event.names[2]}
            event.outcome = handle.steps.step(refs, {graph.ref(tensor)[0] for tensor in event.names[0]})

    def begin_callable(self, made: Any, arguments: tuple[Any, ...]) -> Event:
        """Note the start of a callable; one made before the recording hides what it runs."""
        session = made._session
        known = self._callables.get(made)
        if known is None:
            event = self._begin("callable", session, ((), (), ()), {}, plan=None)
            event.unreadable = "the callable was made before the recording"
            return event
        options = known[1]
        fetches, feeds = (
            tuple(name if ":" in name else f"{name}:0" for name in names) for names in (options.fetch, options.feed)
        )
        values = dict(zip(feeds, arguments, strict=False))
        return self._begin("callable", session, (fetches, tuple(options.target), feeds), values)

    def _begin(
        self,
        kind: str,
        session: Any,
        names: tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]],
        values: dict[str, Any],
        **given: Any,
    ) -> Event:
        recorder = self.recorder
        with self._lock:
            place = self.place(session)
            plan, served = given.get("plan"), given.get("served", frozenset())
            if "plan" not in given and recorder.trace != "off":
                self._note_growth(place)
                plan = place.graph.plan((names[0], names[1], frozenset(names[2])), self._plan_numbers)
                place.before(plan, recorder.store)
            place.calls += 1
            feeds: dict[str, str] = {}
            linked: dict[str, tuple[int, str]] = {}
            for name, value in values.items():
                feeds[name] = digest(value)
                recorder.store.put(feeds[name], np.asarray(value))
                source = self._results.get(feeds[name])
                own = self._fed_at.setdefault(feeds[name], len(self.events))
                # What a live session kept did not travel through the user's Python code; what users fed before a call
                # gave it back is theirs.
                if source is not None and is_telling(value) and name not in served and own > source[0]:
                    linked[name] = source
            event = Event(
                index=len(self.events),
                kind=kind,
                place=place,
                plan=plan,
                names=names,
                feeds=feeds,
                thread=threading.get_ident(),
                line=recorder.lines.of_caller(),
                trace="off" if recorder.trace == "off" else "light",
                began=next(self._moments),
                linked=linked,
                served=served,
                issued=names[0],
            )
            self.events.append(event)
            return event

    def _note_growth(self, place: SessionPlace) -> None:
        """Note ops that were added to the graph since the session's last call."""
        version = place.graph.graph.version
        if place.calls and version > place.version >= 0:
            place.graph.grown.append((len(self.events), place.version, version))
        place.version = version

    # --- the call itself ------------------------------------------------------------------------------------------

    def carry_out(self, event: Event, arguments: tuple[Any, ...], proceed: Callable[..., Any]) -> Any:
        """Let the user's call happen, traced if wanted; its result or error passes through."""
        tracing = event.tracing
        if tracing is not None:
            arguments = (tracing.options, *arguments[1:4], tracing.metadata)
        event.start = time.perf_counter()
        try:
            result = proceed(*arguments)
        except BaseException as error:
            event.seconds = time.perf_counter() - event.start
            self.recorder._guard(self._failed, event, error)
            raise
        else:
            event.seconds = time.perf_counter() - event.start
            self.recorder._guard(self._done, event, result)
            return result
        finally:
            if tracing is not None:
                tracing.close()
                if tracing.dump is not None:
                    tracing.dump.close()
            if event.ended is None:
                event.ended = next(self._moments)

    def _failed(self, event: Event, error: BaseException) -> None:
        if event.tracing is not None and event.plan is not None:
            self._book.reader(event.plan, event.place).asked = False
        event.failed, event.failed_type, event.trace = (
            str(error) or type(error).__name__,
            type(error).__name__,
            "missing",
        )
        if event.plan is not None and event.handle is None:
            match = CULPRIT.findall(event.failed)
            rows = event.place.graph.flat.index
            culprit = next((rows[name] for name in match if name in rows), None)
            event.outcome = failed(event.plan, culprit)
        elif event.kind == "partial_run_setup":
            assert event.handle is not None
            event.handle.ended, event.handle.unfinished = next(self._moments), False  # there is no handle
        if event.handle is not None and event.handle.steps is not None:
            event.outcome = event.handle.steps.refused(hard=not REFUSED.search(event.failed))

    def _done(self, event: Event, result: Any) -> None:
        recorder = self.recorder
        event.ended = next(self._moments)
        if event.handle is not None:
            if event.kind == "partial_run_setup":
                self._handles[event.place.number, str(result)] = event.handle
                return
            self._advance(event)
        if recorder.trace != "off" and isinstance(result, list | tuple):
            digests = {name: event.feeds[name] for name in event.names[0] if name in event.served}
            for name, value in zip(event.issued, result, strict=False):
                found = digests[name] = digest(value)
                recorder.store.put(found, np.asarray(value))
                self._results[found] = (event.index, name)
            event.results = tuple(digests[name] for name in event.names[0] if name in digests)
            if event.handle is not None:
                event.held += sum(np.asarray(value).nbytes for value in result)
        if event.tracing is not None and event.tracing.traced:
            self._book.add(event, event.tracing.result())
            if event.tracing.dump is not None and event.plan is not None:
                event.values = event.tracing.dump.read(event.plan)

    # --- afterwards ---------------------------------------------------------------------------------------------------

    def parts(self) -> Parts:
        """Return what the record is built from."""
        with self._lock:
            now = next(self._moments)
        return self._book.parts(self.graphs, self.sessions, now)

    def material(self) -> Material:
        """Return what replays need."""
        calls: list[CallMaterial] = [call_material(event, self.recorder) for event in self.events]
        return Material(
            values=self.recorder.store,
            graphs={number: graph.material() for number, graph in self.graphs.items()},
            sessions={number: session.material for number, session in self.sessions.items()},
            calls=calls,
        )


def tensor_name(output: Any) -> str:
    """Return the name of a ``TF_Output``."""
    return f"{runtime.TF_OperationName(output.oper)}:{output.index}"
