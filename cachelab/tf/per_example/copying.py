"""Copies of a part of a graph with some of its tensors replaced: the one primitive under all methods.

A forward pass together with its backward pass is copied for other inputs (one example, a chunk, an iteration
of a ``pfor``) instead of being built again, so that a custom gradient, which closes over the tensors of the
original, is copied too and never sees the wrong batch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import tensorflow as tf
from tensorflow.core.framework import graph_pb2, node_def_pb2
from tensorflow.python.framework import importer
from tensorflow.python.ops import handle_data_util

from cachelab.errors import NotApplicableError
from cachelab.i18n import translate as _
from cachelab.tf.per_example.effects import function_names
from cachelab.tf.per_example.inlining import inline_calls

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

_LISTS = frozenset({"TensorListReserve"})
REF_OFFSET = 100
"""TensorFlow marks the dtype of a reference by adding this to the value's."""


def ancestors(targets: Iterable[tf.Tensor], stop: Iterable[tf.Tensor] = ()) -> list[tf.Operation]:
    """Return the ops that the value of ``targets`` depends on over data edges, producers first.

    The walk stops at the tensors in ``stop``: an op one output of which is in ``stop`` still counts where
    another output is needed. No recursion, so that a chain of 20,000 ops is no problem.
    """
    stops = {tensor.ref() for tensor in stop}
    seen: set[tf.Operation] = set()
    order: list[tf.Operation] = []
    for target in targets:
        if target.ref() in stops:
            continue
        stack: list[tuple[tf.Operation, bool]] = [(target.op, False)]
        while stack:
            op, done = stack.pop()
            if done:
                order.append(op)
                continue
            if op in seen:
                continue
            seen.add(op)
            stack.append((op, True))
            stack.extend(
                (tensor.op, False) for tensor in op.inputs if tensor.ref() not in stops and tensor.op not in seen
            )
    return order


def dependent(order: Iterable[tf.Operation], sources: Iterable[tf.Tensor]) -> list[tf.Operation]:
    """Return the ops of ``order`` (producers first) whose inputs depend on one of ``sources``."""
    tensors = {tensor.ref() for tensor in sources}
    found: dict[tf.Operation, None] = {}
    for op in order:
        if any(tensor.ref() in tensors or tensor.op in found for tensor in op.inputs):
            found[op] = None
    return list(found)


def copy_slice(
    targets: Sequence[tf.Tensor], mapping: Mapping[Any, tf.Tensor], *, name: str = "slice", for_pfor: bool = False
) -> list[tf.Tensor]:
    """Copy what lies between the keys of ``mapping`` and ``targets`` into the current graph.

    Parameters
    ----------
    targets
        Tensors of one graph.
    mapping
        ``tensor.ref()`` of a tensor of that graph -> the tensor to use in its place. The walk stops there.
    name
        Name scope of the copies.
    for_pfor
        Write zeros of a list of tensors, which ``pfor`` can't convert, as a new list.

    Returns
    -------
    list of tf.Tensor
        ``targets`` as functions of the replacements; a target that does not depend on them is returned as it is
        (captured where the current graph is a function's body).

    Notes
    -----
    Control edges are left out: callers make sure that the part has no effects, and values do not depend on them.
    The function library is shared, not copied.
    """
    current = tf.compat.v1.get_default_graph()
    sources = [ref.deref() for ref in mapping]
    order = ancestors(targets, sources)
    moving = dependent(order, sources)
    if for_pfor:
        # pfor must make the lists that a loop fills itself, one row of each an iteration.
        also, found = {op for op in order if op.type in _LISTS}, set(moving)
        moving = [op for op in order if op in also or op in found] if also else moving
    inside = set(moving)

    def here(tensor: tf.Tensor) -> tf.Tensor:
        return tensor if tensor.graph is current else current.capture(tensor)

    outside: dict[str, tf.Tensor] = {}
    for op in moving:
        for tensor in op.inputs:
            if tensor.ref() in mapping:
                outside[tensor.name] = here(mapping[tensor.ref()])
            elif tensor.op not in inside:
                outside[tensor.name] = here(tensor)
    graph_def = _nodes_of(moving, for_pfor=for_pfor)
    wanted = [tensor for tensor in targets if tensor.ref() not in mapping and tensor.op in inside]
    copies: dict[Any, tf.Tensor] = {}
    if wanted:
        source = wanted[0].graph
        graph_def.versions.CopyFrom(source.graph_def_versions)
        if current is not source:
            _share_functions(moving, current)
        with source.as_default():
            graph_def, alias = inline_calls(graph_def, source)
        names = [alias.get(tensor.name, tensor.name) for tensor in wanted]
        used = {name for node in graph_def.node for name in node.input}
        # A call may return one of its arguments as it is: that is a tensor from outside.
        made = [name for name in names if name not in outside]
        imported = importer.import_graph_def(
            graph_def,
            input_map={name: tensor for name, tensor in outside.items() if name in used},
            return_elements=made,
            name=name,
        )
        values = {**outside, **dict(zip(made, imported, strict=True))}
        copies = {tensor.ref(): values[new] for tensor, new in zip(wanted, names, strict=True)}
    result = []
    for tensor in targets:
        copy = mapping.get(tensor.ref(), copies.get(tensor.ref()))
        result.append(here(tensor) if copy is None else copy)
    return result


