"""How calls of functions, branches, loops and lists of tensors pass examples on."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from tensorflow.python.framework import function_def_to_graph
from tensorflow.python.framework.func_graph import FuncGraph

from cachelab.i18n import translate as _
from cachelab.tf.per_example.effects import function_def
from cachelab.tf.per_example.flow import FIXED, SIZE, Layout, Unproven, layout_rule
from cachelab.tf.per_example.layout_tools import creates

if TYPE_CHECKING:
    from collections.abc import Sequence

    import tensorflow as tf

    from cachelab.tf.per_example.flow import Flow, State


def body_graph(op: tf.Operation, attribute: str) -> Any:
    """Return the FuncGraph of the function that ``op`` names in an attribute, built from its definition."""
    return named_body(op, op.get_attr(attribute).name)


def named_body(op: tf.Operation, name: str) -> Any:
    """Return the body of the function called ``name``: a graph with its ``inputs`` and ``outputs``.

    The graph that was traced knows more shapes than its definition.
    """
    definition = function_def(op.graph, name)
    graph = op.graph
    while graph is not None:
        function = graph._get_function(name)
        if isinstance(getattr(function, "graph", None), FuncGraph):
            traced = _as_defined(function.graph, definition)
            if traced is not None:
                return traced
            break
        graph = getattr(graph, "outer_graph", None)
    with op.graph.as_default():
        return function_def_to_graph.function_def_to_graph(definition)


def _as_defined(traced: FuncGraph, definition: Any) -> Any:
    """Return the inputs and outputs of a traced graph that its definition has, ``None`` if they don't agree.

    For gradients TensorFlow adds outputs (intermediate values) and inputs to a traced graph and defines a new function,
    so that one graph stands behind several definitions: each has its first so many inputs and outputs.
    """
    signature, kinds = definition.signature, {node.name: node.op for node in definition.node_def}
    inputs = traced.inputs[: len(signature.input_arg)]
    outputs = traced.outputs[: len(signature.output_arg)]
    if (len(inputs), len(outputs)) != (len(signature.input_arg), len(signature.output_arg)):
        return None
    names = {tensor.ref(): argument.name for tensor, argument in zip(inputs, signature.input_arg, strict=True)}
    for tensor, result in zip(outputs, signature.output_arg, strict=True):
        name = definition.ret[result.name]
        own = names.get(tensor.ref())
        if own != name and (own is not None or tensor.op.type != kinds.get(name.partition(":")[0])):
            return None
    return SimpleNamespace(inputs=inputs, outputs=outputs)


def _through(
    flow: Flow, body: Any, tensors: Sequence[tf.Tensor], states: Sequence[State], name: str
) -> tuple[list[State], Flow]:
    """Return the states of a body's outputs for those of its arguments."""
    inputs = {inner.ref(): state for inner, state in zip(body.inputs, states, strict=True) if state is not FIXED}
    values = {}
    for inner, outer in zip(body.inputs, tensors, strict=False):
        if inner.dtype.is_integer and flow.value(outer) is not None:
            values[inner.ref()] = flow.value(outer)
    inside = flow.sub_flow(inputs, values)
    inside.run(body.outputs)
    flow.unproven.update({f"{name}/{op}": op_type for op, op_type in inside.unproven.items()})
    flow.mixing_gradients.update({f"{name}/{op}": how for op, how in inside.mixing_gradients.items()})
    return [inside.state(tensor) for tensor in body.outputs], inside


@layout_rule("PartitionedCall", "StatefulPartitionedCall")
@creates
def _call(flow: Flow, op: tf.Operation) -> list[State]:
    body = body_graph(op, "f")
    states, inside = _through(flow, body, op.inputs, [flow.state(tensor) for tensor in op.inputs], op.name)
    _note_inside(flow, op, inside, states)
    # A function whose gradient was taken elsewhere returns what that needs too.
    return states[: len(op.outputs)]


def _note_inside(flow: Flow, op: tf.Operation, inside: Flow, states: Sequence[State]) -> None:
    """Note draws inside a function, and numbers made from the batch size if it is copied: a copy can't keep them."""
    if inside.draws:
        flow.unproven.setdefault(op.name, op.type)
    copied = [*states, *(flow.state(tensor) for tensor in op.inputs)]
    if (inside.pins or inside.uncopyable) and any(isinstance(state, Layout) for state in copied):
        flow.uncopyable.setdefault(op.name, op.type)


