"""What the modes ask of a graph: closures, effects, and whether a tensor can be kept between calls.

A thin layer over the flat rows of :mod:`cachelab.tf.flatten`, in names of the user's graph, which a private copy
shares. Ops of function bodies have their call op's name as a prefix, as everywhere.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from cachelab.explain.closure import Signature, closure
from cachelab.explain.plan import LAST, make_plan
from cachelab.i18n import translate as _
from cachelab.modes.optimizer import replaceable
from cachelab.tf.effects import OUTWARD, PYTHON
from cachelab.tf.flatten import CONDITIONALS, WHILES, Flattener

if TYPE_CHECKING:
    from collections.abc import Iterable

INSIDE = frozenset(
    {
        "Stage", "MapStage", "OrderedMapStage", "StageClear", "MapClear", "OrderedMapClear", "DeleteSessionTensor",
        "AddSparseToTensorsMap", "AddManySparseToTensorsMap", "Timestamp",
    }
)  # fmt: skip
"""Types with an effect that stays inside TensorFlow's process state."""


@dataclass(frozen=True)
class Effects:
    """What ops may read, write and draw; every field holds names of variables or ops of the user's graph.

    ``reads`` and ``writes`` hold variables; ``random`` ops that draw; ``iterators`` ops that step an iterator;
    ``streams`` the queues, tables and other resources used; ``opaque`` ops of unknown effect; ``outside`` those
    that act outside TensorFlow; ``files`` those that read a file. ``acting`` are all whose effect has to happen.
    ``touched`` and ``changed`` hold everything read or written, variable or not; ``steps`` (iterator, op)
    pairs; ``emptied`` (TensorArray or stack, op that reads it) pairs: what lives for one call may be read only once.
    """

    reads: frozenset[str] = frozenset()
    writes: frozenset[str] = frozenset()
    random: frozenset[str] = frozenset()
    iterators: frozenset[str] = frozenset()
    streams: frozenset[str] = frozenset()
    opaque: frozenset[str] = frozenset()
    outside: frozenset[str] = frozenset()
    files: frozenset[str] = frozenset()
    acting: frozenset[str] = frozenset()
    touched: frozenset[str] = frozenset()
    changed: frozenset[str] = frozenset()
    steps: frozenset[tuple[str, str]] = frozenset()
    emptied: frozenset[tuple[str, str]] = frozenset()

    @property
    def restless(self) -> frozenset[str]:
        """What makes a value new in every call: draws, steps, and ops of unknown effect."""
        return self.random | self.iterators | self.opaque | self.files | self.streams


