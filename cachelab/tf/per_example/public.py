"""What people call: per-example gradients, their squared norms, clipped sums, and the plan behind them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import tensorflow as tf

from cachelab.errors import OptionError
from cachelab.i18n import translate as _
from cachelab.tf.per_example.analysis import study
from cachelab.tf.per_example.asked import as_variables, check_dense
from cachelab.tf.per_example.compiled import as_inputs, run_eagerly, traced_plan
from cachelab.tf.per_example.memory import chunk_for
from cachelab.tf.per_example.methods import answer
from cachelab.tf.per_example.plans import Plan, make_plan
from cachelab.tf.per_example.request import Request
from cachelab.tf.per_example.traces import converted

if TYPE_CHECKING:
    from collections.abc import Sequence


@tf.autograph.experimental.do_not_convert
def per_example_gradients(
    loss: Any,
    variables: Any,
    inputs: Any = None,
    *,
    method: str = "auto",
    chunk_size: int | str | None = None,
    jit: bool | str = "auto",
    memory_budget: int = 1 << 30,
) -> list[tf.Tensor]:
    """Return the gradient of every example's loss with respect to every variable, in one run.

    Parameters
    ----------
    loss
        Graph form: a tensor ``[m]`` of a v1 graph or of the ``tf.function`` that is being traced. Function form: a
        function of the batch, ``loss(*inputs) -> [m]``, in eager code or inside a ``tf.function``; define it once,
        so that its trace is found again (as long as it closes over the same Python values).
    variables
        TensorFlow or Keras variables, or tensors of the graph that no input reaches; a single one is a list of one.
    inputs
        Tensors with the m examples on their first axis. Graph form: the placeholders with examples that ``loss``
        depends on if left out. Function form: needed; a tensor, or a sequence of (structures of) tensors.
    method
        ``"auto"``, ``"outer"`` (activations x deltas), ``"vectorized"`` (``pfor`` over the gradient of one example),
        ``"loop"`` (n backward passes), ``"jacobian"`` (one backward pass an entry of the loss; the only one for
        losses that couple examples). See :func:`plan` for what ``auto`` does and why.
    chunk_size
        So many examples at a time, to bound the memory of activations and patches; ``"auto"`` fits them into
        ``memory_budget``. The results themselves are m times as large as the variables in any case.
    jit
        Function form in eager code: compile with XLA. ``"auto"`` tries that from the fourth call of a batch size on,
        in turns with plain calls (dense and attention layers without convolutions, loops or random draws), and keeps
        what is faster: after six calls if it is clear, after 22 at most.
    memory_budget
        Bytes for ``chunk_size="auto"``.

    Returns
    -------
    list of tf.Tensor
        One a variable, ``[m, *variable.shape]``, dense, in the variable's dtype; zeros where there is no gradient.

    Raises
    ------
    NotApplicableError
        If an op couples the examples (the message names it) or the method can't serve a variable.
    OptionError
        If the loss has not one entry an example, or there is no such method.

    Examples
    --------
    >>> import tensorflow as tf
    >>> w = tf.Variable([[1.0], [2.0]])
    >>> def loss(x):
    ...     return tf.square(tf.matmul(x, w))[:, 0]
    >>> x = tf.constant([[1.0, 0.0], [0.0, 1.0]])
    >>> per_example_gradients(loss, [w], x)[0].numpy()[..., 0].tolist()
    [[2.0, 0.0], [0.0, 4.0]]

    Notes
    -----
    Activations x deltas: Goodfellow 2015, "Efficient per-example gradient computations"; convolutions as products
    over patches: Rochette et al. 2019. What has no rule goes through ``pfor`` (Agarwal 2019).
    """
    return _solve(loss, variables, inputs, Request("gradients", method, jit, chunk_size, memory_budget))


@tf.autograph.experimental.do_not_convert
def per_example_squared_norms(
    loss: Any,
    variables: Any,
    inputs: Any = None,
    *,
    method: str = "auto",
    chunk_size: int | str | None = None,
    jit: bool | str = "auto",
    memory_budget: int = 1 << 30,
) -> tf.Tensor:
    """Return the squared norm of every example's gradient over all ``variables``, ``[m]``.

    Goodfellow's method (2015) for dense layers: ``|x_i|^2 * |delta_i|^2``, O(mnp) for n layers of width p against
    O(mnp^2) with the gradients; Gram matrices (Li et al. 2022) for sequences and convolutions where ``2 T^2 < p d``.

    Parameters are those of :func:`per_example_gradients`; ``method`` can be ``"ghost"`` too. Half-precision
    gradients are squared in float32.

    Examples
    --------
    >>> import tensorflow as tf
    >>> w = tf.Variable([[1.0], [2.0]])
    >>> def loss(x):
    ...     return tf.square(tf.matmul(x, w))[:, 0]
    >>> per_example_squared_norms(loss, [w], tf.constant([[1.0, 0.0], [0.0, 1.0]])).numpy().tolist()
    [4.0, 16.0]
    """
    return _solve(loss, variables, inputs, Request("norms", method, jit, chunk_size, memory_budget))[0]


@tf.autograph.experimental.do_not_convert
def clipped_sum(
    loss: Any,
    variables: Any,
    inputs: Any = None,
    *,
    max_norm: Any,
    method: str = "auto",
    chunk_size: int | str | None = None,
    jit: bool | str = "auto",
    memory_budget: int = 1 << 30,
) -> list[tf.Tensor]:
    """Return the sum over examples of gradients scaled to a norm of at most ``max_norm`` (over all variables).

    ``sum_i g_i * min(1, max_norm / |g_i|)``, the heart of DP-SGD (Abadi et al. 2016), without noise. ``auto`` keeps
    the books (Bu et al. 2023): one backward pass for the deltas, norms from them, then sums with scaled deltas.

    Parameters are those of :func:`per_example_gradients`; ``method`` can be ``"bookkeeping"`` and ``"ghost"`` (norms,
    then a second backward pass of the weighted loss) too. ``max_norm`` is a number or a scalar tensor, not negative;
    an infinite one clips nothing.

    Returns
    -------
    list of tf.Tensor
        One a variable, in its shape and dtype.

    Examples
    --------
    >>> import tensorflow as tf
    >>> w = tf.Variable([[1.0], [2.0]])
    >>> def loss(x):
    ...     return tf.square(tf.matmul(x, w))[:, 0]
    >>> clipped_sum(loss, [w], tf.constant([[1.0, 0.0], [0.0, 1.0]]), max_norm=1.0)[0].numpy().tolist()
    [[1.0], [1.0]]
    """
    return _solve(loss, variables, inputs, Request("clipped", method, jit, chunk_size, memory_budget, max_norm))


@tf.autograph.experimental.do_not_convert
def plan(
    loss: Any,
    variables: Any,
    inputs: Any = None,
    *,
    task: str = "gradients",
    method: str = "auto",
    jit: bool | str = "auto",
) -> Plan:
    """Return what the functions of this module would do, variable by variable, and why; print it.

    ``task`` is ``"gradients"``, ``"norms"`` or ``"clipped"``; the rest as in :func:`per_example_gradients`.

    Examples
    --------
    >>> import tensorflow as tf
    >>> w = tf.Variable([[1.0], [2.0]], name="w")
    >>> plan(lambda x: tf.square(tf.matmul(x, w))[:, 0], [w], tf.ones([2, 2]), task="norms").method
    'ghost'
    """
    if callable(loss):
        return traced_plan(loss, as_variables(variables), as_inputs(inputs), Request(task, method, jit, max_norm=0.0))
    return make_plan(study(loss, as_variables(variables), _graph_inputs(loss, inputs)), task, method)


def _solve(loss: Any, variables: Any, inputs: Any, request: Request) -> list[tf.Tensor]:
    variables = as_variables(variables)
    rebuild = None
    if callable(loss):
        tensors = as_inputs(inputs)
        if tf.executing_eagerly():
            return run_eagerly(loss, variables, tensors, request)
        tensors, function = tf.nest.map_structure(tf.identity, tensors), converted(loss)
        loss, inputs = function(*tensors), tf.nest.flatten(tensors)

        def rebuild(flat: Sequence[tf.Tensor]) -> tf.Tensor:
            return function(*tf.nest.pack_sequence_as(tensors, list(flat)))

    problem = study(loss, variables, _graph_inputs(loss, inputs), rebuild=rebuild)
    size = request.chunk_size
    found, _plan = answer(
        problem,
        request.task,
        request.method,
        chunk_size=chunk_for(problem, request.task, request.memory_budget) if size == "auto" else size,
        max_norm=request.max_norm,
    )
    return found


def _graph_inputs(loss: Any, inputs: Any) -> list[tf.Tensor] | None:
    if not tf.is_symbolic_tensor(loss):
        raise OptionError(
            _("The loss is a value ({kind}), which has no graph to go back through.").format(kind=type(loss).__name__),
            _("Pass a function of the batch, `loss(*inputs) -> [m]`, and `inputs`."),
        )
    if inputs is None:
        return None
    check_dense(inputs)
    return tf.nest.flatten(list(inputs) if isinstance(inputs, (list, tuple)) else [inputs])
