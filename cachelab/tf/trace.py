"""From the runtime's trace to what ran: nodes matched to the user's ops by type and inputs, never by name alone.

With graph optimisation on, names lie (see ``tensorflow-facts.md`` section 1): ``m`` may be listed as a folded
constant, a fused kernel bears the name of its last op, equal ops are merged. Every op of a call's closure therefore
ends as executed, merged, folded, fused, pruned or untaken by comparing the optimised graph with the user's.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

from cachelab.explain.log import Measured, Outcome
from cachelab.tf.fates import Fates
from cachelab.tf.frames import CALLS, Frames, frames
from cachelab.tf.nodes import REWRITTEN, Node, fed_tensor, kind_of, original, parse

if TYPE_CHECKING:
    from collections.abc import Iterable

    from cachelab.explain.flat import Ref
    from cachelab.explain.plan import Plan
    from cachelab.tf.twins import Twins

WHILES = frozenset({"While", "StatelessWhile"})


Names = tuple[frozenset[str], frozenset[str]]
"""Names of calls that executed, and of those that were inlined."""

HARMLESS = frozenset({"Const", "NoOp", "Placeholder", "PlaceholderV2", "VarHandleOp"})
"""Types whose execution tells nothing."""


class Run(NamedTuple):
    """One execution of a node: start and duration in seconds, output bytes, shapes, device."""

    start: float
    seconds: float
    bytes: int
    shapes: str
    device: str


class TraceReader:
    """Reads the traces of the calls of one plan under one configuration.

    Parameters
    ----------
    plan
        The plan.
    twins
        Finds ops that compute the same (for ``merged``).
    optimized
        Whether graph optimisation is on.
    """

    def __init__(self, plan: Plan, twins: Twins, *, optimized: bool = False) -> None:
        self.plan = plan
        self._twins = twins
        self._graph: dict[str, Node] = {}
        self.has_graph = self.asked = False
        self._rows: dict[tuple[Names, tuple[str, str]], tuple[int, ...]] = {}
        self._frames: dict[Names, Frames] = {}
        self._outcomes: dict[frozenset[tuple[str, str]], Outcome] = {}
        self._derived: Outcome | None = None
        flat = plan.flat
        self._hubs = {flat.name[row] for row in plan.closure.order if row in flat.outputs}
        # The body of a call that is not inlined runs under names of its own, which the user's ops may have too.
        self._bodies = {
            flat.name[member][len(flat.name[row]) + 1 :]
            for row in plan.closure.order
            for member in flat.members.get(row, ())
        }
        self._suspects = self._above() if optimized else ()

    def graph(self, partitions: Iterable[Any]) -> None:
        """Take in the optimised graph (``RunMetadata.partition_graphs``)."""
        for partition in partitions:
            self.has_graph = True
            for node in partition.node:
                self._graph[node.name] = Node(kind_of(node.op), tuple(i for i in node.input if not i.startswith("^")))

    def read(self, statistics: Any) -> tuple[Outcome, Measured] | None:
        """Return what ran and what it took; ``None`` if the trace is empty."""
        runs = _runs(statistics)
        if not runs:
            return None
        outcome = self._outcome(runs)
        return outcome, self._measured(runs, outcome)

    def assumed(self) -> Outcome | None:
        """Return what ran in a call without a trace, from a traced call of the same plan; ``None`` if that varies."""
        if not self._outcomes:
            self.plan.bypass(self._suspects)
        if self.plan.conditional or not self._outcomes:
            return None
        if self._derived is None:
            seen = next(iter(self._outcomes.values()))
            self._derived = Outcome(
                seen.ran, seen.fates, "d", {r: e for r, e in seen.evidence.items() if e == "a"}, complete=True
            )
        return self._derived

    def inner_tensors(self) -> list[tuple[str, int]]:
        """Return the first outputs of ops of function bodies, by their names in the optimised graph, once known."""
        flat = self.plan.flat
        return [(name, 0) for name in self._graph if original(name) != name and original(name) in flat.index]

    def _outcome(self, runs: dict[tuple[str, str], list[Run]]) -> Outcome:
        executed = frozenset(runs)
        outcome = self._outcomes.get(executed)
        if outcome is None:
            called, inner = self._called(runs), self._inner(runs)
            graph = {self._shown(name): node for name, node in self._graph.items()}
            names = {self._shown(name) for name, _ in executed}
            for name, label in executed:
                if self._shown(name) not in graph or not self.has_graph:
                    graph[self._shown(name)] = parse(label)
                for row in inner.names.get(original(name), ()):
                    graph.setdefault(self.plan.flat.name[row], parse(label))
                    names.add(self.plan.flat.name[row])
            rewritten = frozenset(self._shown(name) for name in self._graph if REWRITTEN.match(name))
            suspects = () if self._as_built(executed) else self._suspects
            self.plan.bypass([*self._unreached(executed), *suspects], self._strays(executed))
            fates = Fates(self.plan, self._twins, graph, rewritten, inner, complete=self.has_graph)
            for key in executed:
                if (called, key) not in self._rows:
                    self._rows[called, key] = self._match(key, fates, inner)
            ran = {row for key in executed for row in self._rows[called, key]}
            outcome = self._outcomes[executed] = fates.outcome(ran, names)
        return outcome

    def _shown(self, name: str) -> str:
        """Return the name under which users know what a node of the optimised graph stands for."""
        row = self.plan.flat.index.get(original(name))
        return original(name) if row is None else self.plan.flat.name[row]

    @staticmethod
    def _called(runs: Iterable[tuple[str, str]]) -> Names:
        """Return the names of the call ops that executed as such, and of those that were inlined."""
        called = frozenset(original(name) for name, label in runs if parse(label).type in CALLS)
        return called, frozenset(name for name, label in runs if name in called and parse(label).type == "NoOp")

    def _inner(self, runs: Iterable[tuple[str, str]]) -> Frames:
        called = self._called(runs)
        if called not in self._frames:
            self._frames[called] = frames(self.plan, *called)
        return self._frames[called]

    def _above(self) -> tuple[Ref, ...]:
        """Fed tensors that lead to other fed tensors: graph optimisation can compute from them all the same.

        Of ``(x + x) * c`` with ``x`` and the sum fed it may make one kernel that takes ``x``; as ``x`` may be needed
        otherwise too, the trace tells only if it left all ops as they were built.
        """
        flat, feeds = self.plan.flat, self.plan.signature.feeds
        found: set[Ref] = set()
        seen: set[int] = set()
        pending = [ref[0] for ref in feeds]
        while pending:
            row = pending.pop()
            for ref in flat.inputs[row] if row not in seen else ():
                if ref in feeds:
                    found.add(ref)
                if ref[0] >= 0:
                    pending.append(ref[0])
            seen.add(row)
        return tuple(sorted(found))

    def _unreached(self, executed: Iterable[tuple[str, str]]) -> list[Ref]:
        """Return fed tensors that a node took as input though nothing that the call needs does."""
        plan = self.plan
        stray = {plan.flat.tensor_name(ref): ref for ref in plan.signature.feeds - plan.closure.fed_reached}
        if not stray:
            return []
        taken = {name for node, label in executed if not node.startswith("_retval_") for name in parse(label).inputs}
        fed = {fed_tensor(name.partition(":")[0]) for name in taken}
        return [ref for tensor, ref in stray.items() if tensor in fed]

    def _as_built(self, executed: Iterable[tuple[str, str]]) -> bool:
        """Tell whether all nodes that took inputs are ops of the graph with the very inputs that they were built with.

        Then no optimisation can have looked through a fed tensor.
        """
        if not self._suspects:
            return True
        flat = self.plan.flat
        for name, label in executed:
            node = parse(label)
            if name.startswith("_") or not node.inputs:
                continue
            row = flat.index.get(name)
            if row is None or node.type != flat.type[row] or len(node.inputs) != len(flat.inputs[row]):
                return False
            for taken, (source, port) in zip(node.inputs, flat.inputs[row], strict=True):
                tensor = flat.tensor_name((source, port))
                if tensor not in {taken, f"{taken}:0", fed_tensor(taken)}:
                    return False
        return True

    def _strays(self, executed: Iterable[tuple[str, str]]) -> list[int]:
        """Return ops that ran though the call doesn't need them, as something it feeds lies between."""
        flat, closure = self.plan.flat, self.plan.closure
        if not closure.fed_reached:
            return []
        found = []
        for name, label in executed:
            row = flat.index.get(name)
            if row is None or row in closure.data or name in self._bodies or flat.type[row] in HARMLESS:
                continue
            if parse(label).type == flat.type[row]:
                found.append(row)
        return found

    def _match(self, key: tuple[str, str], fates: Fates, inner: Frames) -> tuple[int, ...]:
        """Return the rows that a node's execution counts for; empty for nodes of the runtime's own."""
        name, label = key
        node = parse(label)
        if name.startswith("_") or node.type in {"_Arg", "_Retval"}:
            return ()
        shown = original(name)
        row = self.plan.flat.index.get(shown)
        if row is not None and row in self.plan.closure.data and row not in inner.prefix and fates.is_op(row, node):
            return (row,)
        found = tuple(row for row in inner.names.get(shown, ()) if fates.is_op(row, node))
        return found or self._hub_of(shown)

    def _hub_of(self, name: str) -> tuple[int, ...]:
        """Return the call op that a node made by lowering it belongs to, such as ``cond/switch_pred/_2``."""
        if not re.search(r"/_\d+$", name):
            return ()
        name = name.removeprefix("Func/")
        while "/" in name:
            name = name.rpartition("/")[0]
            if name in self._hubs:
                return (self.plan.flat.index[name],)
        return ()

    def _measured(self, runs: dict[tuple[str, str], list[Run]], outcome: Outcome) -> Measured:
        flat = self.plan.flat
        seconds: dict[int, float] = {}
        sizes: dict[int, int] = {}
        count: dict[int, int] = {}
        start: dict[int, float] = {}
        shape: dict[int, str] = {}
        device: dict[int, str] = {}
        called, inner = self._called(runs), self._inner(runs)
        for key, found in runs.items():
            rows = self._rows.get((called, key), ())
            for row in rows:
                if row not in outcome.ran:
                    continue
                share = 1 / len(rows)
                seconds[row] = seconds.get(row, 0.0) + sum(run.seconds for run in found) * share
                start[row] = min(start.get(row, found[0].start), *(run.start for run in found))
                device[row] = found[0].device
                named = flat.index.get(inner.prefix.get(row, "") + original(key[0]))
                if named == row and "_Leaf_" not in key[0]:
                    sizes[row] = sizes.get(row, 0) + max(1, round(sum(run.bytes for run in found) * share))
                    count[row] = count.get(row, 0) + max(1, round(len(found) * share))
                    shape[row] = found[-1].shapes
        for row in outcome.ran:
            if row not in count:
                body = f"{flat.name[row]}/body/"
                trips = [count.get(m, 0) for m in flat.members.get(row, ()) if flat.name[m].startswith(body)]
                count[row] = max([1, *trips]) if flat.type[row] in WHILES else 1
        return Measured(seconds, sizes, count, start, shape, device)


