"""Runs a program recorded and plain, and compares what the record says with what happened."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import fuzz_naive
import numpy as np
import tensorflow as tf
from fuzz_build import SHAPE, Built
from fuzz_truth import Observer, Seen, exact, needed
from tensorflow.core.protobuf import rewriter_config_pb2

from cachelab.modes.arrays import own
from cachelab.tf.recorder import Recorder

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from fuzz_programs import CallStep, Program
    from typing_extensions import Self

    from cachelab.model import OpExecution, Record

v1 = tf.compat.v1
FEEDS = tuple(
    np.asarray(value, "f")
    for value in (
        np.linspace(-1, 1, 9).reshape(SHAPE), np.linspace(0.2, 0.9, 9).reshape(SHAPE), np.eye(3), np.full(SHAPE, 100.0),
        np.full(SHAPE, -0.5), np.linspace(1, -1, 9).reshape(SHAPE), np.zeros(SHAPE),
    )
)  # fmt: skip
NEVER = ("Assign", "Scatter", "ResourceApply", "Apply", "ResourceScatter", "RandomUniform", "RandomStandardNormal",
         "TruncatedNormal", "PyFunc", "IteratorGetNext", "QueueDequeue", "QueueEnqueue", "LookupTableInsert",
         "LookupTableImport", "ResourceAssign")  # fmt: skip
"""Beginnings of types with an effect: an op of these is never redundant."""


@dataclass
class Fault:
    """Something the record says that is not so."""

    kind: str
    text: str


@dataclass
class Outcome:
    """What came of one program."""

    faults: list[Fault] = field(default_factory=list)
    calls: int = 0
    executed: int = 0
    recomputed: int = 0
    checked: int = 0
    expected: int = 0
    failed: int = 0

    def fault(self, kind: str, text: str) -> None:
        """Note a fault; a few of a kind are enough."""
        if sum(f.kind == kind for f in self.faults) < 3:
            self.faults.append(Fault(kind, text))


def config(*, grappler: bool) -> Any:
    """Return a session configuration with graph optimisation on or off, and a limit for calls that hang."""
    made = v1.ConfigProto(operation_timeout_in_ms=20_000, inter_op_parallelism_threads=2)
    if not grappler:
        made.graph_options.rewrite_options.disable_meta_optimizer = True
        made.graph_options.optimizer_options.opt_level = v1.OptimizerOptions.L0
    else:
        made.graph_options.rewrite_options.min_graph_nodes = -1
        assert rewriter_config_pb2
    return made


HARMLESS = frozenset({"VarHandleOp", "VariableV2", "ReadVariableOp", "Placeholder", "Assert", "ResourceGather"})
"""Stateful types that leave nothing behind."""


class Performance:
    """A program's calls in fresh sessions, which stay open until the end of the ``with`` block."""

    def __init__(self, program: Program, built: Built, opener: Callable[..., Any] = v1.Session) -> None:
        self.built = built
        for name in built.python_calls:
            built.python_calls[name] = 0
        made = config(grappler=program.grappler)
        self.sessions = [opener(graph=built.graph, config=made) for _ in range(program.sessions)]
        self._made: dict[Any, Any] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        for session in self.sessions:
            session.close()

    def issue(self, steps: Sequence[CallStep]) -> list[tuple[Any, str | None]]:
        """Issue calls; return results and errors."""
        outcomes: list[tuple[Any, str | None]] = []
        for step in steps:
            session = self.sessions[step.session % len(self.sessions)]
            try:
                with self.built.graph.as_default():  # ``load`` asks for it
                    found = _issue(self.built, session, step, self._made)
                # The buffer of a ref variable goes on changing.
                outcomes.append((None if found is None else [own(value) for value in found], None))
            except (tf.errors.OpError, RuntimeError) as error:
                outcomes.append((None, f"{type(error).__name__} {str(error)[:200]}"))
        return outcomes


def perform(program: Program, built: Built) -> list[tuple[Any, str | None]]:
    """Issue the calls of a program in fresh sessions; return results and errors."""
    with Performance(program, built) as performance:
        return performance.issue(program.calls)


