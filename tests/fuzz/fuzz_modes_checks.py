"""Replays a program in every mode and runs it in every live session: values must be those of a plain run.

The plain run is one of the same program in another graph and session, without a recorder. So neither the recorder's
values nor the verdicts of the replays are taken on trust: what a mode gave is caught where it is judged, and compared
here.
"""

from __future__ import annotations

import random
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import tensorflow as tf
from fuzz_build import Built
from fuzz_checks import Fault, Performance, repeats
from fuzz_naive import WRITES
from fuzz_truth import Observer, exact

from cachelab.model import MODES
from cachelab.modes import arrays, live
from cachelab.modes import attempt as attempt_module
from cachelab.modes.bench import Bench
from cachelab.modes.equality import Judge
from cachelab.modes.runner import Failure
from cachelab.tf import hooks
from cachelab.tf.recorder import Recorder

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from fuzz_programs import CallStep, Program

v1 = tf.compat.v1
LIVE = tuple(mode for mode in live.LIVE_MODES if mode != "run")
ROUGH = frozenset({"per_example"})
"""Modes that round in another order even without graph optimisation."""


@dataclass
class Outcome:
    """What came of one program: faults, and how often what happened."""

    faults: list[Fault] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)

    def fault(self, kind: str, text: str) -> None:
        """Note a fault; a few of a kind are enough."""
        if sum(f.kind == kind for f in self.faults) < 3:
            self.faults.append(Fault(kind, text))


@dataclass
class Plain:
    """What a plain run gave: calls as observed, results of the steps, final variables by (session, name).

    ``after`` holds the results of the steps that came after that; ``built`` is the graph, for others to run in.
    """

    built: Built
    calls: list[Any]
    steps: list[tuple[Any, str | None]]
    variables: dict[tuple[int, str], Any]
    after: list[tuple[Any, str | None]]


@dataclass
class Caught:
    """What a mode gave in its replay: (call, fetch) -> value or failure, and final variables."""

    results: dict[int, Any] = field(default_factory=dict)
    variables: dict[tuple[int, str], Any] = field(default_factory=dict)


@contextmanager
def catching() -> Iterator[Caught]:
    """Catch what the modes give, where it is judged."""
    caught = Caught()

    class Spy(Judge):
        """A judge that shows what it was shown."""

        def results(self, ours: Any, theirs: Any) -> Any:
            caught.results = dict(ours)
            return super().results(ours, theirs)

        def variables(self, ours: Any, theirs: Any) -> Any:
            caught.variables = dict(ours)
            return super().variables(ours, theirs)

    attempt_module.Judge = Spy  # type: ignore[misc]
    try:
        yield caught
    finally:
        attempt_module.Judge = Judge  # type: ignore[misc]


@contextmanager
def everything_is_worth_keeping() -> Iterator[None]:
    """Let live sessions keep whatever they can, and feed stand-ins: small programs have nothing that takes long."""
    before = live.WORTH_SECONDS, live.WORTH_SECONDS_A_BYTE, arrays.SMALL_BYTES
    live.WORTH_SECONDS = live.WORTH_SECONDS_A_BYTE = arrays.SMALL_BYTES = 0
    try:
        yield
    finally:
        live.WORTH_SECONDS, live.WORTH_SECONDS_A_BYTE, arrays.SMALL_BYTES = before


def shares(totals: Counter[str]) -> str:
    """Return in what share of the programs each mode applied, and with what result, as text."""
    count = max(totals["programs"], 1)
    repeat = f"{totals['compared']} with values that have to repeat, {totals['values compared']} values compared"
    lines = [f"{totals['programs']} programs, {repeat}"]
    for mode in MODES:
        kinds = ("reproduced", "equal", "close", "differs")
        told = ", ".join(f"{totals[f'{mode} {kind}']} {kind}" for kind in kinds if totals[f"{mode} {kind}"])
        lines.append(f"{mode:12} applied in {totals[f'{mode} applied'] / count:4.0%} of the programs: {told}")
    for mode in LIVE:
        hit, hits = totals[f"live {mode} applied"], totals[f"live {mode} hits"]
        lines.append(f"live {mode:8} served in {hit / count:4.0%} of the programs, {hits} tensors")
    return "\n  ".join(lines)


def variables_of(built: Built, sessions: Sequence[Any]) -> dict[tuple[int, str], Any]:
    """Return (session, variable op) -> value, ``None`` where it holds none; no op is added."""
    found: dict[tuple[int, str], Any] = {}
    for number, session in enumerate(sessions):
        for variable in built.graph.get_collection(v1.GraphKeys.GLOBAL_VARIABLES):
            found[number, variable.op.name] = _value(session, variable)
    return found


