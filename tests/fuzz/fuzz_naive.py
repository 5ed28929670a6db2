"""A naive reading of which ops are redundant: plain, quadratic, and silent wherever it is not certain.

It looks at one op in two calls and walks back over the graph in both: the op is redundant if it computes from the same
fed values and the same writes. Ops in or behind control flow, draws, Python code and variables that the call itself
writes are left out, so what is found here must be found by the engine too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fuzz_truth import Seen

WRITES = ("Assign", "ResourceApply", "Apply", "Scatter", "ResourceScatter", "CountUpTo",
          "StridedSliceAssign", "ResourceStridedSliceAssign")  # fmt: skip
PURE = frozenset(
    [
        "Tanh",
        "Neg",
        "Square",
        "Sigmoid",
        "Identity",
        "Transpose",
        "Relu",
        "StopGradient",
        "Softmax",
        "Reshape",
        "Abs",
        "AddV2",
        "Add",
        "Sub",
        "Mul",
        "Maximum",
        "MatMul",
        "Select",
        "SelectV2",
        "Greater",
        "ConcatV2",
        "StridedSlice",
        "Const",
        "Split",
        "SplitV",
        "Unpack",
        "Pack",
        "ReadVariableOp",
        "VarHandleOp",
        "VariableV2",
        "GatherV2",
        "Sum",
        "StatelessRandomUniform",
        "StatelessRandomUniformV2",
        "AsString",
        "StringJoin",
        "StringToNumber",
        "ResourceGather",
    ]
)


def redundant(graph: Any, calls: list[Seen]) -> Iterator[tuple[int, str]]:
    """Yield (call, op) for executions that repeat an earlier one."""
    kinds = {operation.type for operation in graph.get_operations()}
    if kinds & {"If", "StatelessIf", "While", "StatelessWhile", "Case", "StatelessCase", "Switch", "PartitionedCall",
                "StatefulPartitionedCall"}:  # fmt: skip
        return
    written: dict[tuple[int, str], int] = {}
    known: dict[str, set[Any]] = {}
    for index, seen in enumerate(calls):
        here = {variable for name in seen.closure for variable in _written(graph.get_operation_by_name(name))}
        if not seen.failed and not seen.partial:
            memo: dict[str, Any] = {}
            for name in sorted(seen.closure):
                key = _sources(graph.get_operation_by_name(name), seen, written, here, memo)
                if key is None:
                    continue
                if key in known.get(name, ()):
                    yield index, name
                known.setdefault(name, set()).add(key)
        for variable in here:
            for session in {seen.session} if seen.session >= 0 else range(8):
                written[session, variable] = index


def _written(operation: Any) -> list[str]:
    if not operation.type.startswith(WRITES):
        return []
    found = []
    for tensor in operation.inputs:
        maker = tensor.op
        while maker.inputs and maker.type not in {"VarHandleOp", "VariableV2"}:
            maker = maker.inputs[0].op
        if maker.type in {"VarHandleOp", "VariableV2"}:
            found.append(_variable(maker))
    return found


def _variable(maker: Any) -> str:
    """Return what tells variables apart: two handles of one shared name are one variable."""
    return maker.get_attr("shared_name").decode() or maker.name


def _sources(operation: Any, seen: Seen, written: dict[Any, int], here: set[str], memo: dict[str, Any]) -> Any:
    """Return what an op's value comes from, ``None`` where that is not certain."""
    if operation.name in memo:
        return memo[operation.name]
    memo[operation.name] = None
    found: set[Any] = set()
    if operation.type not in PURE:
        return None
    if operation.type in {"VarHandleOp", "VariableV2"}:
        variable = _variable(operation)
        if variable in here:
            return None
        found.add(("variable", seen.session, variable, written.get((seen.session, variable))))
    for tensor in operation.inputs:
        if tensor.name in seen.feeds:
            found.add(("feed", tensor.name, seen.feeds[tensor.name]))
            continue
        below = _sources(tensor.op, seen, written, here, memo)
        if below is None:
            return None
        found |= below
    memo[operation.name] = frozenset(found)
    return memo[operation.name]