def _nodes_of(ops: Iterable[tf.Operation], *, for_pfor: bool) -> graph_pb2.GraphDef:
    """Return the definitions of ``ops`` without control edges and colocations."""
    graph_def = graph_pb2.GraphDef()
    for op in ops:
        if for_pfor and op.type == "ZerosLike" and op.inputs[0].dtype is tf.variant:
            graph_def.node.extend(_new_list_like(op))
            continue
        node = graph_def.node.add()
        node.CopyFrom(op.node_def)
        node.attr.pop("_class", None)
        node.input[:] = [tensor.name for tensor in op.inputs]
    return graph_def


def _share_functions(ops: Iterable[tf.Operation], graph: tf.Graph) -> None:
    """Make the functions that ``ops`` call known to ``graph``, which is inside their own."""
    for op in ops:
        for name in function_names(op):
            _share(op.graph, name, graph)


def _share(source: tf.Graph, name: str, graph: tf.Graph) -> None:
    while not source._is_function(name) and hasattr(source, "outer_graph"):
        source = source.outer_graph
    function = source._get_function(name)
    if function is not None and not graph._is_function(name):
        graph._add_function_recursive(function)


def _new_list_like(op: tf.Operation) -> list[node_def_pb2.NodeDef]:
    """Return nodes that make a list of zeros like the list that ``op`` (``ZerosLike``) takes.

    Made from the stacked elements, as the shape of an element may be known to them only.
    """
    source = op.inputs[0]
    data = handle_data_util.get_resource_handle_data(source)
    if not data.shape_and_type:
        raise NotApplicableError(
            _("Op `{op}` makes zeros of a list of unknown type, which TensorFlow can't vectorise.").format(op=op.name),
            _('Use `method="loop"`.'),
        )
    kind = data.shape_and_type[0].dtype
    shape = node_def_pb2.NodeDef(name=f"{op.name}/shape", op="TensorListElementShape", input=[source.name])
    stack = node_def_pb2.NodeDef(name=f"{op.name}/stack", op="TensorListStack", input=[source.name, f"{shape.name}:0"])
    stack.attr["num_elements"].i = -1
    zeros = node_def_pb2.NodeDef(name=f"{op.name}/zeros", op="ZerosLike", input=[f"{stack.name}:0"])
    made = node_def_pb2.NodeDef(name=op.name, op="TensorListFromTensor", input=[f"{zeros.name}:0", f"{shape.name}:0"])
    zeros.attr["T"].type = kind
    for node in (stack, made):
        node.attr["element_dtype"].type = kind
    for node in (shape, made):
        node.attr["shape_type"].type = tf.int32.as_datatype_enum
    return [shape, stack, zeros, made]
