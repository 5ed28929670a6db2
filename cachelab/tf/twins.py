"""Which ops of a graph compute the same: equal type, attributes and inputs (they may be merged, or built twice)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cachelab.explain.closure import Closure
    from cachelab.explain.flat import FlatGraph

SYMMETRIC = frozenset({"Add", "AddV2", "AddN", "Mul", "Maximum", "Minimum", "Equal", "NotEqual", "LogicalAnd",
                       "LogicalOr", "SquaredDifference", "BitwiseAnd", "BitwiseOr", "BitwiseXor"})  # fmt: skip


class Twins:
    """Numbers the ops of one graph so that ops which compute the same share a number.

    Ops with effects, draws or reads of what may change are equal only to themselves; two reads of a variable are
    the same only within one call and if nothing writes in between, which is left to the caller.
    """

    def __init__(self, flat: FlatGraph, graph: Any) -> None:
        self._flat = flat
        self._graph = graph
        self._digest: dict[int, Any] = {}
        self._numbers: dict[Any, int] = {}

    def numbers(self, closed: Closure) -> dict[int, int]:
        """Return row -> number for the rows of a closure; fed tensors count as themselves."""
        flat = self._flat
        found: dict[int, int] = {}
        cyclic = {row for cycle in closed.cycles for row in cycle}
        for row in closed.order:
            if row in flat.effects or row in flat.draws or row in cyclic or row in flat.outputs or not flat.shown[row]:
                key: Any = ("self", row)
            else:
                inputs = [(found.get(ref[0], ("self", ref[0])), ref[1]) for ref in closed.data[row]]
                fed = closed.fed.get(row, ())
                if flat.type[row] in SYMMETRIC:
                    inputs.sort(key=repr)
                key = (flat.type[row], tuple(inputs), fed, self._attributes(row))
            found[row] = self._numbers.setdefault(key, len(self._numbers))
        return found

    def _attributes(self, row: int) -> Any:
        digest = self._digest.get(row)
        if digest is None:
            digest = self._digest[row] = self._read(row)
        return digest

    def _read(self, row: int) -> Any:
        name = self._flat.name[row]
        try:
            operation = self._graph.get_operation_by_name(name)
        except (KeyError, ValueError):
            return ("in function", name)
        node = operation.node_def
        attributes = sorted(
            (key, value.SerializeToString()) for key, value in node.attr.items() if not key.startswith("_")
        )
        own = self._flat.type[row] in {"Placeholder", "PlaceholderV2"} or self._makes_its_own(operation)
        identity = name if own else ""
        return (tuple(attributes), node.device, identity)

    @staticmethod
    def _makes_its_own(operation: Any) -> bool:
        """Tell whether an op makes a resource, such as a TensorArray, that it shares with no other op."""
        if not operation.op_def.is_stateful or not any(
            output.dtype._is_ref_dtype or output.dtype.name == "resource" for output in operation.outputs
        ):
            return False
        return not operation.node_def.attr["shared_name"].s