def _runs(statistics: Any) -> dict[tuple[str, str], list[Run]]:
    """Group executions by node (name and label); streams of accelerators repeat what their device lists."""
    found: dict[tuple[str, str], list[Run]] = {}
    devices = [device for device in statistics.dev_stats if "stream:" not in device.device and device.node_stats]
    started = [node.all_start_micros for device in devices for node in device.node_stats]
    first = min(started, default=0)
    for device in devices:
        name = device.device.rpartition("/device:")[2] or device.device
        for node in device.node_stats:
            label = node.timeline_label
            at = label.find(node.node_name + " = ")
            size, shapes = _outputs(node)
            run = Run((node.all_start_micros - first) * 1e-6, _seconds(node), size, shapes, name)
            found.setdefault((node.node_name, label[at:] if at >= 0 else label), []).append(run)
    return found


def _seconds(node: Any) -> float:
    """Return the duration of a node; nanoseconds where the runtime gives them."""
    if node.all_end_rel_nanos:
        return max(0.0, node.all_end_rel_nanos * 1e-9)
    return max(0.0, node.all_end_rel_micros * 1e-6)


_SIZES = {1: 4, 2: 8, 3: 4, 4: 1, 5: 2, 6: 1, 8: 8, 9: 8, 10: 1, 14: 2, 17: 2, 18: 16, 19: 2, 22: 4, 23: 8}
"""Bytes an element, by number of the dtype."""


def _outputs(node: Any) -> tuple[int, str]:
    total, shapes = 0, []
    for output in node.output:
        description = output.tensor_description
        dims = [dim.size for dim in description.shape.dim]
        elements = 1
        for size in dims:
            elements *= size
        width = _SIZES.get(description.dtype, 0)
        total += elements * width if width else description.allocation_description.requested_bytes
        shapes.append("[" + ", ".join(map(str, dims)) + "]")
    return total, " ".join(shapes)
