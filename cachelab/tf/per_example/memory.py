"""How many examples fit into a memory budget."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from cachelab.tf.per_example.copying import ancestors
from cachelab.tf.per_example.extents import Extent
from cachelab.tf.per_example.rules_conv import Kernel

if TYPE_CHECKING:
    import tensorflow as tf

    from cachelab.tf.per_example.analysis import Parameter, Problem

_UNKNOWN = 1 << 20
"""Bytes assumed for a tensor of an example whose size is not known."""


def bytes_per_example(problem: Problem, task: str) -> int:
    """Return a rough upper bound of the bytes that one more example needs: activations, deltas, gradients, patches."""
    total = 0
    if problem.flow is not None:
        made = (out for op in ancestors([problem.loss]) for out in op.outputs)
        # Once as an activation, once as a delta.
        total = sum(2 * _size(problem, out) for out in made if problem.flow.layout(out) is not None)
    return max(1, total + sum(_of_parameter(problem, parameter, task) for parameter in problem.parameters))


def _of_parameter(problem: Problem, parameter: Parameter, task: str) -> int:
    """Return the bytes of one example's gradient, where it is formed, and of the patches of convolutions."""
    ghost = parameter.uses and all(use.rule is not None and not use.rule.forms_gradient for use in parameter.uses)
    total = 0 if ghost and task != "gradients" else parameter.dtype.size * math.prod(parameter.shape)
    kernels = [use for use in parameter.uses if isinstance(use.rule, Kernel)]
    return total + sum(2 * math.prod(use.rule.taps) * _size(problem, use.op.inputs[0]) for use in kernels)


def _size(problem: Problem, tensor: tf.Tensor) -> int:
    sizes = problem.flow.shape(tensor)
    if sizes is None:
        return _UNKNOWN
    layout, total = problem.flow.layout(tensor), tensor.dtype.size
    for axis, size in enumerate(sizes):
        length = layout.before * layout.after if layout is not None and axis == layout.axis else size
        if isinstance(length, Extent):
            return _UNKNOWN
        total *= length
    return total


def chunk_for(problem: Problem, task: str, budget: int) -> int:
    """Return how many examples at a time keep within ``budget`` bytes, at least one."""
    return max(1, int(budget) // bytes_per_example(problem, task))
