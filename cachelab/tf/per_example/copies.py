"""Methods that copy the gradient's own graph: ``vectorized`` (pfor), ``loop``, ``jacobian``, and chunks."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import tensorflow as tf
from tensorflow.python.ops import while_v2

from cachelab.errors import NotApplicableError
from cachelab.i18n import translate as _
from cachelab.tf.per_example.batch_numbers import not_copyable
from cachelab.tf.per_example.copying import ancestors, copy_slice, dependent
from cachelab.tf.per_example.effects import effects, reason
from cachelab.tf.per_example.mapping import one_by_one, stacked_map
from cachelab.tf.per_example.plans import can_rebuild
from cachelab.tf.per_example.rules import can_split, examples_first
from cachelab.tf.per_example.traces import recording

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from cachelab.tf.per_example.analysis import Parameter, Problem
    from cachelab.tf.per_example.flow import Layout


class NotVectorisedError(NotApplicableError):
    """TensorFlow could not vectorise a gradient; ``reason`` says why, in a sentence."""

    def __init__(self, error: Exception) -> None:
        # AutoGraph's own errors begin with a heading.
        lines = [line.strip() for line in str(error).replace("in user code:", "").splitlines() if line.strip()]
        self.reason = _("TensorFlow can't vectorise this gradient: {error}.").format(error=lines[0] if lines else "")
        super().__init__(
            self.reason, _('Leave the size of the batch open when the graph is built, or use `method="loop"`.')
        )


@contextmanager
def vectorising() -> Iterator[None]:
    """Turn what ``pfor`` raises where it can't convert an op into an error that says so."""
    try:
        yield
    except (NotImplementedError, ValueError, TypeError, AttributeError) as error:
        raise NotVectorisedError(error) from error


def batch_gradients(
    problem: Problem, parameters: Sequence[Parameter], grad_ys: tf.Tensor | None = None
) -> list[tf.Tensor | None]:
    """Return the plain gradients of the (weighted) sum of the losses, dense, ``None`` where there is none."""
    sources = [parameter.source for parameter in parameters]
    found = tf.gradients(problem.loss, sources, grad_ys=grad_ys)
    return [None if gradient is None else tf.convert_to_tensor(gradient) for gradient in found]


def vectorized(problem: Problem, parameters: Sequence[Parameter]) -> list[tf.Tensor]:
    """Return ``[m, *shape]`` a parameter by one run of ``pfor`` over copies with a batch of one."""
    if (problem.loops or problem.fixed_batch) and can_rebuild(problem):
        return _rebuilt(problem, parameters)
    targets = batch_gradients(problem, parameters)
    return _stacked(problem, parameters, targets, lambda index: one_example(problem, index))


def _rebuilt(problem: Problem, parameters: Sequence[Parameter]) -> list[tf.Tensor]:
    """Build the loss again for a batch of one inside ``pfor``.

    The bodies of loops then know that the batch is one; ``pfor`` can't convert the gradients of others.
    """
    variables = [parameter.variable for parameter in parameters]

    def body(index: tf.Tensor) -> list[tf.Tensor]:
        rows = one_example(problem, index)
        # A tape, as `tf.gradients` makes zeros of whole lists of tensors, which pfor can't convert either.
        with tf.GradientTape() as tape:
            tape.watch(variables)
            losses = problem.rebuild([rows[tensor.ref()] for tensor in problem.inputs])
        found = tape.gradient(losses, variables)
        return [
            tf.zeros(p.shape, p.dtype) if gradient is None else tf.cast(tf.convert_to_tensor(gradient), p.dtype)
            for p, gradient in zip(parameters, found, strict=True)
        ]

    check_copyable([problem.loss], problem.inputs)
    with vectorising(), recording():
        found = stacked_map(body, problem.count)
    return [
        tf.reshape(tf.broadcast_to(rows, tf.stack([problem.count, *p.shape])), [-1, *p.shape])
        for rows, p in zip(found, parameters, strict=True)
    ]


