"""From a ``tf.Graph`` to flat rows: function bodies expanded, resources traced back to where they are made."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import tensorflow as tf
from tensorflow.core.framework import types_pb2

from cachelab.explain.flat import ENTRY, LOOP_VAR, OUTSIDE, SELECT, FlatGraph, Ref
from cachelab.tf.effects import output_offsets
from cachelab.tf.resources import Resources

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

CALLS = frozenset({"PartitionedCall", "StatefulPartitionedCall"})
CONDITIONALS = {"If": True, "StatelessIf": True, "Case": False, "StatelessCase": False}
"""Type of a conditional -> whether it has a then and an else branch (otherwise numbered branches)."""
WHILES = frozenset({"While", "StatelessWhile"})

IN_FUNCTION = " (in function)"
"""Suffix of a function's op whose name the user's graph has too."""

MAX_DEPTH = 24
MAX_ROWS = 400_000
GROWTH_BY_NODE = 0.25


class Flattener:
    """Keeps the :class:`FlatGraph` of one ``tf.Graph`` up to date as the graph grows.

    Parameters
    ----------
    number
        The number of the graph in the recording.
    graph
        The user's graph. It is only read.
    """

    def __init__(self, number: int, graph: Any) -> None:
        self.graph = graph
        self.flat = FlatGraph(number)
        self.resources = Resources(self.flat, self._function)
        self.count = 0
        self.version = -1
        self.of_functions: set[int] = set()
        self._library: dict[str, Any] = {}

    def update(self) -> bool:
        """Read ops that were added since the last update; return whether there were any."""
        graph = self.graph
        if graph.version == self.version:
            return False
        version = graph.version
        operations = graph.get_operations()
        known = self.count
        if known and len(operations) - known < GROWTH_BY_NODE * known:
            nodes = [operation.node_def for operation in operations[known:]]
            # Gradients of while loops change loops that exist already.
            nodes += [op.node_def for op in operations[:known] if op.type in WHILES or op.type in CONDITIONALS]
        else:
            definition = graph.as_graph_def()
            nodes = list(definition.node)
            self._library.update((function.signature.name, function) for function in definition.library.function)
        for node in nodes:
            self.flat.row(node.name, node.op)
        touched: list[tuple[int, Any]] = []
        for node in nodes:
            touched.extend(self._add(node))
        self.flat.numbers.update((row, number) for row, node in touched if (number := _integer(node)) is not None)
        self.resources.update(touched)
        self.count, self.version = len(operations), version
        return True

    def _add(self, node: Any) -> Iterable[tuple[int, Any]]:
        row = self.flat.index[node.name]
        inputs: list[Ref] = []
        control: list[int] = []
        for name in node.input:
            if name.startswith("^"):
                control.append(self.flat.index[name[1:]])
                continue
            producer, _, output = name.partition(":")
            inputs.append((self.flat.index[producer], int(output or 0)))
        self.flat.inputs[row], self.flat.control[row] = tuple(inputs), tuple(control)
        yield row, node
        yield from self._expand(row, node, 0, ())

    def _expand(self, row: int, node: Any, depth: int, frames: tuple[int, ...]) -> Iterable[tuple[int, Any]]:
        """Expand a call op into rows for its body; leave it whole where that is impossible."""
        if node.op not in CALLS and node.op not in CONDITIONALS and node.op not in WHILES:
            return
        if depth >= MAX_DEPTH or len(self.flat.name) > MAX_ROWS:
            return
        names = _function_names(node)
        functions = [self._function(name) for name in names]
        if any(function is None for function in functions):
            return
        if node.op in CALLS:
            yield from self._expand_call(row, functions[0], depth, frames)
        elif node.op in WHILES:
            yield from self._expand_while(row, functions, depth, frames)
        else:
            labels = ["then", "else"] if CONDITIONALS[node.op] else [f"branch{i}" for i in range(len(functions))]
            yield from self._expand_conditional(row, functions, labels, depth, frames)

    def _function(self, name: str) -> Any:
        function = self._library.get(name)
        if function is None and self.graph._is_function(name):
            atomic = self.graph._get_function(name)
            function = getattr(atomic, "cached_definition", None) or getattr(atomic, "definition", None)
            if function is not None:
                self._library[name] = function
        return function

    def _expand_call(self, row: int, function: Any, depth: int, frames: tuple[int, ...]) -> Iterable[tuple[int, Any]]:
        body = _Body(self, row, "", function, frames)
        yield from body.add(list(self.flat.inputs[row]), self.flat.control[row], depth)
        self.flat.outputs[row] = tuple(body.returns)
        self.flat.body[row] = tuple(body.kept)
        self.flat.members[row] = tuple(body.rows)

    def _expand_conditional(
        self, row: int, functions: Sequence[Any], labels: Sequence[str], depth: int, frames: tuple[int, ...]
    ) -> Iterable[tuple[int, Any]]:
        flat = self.flat
        predicate, *given = flat.inputs[row]
        bodies = []
        for label, function in zip(labels, functions, strict=True):
            body = _Body(self, row, label, function, frames)
            yield from body.add(given, (*flat.control[row], predicate[0]), depth)
            bodies.append(body)
        outputs: list[Ref] = []
        for index in range(min(len(body.returns) for body in bodies)):
            select = flat.row(f"{flat.name[row]}/{SELECT}/{index}", SELECT, shown=False)
            flat.inputs[select] = (predicate, *(body.returns[index] for body in bodies))
            flat.selects[select] = row
            if frames:
                flat.frame[select] = frames
            outputs.append((select, 0))
        flat.outputs[row] = tuple(outputs)
        flat.body[row] = tuple(kept for body in bodies for kept in body.kept)
        flat.branches[row] = tuple(frozenset(body.rows) for body in bodies)
        flat.members[row] = tuple(member for body in bodies for member in body.rows)

    def _expand_while(
        self, row: int, functions: Sequence[Any], depth: int, frames: tuple[int, ...]
    ) -> Iterable[tuple[int, Any]]:
        flat = self.flat
        inner = (*frames, row)
        variables: list[Ref] = []
        for index in range(len(flat.inputs[row])):
            variable = flat.row(f"{flat.name[row]}/{LOOP_VAR}/{index}", LOOP_VAR, shown=False)
            flat.frame[variable] = inner
            variables.append((variable, 0))
        condition = _Body(self, row, "cond", functions[0], inner)
        yield from condition.add(variables, flat.control[row], depth)
        body = _Body(self, row, "body", functions[1], inner)
        yield from body.add(variables, flat.control[row], depth)
        for variable, initial, after in zip(variables, flat.inputs[row], body.returns, strict=False):
            if flat.resolve(after) == variable:
                flat.inputs[variable[0]] = (initial,)  # does not change, so it is what it was before the loop
            else:
                flat.inputs[variable[0]] = (initial, after, condition.returns[0])
        flat.outputs[row] = tuple(variables)
        flat.body[row] = (*condition.kept, *body.kept, condition.returns[0][0])
        flat.members[row] = (*condition.rows, *body.rows)


class _Body:
    """Rows of one function body at one call site.

    ``returns``: references of the returned tensors; ``kept``: rows that run whenever the call does (control
    returns and stateful ops); ``rows``: all shown rows.
    """

    def __init__(self, owner: Flattener, hub: int, label: str, function: Any, frames: tuple[int, ...]) -> None:
        self.owner, self.flat, self.hub, self.function, self.frames = owner, owner.flat, hub, function, frames
        self.prefix = f"{self.flat.name[hub]}/{label}/" if label else f"{self.flat.name[hub]}/"
        self._names = {node.name for node in function.node_def}
        self.returns: list[Ref] = []
        self.kept: list[int] = []
        self.rows: list[int] = []

    def add(self, given: Sequence[Ref], control: tuple[int, ...], depth: int) -> Iterable[tuple[int, Any]]:
        """Add the rows of the body, its arguments being ``given``; yield them with their NodeDefs."""
        flat, function = self.flat, self.function
        entry = flat.row(f"{self.prefix}{ENTRY}", ENTRY, shown=False)
        flat.control[entry] = control
        arguments = {argument.name: index for index, argument in enumerate(function.signature.input_arg)}
        nodes = {node.name: node for node in function.node_def}
        rows = {name: flat.row(self._unique(name), node.op) for name, node in nodes.items()}
        offsets: dict[str, dict[str, int]] = {}

        def tensor(name: str) -> Ref:
            producer, *rest = name.split(":")
            if producer in arguments and not rest:
                index = arguments[producer]
                return given[index] if index < len(given) else (OUTSIDE, 0)
            if producer not in nodes or not rest:
                return (OUTSIDE, 0)
            if producer not in offsets:
                offsets[producer] = output_offsets(nodes[producer])
            return rows[producer], offsets[producer].get(rest[0], 0) + int(rest[1] if len(rest) > 1 else 0)

        for name, node in nodes.items():
            row = rows[name]
            flat.inputs[row] = tuple(tensor(item) for item in node.input if not item.startswith("^"))
            before = [rows[item[1:]] for item in node.input if item.startswith("^") and item[1:] in rows]
            takes_argument = any(item in arguments for item in node.input)
            flat.control[row] = (*before, entry) if takes_argument or not node.input else tuple(before)
            if self.frames:
                flat.frame[row] = self.frames
            self.rows.append(row)
            yield row, node
            yield from self.owner._expand(row, node, depth + 1, self.frames)
        for argument in function.signature.output_arg:
            self.returns.append(tensor(function.ret.get(argument.name, "")))
        self.kept = [rows[name] for name in function.control_ret.values() if name in rows]
        self.kept.append(entry)

    def _unique(self, name: str) -> str:
        """Return the shown name of a body's op; a user's op of the same name keeps its own."""
        shown = self.prefix + self._as_built(name)
        row = self.flat.index.get(shown)
        if row is not None and row not in self.owner.of_functions:
            shown += IN_FUNCTION
        made = self.flat.row(shown, "")
        self.owner.of_functions.add(made)
        self.flat.index.setdefault(self.prefix + name, made)  # under which the runtime's trace lists it
        return shown

    def _as_built(self, name: str) -> str:
        """Return the name that an op had when it was built: a function renames it if it clashes with an output."""
        base = name.removesuffix("_0")
        return base if base in self.function.ret and base not in self._names else name


def _integer(node: Any) -> int | None:
    """Return the value of a constant that is a single integer."""
    if node.op != "Const":
        return None
    tensor = node.attr["value"].tensor
    if tensor.dtype not in {types_pb2.DT_INT32, types_pb2.DT_INT64} or tensor.tensor_shape.dim:
        return None
    return int(tf.make_ndarray(tensor))


def _function_names(node: Any) -> list[str]:
    if node.op in CALLS:
        return [node.attr["f"].func.name]
    if node.op in WHILES:
        return [node.attr["cond"].func.name, node.attr["body"].func.name]
    if CONDITIONALS[node.op]:
        return [node.attr["then_branch"].func.name, node.attr["else_branch"].func.name]
    return [function.name for function in node.attr["branches"].list.func]
