"""Whether the value of a traced function is determined by its inputs and the variables that it reads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import tensorflow as tf
from tensorflow.core.framework import types_pb2
from tensorflow.python.framework import op_def_registry

from cachelab.i18n import translate as _
from cachelab.tf.effects import LOCAL_CREATORS, PASS_ON, VARIABLES, arguments, effects_of

if TYPE_CHECKING:
    from collections.abc import Iterator

_CALLS: Final = frozenset(
    {"PartitionedCall", "StatefulPartitionedCall", "If", "StatelessIf", "Case", "StatelessCase", "While",
     "StatelessWhile", "SymbolicGradient"}
)  # fmt: skip
"""Types that only run function bodies, which are looked at themselves."""

_REASONS: Final = {
    "random": _("draws a new random number with every execution"),
    "iterator": _("takes the next element of an iterator, queue or counter"),
    "file": _("depends on a file, which can change unseen"),
    "opaque": _("is opaque: what it depends on or changes can't be known"),
    "effect": _("changes a resource and returns a value of it"),
    "": _("has an effect that must happen with every call"),
}


def impurity(concrete: Any) -> str:
    """Return why calls of a ``ConcreteFunction`` can't be reused, ``""`` if they can.

    A pure function has no effect, draws nothing, runs no Python and reads nothing but its inputs, constants and
    variables that it captures by reference.
    """
    for node in _nodes(concrete.graph.as_graph_def()):
        reason = _reason(node)
        if reason:
            return _("op {name!r} ({type}) {reason}").format(name=node.name, type=node.op, reason=reason)
    if concrete.graph.deferred_external_captures:
        return _("it captures a value that is looked up anew with every call")
    for tensor in concrete.captured_inputs:
        if tensor.dtype == tf.variant or (tensor.dtype == tf.resource and variable_dtype(tensor) is None):
            return _("it captures {name!r}, which is no variable but a table, iterator, dataset or the like").format(
                name=getattr(tensor, "name", None) if not hasattr(tensor, "numpy") else str(tensor.dtype.name)
            )
    return ""


def variable_dtype(handle: Any) -> Any | None:
    """Return the dtype of the variable behind a resource handle, ``None`` if it is of no variable."""
    data = getattr(handle, "_handle_data", None)
    if data is None or not data.is_set or len(data.shape_and_type) != 1:
        return None
    return tf.as_dtype(data.shape_and_type[0].dtype)


def _nodes(graph_def: Any) -> Iterator[Any]:
    """Yield the nodes of a graph and of all function bodies that it can run."""
    bodies = {function.signature.name: function.node_def for function in graph_def.library.function}
    queue, seen = [graph_def.node], set()
    while queue:
        for node in queue.pop():
            yield node
            for value in node.attr.values():
                for called in [value.func, *value.list.func]:
                    if called.name and called.name not in seen:
                        seen.add(called.name)
                        queue.append(bodies.get(called.name, ()))


def _reason(node: Any) -> str:
    if node.op in _CALLS or node.op in PASS_ON or node.op.startswith("Placeholder"):
        return ""
    found = effects_of(node.op)
    if found.draws or found.effect:
        return _REASONS[found.draws]
    if node.op in LOCAL_CREATORS or node.op.startswith("TensorArray"):
        return ""
    if any(argument.ref or (argument.resource and not found.reads_only) for argument in arguments(node)):
        return _("writes a variable or another resource")
    definition = op_def_registry.get(node.op)
    if node.op in VARIABLES or any(a.is_ref or a.type == types_pb2.DT_RESOURCE for a in definition.output_arg):
        return _("reaches a resource by its name, so that it can't be watched")
    return ""