def jacobian(problem: Problem, parameters: Sequence[Parameter]) -> list[tf.Tensor]:
    """Return ``[m, *shape]`` a parameter by one backward pass an entry of the loss; right for coupled examples too."""
    seed = tf.ones_like(problem.loss, name="seed")
    targets = batch_gradients(problem, parameters, grad_ys=seed)

    def mapping(index: tf.Tensor) -> dict[Any, tf.Tensor]:
        row = tf.one_hot(index, problem.count, dtype=problem.loss.dtype)
        row.set_shape(problem.loss.shape)
        return {seed.ref(): row}

    try:
        return _stacked(problem, parameters, targets, mapping, [seed])
    except NotVectorisedError:
        return _one_by_one(problem, parameters, targets, mapping)


def _one_by_one(
    problem: Problem,
    parameters: Sequence[Parameter],
    targets: Sequence[tf.Tensor | None],
    mapping: Callable[[tf.Tensor], dict[Any, tf.Tensor]],
) -> list[tf.Tensor]:
    """Return what :func:`_stacked` does by copies that run one after the other."""
    served = [(p, target) for p, target in zip(parameters, targets, strict=True) if target is not None]

    def body(index: tf.Tensor) -> list[tf.Tensor]:
        rows = copy_slice([target for _p, target in served], mapping(index), name="example")
        return [tf.reshape(tf.cast(row, p.dtype), p.shape) for row, (p, _target) in zip(rows, served, strict=True)]

    rows = iter(one_by_one(body, problem.count, [tf.TensorSpec(p.shape, p.dtype) for p, _target in served]))
    return [zeros(problem, p) if target is None else next(rows) for p, target in zip(parameters, targets, strict=True)]


def _stacked(
    problem: Problem,
    parameters: Sequence[Parameter],
    targets: Sequence[tf.Tensor | None],
    mapping: Callable[[tf.Tensor], dict[Any, tf.Tensor]],
    sources: Sequence[tf.Tensor] | None = None,
) -> list[tf.Tensor]:
    present = [target for target in targets if target is not None]
    sources = sources or cut(problem)
    check_copyable(present, sources)

    def body(index: tf.Tensor) -> list[tf.Tensor]:
        return [tf.identity(copy) for copy in copy_slice(present, mapping(index), name="example", for_pfor=True)]

    with vectorising():
        found = iter(stacked_map(body, problem.count) if present else ())
    return [
        zeros(problem, parameter)
        if target is None
        else tf.reshape(tf.cast(next(found), parameter.dtype), [-1, *parameter.shape])
        for parameter, target in zip(parameters, targets, strict=True)
    ]


def zeros(problem: Problem, parameter: Parameter) -> tf.Tensor:
    """Return the per-example gradients of a variable that the loss does not depend on."""
    return tf.zeros(tf.stack([problem.count, *parameter.shape]), parameter.dtype)


def cut(problem: Problem) -> list[tf.Tensor]:
    """Return the tensors that a copy for other examples replaces: inputs, random draws and batch-size numbers."""
    extra = [] if problem.flow is None else [ref.deref() for ref in (*problem.flow.draws, *problem.flow.pins)]
    return [*problem.inputs, *extra]


def check_copyable(targets: Sequence[tf.Tensor], sources: Sequence[tf.Tensor]) -> None:
    """Refuse copies of ops with effects, of draws inside functions and of control flow of the first kind."""
    moving = dependent(ancestors(targets, sources), sources)
    if not moving:
        return
    for kind, name, op_type in effects(moving, moving[0].graph):
        raise NotApplicableError(
            reason(kind, name, op_type), _("Take it out of the loss, or make it an input with one entry an example.")
        )


def one_example(problem: Problem, index: tf.Tensor) -> dict[Any, tf.Tensor]:
    """Return the replacements for a batch that holds example ``index`` only."""
    mapping: dict[Any, tf.Tensor] = {}
    for tensor in problem.inputs:
        row = tf.gather(tensor, index)
        row.set_shape(tensor.shape[1:])
        mapping[tensor.ref()] = row[tf.newaxis]
    return _with_draws(problem, mapping, lambda first: tf.gather(first, index)[tf.newaxis])


def some_examples(problem: Problem, start: tf.Tensor, stop: tf.Tensor) -> dict[Any, tf.Tensor]:
    """Return the replacements for a batch of the examples from ``start`` up to ``stop``."""
    mapping = {tensor.ref(): tensor[start:stop] for tensor in problem.inputs}
    return _with_draws(problem, mapping, lambda first: first[start:stop])


