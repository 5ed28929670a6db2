"""Graphs and sessions of a recording: their numbers, plans, and the values of their variables."""

from __future__ import annotations

import re
import weakref
from typing import TYPE_CHECKING, Any

import numpy as np
from tensorflow.python.client import pywrap_tf_session as runtime

from cachelab.explain.closure import Signature
from cachelab.explain.plan import Plan, make_plan
from cachelab.material import UNINITIALIZED, GraphMaterial, SessionMaterial, ValueStore, VariableMaterial
from cachelab.tf.flatten import Flattener
from cachelab.tf.hooks import unobserved
from cachelab.tf.twins import Twins
from cachelab.tf.values import digest

if TYPE_CHECKING:
    from collections.abc import Iterable

    from cachelab.explain.flat import Ref
    from cachelab.tf.lines import Lines

Names = tuple[tuple[str, ...], tuple[str, ...], frozenset[str]]
"""Fetched tensors, target ops and fed tensors of a call, by name."""


class GraphPlace:
    """A graph of the recording. It is only read, and held so that replays can use it after the cell."""

    def __init__(self, number: int, graph: Any) -> None:
        self.number = number
        self.graph = graph
        self.flattener = Flattener(number, graph)
        self.flat = self.flattener.flat
        self.twins = Twins(self.flat, graph)
        self.grown: list[tuple[int, int, int]] = []
        self._plans: dict[Names, Plan] = {}
        self._lines: dict[int, int] = {}

    def plan(self, names: Names, numbers: Any) -> Plan:
        """Return the plan of a signature, made when it is first seen."""
        plan = self._plans.get(names)
        if plan is None:
            self.flattener.update()
            fetches, targets, feeds = names
            signature = Signature(
                tuple(self.ref(name) for name in fetches),
                tuple(self.flat.index[name] for name in targets),
                frozenset(self.ref(name) for name in feeds),
            )
            plan = self._plans[names] = make_plan(next(numbers), self.flat, signature)
        return plan

    def ref(self, name: str) -> Ref:
        """Return the reference of a tensor by name."""
        op, _, index = name.rpartition(":")
        return self.flat.index[op], int(index)

    def tensors(self, plan: Plan) -> list[tuple[str, int]]:
        """Return (op name, number) of the outputs of a plan's ops of the graph itself that can be looked at.

        Handles have no content of their own; and TensorFlow aborts the process if a ref variable that holds no
        value yet is copied for its debugger.
        """
        found: list[tuple[str, int]] = []
        for row in plan.shown:
            try:
                operation = self.graph.get_operation_by_name(self.flat.name[row])
            except (KeyError, ValueError):
                continue
            found.extend(
                (operation.name, number)
                for number, output in enumerate(operation.outputs)
                if not output.dtype._is_ref_dtype and output.dtype.name not in {"resource", "variant"}
            )
        return found

    def line_of(self, row: int, lines: Lines) -> int:
        """Return the user's line that built an op; ops of a function's body have that of the call op."""
        line = self._lines.get(row)
        if line is None:
            name = self.flat.name[row]
            line = -1
            while name:
                try:
                    line = lines.of_op(self.graph.get_operation_by_name(name))
                    break
                except (KeyError, ValueError):
                    name = name.rpartition("/")[0]
            self._lines[row] = line
        return line

    def growth(self, lines: Lines) -> list[tuple[int, int, int, str, str]]:
        """Return (call, version before, version after, first new op, its line) for each growth during the recording."""
        operations = self.graph.get_operations()
        found = []
        for call, before, after in self.grown:
            name, where = "", ""
            if before < len(operations):
                name = operations[before].name
                number = lines.of_op(operations[before])
                where = f"{lines.all[number].file}:{lines.all[number].number}" if number >= 0 else ""
            found.append((call, before, after, name, where))
        return found

    def material(self) -> GraphMaterial:
        """Return the graph as a replay needs it."""
        return GraphMaterial(self.number, self.graph.as_graph_def().SerializeToString(), self.graph.seed)


