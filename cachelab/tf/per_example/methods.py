"""The three tasks in a graph: per-example gradients, their squared norms, their clipped sum."""

from __future__ import annotations

import math
from functools import cached_property
from typing import TYPE_CHECKING, Any

import tensorflow as tf

from cachelab.errors import OptionError
from cachelab.i18n import translate as _
from cachelab.tf.per_example import copies
from cachelab.tf.per_example.copying import ancestors
from cachelab.tf.per_example.custom_gradients import has_custom_gradient
from cachelab.tf.per_example.mapping import stacked_map
from cachelab.tf.per_example.plans import has_ghost, make_plan
from cachelab.tf.per_example.rules import at_least_float32, squared_rows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cachelab.tf.per_example.analysis import Parameter, Problem, Use
    from cachelab.tf.per_example.plans import Plan


class Work:
    """The tensors of one problem under one plan; what two tasks share is built once."""

    def __init__(self, problem: Problem, plan: Plan) -> None:
        self.problem = problem
        self.plan = plan
        self.methods = [entry.method for entry in plan.variables]
        self._formed: dict[int, tf.Tensor] = {}

    @cached_property
    def deltas(self) -> dict[tf.Operation, tf.Tensor]:
        """Op of a use -> gradient of the sum of the losses by its first output; one backward pass for all."""
        served = [
            p for p, method in zip(self.problem.parameters, self.methods, strict=True) if method in {"outer", "ghost"}
        ]
        found = list(dict.fromkeys(use.op for parameter in served for use in parameter.uses))
        deltas = tf.gradients(self.problem.loss, [op.outputs[0] for op in found]) if found else []
        return {
            op: tf.zeros_like(op.outputs[0]) if delta is None else tf.convert_to_tensor(delta)
            for op, delta in zip(found, deltas, strict=True)
        }

    @cached_property
    def copied(self) -> dict[int, tf.Tensor]:
        """Number of a parameter -> its per-example gradients by ``vectorized`` or ``jacobian``."""
        result: dict[int, tf.Tensor] = {}
        for method, compute in (("vectorized", copies.vectorized), ("jacobian", copies.jacobian)):
            numbers = [i for i, chosen in enumerate(self.methods) if chosen == method]
            if numbers:
                found = compute(self.problem, [self.problem.parameters[i] for i in numbers])
                result.update(zip(numbers, found, strict=True))
        return result

    def formed(self, number: int) -> tf.Tensor:
        """Return the per-example gradients of parameter ``number``, ``[m, *shape]``."""
        if number not in self._formed:
            parameter, method = self.problem.parameters[number], self.methods[number]
            if method == "none":
                self._formed[number] = copies.zeros(self.problem, parameter)
            elif method in {"outer", "ghost"}:
                self._formed[number] = tf.add_n([self._carried(parameter, use) for use in parameter.uses])
            else:
                self._formed[number] = self.copied[number]
        return self._formed[number]

    def _carried(self, parameter: Parameter, use: Use) -> tf.Tensor:
        """Return the gradients at one use, carried back from the weight there to the variable."""
        gradient = use.rule.per_example(self.deltas[use.op])
        if use.direct:
            return tf.reshape(tf.cast(gradient, parameter.dtype), [-1, *parameter.shape])
        weight = use.site.weight

        def back(index: tf.Tensor) -> tf.Tensor:
            row = tf.cast(tf.gather(gradient, index), weight.dtype)
            (found,) = tf.gradients(weight, [parameter.source], grad_ys=tf.reshape(row, tf.shape(weight)))
            return tf.zeros(parameter.shape, parameter.dtype) if found is None else tf.convert_to_tensor(found)

        with copies.vectorising():
            found = stacked_map(back, self.problem.count)
        return tf.reshape(tf.cast(found, parameter.dtype), [-1, *parameter.shape])

    def gradients(self) -> list[tf.Tensor]:
        """Return ``[m, *shape]`` for each parameter."""
        return [self.formed(number) for number in range(len(self.problem.parameters))]

    @cached_property
    def norms(self) -> tf.Tensor:
        """The squared norm of each example's gradient over all parameters, ``[m]``."""
        parts = [self._norm(number) for number, method in enumerate(self.methods) if method != "none"]
        if not parts:
            return tf.zeros([self.problem.count])
        return _added(parts)

    def _norm(self, number: int) -> tf.Tensor:
        parameter = self.problem.parameters[number]
        if self.methods[number] == "ghost" and has_ghost(parameter):
            (use,) = parameter.uses
            return use.rule.squared_norm(self.deltas[use.op])
        return squared_rows(self.formed(number))

    def clipped(self, max_norm: Any) -> list[tf.Tensor]:
        """Return the sum over examples of gradients scaled down to ``max_norm``, like each parameter.

        A second backward pass of the weighted loss would be wrong where a custom gradient is not linear.
        """
        factors = clip_factors(self.norms, max_norm)
        if self.plan.method == "ghost" and not any(map(has_custom_gradient, ancestors([self.problem.loss]))):
            return self._reweighted(factors)
        return [self._weighted(number, factors) for number in range(len(self.problem.parameters))]

    def _reweighted(self, factors: tf.Tensor) -> list[tf.Tensor]:
        weights = tf.cast(factors, self.problem.loss.dtype)
        found = copies.batch_gradients(self.problem, self.problem.parameters, grad_ys=weights)
        return [
            tf.zeros(p.shape, p.dtype) if gradient is None else tf.cast(tf.reshape(gradient, p.shape), p.dtype)
            for p, gradient in zip(self.problem.parameters, found, strict=True)
        ]

    def _weighted(self, number: int, factors: tf.Tensor) -> tf.Tensor:
        parameter, method = self.problem.parameters[number], self.methods[number]
        if method == "none":
            return tf.zeros(parameter.shape, parameter.dtype)
        if method == "ghost" and number not in self._formed:
            (use,) = parameter.uses
            found = use.rule.weighted_sum(self.deltas[use.op], factors)
            return tf.reshape(tf.cast(found, parameter.dtype), parameter.shape)
        return scaled_sum(self.formed(number), factors, parameter)


