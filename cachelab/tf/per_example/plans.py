"""Which method serves which variable, and why."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import tensorflow as tf

from cachelab.errors import NotApplicableError, OptionError
from cachelab.i18n import translate as _
from cachelab.tf.per_example.batch_numbers import not_copyable
from cachelab.tf.per_example.copying import ancestors
from cachelab.tf.per_example.effects import effects
from cachelab.tf.per_example.flow import analyse, not_proven

if TYPE_CHECKING:
    from cachelab.tf.per_example.analysis import Parameter, Problem

TASKS: Final = {
    "gradients": ("auto", "outer", "vectorized", "loop", "jacobian"),
    "norms": ("auto", "ghost", "outer", "vectorized", "loop", "jacobian"),
    "clipped": ("auto", "bookkeeping", "ghost", "outer", "vectorized", "loop", "jacobian"),
}
"""Task -> the methods that can do it."""

_COPIES: Final = frozenset({"vectorized", "loop"})


@dataclass(frozen=True)
class VariablePlan:
    """How one variable is served: its name and shape, the method, the ops that use it, and the reason."""

    name: str
    shape: tuple[int, ...]
    method: str
    ops: tuple[str, ...]
    reason: str


@dataclass(frozen=True)
class Plan:
    """What ``auto`` (or a method asked for) does, and why; ``str(plan)`` is the report.

    Parameters
    ----------
    task
        ``gradients``, ``norms`` or ``clipped``.
    method
        The method of most of the work: ``outer``, ``ghost``, ``bookkeeping``, ``vectorized``, ``loop``, ``jacobian``.
    reason
        Why, in a sentence.
    variables
        One entry a variable, in the order asked for.
    jit
        Whether the function is compiled by XLA.
    compiling
        Why, where that is found out by trial.
    unproven
        Ops that no rule knows, so that it is not proven that examples stay apart: name -> type.
    """

    task: str
    method: str
    reason: str
    variables: tuple[VariablePlan, ...]
    jit: bool = False
    compiling: str = ""
    unproven: tuple[tuple[str, str], ...] = ()

    def __str__(self) -> str:
        """Return the report as text."""
        lines = [f"{self.task}: {self.method}{' (XLA)' if self.jit else ''}. {self.reason} {self.compiling}".rstrip()]
        lines += [
            f"  {plan.name} {list(plan.shape)}: {plan.method} at {', '.join(plan.ops) or '-'}: {plan.reason}"
            for plan in self.variables
        ]
        return "\n".join(lines)


def make_plan(problem: Problem, task: str, method: str) -> Plan:
    """Choose how each variable is served.

    Raises
    ------
    OptionError
        If there is no such method for the task.
    NotApplicableError
        If examples are coupled, or the method asked for can't serve a variable; the message names the op.
    """
    if method not in TASKS[task]:
        raise OptionError(
            _("There is no method `{method}` for {task}.").format(method=method, task=task),
            _("Methods: {methods}.").format(methods=", ".join(TASKS[task])),
        )
    if method == "jacobian":
        return _uniform(
            problem, task, "jacobian", _("As asked for: the gradient of each entry of the loss, one by one.")
        )
    if method == "auto" and problem.batch == 1:
        return _uniform(problem, task, "jacobian", _("There is one example only: the plain gradient is its gradient."))
    if problem.coupled is not None:
        raise problem.coupled
    unproven = tuple(problem.flow.unproven.items())
    if unproven:
        name, op_type = unproven[0]
        if method != "auto":
            raise not_proven(
                problem.flow,
                _('Use `method="jacobian"`, or register a rule with `cachelab.tf.per_example.layout_rule`.'),
            )
        reason = _(
            "It is not proven that op `{op}` ({type}) keeps the examples apart; this is right even if it does not."
        )
        return _uniform(problem, task, "jacobian", reason.format(op=name, type=op_type), unproven)
    if method in _COPIES and problem.fixed_batch and not (method == "vectorized" and can_rebuild(problem)):
        raise NotApplicableError(
            _("The graph has the batch size {m} built in, so that it can't be copied for single examples.").format(
                m=problem.batch
            ),
            _("Leave the size of the batch open (`None`) when the graph is built, or use another method."),
        )
    if method in _COPIES and problem.flow.uncopyable:
        raise not_copyable(problem.flow)
    if method == "vectorized" and problem.loops and not can_rebuild(problem):
        raise NotApplicableError(
            _("TensorFlow can't vectorise the gradient of a loop or branch that is in the graph already."),
            _('Use `method="loop"`. A function without random draws and numbers from shapes is built anew instead.'),
        )
    if method in _COPIES:
        return _uniform(problem, task, method, _("As asked for."))
    return _ruled(problem, task, method)


def _uniform(problem: Problem, task: str, method: str, reason: str, unproven: tuple[tuple[str, str], ...] = ()) -> Plan:
    variables = tuple(
        VariablePlan(p.name, p.shape, method, tuple(use.op.name for use in p.uses), reason) for p in problem.parameters
    )
    return Plan(task, method, reason, variables, problem.xla, unproven=unproven)


def _ruled(problem: Problem, task: str, method: str) -> Plan:
    variables = tuple(_serve(parameter, task, method) for parameter in problem.parameters)
    fallen = [plan for plan in variables if plan.method == "vectorized"]
    there = not can_rebuild(problem) and (problem.fixed_batch or problem.loops)
    if fallen and method == "auto" and there and problem.fixed_batch and problem.flow.mixing_gradients:
        raise NotApplicableError(
            _("{reason} A copy for one example would be right, but the batch size is built into the graph.").format(
                reason=fallen[0].reason
            ),
            _('Leave it open (`None`), or ask for `method="jacobian"`, the gradient through the mixture.'),
        )
    how = "jacobian" if problem.fixed_batch or problem.flow.uncopyable else "loop"
    if method == "auto" and problem.unvectorised:
        return _uniform(problem, task, how, problem.unvectorised)
    if fallen and method == "auto" and problem.flow.uncopyable:
        name, op_type = next(iter(problem.flow.uncopyable.items()))
        reason = _("{reason}; op `{op}` ({type}) uses the batch size in a way that a copy for one example can't keep.")
        return _uniform(problem, task, "jacobian", reason.format(reason=fallen[0].reason, op=name, type=op_type))
    if fallen and method == "auto" and there:
        if problem.fixed_batch:
            reason = _(
                "{reason}; the batch size is built into the graph, so that it can't be copied for single examples."
            )
        else:
            reason = _("{reason}; TensorFlow can't vectorise the gradient of a loop or branch that is there already.")
        return _uniform(problem, task, how, reason.format(reason=fallen[0].reason))
    if fallen and method != "auto":
        raise NotApplicableError(
            _("Method `{method}` can't serve variable `{variable}`: {reason}").format(
                method=method, variable=fallen[0].name, reason=fallen[0].reason
            ),
            _('Use `method="auto"` or `"vectorized"`.'),
        )
    main = {"gradients": "outer", "norms": "ghost", "clipped": "bookkeeping"}[task] if method == "auto" else method
    served = [plan for plan in variables if plan.method != "none"]
    if fallen and len(fallen) == len(served):
        return Plan(
            task,
            "vectorized",
            _("No variable has a rule: one run over copies, vectorised by TensorFlow."),
            variables,
            problem.xla,
        )
    reasons = {
        "outer": _("Activations and deltas of one forward and one backward pass give the gradient of each example."),
        "ghost": _("Norms come from activations and deltas; gradients are formed only where that is cheaper."),
        "bookkeeping": _("Norms from activations and deltas, then sums with scaled deltas: one backward pass in all."),
    }
    return Plan(task, main, reasons[main], variables, problem.xla)


def can_rebuild(problem: Problem) -> bool:
    """Return whether the loss can be built again for other inputs and is then surely the same function.

    Any random draw, one for all examples too, would be drawn anew.
    """
    flow = problem.flow
    if problem.rebuild is None or flow is None or flow.draws or flow.pins or flow.uncopyable or flow.unproven:
        return False
    ops = ancestors([problem.loss])
    drawn = any(op.type.startswith("Stateless") and op.type[9:].startswith(("Random", "Truncated")) for op in ops)
    if drawn or next(effects(ops, problem.loss.graph), None) is not None:
        return False
    return not problem.fixed_batch or _serves_any_batch(problem)


def _serves_any_batch(problem: Problem) -> bool:
    """Return whether the loss is free of numbers made from the batch size, by a trace with an open one.

    A batch size that is known leaves but a constant in the graph.
    """
    specs = [tf.TensorSpec([None, *tensor.shape[1:]], tensor.dtype) for tensor in problem.inputs]
    flows = []

    def look(*tensors: tf.Tensor) -> tf.Tensor:
        losses = tf.convert_to_tensor(problem.rebuild(tensors))
        flows.append(analyse(tensors, [losses]))
        return losses

    try:
        tf.function(look, input_signature=specs, autograph=False).get_concrete_function()
    except Exception:  # noqa: BLE001  the user's function may need a known size in any way
        return False
    flow = flows[-1]
    return not (flow.draws or flow.pins or flow.uncopyable or flow.unproven)


def _serve(parameter: Parameter, task: str, method: str) -> VariablePlan:
    ops = tuple(use.op.name for use in parameter.uses)

    def plan(how: str, why: str) -> VariablePlan:
        return VariablePlan(parameter.name, parameter.shape, how, ops, why)

    if not parameter.uses:
        return plan("none", _("The loss does not depend on it through the examples: its gradients are zero."))
    for use in parameter.uses:
        if use.rule is None:
            text = use.why or _("op `{op}` ({type}) has no rule for its input {index}.")
            return plan("vectorized", text.format(op=use.op.name, type=use.op.type, index=use.index))
    names = ", ".join(sorted({use.rule.name for use in parameter.uses}))
    if task != "gradients" and method != "outer" and has_ghost(parameter):
        return plan("ghost", _("norm without forming the gradient ({rule})").format(rule=names))
    if task == "gradients" or method == "outer":
        why = "{rule}"
    elif len(parameter.uses) > 1:
        why = _("used {n} times, so that its gradients are added up first ({rule})")
    elif not parameter.uses[0].direct:
        why = _("reaches its use through other ops, so that its gradient is formed first ({rule})")
    else:
        why = _("forming the gradient is cheaper here ({rule})")
    return plan("outer", why.format(n=len(ops), rule=names))


def has_ghost(parameter: Parameter) -> bool:
    """Return whether the norm can be had without the per-example gradient."""
    if len(parameter.uses) != 1:
        return False
    use = parameter.uses[0]
    return use.direct and use.rule is not None and not use.rule.forms_gradient
