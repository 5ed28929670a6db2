"""Which cell (variable, table, queue, iterator, ...) each op reads or writes: handles traced to their makers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tensorflow.core.framework import types_pb2
from tensorflow.python.framework import op_def_registry

from cachelab.explain.flat import OUTSIDE, VIRTUAL, Cell, FlatGraph, Ref
from cachelab.tf.datasets import functions_write, is_dataset
from cachelab.tf.effects import (
    LOCAL_CREATORS,
    PASS_ON,
    REF_PASS,
    SHARES_BUFFER,
    VARIABLES,
    arguments,
    effects_of,
    writes_local,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

ANONYMOUS = "cd2c89b7-88b7-44c8-ad83-06c2a9158347"
"""``shared_name`` that TensorFlow gives to handles which share with nobody."""

UNKNOWN = "unknown resource"


class Resources:
    """Fills ``reads``, ``writes``, ``draws``, ``effects`` and ``aliases`` of a flat graph.

    Parameters
    ----------
    flat
        The graph.
    function
        Name -> FunctionDef, ``None`` if it is not known.
    """

    def __init__(self, flat: FlatGraph, function: Callable[[str], Any]) -> None:
        self.flat = flat
        self._function = function
        self._cell: dict[str, int] = {}
        self._maker: dict[int, int] = {}

    def update(self, touched: Sequence[tuple[int, Any]]) -> None:
        """Classify rows that are new or changed, given with their NodeDefs."""
        for row, node in touched:
            self._make(row, node)
        for row, node in touched:
            self._classify(row, node)
        for row, _ in reversed(touched):  # inner calls come after the calls that hold them
            if any(member in self.flat.effects for member in self.flat.members.get(row, ())):
                self.flat.effects.add(row)
        self._share_buffers([row for row, _ in touched])

    def _make(self, row: int, node: Any) -> None:
        """Note the cell that an op makes, if it makes one."""
        if node.op in PASS_ON:
            return
        definition = op_def_registry.get(node.op)
        if definition is None:
            return
        makes = any(a.is_ref or a.type == types_pb2.DT_RESOURCE for a in definition.output_arg)
        takes = any(a.is_ref or a.type == types_pb2.DT_RESOURCE for a in definition.input_arg)
        local = node.op in LOCAL_CREATORS
        if not makes or (takes and not local):
            return
        if takes:  # a gradient TensorArray: one an origin and a source
            origin = self.cells(self.flat.inputs[row][0])
            key = f"gradient/{sorted(origin)}/{node.attr['source'].s!r}"
        elif local:
            key = f"local/{self.flat.name[row]}"
        else:
            shared = node.attr["shared_name"].s.decode() if "shared_name" in node.attr else ""
            container = node.attr["container"].s.decode() if "container" in node.attr else ""
            own = not shared or shared == ANONYMOUS
            family = "variable" if node.op in VARIABLES else node.op
            key = f"{family}/{container}/{self.flat.name[row] if own else shared}"
        kind = "variable" if node.op in VARIABLES else "iterator"
        self._maker[row] = self._number(key, kind, self.flat.name[row], row, local=local)

    def _number(self, key: str, kind: str, name: str, row: int, *, local: bool = False) -> int:
        number = self._cell.get(key)
        if number is None:
            number = self._cell[key] = len(self.flat.cells)
            self.flat.cells.append(Cell(kind, name, key, local, row))
        return number

    def cells(self, ref: Ref) -> frozenset[int]:
        """Return the cells that a handle or ref tensor may stand for, walking back through ops that pass it on."""
        found: set[int] = set()
        seen: set[Ref] = set()
        pending = [ref]
        while pending:
            ref = self.flat.resolve(pending.pop())
            if ref in seen:
                continue
            seen.add(ref)
            row = ref[0]
            if row == OUTSIDE:
                found.add(self._number(UNKNOWN, "opaque", UNKNOWN, OUTSIDE))
                continue
            maker = self._maker.get(row)
            if maker is not None:
                found.add(maker)
                continue
            inputs = self.flat.inputs[row]
            kind = self.flat.type[row]
            if kind in {"Switch", "RefSwitch", "_SwitchN"}:
                pending.append(inputs[0])
            elif kind == "IdentityN":
                pending.append(inputs[ref[1]])
            elif kind in {"RefSelect", "_Select"}:
                pending.extend(inputs[1:])
            elif kind == "_LoopVar":
                pending.extend(inputs[:2])
            elif kind in PASS_ON or (inputs and self.flat.aliases.get(row) is not None):
                pending.extend(inputs[:1] if kind not in {"Merge", "RefMerge"} else inputs)
            elif inputs and self._returns_ref(kind):
                pending.append(inputs[0])
            else:
                found.add(self._number(UNKNOWN, "opaque", UNKNOWN, OUTSIDE))
        return frozenset(found)

    @staticmethod
    def _returns_ref(kind: str) -> bool:
        """Tell whether a type, such as ref ``Assign``, returns the ref that it took first."""
        definition = op_def_registry.get(kind)
        return definition is not None and bool(definition.output_arg) and definition.output_arg[0].is_ref

    def _classify(self, row: int, node: Any) -> None:
        flat = self.flat
        if row in flat.outputs:  # its body has rows of its own
            return
        kind = effects_of(node.op)
        draws, effect = kind.draws, kind.effect
        reads, writes = self._uses(row, node, reads_only=kind.reads_only)
        if self._has_opaque_function(node):
            draws, effect = "opaque", True
        for table, cells in ((flat.reads, reads), (flat.writes, writes)):
            if cells:
                table[row] = tuple(sorted(cells))
            else:
                table.pop(row, None)
        if draws and not (draws == "effect" and all(flat.cells[cell].local for cell in writes)):
            flat.draws[row] = draws
            if node.attr["seed"].i or node.attr["seed2"].i:
                flat.seeded.add(row)
        outlives = any(not flat.cells[cell].local for cell in writes)
        if effect or outlives or draws in {"random", "iterator", "opaque", "effect"}:
            flat.effects.add(row)
        if node.op in VARIABLES and node.op != "VarHandleOp":
            flat.aliases[row] = (self._maker[row],)
        elif writes and self._returns_ref(node.op):
            flat.aliases[row] = tuple(sorted(writes))
        if node.op == "Assign" and "validate_shape" in node.attr and not node.attr["validate_shape"].b:
            flat.replaces.add(row)

    def _uses(self, row: int, node: Any, *, reads_only: bool) -> tuple[set[int], set[int]]:
        """Return the cells that an op reads and those that it may write when it runs."""
        reads: set[int] = set()
        writes: set[int] = set()
        if row in self._maker or node.op in PASS_ON:
            return reads, writes
        for argument, ref in zip(arguments(node), self.flat.inputs[row], strict=False):
            if argument.resource or argument.ref:
                cells = self.cells(ref)
                reads |= cells
                if not reads_only and self._may_write(node.op):
                    writes |= cells
        if is_dataset(node.op) and reads:  # running the op itself writes nothing
            if functions_write(node, self._function):
                self.flat.restless |= reads
            writes = set()
        return reads, writes

    @staticmethod
    def _may_write(op_type: str) -> bool:
        return op_type not in REF_PASS and (not op_type.startswith(("TensorArray", "Stack")) or writes_local(op_type))

    @staticmethod
    def _has_opaque_function(node: Any) -> bool:
        """Tell whether an op calls functions that were not expanded, such as ``RemoteCall`` or a too deep call.

        Dataset ops hold functions too, but run them only when an iterator steps, which is a draw anyway.
        """
        if "Dataset" in node.op or "Iterator" in node.op:
            return False
        return any(value.HasField("func") or value.list.func for value in node.attr.values())

    def _share_buffers(self, rows: Sequence[int]) -> None:
        """Mark rows whose outputs share the buffer of a ref variable."""
        flat = self.flat
        pending = [row for row in rows if flat.type[row] in SHARES_BUFFER]
        pending += [ref[0] for row in rows for ref in flat.outputs.get(row, ()) if flat.type[ref[0]] in VIRTUAL]
        changed = any(flat.aliases.values())
        while changed:
            changed = False
            for row in pending:
                shared = set(flat.aliases.get(row, ()))
                for ref in flat.inputs[row]:
                    shared.update(flat.aliases.get(flat.resolve(ref)[0], ()))
                if shared and tuple(sorted(shared)) != flat.aliases.get(row):
                    flat.aliases[row] = tuple(sorted(shared))
                    flat.takes |= {row} if flat.type[row] not in REF_PASS else set()
                    changed = True