def _widest(dtypes: Sequence[tf.DType]) -> tf.DType:
    return max(dtypes, key=lambda dtype: dtype.size)


def _added(parts: Sequence[tf.Tensor]) -> tf.Tensor:
    """Return the sum of tensors of several float types, in the widest of them."""
    widest = _widest([part.dtype for part in parts])
    return tf.add_n([tf.cast(part, widest) for part in parts])


def as_number(value: Any, dtype: tf.DType) -> tf.Tensor:
    """Return a number or tensor in ``dtype``; ``tf.cast`` alone would round a Python float to float32 first."""
    if tf.is_tensor(value):
        return tf.cast(value, dtype)
    return tf.convert_to_tensor(math.inf if value > float(dtype.max) else value, dtype)


def clip_factors(norms: tf.Tensor, max_norm: Any) -> tf.Tensor:
    """Return ``min(1, max_norm / norm)`` for squared norms, 1 where the norm is 0 and for an infinite limit.

    A limit that only the run knows and that is negative gives NaN: it must not flip signs.
    """
    limit = as_number(max_norm, norms.dtype)
    limit = tf.where(limit >= 0, limit, tf.constant(math.nan, norms.dtype))
    lengths = tf.sqrt(norms)
    # In this order a norm that is NaN stays NaN.
    return tf.where(lengths <= limit, tf.ones_like(lengths), tf.math.divide_no_nan(limit, lengths))


