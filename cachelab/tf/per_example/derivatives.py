"""f'(x1), ..., f'(xn) in one run: the sum trick where examples are proven apart, the true diagonal elsewhere."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import tensorflow as tf
from tensorflow.python.ops import while_v2

from cachelab.errors import NotApplicableError, OptionError
from cachelab.i18n import translate as _
from cachelab.tf.per_example import layout_rules  # noqa: F401  fills the registry
from cachelab.tf.per_example.copies import NotVectorisedError, check_copyable, vectorising
from cachelab.tf.per_example.copying import copy_slice
from cachelab.tf.per_example.flow import CoupledError, Flow, Layout, not_proven
from cachelab.tf.per_example.mapping import stacked_map
from cachelab.tf.per_example.registry import Registry
from cachelab.tf.per_example.traces import Traces, converted, recording

if TYPE_CHECKING:
    from collections.abc import Callable


@tf.autograph.experimental.do_not_convert
def derivatives(y: Any, x: Any, grad_ys: Any = None) -> tf.Tensor:
    """Return the derivative of each ``y[i] = f(x[i])`` by its own ``x[i]``, in the shape of ``x``.

    Parameters
    ----------
    y
        Graph form: a tensor that depends on ``x``. Function form: the function f, ``f(x) -> y``, for eager code or
        inside a ``tf.function``. Either ``y`` has the shape of ``x``, and each entry is differentiated by the entry
        at its place; or ``y`` is ``[m]``, ``x`` is ``[m, ...]``, and each ``y[i]`` is differentiated by
        all of ``x[i]``.
    x
        The tensor to differentiate by, examples on the first axis. What does not depend on it may have a row an
        example too (labels): it is the same for all derivatives.
    grad_ys
        Weights in the shape of ``y``, as in ``tf.gradients``, or one number: entry i of the result is multiplied by
        entry i. With g(x) for the weights the mean of the result is the estimate of E[f'(x) g(x)], in one run.

    Returns
    -------
    tf.Tensor
        ``[m, ...]`` like ``x``; zeros where y does not depend on x. Apply it twice for second derivatives: the diagonal
        of the Hessian, not the sums of its rows that a gradient of a gradient gives.

    Raises
    ------
    NotApplicableError
        If an op couples the examples, or can't be proven not to; the message names it.
    OptionError
        If the shapes fit neither form, ``x`` is of integers, ``y`` is complex, or ``grad_ys`` does not fit ``y``.

    Examples
    --------
    >>> import tensorflow as tf
    >>> derivatives(lambda x: x * x, tf.constant([1.0, 2.0, 3.0])).numpy().tolist()
    [2.0, 4.0, 6.0]

    Notes
    -----
    The sum trick: ``d sum(y) / dx[i] = dy[i]/dx[i]`` if ``y[j]`` does not depend on ``x[i]`` for other j. It is proven
    op by op for each axis; along axes that do mix (a softmax over the last one, say) one backward pass an entry
    of those axes gives the true diagonal.
    """
    if not callable(y):
        return _in_graph(tf.convert_to_tensor(y), tf.convert_to_tensor(x), grad_ys)
    x = tf.convert_to_tensor(x)
    if tf.executing_eagerly():
        return _eager(y, x, grad_ys)
    inner = tf.identity(x)
    return _in_graph(tf.convert_to_tensor(converted(y)(inner)), inner, grad_ys)


_traces = Traces()


def _eager(f: Callable[[tf.Tensor], tf.Tensor], x: tf.Tensor, grad_ys: Any) -> tf.Tensor:
    weights = [] if grad_ys is None else [tf.convert_to_tensor(grad_ys)]
    specs = [tf.TensorSpec(tensor.shape, tensor.dtype) for tensor in (x, *weights)]

    def trace() -> Any:
        function = converted(f)

        def work(x: tf.Tensor, *weights: tf.Tensor) -> tf.Tensor:
            inner = tf.identity(x)
            return _in_graph(tf.convert_to_tensor(function(inner)), inner, weights[0] if weights else None)

        with recording():
            return tf.function(work, autograph=False).get_concrete_function(*specs)

    return _traces.get(f, (*specs, Registry.changes), trace)(x, *weights)


def _in_graph(y: tf.Tensor, x: tf.Tensor, grad_ys: Any) -> tf.Tensor:
    if not tf.is_symbolic_tensor(y):
        raise OptionError(
            _("`y` is a value, which has no graph to go back through."), _("Pass the function: `derivatives(f, x)`.")
        )
    _check_types(y, x)
    ranks = (y.shape.rank, x.shape.rank)
    if None in ranks or 0 in ranks:
        raise OptionError(
            _("`y` has shape {y} and `x` has shape {x}; both need a known rank and a first axis of examples.").format(
                y=y.shape, x=x.shape
            ),
            _("Use `set_shape`, or `tf.gradients` for a single number."),
        )
    matching = y.shape.is_compatible_with(x.shape)
    if not matching and not (ranks[0] == 1 and y.shape[:1].is_compatible_with(x.shape[:1])):
        raise OptionError(
            _("`y` has shape {y} and `x` has shape {x}: neither entry by entry nor one number an example.").format(
                y=y.shape, x=x.shape
            ),
            _("Sum or pick the entries of each example first, or differentiate them one by one."),
        )
    weights = None if grad_ys is None else _weights(grad_ys, y)
    met = _prove_apart(y, x, 0)
    axes = {axis: _stays_apart(y, x, axis) for axis in range(1, ranks[1]) if matching}
    mixed = [axis for axis, apart in axes.items() if apart is None]
    found = _diagonal(y, x, weights, mixed) if mixed else _gradient(y, x, weights)
    if met or any(axes.values()):
        found = _checked(found, y, x, ranks[0])
    found.set_shape(x.shape)
    return found


def _check_types(y: tf.Tensor, x: tf.Tensor) -> None:
    for name, tensor in (("x", x), ("y", y)):
        if not (tensor.dtype.is_floating or tensor.dtype.is_complex):
            raise OptionError(
                _("`{name}` has dtype {dtype}, which has no derivatives.").format(name=name, dtype=tensor.dtype.name),
                _("Use numbers of a floating-point type, such as `tf.cast(x, tf.float32)`."),
            )
    if y.dtype.is_complex:
        raise OptionError(
            _("`y` has dtype {dtype}: there is no one convention for the derivative of a complex function.").format(
                dtype=y.dtype.name
            ),
            _("Differentiate `tf.math.real(y)` and `tf.math.imag(y)` one by one."),
        )


def _weights(grad_ys: Any, y: tf.Tensor) -> tf.Tensor:
    """Return the weights in the type of y; a single number counts for all entries."""
    weights = tf.convert_to_tensor(grad_ys)
    if weights.shape.rank == 0:
        return tf.fill(tf.shape(y), tf.cast(weights, y.dtype))
    if not weights.shape.is_compatible_with(y.shape):
        raise OptionError(
            _("`grad_ys` has shape {weights} and `y` has shape {y}: there is not one weight an entry.").format(
                weights=weights.shape, y=y.shape
            ),
            _("Give weights in the shape of `y`, or one number for all."),
        )
    return tf.cast(weights, y.dtype)


def _checked(found: tf.Tensor, y: tf.Tensor, x: tf.Tensor, rank: int) -> tf.Tensor:
    """Return ``found`` if ``y`` turns out to have the rows of ``x``.

    One example may have met a tensor with several rows, which only sizes that are known in the run can tell.
    """
    same = tf.debugging.assert_equal(
        tf.shape(y)[:rank], tf.shape(x)[:rank], _("`y` has more rows than `x`, so that y[i] is not made from x[i].")
    )
    with tf.control_dependencies([same]):
        return tf.identity(found)


def _gradient(y: tf.Tensor, x: tf.Tensor, weights: tf.Tensor | None) -> tf.Tensor:
    (found,) = tf.gradients(y, [x], grad_ys=weights)
    return tf.zeros_like(x) if found is None else tf.convert_to_tensor(found)


def _prove_apart(y: tf.Tensor, x: tf.Tensor, axis: int) -> list[str]:
    """Raise unless entry i along ``axis`` of y depends on entry i along ``axis`` of x only.

    What does not depend on x couples nothing, whatever rows it has. The names are of tensors that may have some.
    """
    if x.shape[axis] == 1 == y.shape[axis]:
        return []  # one entry has none to mix with
    flow = Flow({x.ref(): Layout(axis)}, x.shape[axis])
    flow.rows_of_others = True
    try:
        flow.run([y])
    except CoupledError as error:
        raise error.advising(_("Take it out of f, or take the whole Jacobian (`GradientTape.jacobian`).")) from None
    if flow.unproven:
        raise not_proven(
            flow,
            _(
                "Register a rule with `cachelab.tf.per_example.layout_rule`, or take the whole Jacobian "
                "(`GradientTape.jacobian`)."
            ),
        )
    if flow.mixing_gradients:
        name, how = next(iter(flow.mixing_gradients.items()))
        raise NotApplicableError(
            _("It is not proven that the custom gradient of op `{op}` keeps the examples apart: {how}").format(
                op=name, how=how
            ),
            _("Take it out of f, or differentiate the examples one by one."),
        )
    state = flow.state(y)
    if isinstance(state, Layout) and (state.axis, state.before, state.after) != (axis, 1, 1):
        raise NotApplicableError(
            _("`{y}` does not have the examples where `{x}` has them.").format(y=y.name, x=x.name),
            _("Bring the examples of both to the first axis."),
        )
    return flow.met


def _stays_apart(y: tf.Tensor, x: tf.Tensor, axis: int) -> list[str] | None:
    """Return what :func:`_prove_apart` does, ``None`` where it raises."""
    try:
        return _prove_apart(y, x, axis)
    except (CoupledError, NotApplicableError):
        return None


def _diagonal(y: tf.Tensor, x: tf.Tensor, weights: tf.Tensor | None, mixed: list[int]) -> tf.Tensor:
    """Return the diagonal over the axes in ``mixed``: a backward pass for each place along them, all in one run."""
    lengths = tf.shape(x)
    seed = tf.ones_like(y) if weights is None else tf.identity(tf.broadcast_to(weights, tf.shape(y)))
    (gradient,) = tf.gradients(y, [x], grad_ys=seed)
    if gradient is None:
        return tf.zeros_like(x)
    gradient = tf.convert_to_tensor(gradient)
    check_copyable([gradient], [seed])
    places = tf.reduce_prod(tf.gather(lengths, mixed))

    def mask(place: tf.Tensor, dtype: tf.DType) -> tf.Tensor:
        """Return 1 at one place along the mixed axes, broadcastable to x."""
        result: Any = 1
        rest = place
        for axis in reversed(mixed):
            line = tf.one_hot(tf.math.floormod(rest, lengths[axis]), lengths[axis], dtype=dtype)
            rest = rest // lengths[axis]
            result = result * tf.reshape(line, [-1 if other == axis else 1 for other in range(x.shape.rank)])
        return result

    def body(place: tf.Tensor) -> list[tf.Tensor]:
        part = seed * mask(place, seed.dtype)
        part.set_shape(y.shape)
        (row,) = copy_slice([gradient], {seed.ref(): part}, name="place")
        return [row * mask(place, row.dtype)]

    try:
        with vectorising():
            return tf.reduce_sum(stacked_map(body, places)[0], axis=0)
    except NotVectorisedError:
        step = lambda place, total: (place + 1, total + body(place)[0])  # noqa: E731
        start = (tf.constant(0), tf.zeros_like(gradient))
        return while_v2.while_loop(lambda place, _total: place < places, step, start, parallel_iterations=1)[1]