@layout_rule("If", "StatelessIf", "Case", "StatelessCase")
@creates
def _branch(flow: Flow, op: tf.Operation) -> list[State]:
    if flow.layout(op.inputs[0]) is not None:
        raise flow.couples(op, _("which branch is taken depends on the examples"))
    names = [op.get_attr("then_branch"), op.get_attr("else_branch")] if "If" in op.type else op.get_attr("branches")
    joined: list[State] | None = None
    insides: list[Flow] = []
    for branch in names:
        states, inside = _through(
            flow, named_body(op, branch.name), op.inputs[1:], [flow.state(tensor) for tensor in op.inputs[1:]], op.name
        )
        insides.append(inside)
        joined = states if joined is None else [_join(a, b, op) for a, b in zip(joined, states, strict=True)]
    for inside in insides:
        _note_inside(flow, op, inside, joined or [])
    return joined or []


@layout_rule("While", "StatelessWhile")
@creates
def _loop(flow: Flow, op: tf.Operation) -> list[State]:
    body, condition = body_graph(op, "body"), body_graph(op, "cond")
    states = [flow.state(tensor) for tensor in op.inputs]
    while True:
        after, inside = _through(flow, body, (), states, op.name)
        joined = [_join(a, b, op) for a, b in zip(states, after, strict=True)]
        if joined == states:
            break
        states = joined  # they only go up (fixed, size, layout, unproven): at most a few rounds a variable
    _note_inside(flow, op, inside, states)
    (decision,), inside = _through(flow, condition, (), states, op.name)
    _note_inside(flow, op, inside, states)
    if decision is SIZE and any(isinstance(state, Layout) for state in states):
        flow.uncopyable.setdefault(op.name, op.type)
    if isinstance(decision, Layout):
        raise flow.couples(op, _("how many times it goes round depends on all examples"))
    return [decision if isinstance(decision, Unproven) else state for state in states]


def _join(one: State, other: State, op: tf.Operation) -> State:
    if one == other or other is FIXED:
        return one
    if one is FIXED or (one is SIZE and isinstance(other, Layout)):
        return other
    if other is SIZE:
        return one
    if isinstance(one, Layout) and isinstance(other, Layout):
        a, b = (one.axis, one.before, one.after), (other.axis, other.before, other.after)
        return one.moved(one.axis) if a == b else Unproven(op.name, op.type)
    return one if isinstance(one, Unproven) else other


@layout_rule("OptionalFromValue", "OptionalGetValue")
def _optional(flow: Flow, op: tf.Operation) -> list[State] | None:
    """Follow values that a branch keeps for its gradient, which the other branch does not have."""
    return [flow.state(op.inputs[0])] if len(op.inputs) == 1 == len(op.outputs) else None


@layout_rule("TensorListFromTensor")
def _list_from_tensor(flow: Flow, op: tf.Operation) -> list[State] | None:
    layout = flow.layout(op.inputs[0])
    if layout is None:
        return [SIZE]
    if layout.axis == 0:
        return None  # what becomes of the single examples is not followed
    return [layout.moved(layout.axis - 1)]


@layout_rule("TensorListSetItem")
def _list_set(flow: Flow, op: tf.Operation) -> list[State] | None:
    return _list_with(flow, op, op.inputs[0], op.inputs[2])


@layout_rule("TensorListPushBack")
def _list_push(flow: Flow, op: tf.Operation) -> list[State] | None:
    return _list_with(flow, op, op.inputs[0], op.inputs[1])


def _list_with(flow: Flow, op: tf.Operation, handle: tf.Tensor, item: tf.Tensor) -> list[State] | None:
    return [_join(flow.state(handle), flow.state(item), op)]


@layout_rule("TensorListGetItem")
def _list_get(flow: Flow, op: tf.Operation) -> list[State] | None:
    if flow.layout(op.inputs[1]) is not None:
        return None
    return [flow.state(op.inputs[0])]


@layout_rule("TensorListPopBack")
def _list_pop(flow: Flow, op: tf.Operation) -> list[State] | None:
    return [flow.state(op.inputs[0])] * 2


@layout_rule("TensorListStack")
def _list_stack(flow: Flow, op: tf.Operation) -> list[State] | None:
    layout = flow.layout(op.inputs[0])
    return None if layout is None else [layout.moved(layout.axis + 1)]


@layout_rule("TensorListResize")
def _list_resize(flow: Flow, op: tf.Operation) -> list[State] | None:
    return [flow.state(op.inputs[0])]
