"""The function form in eager code: one trace a loss, found again, compiled by XLA where that turns out to win."""

from __future__ import annotations

import time
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import tensorflow as tf

from cachelab.errors import OptionError
from cachelab.i18n import translate as _
from cachelab.tf.per_example import (  # noqa: F401  fill the registries
    layout_rules,
    rules_conv,
    rules_elementwise,
    rules_gather,
    rules_products,
)
from cachelab.tf.per_example.analysis import Problem, study, unwrapped
from cachelab.tf.per_example.asked import check_dense
from cachelab.tf.per_example.copies import NotVectorisedError
from cachelab.tf.per_example.copying import ancestors
from cachelab.tf.per_example.memory import chunk_for
from cachelab.tf.per_example.methods import as_number, check_chunks, solve
from cachelab.tf.per_example.plans import Plan, can_rebuild, make_plan
from cachelab.tf.per_example.registry import Registry
from cachelab.tf.per_example.traces import Traces, converted, flat_call, recording
from cachelab.tf.per_example.trial import Trial

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from cachelab.tf.per_example.request import Request

_NOT_FOR_XLA: Final = (
    "Conv",
    "DepthwiseConv",
    "MaxPool",
    "AvgPool",
    "While",
    "StatelessWhile",
    "PyFunc",
    "EagerPyFunc",
)
"""Beginnings of op types for which XLA is not tried: it loses on CPU (convolutions 2 to 4 times), or can't do it."""
_FAILURES: Final = (
    tf.errors.InvalidArgumentError,
    tf.errors.UnimplementedError,
    tf.errors.InternalError,
    tf.errors.NotFoundError,
)


class Entry:
    """One loss with its variables, inputs' specs and task, traced."""

    def __init__(
        self, loss: Callable[..., Any], variables: list[Any], inputs: tuple[Any, ...], request: Request
    ) -> None:
        self.loss = converted(loss)
        self.variables, self.task, self.method = variables, request.task, request.method
        self.jit = request.jit
        self.structure = inputs
        self.specs = [tf.TensorSpec([None, *tensor.shape[1:]], tensor.dtype) for tensor in tf.nest.flatten(inputs)]
        self.problem = self._studied()
        self.problem.xla = self.jit is True or (self.jit == "auto" and suits_xla(self.problem))
        self._plan = make_plan(self.problem, self.task, self.method)
        self._unvectorised = ""
        self._trials: dict[int, Trial] = {}
        self._traces: dict[Any, Any] = {}

    @property
    def plan(self) -> Plan:
        """What is done, and why, as far as it is known by now."""
        if self.jit is True or not self.problem.xla:
            return self._plan
        trials = list(self._trials.values()) or [Trial(0)]
        decided = any(trial.decided and trial.xla for trial in trials)
        return replace(self._plan, jit=decided, compiling=" ".join(dict.fromkeys(map(str, trials))))

    def settle(self) -> None:
        """Trace the work itself if only that shows whether TensorFlow can vectorise what the plan says."""
        carried = any(not use.direct for parameter in self.problem.parameters for use in parameter.uses)
        copied = any(entry.method == "vectorized" for entry in self._plan.variables)
        if self.method == "auto" and (copied or carried):
            self._trace(xla=self.problem.xla)

    def _losses(self, tensors: Sequence[tf.Tensor]) -> tf.Tensor:
        return self.loss(*tf.nest.pack_sequence_as(self.structure, list(tensors)))

    def _studied(self) -> Problem:
        """Return the problem as found in a trace that is thrown away."""
        found: list[Problem] = []

        def look(*tensors: tf.Tensor) -> tf.Tensor:
            losses = self._losses(tensors)
            found.append(study(losses, self.variables, tensors, rebuild=self._losses))
            return losses

        with recording():
            tf.function(look, input_signature=self.specs, autograph=False).get_concrete_function()
        return found[-1]

    def _compile(self, *, xla: bool, chunk_size: int | None = None) -> Any:
        def work(max_norm: tf.Tensor, *tensors: tf.Tensor) -> list[tf.Tensor]:
            problem = study(self._losses(tensors), self.variables, tensors, xla=xla, rebuild=self._losses)
            problem.unvectorised = self._unvectorised
            self._plan = make_plan(problem, self.task, self.method)
            return solve(problem, self._plan, chunk_size=chunk_size, max_norm=max_norm)

        signature = [tf.TensorSpec([], tf.float64), *self.specs]
        function = tf.function(work, input_signature=signature, jit_compile=xla, autograph=False)
        try:
            with recording():
                return flat_call(function.get_concrete_function())
        except NotVectorisedError as error:
            if self.method != "auto" or self._unvectorised:
                raise
            # Another way in a trace of its own: in this one, ops of the attempt would run along.
            self._unvectorised = error.reason
            return self._compile(xla=xla, chunk_size=chunk_size)

    def __call__(self, tensors: Sequence[tf.Tensor], max_norm: tf.Tensor) -> list[tf.Tensor]:
        """Return the results for one batch."""
        if not self.problem.xla or self.jit is True:
            return self._run(tensors, max_norm, xla=self.problem.xla)
        trial = self._trials.setdefault(tensors[0].shape[0], Trial(tensors[0].shape[0]))
        if trial.decided:
            return self._run(tensors, max_norm, xla=trial.xla)
        xla = trial.xla
        start = time.perf_counter()
        try:
            results = self._run(tensors, max_norm, xla=xla)
        except _FAILURES:
            if not xla:
                raise
            # An op that XLA can't compile: the same graph runs without it.
            self.problem.xla = False
            return self._run(tensors, max_norm, xla=False)
        tf.test.experimental.sync_devices()
        trial.note(time.perf_counter() - start, xla=xla)
        return results

    def _run(self, tensors: Sequence[tf.Tensor], max_norm: tf.Tensor, *, xla: bool) -> list[tf.Tensor]:
        return self._trace(xla=xla)(max_norm, *tensors)

    def _trace(self, *, xla: bool) -> Any:
        if xla not in self._traces:
            self._traces[xla] = self._compile(xla=xla)
        return self._traces[xla]

    def in_chunks(self, tensors: Sequence[tf.Tensor], max_norm: tf.Tensor, size: int) -> list[tf.Tensor]:
        """Return the results for one batch, ``size`` examples at a time, by copies that keep what is of the batch."""
        key = ("chunks", size)
        if key not in self._traces:
            self._traces[key] = self._compile(xla=False, chunk_size=size)
        return list(self._traces[key](max_norm, *tensors))


