"""How many examples fit into a memory budget."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cachelab.tf.per_example.copying import ancestors
from cachelab.tf.per_example.extents import Extent
from cachelab.tf.per_example.flow import Layout
from cachelab.tf.per_example.rules_conv import Kernel

if TYPE_CHECKING:
    from cachelab.tf.per_example.analysis import Problem

_UNKNOWN = 1 << 20
"""Bytes assumed for a tensor of an example whose size is not known."""


def bytes_per_example(problem: Problem, task: str) -> int:
    """Return a rough upper bound of the bytes that one more example needs: activations, deltas, gradients, patches."""
    total = 0
    if problem.flow is not None:
        for op in ancestors([problem.loss]):
            for out in op.outputs:
                layout = problem.flow.layout(out)
                if isinstance(layout, Layout):
                    # Once as an activation, once as a delta.
                    total += 2 * _size(problem, out)
    for parameter in problem.parameters:
        size = parameter.dtype.size
        for length in parameter.shape:
            size *= length
        if (
            task == "gradients"
            or not parameter.uses
            or any(use.rule is None or use.rule.forms_gradient for use in parameter.uses)
        ):
            total += size
        for use in parameter.uses:
            if isinstance(use.rule, Kernel):
                taps = 1
                for tap in use.rule.taps:
                    taps *= tap
                total += 2 * taps * _size(problem, use.op.inputs[0])
    return max(total, 1)


def _size(problem: Problem, tensor: object) -> int:
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
