"""Bodies of called functions in place of the calls, so that rules and ``pfor`` see plain ops."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Final

from tensorflow.core.framework import graph_pb2, node_def_pb2
from tensorflow.python.framework import function_def_to_graph

from cachelab.tf.per_example.effects import function_def, function_names
from cachelab.tf.per_example.turns import must_stay_compiled

if TYPE_CHECKING:
    from collections.abc import Iterable

    import tensorflow as tf

CALLS: Final = frozenset({"PartitionedCall", "StatefulPartitionedCall"})
"""Op types that are nothing but a call of a function."""


def inline_calls(graph_def: graph_pb2.GraphDef, graph: tf.Graph) -> tuple[graph_pb2.GraphDef, dict[str, str]]:
    """Replace calls in ``graph_def`` (producers first, full tensor names, no control inputs) by their bodies.

    Returns the new GraphDef and ``{tensor name of a call's output: tensor name that has the value now}``, to be
    looked up once. ``graph`` knows the functions. A call of an unknown function stays.
    """
    result = graph_pb2.GraphDef(versions=graph_def.versions)
    alias: dict[str, str] = {}
    pending = list(reversed(graph_def.node))
    while pending:
        node = pending.pop()
        inputs = [alias.get(name, name) for name in node.input]
        inlined = node.op in CALLS and not must_stay_compiled(node, graph)
        definition = function_def(graph, node.attr["f"].func.name) if inlined else None
        if definition is None:
            kept = result.node.add()
            kept.CopyFrom(node)
            kept.input[:] = inputs
            continue
        body, flat = function_def_to_graph.function_def_to_graph_def(definition)
        count = len(definition.signature.input_arg)
        local = {f"{arg.name}:0": name for arg, name in zip(body.node[:count], inputs, strict=True)}
        nodes = []
        for inner in _sorted(body.node[count:]):
            moved = node_def_pb2.NodeDef()
            moved.CopyFrom(inner)
            moved.name = f"{node.name}/{inner.name}"
            moved.attr.pop("_class", None)
            moved.input[:] = [
                local.get(name, f"{node.name}/{name}") for name in inner.input if not name.startswith("^")
            ]
            nodes.append(moved)
        pending.extend(reversed(nodes))
        for index, argument in enumerate(definition.signature.output_arg):
            value = flat[definition.ret[argument.name]]
            alias[f"{node.name}:{index}"] = local.get(value, f"{node.name}/{value}")
    return result, _followed(alias, result)


def _sorted(nodes: list[node_def_pb2.NodeDef]) -> list[node_def_pb2.NodeDef]:
    """Return nodes with producers first: a FunctionDef promises no order."""
    names = {node.name: node for node in nodes}
    order: list[node_def_pb2.NodeDef] = []
    done: set[str] = set()
    for root in nodes:
        stack = [(root, False)]
        while stack:
            node, finished = stack.pop()
            if finished:
                order.append(node)
                continue
            if node.name in done:
                continue
            done.add(node.name)
            stack.append((node, True))
            producers = (name.rpartition(":")[0] for name in node.input if not name.startswith("^"))
            stack.extend((names[name], False) for name in producers if name in names and name not in done)
    return order


def _followed(alias: dict[str, str], result: graph_pb2.GraphDef) -> dict[str, str]:
    """Resolve chains of aliases, and the inputs that named one before it was known."""

    def final(name: str) -> str:
        while name in alias:
            name = alias[name]
        return name

    for node in result.node:
        node.input[:] = [final(name) for name in node.input]
    return {name: final(name) for name in alias}


def make_functions_convertible(ops: Iterable[tf.Operation], graph: tf.Graph) -> None:
    """Give the functions that ``ops`` call what ``pfor`` wants to see: a FuncGraph.

    Functions of a graph that came from a GraphDef are known by their definition only; ``pfor`` converts the
    bodies of loops and branches through ``function.graph``. ``graph`` must be a private graph.
    """
    pending = [(graph, name) for op in ops for name in function_names(op)]
    while pending:
        owner, name = pending.pop()
        function = owner._get_function(name) or graph._get_function(name)
        if function is None:
            continue
        if not hasattr(function, "graph"):
            with graph.as_default():
                body = function_def_to_graph.function_def_to_graph(function.cached_definition)
            function.graph = body
            function.function_type = SimpleNamespace(flat_outputs=body.outputs)
            pending.extend((body, nested) for op in body.get_operations() for nested in function_names(op))
        owner._functions.setdefault(name, function)