_entries = Traces()


def suits_xla(problem: Problem) -> bool:
    """Return whether XLA is worth a trial on a graph like this."""
    if problem.flow is None or problem.flow.unproven or problem.flow.draws:
        return False
    if any(not parameter.has_rules for parameter in problem.parameters):
        return False
    types = {op.type for op in ancestors([problem.loss])}
    return "MatMul" in " ".join(types) and not any(op_type.startswith(_NOT_FOR_XLA) for op_type in types)


def as_inputs(inputs: Any) -> tuple[Any, ...]:
    """Return the inputs of a loss function as a tuple of (structures of) tensors."""
    if inputs is None:
        raise OptionError(
            _("A loss function needs `inputs`, the tensors that it is called with."),
            _("Pass them as a sequence: `loss(*inputs)` is called."),
        )
    several = inputs if isinstance(inputs, (list, tuple)) else (inputs,)
    if all(isinstance(tensor, tf.Tensor) for tensor in several):
        return tuple(several)  # the usual case, without the walk that costs as much as a small model
    check_dense(several)
    return tuple(tf.nest.map_structure(tf.convert_to_tensor, tuple(several)))


def entry_for(loss: Any, variables: list[Any], inputs: tuple[Any, ...], request: Request) -> Entry:
    """Return the trace of a loss, made now or found again."""
    flat = tf.nest.flatten(inputs)
    if not flat or any(tensor.shape.rank == 0 for tensor in flat):
        raise OptionError(
            _("Inputs need the examples on their first axis; a scalar has none."),
            _("Let the loss function close over what is the same for all examples."),
        )
    specs = tuple((tensor.dtype, tuple(tensor.shape[1:])) for tensor in flat)
    nested = any(not isinstance(tensor, tf.Tensor) for tensor in inputs)
    shape = str(tf.nest.map_structure(lambda _tensor: 0, inputs)) if nested else len(inputs)
    identities = tuple(id(unwrapped(variable)) for variable in variables)
    rest = (identities, specs, shape, request.task, request.method, request.jit, Registry.changes)
    return _entries.get(loss, rest, lambda: Entry(loss, variables, inputs, request))


def traced_plan(loss: Any, variables: list[Any], inputs: tuple[Any, ...], request: Request) -> Plan:
    """Return the plan of a loss function."""
    with tf.init_scope():
        entry = entry_for(loss, variables, inputs, request)
        entry.settle()
        return entry.plan


def run_eagerly(loss: Any, variables: list[Any], inputs: tuple[Any, ...], request: Request) -> list[tf.Tensor]:
    """Return a task's results for a batch of eager tensors."""
    entry = entry_for(loss, variables, inputs, request)
    tensors = tf.nest.flatten(inputs)
    counts = {tensor.shape[0] for tensor in tensors}
    if len(counts) > 1:
        raise OptionError(
            _("The inputs have different numbers of examples: {sizes}.").format(sizes=sorted(counts)),
            _("All inputs have the examples on their first axis."),
        )
    (count,) = counts
    limit = _limit(request.max_norm)
    size = request.chunk_size
    if size == "auto":
        size = chunk_for(entry.problem, request.task, request.memory_budget)
    if size is None or size >= count:
        return list(entry(tensors, limit))
    check_chunks(entry.plan)
    if not can_rebuild(entry.problem):
        # Called for a part of the batch the loss would use that part's numbers and draws.
        return entry.in_chunks(tensors, limit, size)
    return _in_chunks(entry, tensors, limit, size, count)


def _limit(max_norm: Any) -> tf.Tensor:
    if max_norm is None or isinstance(max_norm, float | int):
        return _constant(float(max_norm or 0.0))
    return as_number(max_norm, tf.float64)


@lru_cache(maxsize=16)
def _constant(number: float) -> tf.Tensor:
    """Return a number as a tensor; made once, as that takes longer than the rest of a call."""
    with tf.device("CPU"):
        return tf.constant(number, tf.float64)


def _in_chunks(entry: Entry, tensors: list[tf.Tensor], limit: tf.Tensor, size: int, count: int) -> list[tf.Tensor]:
    from tqdm.auto import tqdm

    starts = tqdm(range(0, count, size), desc=_("examples in chunks"), delay=2, leave=False)
    parts = (entry([tensor[start : start + size] for tensor in tensors], limit) for start in starts)
    if entry.task != "clipped":
        return [tf.concat(found, axis=0) for found in zip(*parts, strict=True)]
    total = list(next(parts))
    for part in parts:
        total = [a + b for a, b in zip(total, part, strict=True)]
    return total