def _with_draws(
    problem: Problem, mapping: dict[Any, tf.Tensor], take: Callable[[tf.Tensor], tf.Tensor]
) -> dict[Any, tf.Tensor]:
    for ref, layout in problem.flow.draws.items():
        mapping[ref] = _rows_of(ref.deref(), layout, problem.count, take)
    for ref in problem.flow.pins:
        mapping.setdefault(ref, ref.deref())
    return mapping


def _rows_of(tensor: tf.Tensor, layout: Layout, count: tf.Tensor, take: Callable[[tf.Tensor], tf.Tensor]) -> tf.Tensor:
    """Return the part of ``tensor`` that belongs to some examples, in its own order of axes."""
    if (layout.axis, layout.before, layout.after) == (0, 1, 1):
        return take(tensor)
    if not can_split(layout) or layout.before != 1:
        raise NotApplicableError(
            _("The random draw `{name}` can't be taken apart by example.").format(name=tensor.name),
            _("Make it an input with the examples on the first axis."),
        )
    rows = take(examples_first(tensor, layout, count))
    merged = tf.reshape(rows, tf.concat([[-1], tf.shape(rows)[2:]], 0))
    order = [*range(1, layout.axis + 1), 0, *range(layout.axis + 1, tensor.shape.rank)]
    return tf.transpose(merged, order)


def in_chunks(
    problem: Problem,
    targets: Sequence[tf.Tensor],
    size: int,
    specs: Sequence[tf.TensorSpec],
    *,
    post: Callable[[list[tf.Tensor]], list[tf.Tensor]] = list,
    add: bool,
) -> list[tf.Tensor]:
    """Compute ``post(targets)`` for ``size`` examples at a time, one after the other, in the graph.

    ``targets`` are tensors built for the whole batch, which then never run. ``specs`` are shapes and dtypes of the
    results, which are joined along axis 0, or added up if ``add``.
    """
    if problem.batch is not None and size != problem.batch:
        raise NotApplicableError(
            _("The graph has the batch size {m} built in, so that it can't run for {size} examples at a time.").format(
                m=problem.batch, size=size
            ),
            _("Leave the size of the batch open (`None`) when the graph is built."),
        )
    if problem.flow.uncopyable:
        raise not_copyable(problem.flow)
    check_copyable(targets, cut(problem))
    count = problem.count

    def chunk(start: tf.Tensor) -> list[tf.Tensor]:
        stop = tf.minimum(start + size, count)
        try:
            copied = copy_slice(targets, some_examples(problem, start, stop), name="chunk")
        except ValueError as error:
            raise NotApplicableError(
                _("TensorFlow can't copy this gradient for some of the examples: {error}").format(
                    error=str(error).split("\n")[0]
                ),
                _("Leave `chunk_size` out, or use another method."),
            ) from error
        found = post(copied)
        for value, spec in zip(found, specs, strict=True):
            value.set_shape(spec.shape if add else [None, *spec.shape[1:]])
        return found

    # The loop is of the second kind whatever the graph uses: it works in sessions and in functions alike.
    if add:
        initial = [tf.zeros(spec.shape, spec.dtype) for spec in specs]

        def step(start: tf.Tensor, *sums: tf.Tensor) -> tuple[tf.Tensor, ...]:
            return (start + size, *(a + b for a, b in zip(sums, chunk(start), strict=True)))

        found = while_v2.while_loop(
            lambda start, *_sums: start < count, step, (tf.constant(0), *initial), parallel_iterations=1
        )
        return list(found[1:])
    rounds = (count + size - 1) // size
    arrays = [
        tf.TensorArray(spec.dtype, rounds, infer_shape=False, element_shape=[None, *spec.shape[1:]]) for spec in specs
    ]

    def write(number: tf.Tensor, *arrays: tf.TensorArray) -> tuple[Any, ...]:
        return (number + 1, *(a.write(number, v) for a, v in zip(arrays, chunk(number * size), strict=True)))

    found = while_v2.while_loop(
        lambda number, *_arrays: number < rounds, write, (tf.constant(0), *arrays), parallel_iterations=1
    )
    return [array.concat() for array in found[1:]]