class Facts:
    """Closures and effects of one ``tf.Graph``, computed once a signature.

    Parameters
    ----------
    graph
        The graph; ops added later are unknown until :meth:`update`.
    optimized
        Whether TensorFlow optimises it: then a value fed for some tensors gets lost.
    """

    def __init__(self, graph: Any, *, optimized: bool = True) -> None:
        self.graph = graph
        self.optimized = optimized
        self._flattener = Flattener(0, graph)
        self.update()

    def update(self) -> None:
        """Read the ops that were added since the last time."""
        self._flattener.update()
        self.flat = self._flattener.flat
        self.ops = {op.name: op for op in self.graph.get_operations()}
        self._closures: dict[Any, frozenset[str]] = {}
        self._effects: dict[frozenset[str], Effects] = {}
        self._plans: dict[Any, Any] = {}
        self._branches: dict[str, int] | None = None
        self._frames: dict[str, int] | None = None
        self._replaceable: dict[str, bool] = {}

    def closure(self, fetches: Iterable[str], targets: Iterable[str] = (), feeds: Iterable[str] = ()) -> frozenset[str]:
        """Return the ops that a call may run: over data and control edges, stopping at fed tensors.

        Parameters
        ----------
        fetches, feeds
            Names of tensors.
        targets
            Names of ops.
        """
        key = (tuple(fetches), tuple(targets), frozenset(feeds))
        found = self._closures.get(key)
        if found is None:
            index = self.flat.index
            signature = Signature(
                tuple(self._reference(name) for name in key[0]),
                tuple(index[name] for name in key[1]),
                frozenset(self._reference(name) for name in key[2]),
            )
            names = self.flat.name
            found = self._closures[key] = frozenset(names[row] for row in closure(self.flat, signature).order)
        return found

    def _reference(self, tensor: str) -> tuple[int, int]:
        name, _colon, output = tensor.rpartition(":")
        return self.flat.index[name], int(output)

    def effects(self, ops: Iterable[str]) -> Effects:
        """Return what the named ops may do, taken together."""
        key = ops if isinstance(ops, frozenset) else frozenset(ops)
        found = self._effects.get(key)
        if found is None:
            found = self._effects[key] = self._sum(key)
        return found

    def drawing(self) -> frozenset[str]:
        """Return the ops that draw random numbers."""
        return frozenset(self.flat.name[row] for row, kind in self.flat.draws.items() if kind == "random")

    def drawing_in_loops(self) -> frozenset[str]:
        """Return the ops that draw random numbers in a loop, whose iterations may run side by side."""
        inner = {self.flat.name[row] for row in self.flat.frame} | self.frames().keys()
        return self.drawing() & inner

    def _sum(self, names: frozenset[str]) -> Effects:
        flat = self.flat
        total: dict[str, set[Any]] = {field.name: set() for field in fields(Effects)}
        for name in names:
            row = flat.index.get(name)
            if row is None:
                continue
            kind = flat.type[row]
            stepped = kind.startswith("IteratorGetNext")
            for table, into in ((flat.reads, "reads"), (flat.writes, "writes"), (flat.aliases, "reads")):
                for cell in (flat.cells[number] for number in table.get(row, ())):
                    if cell.local and into == "reads" and row not in flat.writes:
                        total["emptied"].add((cell.name, name))
                    if not cell.local:
                        total["touched"].add(cell.name)
                        total["changed"].update([cell.name] if into == "writes" else [])
                        total["steps"].update([(cell.name, name)] if stepped else [])
                    if cell.kind == "variable":
                        total[into].add(cell.name)
                    elif not cell.local and not stepped:
                        total["streams"].add(cell.name)
            if row in flat.draws or kind in PYTHON or kind in OUTWARD:
                total[self._draw(flat.draws.get(row, "opaque"), stepped=stepped)].add(name)
            if kind in PYTHON or (kind in OUTWARD and kind not in INSIDE):
                total["outside"].add(name)
            if row in flat.effects and row not in flat.members:
                total["acting"].add(name)
        return Effects(**{field: frozenset(values) for field, values in total.items()})

    @staticmethod
    def _draw(drawn: str, *, stepped: bool) -> str:
        if drawn == "iterator":
            return "iterators" if stepped else "opaque"
        return {"random": "random", "file": "files"}.get(drawn, "opaque")

    def _plan(self, fetches: Iterable[str], targets: Iterable[str], feeds: Iterable[str]) -> Any:
        key = (tuple(fetches), tuple(targets), frozenset(feeds))
        found = self._plans.get(key)
        if found is None:
            signature = Signature(
                tuple(self._reference(name) for name in key[0]),
                tuple(self.flat.index[name] for name in key[1]),
                frozenset(self._reference(name) for name in key[2]),
            )
            found = self._plans[key] = make_plan(0, self.flat, signature)
        return found

    def reordered(
        self, fetches: Iterable[str], targets: Iterable[str], feeds: Iterable[str], served: Iterable[str]
    ) -> str:
        """Return a resource whose reads and writes lose their order once tensors are served, ``""`` if none does.

        Two ops may be ordered only by a path through what a kept value makes unnecessary.
        """
        before = self._plan(fetches, targets, feeds)
        if not before.writers:
            return ""
        after = self._plan(fetches, targets, (*feeds, *served))
        flat = self.flat
        for row in after.closure.order:
            cells = {*flat.reads.get(row, ()), *flat.writes.get(row, ()), *after.closure.aliases.get(row, ())}
            for ref in after.closure.data[row]:
                cells.update(after.closure.aliases.get(ref[0], ()))
            for cell in cells & before.writers.keys():
                if before.state(row, cell, None) != after.state(row, cell, None):
                    return flat.cells[cell].name
        return ""

    def rivals(
        self, fetches: Iterable[str], targets: Iterable[str], feeds: Iterable[str], variable: str
    ) -> tuple[str, ...]:
        """Return the ops of a call that write a variable last, if there are several that nothing orders."""
        plan = self._plan(fetches, targets, feeds)
        for cell, rows in plan.writers.items():
            last = plan.state(LAST, cell, None).after
            if self.flat.cells[cell].name == variable and len(rows) > 1 and len(last) > 1:
                return tuple(self.flat.name[row] for row in last)
        return ()

    def feeds_needed(
        self, feeds: Iterable[str], fetches: Iterable[str], targets: Iterable[str], served: Iterable[str]
    ) -> tuple[str, ...]:
        """Return the fed tensors that a call still needs once others are served, be it for a control edge."""
        wanted, stops = set(fetches), set(served)
        stack = [name.rpartition(":")[0] for name in fetches if name not in stops] + list(targets)
        reached: set[str] = set()
        while stack:  # as TensorFlow prunes: a control edge makes an op run even if its outputs are fed
            name = stack.pop()
            if name not in reached:
                reached.add(name)
                op = self.ops[name]
                stack.extend(value.op.name for value in op.inputs if value.name not in stops)
                stack.extend(other.name for other in op.control_inputs)
        return tuple(name for name in feeds if name in wanted or name.rpartition(":")[0] in reached)

    def torn(self, closure: frozenset[str], needed: frozenset[str]) -> frozenset[str]:
        """Return the ops that would no longer fill a TensorArray or stack which an op that still runs uses.

        Such a resource lives for one call; the float that stands for it (its "flow") is no value that could be kept.

        Parameters
        ----------
        closure, needed
            The ops of a call, and those that still run.
        """
        flat = self.flat
        local = {number for number, cell in enumerate(flat.cells) if cell.local}
        if not local:
            return frozenset()
        used: set[int] = set()
        for name in needed:
            row = flat.index[name]
            used.update(flat.reads.get(row, ()))
            used.update(flat.writes.get(row, ()))
        used &= local
        return frozenset(name for name in closure - needed if used.intersection(flat.writes.get(flat.index[name], ())))

    def unholdable(self, tensor: str) -> str:
        """Return why the value of ``tensor`` can't be kept between calls, ``""`` if it can."""
        name, _colon, index = tensor.rpartition(":")
        op = self.ops.get(name)
        if op is None or not index.isdigit() or int(index) >= len(op.outputs):
            return _("it lies inside a function, where no call can fetch it")
        value = op.outputs[int(index)]
        if odd := _odd(value.dtype):
            return odd
        if name in self.frames() or name in self.branches() or not self.graph.is_fetchable(value):
            return _("it lies inside a loop or branch, where no call can fetch it")
        if any(self.flat.cells[cell].local for cell in self.flat.writes.get(self.flat.index[name], ())):
            return _("it stands for an array that lives for one call only")
        if self.flat.index[name] in self.flat.outputs and (op._control_outputs or op.op_def.is_stateful):
            return _("TensorFlow runs the call that gives it in any case")
        if op.type in CONDITIONALS or op.type in WHILES:
            # Measured: consumers of a fed output of a lowered While get other values than those fed.
            return _("TensorFlow replaces the op that gives it, so that a fed value can get lost; name its `Identity`")
        if not self.graph.is_feedable(value):
            return _("TensorFlow does not let it be fed")
        if self.lost_if_fed(tensor):
            return _("graph optimisation may replace the op that gives it, so that a fed value gets lost")
        return ""

    def lost_if_fed(self, tensor: str) -> bool:
        """Whether graph optimisation may look through a tensor, be it fed or not."""
        name = tensor.rpartition(":")[0]
        if not self.optimized or name not in self.ops:
            return False
        found = self._replaceable.get(name)
        if found is None:
            found = self._replaceable[name] = replaceable(self.ops[name])
        return found

    def looked_through(self, feeds: Iterable[str]) -> str:
        """Return a fed tensor that graph optimisation may look through, ``""`` if there is none.

        Whether it does depends on what else is fed and fetched, so such a call is issued as recorded only.
        """
        return next((tensor for tensor in feeds if self.lost_if_fed(tensor)), "")

    def frame(self, name: str) -> int | None:
        """Return the number of the v1 loop (the outermost one) that an op lies in, ``None`` outside loops."""
        return self.frames().get(name)

    def frames(self) -> dict[str, int]:
        """Return op -> number of the v1 loop that it lies in, of all ops in loops."""
        if self._frames is None:
            self._frames = {}
            numbers: dict[bytes, int] = {}
            for op in self.ops.values():
                if op.type in {"Enter", "RefEnter"}:
                    number = numbers.setdefault(op.get_attr("frame_name"), len(numbers))
                    self._flood(op, frozenset({"Exit", "RefExit"}), number, self._frames)
        return self._frames

    def branches(self) -> dict[str, int]:
        """Return the ops that run only if a branch of a v1 ``cond`` is taken, each with a number."""
        if self._branches is None:
            self._branches = {}
            for op in self.ops.values():
                if op.type in {"Switch", "RefSwitch"}:
                    self._flood(op, frozenset({"Merge", "RefMerge"}), 0, self._branches)
        return self._branches

    def _flood(self, start: Any, ends: frozenset[str], number: int, found: dict[str, int]) -> None:
        """Give ``number`` to the ops from ``start`` down to those of a type in ``ends``."""
        stack = [start]
        while stack:
            op = stack.pop()
            if op.name in found or (op.type in ends and "Merge" in op.type):
                continue
            found[op.name] = number
            if op.type not in ends:
                stack.extend(user for output in op.outputs for user in output.consumers() if user.name in self.ops)
                stack.extend(user for user in op._control_outputs if user.name in self.ops)


def _odd(dtype: Any) -> str:
    """Return why values of a type can't be kept, ``""`` if they can."""
    kind = dtype.base_dtype.name
    if kind in {"resource", "variant"}:
        return _("a {kind} has no value outside its session").format(kind=kind)
    if dtype.is_quantized or kind.startswith("float8"):
        return _("TensorFlow can't copy values of type {kind}").format(kind=kind)
    return _("it is a reference to a variable, which a later write would change") if dtype._is_ref_dtype else ""
