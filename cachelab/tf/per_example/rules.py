"""The registry of per-example gradient rules, and what a rule is told about the place where a weight is used."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import tensorflow as tf
from tensorflow.python.framework import ops

from cachelab.tf.per_example.extents import Extent, Size
from cachelab.tf.per_example.registry import Registry

if TYPE_CHECKING:
    from collections.abc import Callable

    from cachelab.tf.per_example.flow import Flow, Layout

_RULES = Registry()


@dataclass(frozen=True)
class Site:
    """One place where a weight meets the examples: input ``index`` of ``op``.

    Parameters
    ----------
    op
        The op; its first output has the examples on the axis that ``layout`` tells.
    index
        Which input of ``op`` the weight is.
    shape
        Shape of the weight there, fully known.
    layout
        Where the examples are in the output.
    flow
        The states of all tensors, for the layouts of the other inputs.
    count
        Scalar int32 tensor: the number of examples m.
    xla
        Whether the graph will be compiled by XLA: some ops are then not available.
    """

    op: tf.Operation
    index: int
    shape: tuple[int, ...]
    layout: Layout
    flow: Flow
    count: tf.Tensor
    xla: bool = False

    @property
    def weight(self) -> tf.Tensor:
        """The weight as the op takes it (a resource handle for ``ResourceGather``)."""
        return self.op.inputs[self.index]


class Rule:
    """Per-example gradients with respect to the weight of one :class:`Site`; subclasses know one kind of op.

    ``delta`` is the gradient of the sum of the losses with respect to the first output of the op. As the examples
    are independent, its rows are the per-example ones.
    """

    name = "outer product"
    forms_gradient = True
    """Whether :meth:`squared_norm` forms the per-example gradient on its way."""

    def __init__(self, site: Site) -> None:
        self.site = site

    def per_example(self, delta: tf.Tensor) -> tf.Tensor:
        """Return ``[m, *site.shape]``."""
        raise NotImplementedError

    def squared_norm(self, delta: tf.Tensor) -> tf.Tensor:
        """Return ``[m]``, in at least float32."""
        return squared_rows(self.per_example(delta))

    def weighted_sum(self, delta: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
        """Return the sum over examples of ``weights[i]`` times the gradient of example i, like the weight.

        The op's own gradient, with the rows of ``delta`` scaled (book-keeping: Bu et al. 2023).
        """
        site = self.site
        scaled = delta * along_examples(tf.cast(weights, delta.dtype), site.layout, delta, site.count)
        return op_gradient(site.op, scaled, site.index)


def gradient_rule(*op_types: str) -> Callable[[Any], Any]:
    """Register a rule for op types: ``rule(site) -> Rule``, or ``None`` where it does not apply to that site.

    Examples
    --------
    >>> @gradient_rule("MyScale")
    ... class MyScale(Rule):
    ...     def per_example(self, delta):
    ...         return delta * self.site.op.inputs[1 - self.site.index]
    """

    def register(rule: Any) -> Any:
        for op_type in op_types:
            _RULES[op_type] = rule
        return rule

    return register


def rule_for(site: Site) -> Rule | None:
    """Return the rule for a site, ``None`` if there is none: then ``vectorized`` has to do."""
    from cachelab.tf.per_example import (  # noqa: F401  fill the registry
        rules_conv,
        rules_elementwise,
        rules_gather,
        rules_products,
    )

    make = _RULES.get(site.op.type)
    return None if make is None else make(site)


def registered() -> dict[str, str]:
    """Return op type -> name of its rule, for tables."""
    from cachelab.tf.per_example import (  # noqa: F401  fill the registry
        rules_conv,
        rules_elementwise,
        rules_gather,
        rules_products,
    )

    return {op_type: getattr(rule, "name", rule.__name__) for op_type, rule in sorted(_RULES.items())}


def op_gradient(op: tf.Operation, delta: tf.Tensor, index: int) -> tf.Tensor:
    """Return TensorFlow's own gradient of ``op`` with respect to one of its inputs, dense."""
    others = [tf.zeros_like(out) for out in op.outputs[1:]]
    found = ops.get_gradient_function(op)(op, delta, *others)
    gradient = found[index] if isinstance(found, (list, tuple)) else found
    return tf.zeros_like(op.inputs[index]) if gradient is None else tf.convert_to_tensor(gradient)


