"""Which ops ``pfor`` can't convert, so that examples with them take turns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from cachelab.tf.per_example.effects import function_def, function_names, functions_in

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import tensorflow as tf

COMPILED: Final = "_XlaMustCompile"
"""Attribute of a call that XLA compiles (``jit_compile=True``)."""
_BY_KERNEL: Final = "Conv2DBackpropFilter"


def needs_turns(op: tf.Operation) -> bool:
    """Return whether ``pfor`` can't convert ``op``, and would only find out at run time.

    It forgets the explicit paddings of the gradient by a kernel, and its copy of a compiled convolution is not
    compiled: TensorFlow on CPU has no gradient of grouped ones but through XLA.
    """
    return any(node.op.startswith("Conv") and (compiled or _explicit(node)) for node, compiled in _nodes(op))


def has_lost_gradient(op: tf.Operation) -> bool:
    """Return whether ``op`` is or calls such a gradient of a convolution; values of convolutions are no problem."""
    return any(
        node.op.startswith("Conv") and "Backprop" in node.op and (compiled or _explicit(node))
        for node, compiled in _nodes(op)
    )


def _explicit(node: Any) -> bool:
    return node.op.startswith(_BY_KERNEL) and node.attr["padding"].s == b"EXPLICIT"


def must_stay_compiled(node: Any, graph: tf.Graph) -> bool:
    """Return whether a call is compiled by XLA and has convolutions, so that its body can't stand in its place."""
    return node.attr[COMPILED].b and any(
        inner.op.startswith("Conv") for inner, _compiled in _bodies([node.attr["f"].func.name], graph, True)
    )


def _nodes(op: tf.Operation) -> Iterator[tuple[Any, bool]]:
    """Yield the definition of an op and those in the functions that it calls, and whether XLA compiles them."""
    definition = op.node_def
    compiled = COMPILED in definition.attr and definition.attr[COMPILED].b
    yield definition, compiled
    yield from _bodies(function_names(op), op.graph, compiled)


def _bodies(names: Iterable[str], graph: tf.Graph, compiled: bool) -> Iterator[tuple[Any, bool]]:
    pending, seen = [(name, compiled) for name in names], set()
    while pending:
        name, inside = pending.pop()
        definition = None if (name, inside) in seen else function_def(graph, name)
        seen.add((name, inside))
        for node in definition.node_def if definition is not None else ():
            own = inside or (COMPILED in node.attr and node.attr[COMPILED].b)
            yield node, own
            pending.extend((other, own) for other in functions_in(node.attr))