def scaled_sum(gradient: tf.Tensor, factors: tf.Tensor, parameter: Parameter) -> tf.Tensor:
    """Return the sum over examples of ``factors[i] * gradient[i]``."""
    wide = at_least_float32(gradient)
    count = 1
    for size in parameter.shape:
        count *= size
    rows = tf.reshape(wide, [-1, count])
    total = tf.linalg.matvec(rows, tf.cast(factors, rows.dtype), transpose_a=True)
    return tf.cast(tf.reshape(total, parameter.shape), parameter.dtype)


def answer(
    problem: Problem, task: str, method: str, *, chunk_size: int | None = None, max_norm: Any = None
) -> tuple[list[tf.Tensor], Plan]:
    """Return a task's results and the plan that gave them: another than the first if TensorFlow can't vectorise."""
    plan = make_plan(problem, task, method)
    try:
        return solve(problem, plan, chunk_size=chunk_size, max_norm=max_norm), plan
    except copies.NotVectorisedError as error:
        if method != "auto":
            raise
        problem.unvectorised = error.reason
        plan = make_plan(problem, task, method)
        return solve(problem, plan, chunk_size=chunk_size, max_norm=max_norm), plan


def solve(problem: Problem, plan: Plan, *, chunk_size: int | None = None, max_norm: Any = None) -> list[tf.Tensor]:
    """Return the results of a task as tensors of the problem's graph (``norms``: a list of one)."""
    if chunk_size is not None and problem.batch is not None and chunk_size >= problem.batch:
        chunk_size = None
    if chunk_size is not None:
        check_chunks(plan)
    if plan.method == "loop":
        return _looped(problem, plan.task, max_norm)
    work = Work(problem, plan)
    results = {"gradients": work.gradients, "norms": lambda: [work.norms], "clipped": lambda: work.clipped(max_norm)}[
        plan.task
    ]()
    if chunk_size is None:
        return results
    specs = [tf.TensorSpec(result.shape, result.dtype) for result in results]
    return copies.in_chunks(problem, results, chunk_size, specs, add=plan.task == "clipped")


def check_chunks(plan: Plan) -> None:
    """Refuse chunks where each would be another batch, as it is for a Jacobian."""
    if plan.method == "jacobian":
        raise OptionError(
            _("A Jacobian can't be taken in chunks: each chunk would be another batch. {reason}").format(
                reason=plan.reason
            ),
            _("Leave `chunk_size` out."),
        )


def _looped(problem: Problem, task: str, max_norm: Any) -> list[tf.Tensor]:
    """Return a task's results by one backward pass an example, one after the other."""
    found = copies.batch_gradients(problem, problem.parameters)
    present = [(p, gradient) for p, gradient in zip(problem.parameters, found, strict=True) if gradient is not None]

    def norm(rows: Sequence[tf.Tensor]) -> tf.Tensor:
        return _added([squared_rows(row[tf.newaxis]) for row in rows])

    def post(rows: list[tf.Tensor]) -> list[tf.Tensor]:
        if task == "gradients":
            return [row[tf.newaxis] for row in rows]
        if task == "norms":
            return [norm(rows)]
        factors = clip_factors(norm(rows), max_norm)
        return [scaled_sum(row[tf.newaxis], factors, p) for row, (p, _g) in zip(rows, present, strict=True)]

    targets = [tf.cast(tf.reshape(gradient, p.shape), p.dtype) for p, gradient in present]
    specs = [tf.TensorSpec([None, *p.shape] if task == "gradients" else p.shape, p.dtype) for p, _g in present]
    if task == "norms":
        specs = [tf.TensorSpec([None], _widest([*(p.dtype.real_dtype for p, _g in present), tf.float32]))]
    results = iter(copies.in_chunks(problem, targets, 1, specs, post=post, add=task == "clipped") if targets else ())
    if task == "norms":
        return [next(results) if targets else tf.zeros([problem.count])]
    missing = (lambda p: tf.zeros(p.shape, p.dtype)) if task == "clipped" else (lambda p: copies.zeros(problem, p))
    return [missing(p) if g is None else next(results) for p, g in zip(problem.parameters, found, strict=True)]
