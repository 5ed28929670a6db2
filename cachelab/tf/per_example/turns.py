"""A body for each of n numbers: vectorised by ``pfor``, or in turns where that would be wrong or impossible."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import tensorflow as tf
from tensorflow.python.ops import while_v2
from tensorflow.python.ops.parallel_for import control_flow_ops as parallel_for

from cachelab.tf.per_example.effects import function_def, function_names

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

COMPILED: Final = "_XlaMustCompile"
"""Attribute of a call that XLA compiles (``jit_compile=True``)."""
_BY_KERNEL: Final = "Conv2DBackpropFilter"


def each(
    body: Callable[[tf.Tensor], list[tf.Tensor]],
    count: tf.Tensor,
    specs: Sequence[tf.TensorSpec | tf.Tensor],
    ops: Iterable[tf.Operation],
    *,
    differentiated: bool = False,
) -> list[tf.Tensor]:
    """Return the results of ``body(i)`` for i from 0 to count - 1, stacked.

    ``specs`` have the shape and dtype of one result each; ``ops`` are those that the body copies, or builds
    anew and takes the gradient of (``differentiated``).
    """
    if not any(needs_turns(op, differentiated=differentiated) for op in ops):
        return parallel_for.pfor(body, count)
    arrays = [tf.TensorArray(spec.dtype, count, infer_shape=False, element_shape=spec.shape) for spec in specs]

    def step(number: tf.Tensor, *arrays: tf.TensorArray) -> tuple[Any, ...]:
        return (number + 1, *(array.write(number, value) for array, value in zip(arrays, body(number), strict=True)))

    # Of the second kind whatever the graph uses: it works in sessions and in functions alike.
    found = while_v2.while_loop(
        lambda number, *_arrays: number < count, step, (tf.constant(0), *arrays), parallel_iterations=1
    )
    return [array.stack() for array in found[1:]]


def needs_turns(op: tf.Operation, *, differentiated: bool = False) -> bool:
    """Return whether ``pfor`` can't convert ``op``, and would only find out at run time.

    It forgets the explicit paddings of the gradient by a kernel, and its copy of a compiled convolution is not
    compiled: TensorFlow on CPU has no gradient of grouped ones but through XLA.
    """
    kernels = "Conv2D" if differentiated else _BY_KERNEL
    return any(node.op.startswith("Conv") and (compiled or _explicit(node, kernels)) for node, compiled in _nodes(op))


def has_lost_gradient(op: tf.Operation) -> bool:
    """Return whether ``op`` is or calls such a gradient of a convolution; values of convolutions are no problem."""
    return any(
        node.op.startswith("Conv") and "Backprop" in node.op and (compiled or _explicit(node))
        for node, compiled in _nodes(op)
    )


def _explicit(node: Any, kind: str = _BY_KERNEL) -> bool:
    return node.op.startswith(kind) and node.attr["padding"].s == b"EXPLICIT"


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
            for value in node.attr.values():
                called = [value.func.name] if value.HasField("func") else [f.name for f in value.list.func]
                pending.extend((other, own) for other in called)