class SessionPlace:
    """A session of the recording: where its variables live and what they held.

    Values are read through ops that exist already; nothing is added to the user's graph.
    """

    def __init__(self, number: int, session: Any, graph: GraphPlace, *, born: bool) -> None:
        self.number = number
        self.session = weakref.ref(session)
        self.graph = graph
        self.target = session._target.decode() if isinstance(session._target, bytes) else str(session._target or "")
        config = session._config
        self.config = config.SerializeToString(deterministic=True) if config is not None else b""
        self.shared = bool(self.target)
        self.scope = f"server {self.target}" if self.shared else f"session {number}"
        self.material = SessionMaterial(number, graph.number, self.target, self.config, born)
        self.calls = 0
        self.version = -1
        self._touched: set[int] = set()
        self._saved: set[int] = set()

    def before(self, plan: Plan, store: ValueStore) -> None:
        """Save the variables that a call may write for the first time, and note those that it reads."""
        self._touched.update(plan.cells_read)
        self._touched.update(plan.writers)
        fresh = [cell for cell in plan.writers if cell not in self._saved]
        self._saved.update(fresh)
        if fresh and not self.shared:
            self.material.initial.update(self._read(fresh, store))

    def finish(self, store: ValueStore) -> None:
        """Save the variables as the recording leaves them; those never written held the same all along."""
        if self.shared:
            return
        final = self._read(sorted(self._touched), store)
        self.material.final.update(final)
        for name, value in final.items():
            self.material.initial.setdefault(name, value)

    def _read(self, cells: Iterable[int], store: ValueStore) -> dict[str, VariableMaterial]:
        found: dict[str, VariableMaterial] = {}
        for cell in cells:
            variable = self._describe(cell)
            if variable is not None:
                found[variable.op] = variable
        readable = [variable for variable in found.values() if variable.read and store.held < store.budget]
        values = self._fetch([variable.read for variable in readable])
        if values is None:
            values = [self._fetch_one(variable.read) for variable in readable]
        for variable, value in zip(readable, values, strict=True):
            if isinstance(value, str):
                variable.digest = value or None
            else:
                array = np.asarray(value)
                variable.digest = digest(array)
                store.put(variable.digest, array)
        return found

    def _describe(self, cell: int) -> VariableMaterial | None:
        flat = self.graph.flat
        known = flat.cells[cell]
        if known.kind != "variable" or known.local or known.row < 0:
            return None
        name = flat.name[known.row]
        try:
            operation = self.graph.graph.get_operation_by_name(name)
        except (KeyError, ValueError):
            return None
        node = operation.node_def
        is_ref = operation.type != "VarHandleOp"
        read = f"{name}:0" if is_ref else self._reader(operation)
        return VariableMaterial(
            op=name,
            read=read,
            is_ref=is_ref,
            dtype=str(node.attr["dtype"].type),
            digest=None,
            shared_name=node.attr["shared_name"].s.decode(),
            container=node.attr["container"].s.decode(),
        )

    @staticmethod
    def _reader(handle: Any) -> str:
        """Return a tensor that reads a variable and waits for nothing else, ``""`` if there is none."""
        for consumer in handle.outputs[0].consumers():
            if consumer.type == "ReadVariableOp" and not consumer.control_inputs:
                return str(consumer.outputs[0].name)
        return ""

    def _fetch_one(self, name: str) -> Any:
        """Return the value of one tensor, ``UNINITIALIZED`` or ``""`` (not readable)."""
        values = self._fetch([name], explain=True)
        return "" if values is None else values[0]

    def _fetch(self, names: list[str], *, explain: bool = False) -> list[Any] | None:
        """Fetch tensors beside the recording; ``None`` if that failed (all of them or none)."""
        session = self.session()
        if not names or session is None or session._session is None or session._closed:
            return [] if not names else None
        graph = self.graph.graph
        try:
            outputs = [graph.get_tensor_by_name(name)._as_tf_output() for name in names]
            with unobserved():
                session._extend_graph()
                found = runtime.TF_SessionRun_wrapper(session._session, None, {}, outputs, [], None)
        except Exception as error:  # noqa: BLE001  whatever the runtime raises, the user's call must go on
            if explain and re.search("uninitialized|does not exist|Could not find variable", str(error)):
                return [UNINITIALIZED]
            return None
        return list(found)