def _partial(built: Built, session: Any, fetches: list[Any], feeds: dict[Any, Any]) -> Any:
    """Run fetched tensors piece by piece: the first with the feeds that it needs, the others with the rest."""
    tensors = list(dict.fromkeys(fetch for fetch in fetches if isinstance(fetch, tf.Tensor) and fetch not in feeds))
    if not tensors:
        return None
    given = {feed.name: feed for feed in feeds}
    handle = session.partial_run_setup(tensors, list(feeds))
    closure = needed(built.graph, [tensors[0].name], [], set(given))
    first = {
        feed: value
        for feed, value in feeds.items()
        if any(feed.name in {t.name for t in built.graph.get_operation_by_name(op).inputs} for op in closure)
    }
    found = [session.partial_run(handle, tensors[0], first)]
    rest = {feed: value for feed, value in feeds.items() if feed not in first}
    if tensors[1:]:
        found += session.partial_run(handle, tensors[1:], rest)
    return found


def _issue(built: Built, session: Any, step: CallStep, made: dict[Any, Any]) -> Any:
    if step.kind == "init":
        return session.run(built.init)
    feeds: dict[Any, Any] = {
        placeholder: FEEDS[step.feeds[i % len(step.feeds)]] for i, placeholder in enumerate(built.placeholders)
    }
    if step.kind == "load" and built.variables:
        built.variables[step.fetches[0] % len(built.variables)].load(FEEDS[step.feeds[0] % 3], session)
        return None
    for number, choice in step.fed:
        tensor = built.feedable(number)
        if tensor is not None:
            feeds[tensor] = np.resize(FEEDS[choice % 3], tensor.shape.as_list())
    fetches = [built.fetchable(number) for number in step.fetches]
    if step.kind == "partial":
        return _partial(built, session, fetches, feeds)
    if step.kind == "callable":
        key = (id(session), step.fetches, tuple(tensor.name for tensor in feeds))
        if key not in made:
            made[key] = session.make_callable(fetches, feed_list=list(feeds))
        return made[key](*feeds.values())
    return session.run(fetches, feeds)


def check(program: Program) -> Outcome:
    """Run a program and return all faults of its record."""
    outcome = Outcome()
    built = Built(program)
    observer = Observer(built.graph, values=not program.grappler)
    recorder = Recorder(trace=program.trace)
    with observer.watching():
        recorder.start()
        try:
            recorded = perform(program, built)
        finally:
            recorder.stop()
    counted = dict(built.python_calls)
    record = recorder.record()
    for fault in recorder.faults:
        outcome.fault("recorder", fault)
    outcome.calls = len(observer.calls)
    if record.call_count != len(observer.calls):
        outcome.fault("calls", f"{record.call_count} calls recorded, {len(observer.calls)} happened")
        return outcome
    listed = [list(record.executions(index)) for index in range(record.call_count)]
    for index, (ops, seen) in enumerate(zip(listed, observer.calls, strict=True)):
        outcome.failed += seen.failed
        _check_call(outcome, record, index, ops, seen, bodies=observer.bodies, grappler=program.grappler)
        _check_witnesses(outcome, index, ops, observer.calls, grappler=program.grappler)
    _check_counts(outcome, listed, counted, observer.calls, grappler=program.grappler)
    if not program.grappler and not observer.unfinished:
        _check_misses(outcome, built, listed, observer)
    _check_plain(outcome, program, built, record, recorded, observer)
    return outcome