def _value(session: Any, variable: Any) -> Any:
    try:
        return np.array(session.run(variable))
    except (tf.errors.FailedPreconditionError, tf.errors.CancelledError):  # no value; a session that an error killed
        return None


def plain_run(program: Program, epilogue: Sequence[CallStep]) -> Plain:
    """Run a program, and then an epilogue, in a graph and sessions of its own."""
    built = Built(program)
    observer = Observer(built.graph, values=False, trace=False)
    with Performance(program, built) as performance:
        with observer.watching():
            found = performance.issue(program.calls)
        finals = variables_of(built, performance.sessions)
        return Plain(built, observer.calls, found, finals, performance.issue(epilogue))


def agree(one: Any, other: Any, *, bitwise: bool) -> bool:
    """Whether two values are equal to the bit, or else up to rounding relative to the largest magnitude."""
    if one is None or other is None:
        return one is None and other is None
    if exact(one) == exact(other):
        return True
    a, b = np.asarray(one), np.asarray(other)
    if bitwise or a.shape != b.shape or a.dtype != b.dtype or a.dtype.kind not in "fc":
        return False
    finite = a[np.isfinite(a)]
    scale = max(1.0, float(np.max(np.abs(finite), initial=0.0)))
    return bool(np.allclose(a, b, rtol=1e-3, atol=1e-4 * scale, equal_nan=True))


class State:
    """What a replay must leave alone: the user's graph, sessions, default graph, random streams of the process."""

    def __init__(self, built: Built, sessions: Sequence[Any]) -> None:
        self._now = lambda: {
            "graph": (built.graph.version, len(built.graph.get_operations()), built.graph.get_all_collection_keys()),
            "default graph": id(v1.get_default_graph()),
            "numpy's stream": np.random.get_state()[1].tobytes(),  # noqa: NPY002 - the one that users share
            "Python's stream": random.getstate(),
            "hooks": hooks.installed(),
            "variables": {key: None if v is None else exact(v) for key, v in variables_of(built, sessions).items()},
        }  # fmt: skip
        self._before = self._now()

    def changed(self) -> list[str]:
        """Return what is not as it was."""
        now = self._now()
        return [name for name, before in self._before.items() if now[name] != before]


def check(program: Program) -> Outcome:
    """Replay a program in all modes, run it live in all modes, and return what is wrong."""
    outcome = Outcome()
    epilogue = program.calls[-1:]
    plain = plain_run(program, epilogue)
    built = Built(program)
    recorder = Recorder(trace=program.trace)
    with Performance(program, built) as performance:
        recorder.start()
        try:
            performance.issue(program.calls)
        finally:
            recorder.stop()
        for fault in recorder.faults:
            outcome.fault("recorder", fault)
        record = recorder.record()
        settled = _settled(built, plain, record)
        outcome.counts["programs"] += 1
        outcome.counts["compared"] += settled
        if record.call_count != len(plain.calls):
            outcome.fault("calls", f"{record.call_count} calls recorded, {len(plain.calls)} happened")
            return outcome
        state = State(built, performance.sessions)
        recording = SimpleNamespace(record=record, material=recorder.material)
        _replays(outcome, program, recording, plain, settled=settled)
        for name in state.changed():
            outcome.fault("state", f"the replays changed the user's {name}")
        after = performance.issue(epilogue)
    if settled:
        _same_steps(outcome, program, "after the replays", after, plain.after)
    for mode in LIVE:
        _live(outcome, program, mode, plain, settled=settled)
    return outcome


def _settled(built: Built, plain: Plain, record: Any) -> bool:
    """Whether a second run has to give the same values: seeds, no races, no failed call that may have written."""
    if not repeats(built, record, {"race", "overlap"}):
        return False
    for seen in plain.calls:
        if seen.failed:
            kinds = {built.graph.get_operation_by_name(name) for name in seen.closure}
            if seen.partial or any(op.type.startswith(WRITES) or op.op_def.is_stateful for op in kinds
                                   if op.type not in {"VarHandleOp", "ReadVariableOp", "Assert"}):  # fmt: skip
                return False
    return True


