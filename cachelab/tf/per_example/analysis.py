"""What a loss does with its variables and its examples: the places where they meet, and the paths to them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import tensorflow as tf
from tensorflow.python.framework import ops

from cachelab.errors import NotApplicableError, OptionError
from cachelab.i18n import translate as _
from cachelab.tf.per_example.copying import ancestors, dependent
from cachelab.tf.per_example.custom_gradients import has_custom_gradient, overridden
from cachelab.tf.per_example.effects import executed_types
from cachelab.tf.per_example.flow import FIXED, CoupledError, Flow, Kind, Layout, analyse
from cachelab.tf.per_example.rules import Rule, Site, rule_for

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_CONTROL = frozenset(
    {"If", "StatelessIf", "While", "StatelessWhile", "Case", "PartitionedCall", "StatefulPartitionedCall"}
)
_LOOPS = frozenset({"While", "StatelessWhile", "If", "StatelessIf", "Case", "StatelessCase"})
_TRANSPARENT = frozenset({"Identity", "ReadVariableOp", "Cast", "Reshape", "ExpandDims", "Squeeze"})
"""Ops on the way from a variable to its use that keep the order of its entries and their squared norm."""


@dataclass
class Use:
    """A site, its rule (``None`` if there is none), and whether the weight there is the variable itself."""

    site: Site | None
    op: tf.Operation
    index: int
    rule: Rule | None
    direct: bool
    why: str = ""
    """Why there is no rule, where it is not for the type of the op."""


@dataclass
class Parameter:
    """One of the variables asked for: its tensor in the graph and its uses."""

    variable: Any
    name: str
    shape: tuple[int, ...]
    dtype: tf.DType
    source: tf.Tensor
    uses: list[Use] = field(default_factory=list)

    @property
    def has_rules(self) -> bool:
        """Whether every use has a rule."""
        return all(use.rule is not None for use in self.uses)


@dataclass
class Problem:
    """A loss per example, its inputs and variables, as found in a graph."""

    loss: tf.Tensor
    inputs: list[tf.Tensor]
    parameters: list[Parameter]
    flow: Flow | None
    count: tf.Tensor
    batch: int | None
    xla: bool
    rebuild: Callable[[Sequence[tf.Tensor]], tf.Tensor] | None = None
    coupled: NotApplicableError | None = None
    unvectorised: str = ""
    """Why TensorFlow could not vectorise the gradient, in a sentence, once that was tried."""

    @property
    def fixed_batch(self) -> bool:
        """Whether the number of examples is built into the graph, so that a copy for one of them would be wrong."""
        return self.batch not in {None, 1}

    @property
    def loops(self) -> bool:
        """Whether a loop or a branch lies between the inputs and the loss, or in a function called there."""
        moving = dependent(ancestors([self.loss]), self.inputs)
        return any(op_type in _LOOPS for op_type in executed_types(moving, self.loss.graph))


def study(
    loss: tf.Tensor,
    variables: Sequence[Any],
    inputs: Sequence[tf.Tensor] | None,
    *,
    xla: bool = False,
    rebuild: Callable[[Sequence[tf.Tensor]], tf.Tensor] | None = None,
) -> Problem:
    """Find out where examples and variables meet in the graph of ``loss``.

    ``rebuild``, in the function form, builds the loss again for other inputs.

    Raises
    ------
    OptionError
        If ``loss`` is not one number an example, or an input does not have the examples on its first axis.
    """
    loss = tf.convert_to_tensor(loss)
    if loss.shape.rank != 1:
        raise OptionError(
            _("The loss `{name}` has shape {shape}; it must have one entry an example, shape [m].").format(
                name=loss.name, shape=loss.shape
            ),
            _("Leave the reduction over the batch out (Keras losses: `reduction=None`)."),
        )
    if not loss.dtype.is_floating:
        raise OptionError(
            _("The loss `{name}` is of type {dtype}, which has no gradient.").format(
                name=loss.name, dtype=loss.dtype.name
            ),
            _("Let it return real floating-point numbers; a cast to integers cuts the gradient off."),
        )
    order = ancestors([loss])
    found = _default_inputs(loss, order) if inputs is None else list(inputs)
    batch = _batch(loss, found)
    parameters = [_parameter(variable, loss.graph) for variable in variables]
    count = tf.shape(loss)[0] if batch is None else tf.constant(batch)
    problem = Problem(loss, found, parameters, None, count, batch, xla, rebuild)
    try:
        problem.flow = analyse(found, [loss], batch)
    except NotApplicableError as error:
        problem.coupled = error
        return problem
    _check_loss(problem)
    if not problem.flow.unproven:
        _find_uses(problem, order)
    return problem


def _default_inputs(loss: tf.Tensor, order: Sequence[tf.Operation]) -> list[tf.Tensor]:
    captured = {tensor.ref() for tensor in getattr(loss.graph, "internal_captures", ())}
    size = loss.shape[0]
    found = []
    for op in order:
        if op.type not in {"Placeholder", "PlaceholderWithDefault"} or op.outputs[0].ref() in captured:
            continue
        tensor = op.outputs[0]
        if tensor.shape.rank is None:
            raise OptionError(
                _("Placeholder `{name}` has no known rank, so that it is not clear whether it holds examples.").format(
                    name=tensor.name
                ),
                _("Pass `inputs`, the tensors that have the examples on their first axis."),
            )
        if tensor.shape.rank > 0 and (tensor.shape[0] == size or tensor.shape[0] is None):
            found.append(tensor)
    if not found:
        raise OptionError(
            _("The loss `{name}` depends on no placeholder with examples.").format(name=loss.name),
            _("Pass `inputs`, the tensors that have the examples on their first axis."),
        )
    return found


def _batch(loss: tf.Tensor, inputs: Sequence[tf.Tensor]) -> int | None:
    """Return the number of examples if the inputs say it; a loss may only agree with them."""
    if any(tensor.shape.rank == 0 for tensor in inputs):
        name = next(tensor.name for tensor in inputs if tensor.shape.rank == 0)
        raise OptionError(
            _("Input `{name}` is a scalar; inputs have the examples on their first axis.").format(name=name),
            _("Leave it out of `inputs`: what is not an input is the same for all examples."),
        )
    known = {tensor.shape[0] for tensor in inputs if tensor.shape.rank} - {None}
    sizes = known | ({loss.shape[0]} - {None} if known else set())
    if len(sizes) > 1:
        raise OptionError(
            _("Loss and inputs have different numbers of examples: {sizes}.").format(sizes=sorted(sizes)),
            _("All inputs and the loss have the examples on their first axis."),
        )
    return known.pop() if known else None


def _check_loss(problem: Problem) -> None:
    state = problem.flow.state(problem.loss)
    if state is FIXED:
        raise OptionError(
            _("The loss `{name}` does not depend on the inputs {inputs}.").format(
                name=problem.loss.name, inputs=", ".join(tensor.name for tensor in problem.inputs)
            ),
            _("Pass the tensors that it is computed from as `inputs`."),
        )
    if isinstance(state, Layout) and (state.axis, state.before, state.after) != (0, 1, 1):
        raise OptionError(
            _("The loss `{name}` has more than one entry an example.").format(name=problem.loss.name),
            _("Sum or average the entries of each example first."),
        )


def _parameter(variable: Any, graph: tf.Graph) -> Parameter:
    variable = unwrapped(variable)
    if isinstance(variable, tf.Tensor):
        source = variable
    elif hasattr(variable, "handle"):
        source = variable.handle
    else:
        source = variable._ref()
    if tf.is_symbolic_tensor(source) is False or source.graph is not graph:
        if not hasattr(graph, "capture"):
            raise OptionError(
                _("Variable `{name}` is not in the graph of the loss.").format(name=variable.name),
                _("Pass variables of the same graph."),
            )
        source = graph.capture(source)
    if not (variable.dtype.is_floating or variable.dtype.is_complex):
        raise OptionError(
            _("Variable `{name}` is of type {dtype}, by which there is no gradient.").format(
                name=variable.name, dtype=variable.dtype.name
            ),
            _("Leave it out of the variables."),
        )
    if not variable.shape.is_fully_defined():
        raise OptionError(
            _("Variable `{name}` has no fully known shape: {shape}.").format(name=variable.name, shape=variable.shape),
            _("Give it one with `set_shape`."),
        )
    return Parameter(variable, variable.name, tuple(variable.shape.as_list()), variable.dtype.base_dtype, source)


def unwrapped(variable: Any) -> Any:
    """Return the TensorFlow variable in a Keras one."""
    inner = getattr(variable, "_value", None)
    return inner if isinstance(inner, tf.Variable) else variable


def _find_uses(problem: Problem, order: Sequence[tf.Operation]) -> None:
    """Follow each variable through what depends on no example, up to the ops that combine it with the examples.

    ``bent`` are the tensors on the way behind a gradient of the user's own: it need not be linear, so that gradients
    of several uses can't be carried back one by one.
    """
    carried: dict[Any, dict[int, bool]] = {}
    for number, parameter in enumerate(problem.parameters):
        carried.setdefault(parameter.source.ref(), {})[number] = True
    bent: set[Any] = set()
    rows = {ref for ref in problem.flow.draws if problem.flow.state(ref.deref()) is FIXED}
    for op in order:
        hit = [(index, carried[tensor.ref()]) for index, tensor in enumerate(op.inputs) if tensor.ref() in carried]
        own = next((op.inputs[index] for index, _numbers in hit if op.inputs[index].ref() in rows), None)
        if own is not None:
            problem.coupled = CoupledError(op, _("`{tensor}` has a row for each of them").format(tensor=own.name))
            return
        if not hit or not _passes_gradient(op):
            continue
        if any(not isinstance(problem.flow.state(out), Kind) for out in op.outputs):
            _add_uses(problem, op, hit, bent)
        else:
            _carry(op, hit, carried)
            if has_custom_gradient(op) or any(op.inputs[index].ref() in bent for index, _numbers in hit):
                bent.update(out.ref() for out in op.outputs)


def _carry(op: tf.Operation, hit: list[tuple[int, dict[int, bool]]], carried: dict[Any, dict[int, bool]]) -> None:
    """Mark the outputs of ``op`` as made from the variables in ``hit``: number -> whether it still is the variable."""
    transparent = op.type in _TRANSPARENT and len(hit) == 1 and not overridden(op)
    for out in op.outputs:
        into = carried.setdefault(out.ref(), {})
        for _index, numbers in hit:
            for number, direct in numbers.items():
                into[number] = direct and transparent and into.get(number, True)


def _passes_gradient(op: tf.Operation) -> bool:
    """Return whether some gradient goes through ``op`` (``stop_gradient``, shapes and comparisons let none pass)."""
    kinds = {out.dtype.base_dtype for out in op.outputs}
    if not any(kind.is_floating or kind.is_complex or kind in {tf.resource, tf.variant} for kind in kinds):
        return False
    try:
        return op.type in _CONTROL or ops.get_gradient_function(op) is not None
    except LookupError:
        return True


def _add_uses(problem: Problem, op: tf.Operation, hit: list[tuple[int, dict[int, bool]]], bent: set[Any]) -> None:
    for index, numbers in hit:
        why = _no_rule(problem, op, own_gradient=op.inputs[index].ref() in bent)
        for number, direct in numbers.items():
            _add_use(problem, number, op, index, direct=direct and len(numbers) == 1, why=why)


def _no_rule(problem: Problem, op: tf.Operation, *, own_gradient: bool) -> str:
    """Return why no rule may serve a weight at ``op``, whatever its type; an empty string if one may."""
    if problem.flow.mixing_gradients:
        name, how = next(iter(problem.flow.mixing_gradients.items()))
        return _("it is not proven that the custom gradient of op `{op}` keeps the examples apart: {how}").format(
            op=name, how=how
        )
    if any(tensor.dtype.is_complex for tensor in (*op.inputs, *op.outputs)):
        return _("op `{op}` ({type}) computes with complex numbers, for which there are no rules.").format(
            op=op.name, type=op.type
        )
    if own_gradient or overridden(op):
        return _("op `{op}` ({type}) or one before it has a custom gradient, for which there is no rule.").format(
            op=op.name, type=op.type
        )
    return ""


def _add_use(problem: Problem, number: int, op: tf.Operation, index: int, *, direct: bool, why: str) -> None:
    parameter = problem.parameters[number]
    layout = problem.flow.layout(op.outputs[0]) if op.outputs else None
    weight = op.inputs[index]
    shape = parameter.shape if weight.dtype is tf.resource else weight.shape
    site = rule = None
    if layout is not None and (isinstance(shape, tuple) or shape.is_fully_defined()):
        shape = shape if isinstance(shape, tuple) else tuple(shape.as_list())
        site = Site(op, index, shape, layout, problem.flow, problem.count, problem.xla)
        rule = None if why else rule_for(site)
    parameter.uses.append(Use(site, op, index, rule, direct, why))