def _check_call(
    outcome: Outcome,
    record: Record,
    index: int,
    ops: list[OpExecution],
    seen: Seen,
    *,
    bodies: set[str],
    grappler: bool,
) -> None:
    """Compare what ran according to the record with the nodes that the runtime executed.

    Ops of function bodies are traced under bare names, so where ``bodies`` has an op of that name too, counts add up.
    """
    entry = record.entry(index)
    if bool(entry.failed) != seen.failed:
        outcome.fault("failed", f"call {index}: failed is {entry.failed!r}")
    if seen.executed is None:
        return
    names = {op.name: op for op in ops}
    missing = seen.closure - names.keys()
    if missing:
        outcome.fault("closure", f"call {index}: {sorted(missing)[:4]} belong to the closure and are not listed")
    for op in ops:
        if not op.executed:
            continue
        outcome.executed += 1
        count = seen.executed.get((op.name, op.type), 0)
        if op.name in seen.closure and not count and not grappler and not _lowered(op, seen):
            outcome.fault("executed", f"call {index}: {op.name} ({op.type}) is {op.status} but did not run")
        named = grappler and op.evidence == "measured" and op.name in seen.closure
        if named and not any(_bears(node, op.name) for node in seen.nodes) and not _lowered(op, seen):
            outcome.fault("executed", f"call {index}: {op.name} ({op.type}) is {op.status} but no node of its name ran")
        if count and not grappler and op.name not in bodies and op.evidence == "measured" and op.count != count:
            outcome.fault("count", f"call {index}: {op.name} ran {count} times, the record says {op.count}")
    if grappler:
        return
    for name, kind in seen.executed:
        op = names.get(name)
        if op is not None and op.type == kind and not op.executed and op.status not in {"unknown", "fed"}:
            outcome.fault("ran", f"call {index}: {name} ({kind}) ran, the record says {op.status}")
        if op is None and name in seen.closure:
            outcome.fault("ran", f"call {index}: {name} ({kind}) ran and is not listed")


def _lowered(op: OpExecution, seen: Seen) -> bool:
    """Tell whether a call op (cond, while, function) left traces of its body."""
    return any(node.startswith((f"{op.name}/", f"Func/{op.name}/")) for node in seen.nodes) or op.type in {
        "If", "StatelessIf", "Case", "StatelessCase", "While", "StatelessWhile", "PartitionedCall",
        "StatefulPartitionedCall",
    }  # fmt: skip


def _check_witnesses(
    outcome: Outcome, index: int, ops: list[OpExecution], calls: list[Seen], *, grappler: bool
) -> None:
    """Check every verdict ``recomputed`` by value: this call's and the witness's must agree to the bit."""
    now = calls[index]
    for op in ops:
        if op.status != "recomputed":
            continue
        outcome.recomputed += 1
        if op.type.startswith(NEVER) and op.type != "ScatterNd":  # which makes a new tensor
            outcome.fault("effect", f"call {index}: {op.name} ({op.type}) has an effect and is recomputed")
        if op.witness is None or not 0 <= op.witness < index:
            outcome.fault("witness", f"call {index}: {op.name} has the witness {op.witness}")
            continue
        then = calls[op.witness]
        if then.failed:
            outcome.fault("witness", f"call {index}: {op.name} has the failed call {op.witness} as witness")
            continue
        if not grappler and op.name in now.closure and op.name not in then.closure:
            outcome.fault("witness", f"call {index}: {op.name} did not run in call {op.witness}")
        if grappler:
            _check_close(outcome, index, op, now, then)
            continue
        output = 0
        while f"{op.name}:{output}" in now.values:
            name = f"{op.name}:{output}"
            output += 1
            if name in then.values:
                outcome.checked += 1
                if now.values[name] != then.values[name]:
                    outcome.fault("value", f"call {index}: {name} ({op.type}) differs from call {op.witness}")


def _check_close(outcome: Outcome, index: int, op: OpExecution, now: Seen, then: Seen) -> None:
    """With graph optimisation on, compare what both calls fetched, up to rounding."""
    for name in now.fetches:
        if name.rpartition(":")[0] != op.name or name not in then.fetches:
            continue
        assert now.results is not None
        assert then.results is not None
        one, other = now.results[now.fetches.index(name)], then.results[then.fetches.index(name)]
        outcome.checked += 1
        if not np.allclose(one, other, rtol=1e-3, atol=1e-4, equal_nan=True):
            outcome.fault("value", f"call {index}: {name} ({op.type}) is far from call {op.witness}")


