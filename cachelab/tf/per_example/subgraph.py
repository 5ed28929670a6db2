"""n recorded calls with one example each -> one batched run over the very graph that they ran."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import tensorflow as tf

from cachelab.errors import NameNotFoundError, NotApplicableError
from cachelab.i18n import translate as _
from cachelab.tf.per_example.copying import REF_OFFSET, ancestors, copy_slice, dependent
from cachelab.tf.per_example.effects import effects, reason
from cachelab.tf.per_example.inlining import make_functions_convertible
from cachelab.tf.per_example.mapping import stacked_map
from cachelab.tf.per_example.turns import has_lost_gradient

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True)
class VectorizedCalls:
    """One run that stands for n calls.

    Parameters
    ----------
    inputs
        Name of a fed tensor -> placeholder ``[n, *shape of the feed]``, to be fed with the n feeds stacked.
    outputs
        One tensor a fetch, in the order of the fetches: ``[n, *shape of the fetch]``.
    shared
        Names of the fetches that depend on no feed: all n rows are the one value.
    vectorized
        Number of ops that ran n times in the calls and run once now.
    """

    inputs: dict[str, tf.Tensor]
    outputs: list[tf.Tensor]
    shared: tuple[str, ...] = ()
    vectorized: int = 0


def vectorize_calls(graph: tf.Graph, fetches: Sequence[str], feeds: Sequence[str]) -> VectorizedCalls:
    """Add ops to ``graph`` that compute n calls of the same fetches with n sets of feeds at once.

    Parameters
    ----------
    graph
        A private graph (ops are added to it), such as one imported from a recorded GraphDef. Not finalized.
    fetches
        Names of tensors (``"loss:0"``) that each call fetched.
    feeds
        Names of the tensors that each call fed; any feedable tensor, not only placeholders. What depends on
        none of them is computed once for all calls, which is right as long as no call writes a variable.

    Returns
    -------
    VectorizedCalls
        Placeholders for the stacked feeds, and the stacked fetches.

    Raises
    ------
    NotApplicableError
        If an op that the calls run has an effect, draws from a random stream, is control flow of the first kind
        or has no vectorised form. The message names the op.
    NameNotFoundError
        If the graph has no tensor of such a name.

    Notes
    -----
    Uses TensorFlow's ``pfor`` (Agarwal 2019, "Static Automatic Batching in TensorFlow") over copies of the
    existing ops. Values agree with the n calls up to rounding (sums are taken in another order), not bit by bit.
    Assertions (``Assert`` as a control dependency) are not repeated: they passed in the recorded calls.
    """
    targets = [_tensor(graph, name) for name in fetches]
    fed = [_tensor(graph, name) for name in feeds]
    for tensor in [*targets, *fed]:
        if tensor.dtype in {tf.resource, tf.variant}:
            raise NotApplicableError(
                _("Tensor `{tensor}` is a {dtype}, of which n can't be stacked.").format(
                    tensor=tensor.name, dtype=tensor.dtype.name
                )
            )
    for kind, op_name, op_type in effects(_executed(targets, fed), graph):
        raise NotApplicableError(reason(kind, op_name, op_type), _("Replay these calls one by one, in mode `run`."))
    order = ancestors(targets, fed)
    moving = set(dependent(order, fed))
    blocked = next((op for op in order if op in moving and has_lost_gradient(op)), None)
    if blocked is not None:
        raise NotApplicableError(
            _(
                "TensorFlow can't vectorise op `{op}` ({type}): it is or calls the gradient of a convolution "
                "that XLA compiles or that has explicit padding."
            ).format(op=blocked.name, type=blocked.type),
            _("Replay these calls one by one, in mode `run`."),
        )
    make_functions_convertible(moving, graph)
    fed_refs = {tensor.ref() for tensor in fed}
    varying = [tensor for tensor in targets if tensor.op in moving or tensor.ref() in fed_refs]
    varying_refs = {tensor.ref() for tensor in varying}
    with graph.as_default(), tf.name_scope("cachelab/per_example"):
        inputs = {
            tensor.name: tf.compat.v1.placeholder(_value_dtype(tensor), [None, *tensor.shape])
            if tensor.shape.rank is not None
            else tf.compat.v1.placeholder(_value_dtype(tensor))
            for tensor in fed
        }
        count = _count(inputs, fed)
        outputs = iter(_map(varying, fed, inputs, count) if varying else ())
        stacked = [next(outputs) if tensor.ref() in varying_refs else _repeat(tensor, count) for tensor in targets]
    return VectorizedCalls(
        inputs=inputs,
        outputs=stacked,
        shared=tuple(tensor.name for tensor in targets if tensor.ref() not in varying_refs),
        vectorized=len(moving),
    )


def _tensor(graph: tf.Graph, name: str) -> tf.Tensor:
    try:
        return graph.get_tensor_by_name(name if ":" in name else f"{name}:0")
    except (KeyError, ValueError) as error:
        raise NameNotFoundError(
            _("The graph has no tensor `{name}`.").format(name=name), _("Give the name as `op:output`.")
        ) from error


def _executed(targets: Sequence[tf.Tensor], fed: Sequence[tf.Tensor]) -> list[tf.Operation]:
    """Return all ops that a call executes: over data and control edges, stopping at fed tensors."""
    stops = {tensor.ref() for tensor in fed}
    stack = [tensor.op for tensor in targets if tensor.ref() not in stops]
    seen: dict[tf.Operation, None] = dict.fromkeys(stack)
    while stack:
        op = stack.pop()
        for above in [*(tensor.op for tensor in op.inputs if tensor.ref() not in stops), *op.control_inputs]:
            if above not in seen:
                seen[above] = None
                stack.append(above)
    return list(seen)


def _value_dtype(tensor: tf.Tensor) -> tf.DType:
    return tensor.dtype.base_dtype if tensor.dtype.as_datatype_enum > REF_OFFSET else tensor.dtype


def _count(inputs: dict[str, tf.Tensor], fed: Sequence[tf.Tensor]) -> tf.Tensor:
    if not fed:
        raise NotApplicableError(
            _("The calls feed nothing, so there are no examples to stack."), _("Replay them in mode `run`.")
        )
    return tf.shape(inputs[fed[0].name])[0]


def _map(
    varying: list[tf.Tensor], fed: Sequence[tf.Tensor], inputs: dict[str, tf.Tensor], count: tf.Tensor
) -> list[tf.Tensor]:
    def body(index: tf.Tensor) -> list[tf.Tensor]:
        mapping = {}
        for tensor in fed:
            row = tf.gather(inputs[tensor.name], index)
            row.set_shape(tensor.shape)
            mapping[tensor.ref()] = row
        # pfor takes no outputs that are its own inputs unchanged: an identity gives each its own op.
        return [tf.identity(copy) for copy in copy_slice(varying, mapping, name="one_call")]

    try:
        return stacked_map(body, count)
    except (NotImplementedError, ValueError) as error:
        raise NotApplicableError(
            _("TensorFlow can't vectorise an op of these calls: {error}").format(error=str(error).split("\n")[0]),
            _("Replay these calls one by one, in mode `run`."),
        ) from error


def _repeat(tensor: tf.Tensor, count: tf.Tensor) -> tf.Tensor:
    """Return the value of a tensor that depends on no feed, once a call."""
    value = tf.identity(tensor)
    return tf.repeat(value[tf.newaxis], count, axis=0)