def squared_rows(gradient: tf.Tensor) -> tf.Tensor:
    """Return the squared norm of each row of ``[m, ...]``, real and in at least float32."""
    gradient = at_least_float32(gradient)
    rank = gradient.shape.rank
    if gradient.dtype.is_complex:
        squares = tf.square(tf.math.real(gradient)) + tf.square(tf.math.imag(gradient))
    else:
        squares = tf.square(gradient)
    return tf.reduce_sum(squares, axis=list(range(1, rank))) if rank > 1 else squares


def at_least_float32(tensor: tf.Tensor) -> tf.Tensor:
    """Return half-precision values as float32: squares of float16 overflow at 256."""
    return tf.cast(tensor, tf.float32) if tensor.dtype in {tf.float16, tf.bfloat16} else tensor


def sizes(tensor: tf.Tensor) -> list[Any]:
    """Return the sizes of the axes: numbers where known, scalar tensors else."""
    static = tensor.shape.as_list()
    dynamic = tf.shape(tensor) if None in static else None
    return [dynamic[axis] if size is None else size for axis, size in enumerate(static)]


def total(values: list[Any]) -> Any:
    """Return the product of numbers and scalar tensors."""
    result: Any = 1
    for value in values:
        result = result * value
    return result


def is_plain(layout: Layout) -> bool:
    """Return whether each entry of the axis is one example."""
    return (layout.before, layout.after) == (1, 1)


def block(size: Size, other: Size, length: Any, count: tf.Tensor) -> Any:
    """Return ``before`` or ``after`` as a number or a scalar tensor, given the length of the axis."""
    if not isinstance(size, Extent):
        return size
    if isinstance(other, Extent):
        message = "both sides of the axis of examples are unknown"
        raise TypeError(message)
    return length // count // other


def can_split(layout: Layout) -> bool:
    """Return whether :func:`examples_first` can do its work."""
    return not (isinstance(layout.before, Extent) and isinstance(layout.after, Extent))


def examples_first(tensor: tf.Tensor, layout: Layout, count: tf.Tensor) -> tf.Tensor:
    """Return ``[m, r, ...]``: the r entries of each example on the axis of examples, then the other axes in order."""
    lengths, axis = sizes(tensor), layout.axis
    if is_plain(layout):
        order = [axis, *(i for i in range(len(lengths)) if i != axis)]
        moved = tensor if axis == 0 else tf.transpose(tensor, order)
        return tf.expand_dims(moved, 1)
    before = block(layout.before, layout.after, lengths[axis], count)
    after = block(layout.after, layout.before, lengths[axis], count)
    prefix, suffix = lengths[:axis], lengths[axis + 1 :]
    split = tf.reshape(tensor, tf.stack([*prefix, before, count, after, *suffix]))
    rest = [i if i < axis else i + 2 for i in range(len(lengths)) if i != axis]
    if not (isinstance(before, int) and before == 1 and axis == 0):
        split = tf.transpose(split, [axis + 1, axis, axis + 2, *rest])
    result = tf.reshape(split, tf.stack([count, before * after, *prefix, *suffix]))
    static = tensor.shape.as_list()
    known = before * after if isinstance(before, int) and isinstance(after, int) else None
    result.set_shape([None, known, *static[:axis], *static[axis + 1 :]])
    return result


def along_examples(values: tf.Tensor, layout: Layout, tensor: tf.Tensor, count: tf.Tensor) -> tf.Tensor:
    """Return ``values[m]`` in a shape that multiplies ``tensor``, which is laid out so, example by example."""
    rank, axis = tensor.shape.rank, layout.axis
    if not is_plain(layout):
        length = sizes(tensor)[axis]
        before = block(layout.before, layout.after, length, count)
        after = block(layout.after, layout.before, length, count)
        spread = tf.broadcast_to(values[tf.newaxis, :, tf.newaxis], tf.stack([before, count, after]))
        values = tf.reshape(spread, [-1])
    return tf.reshape(values, [1] * axis + [-1] + [1] * (rank - axis - 1))