def _bears(node: str, name: str) -> bool:
    """Tell whether a node bears the name of an op: as it is, or as the optimiser makes it a/.../Rewrite_b of a/b."""
    scope, _slash, last = name.rpartition("/")
    return name in node or (node.startswith(scope) and "Optimizer/" in node and node.endswith(f"_{last}"))


def _check_counts(
    outcome: Outcome,
    listed: list[list[OpExecution]],
    counted: dict[str, int],
    calls: list[Seen],
    *,
    grappler: bool,
) -> None:
    """Compare the record's executions of Python functions with how often these were entered."""
    if any(seen.failed or seen.partial for seen in calls):
        return  # how far a failed call or a handle came is not known
    for name, count in counted.items():
        told = sum(op.count for ops in listed for op in ops if op.name.startswith(f"{name}_/") and op.type.endswith(
            ("PyFunc", "PyFuncStateless")) and op.executed)  # fmt: skip
        # Without a trace nobody knows what graph optimisation left out; the record says "derived".
        unknown = any(
            # A stateless one with constant inputs is run by the optimiser itself, when it folds it.
            op.status in {"unknown", "folded"} or (grappler and op.evidence == "derived")
            for ops in listed
            for op in ops
            if op.name.startswith(f"{name}_/")
        )
        # Graph optimisation may look through a fed tensor and run what the call does not need.
        stray = any(node.startswith(f"{name}_/") and node not in seen.closure for seen in calls for node in seen.nodes)
        if told != count and not unknown and not stray:
            outcome.fault("count", f"{name} was entered {count} times, the record says {told}")


def _check_misses(outcome: Outcome, built: Built, listed: list[list[OpExecution]], observer: Observer) -> None:
    """Every op that a naive reading of the graph finds redundant has to be reported as such."""
    for index, name in fuzz_naive.redundant(built.graph, observer.calls):
        op = next((op for op in listed[index] if op.name == name), None)
        outcome.expected += 1
        if op is None or op.status != "recomputed":
            status = "not listed" if op is None else f"{op.status} ({', '.join(c.text for c in op.causes)})"
            outcome.fault("missed", f"call {index}: {name} is redundant, the record says {status}")


def repeats(built: Built, record: Record, unordered: set[str]) -> bool:
    """Tell whether a second run has to give the same values: all seeds given, no finding that leaves an order open."""
    if built.unseeded or any(finding.kind in unordered for finding in record.findings):
        return False
    # Iterations of a loop run side by side.
    return not any(" a loop of this call reads and writes" in f" {cause.text}" for cause in record.causes)


def _acts(built: Built, seen: Seen) -> bool:
    """Tell whether a call does something that outlives it."""
    operations = (built.graph.get_operation_by_name(name) for name in seen.closure)
    return any(operation.op_def.is_stateful and operation.type not in HARMLESS for operation in operations)


def _check_plain(
    outcome: Outcome,
    program: Program,
    built: Built,
    record: Record,
    recorded: list[tuple[Any, str | None]],
    observer: Observer,
) -> None:
    """Issue the same calls without a recording, in fresh sessions, and compare results and errors."""
    if any(seen.failed and _acts(built, seen) for seen in observer.calls):
        return  # which of its effects a failing call still had differs from run to run
    if not repeats(built, record, {"race"}):
        return
    plain = perform(program, built)
    agree: Callable[[Any, Any], bool] = _close if program.grappler else lambda a, b: exact(a) == exact(b)
    for index, ((one, told), (other, told_plain)) in enumerate(zip(recorded, plain, strict=True)):
        if (told is None) != (told_plain is None):  # of several ops that fail, either may be the first
            outcome.fault("plain", f"step {index}: recorded raised {told}, plain raised {told_plain}")
        if told or told_plain:
            continue
        for a, b in zip(one or (), other or (), strict=True):
            if a is not None and not agree(a, b):
                outcome.fault("plain", f"step {index}: results differ from those without a recording")


def _close(one: Any, other: Any) -> bool:
    return bool(np.allclose(one, other, rtol=1e-3, atol=1e-4, equal_nan=True))