def _replays(outcome: Outcome, program: Program, recording: Any, plain: Plain, *, settled: bool) -> None:
    # Timing issues the calls again and again; now and then is enough here.
    bench = Bench(recording, allow_side_effects=True, repeats=int(program.seed % 8 == 0))
    for mode in MODES:
        with catching() as caught:
            replay = bench.replay(mode)
        if not replay.applicable:
            outcome.counts[f"{mode} refused"] += 1
            if not replay.reason:
                outcome.fault("reason", f"{mode} is refused without a reason")
            continue
        outcome.counts[f"{mode} applied"] += 1
        outcome.counts[f"{mode} {replay.equality}"] += 1
        every = {**replay.fetches, **{("variable", *key): one for key, one in replay.variables.items()}}
        for key, one in every.items():
            if one.defect or (one.kind == "differs" and not one.reason):
                outcome.fault("defect", f"{mode}: {key} differs by {one.difference:.3g} {one.reason}")
        if replay.equality == "differs" and not replay.reason:
            outcome.fault("defect", f"{mode} differs without a reason")
        if mode == "run":
            assert bench._proved is not None
            caught.results, caught.variables = bench._proved[2:]
        if settled:
            _same_calls(outcome, (program, mode), every, caught, (recording, plain))


def _same_calls(
    outcome: Outcome, of: tuple[Program, str], every: dict[Any, Any], caught: Caught, sources: tuple[Any, Plain]
) -> None:
    """Compare what a mode gave with the plain run; a difference that the replay explains itself is no fault."""
    (program, mode), (recording, plain) = of, sources
    bitwise = not program.grappler and mode not in ROUGH

    def explained(*keys: Any) -> bool:
        return any(key in every and every[key].kind == "differs" and every[key].reason for key in keys)

    sessions: dict[int, int] = {}
    for index, seen in enumerate(plain.calls):
        if seen.session >= 0:
            sessions[recording.material.calls[index].session] = seen.session
        found = caught.results.get(index)
        if found is None or isinstance(found, Failure) or seen.failed:
            if (isinstance(found, Failure) != seen.failed or found is None) and not explained((index, "")):
                outcome.fault("failed", f"{mode}, call {index}: {found}, the plain run failed: {seen.failed}")
            continue
        for fetch, want in zip(seen.fetches, seen.results or (), strict=False):
            kind = np.asarray(want).dtype.kind
            outcome.counts["values compared"] += 1
            if fetch not in found:
                outcome.fault("missing", f"{mode}, call {index}: no value for {fetch}")
            elif kind != "V" and not agree(found[fetch], want, bitwise=bitwise) and not explained((index, fetch)):
                outcome.fault("value", f"{mode}, call {index}: {fetch} is {found[fetch]!r}, plain {want!r}")
    for (session, name), value in caught.variables.items():
        key = (sessions.get(session, -1), name)
        known = key not in plain.variables or agree(value, plain.variables[key], bitwise=bitwise)
        if not known and not explained(("variable", session, name)):
            outcome.fault("variable", f"{mode}: {name} ends as {value!r}, plain {plain.variables[key]!r}")


def _same_steps(outcome: Outcome, program: Program, where: str, found: Sequence[Any], expected: Sequence[Any]) -> None:
    """Compare results and errors of steps with those of a plain run."""
    for index, ((one, told), (other, told_plain)) in enumerate(zip(found, expected, strict=False)):
        if (told is None) != (told_plain is None):
            outcome.fault("error", f"{where}, step {index}: raised {told}, plain {told_plain}")
        for at, (a, b) in enumerate(zip(one or (), other or (), strict=False)):
            outcome.counts["values compared"] += 1
            if not agree(a, b, bitwise=not program.grappler):
                outcome.fault("step", f"{where}, step {index}, result {at}: {a!r}, plain {b!r}")


def _live(outcome: Outcome, program: Program, mode: str, plain: Plain, *, settled: bool) -> None:
    """Run a program in live sessions and compare it with the plain run."""
    built = plain.built  # what other modes added to it is in nobody's way
    size = len(built.graph.get_operations())

    def opener(**options: Any) -> Any:
        return live.Session(mode=mode, **options)

    with Performance(program, built, opener) as performance:
        found = performance.issue(program.calls)
        hits = sum(session.cache_info().hits for session in performance.sessions)
        finals = variables_of(built, performance.sessions)
    outcome.counts[f"live {mode} applied"] += hits > 0
    outcome.counts[f"live {mode} hits"] += hits
    if mode in {"memo", "feed"} and len(built.graph.get_operations()) != size:
        outcome.fault("state", f"live {mode} added ops to the graph")
    if settled:
        _same_steps(outcome, program, f"live {mode}", found, plain.steps)
        for key, value in finals.items():
            if not agree(value, plain.variables.get(key), bitwise=not program.grappler):
                outcome.fault("variable", f"live {mode}: {key} ends as {value!r}, plain {plain.variables.get(key)!r}")
