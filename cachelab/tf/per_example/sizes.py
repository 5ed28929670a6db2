"""Values of shape arithmetic, with the number of examples as a symbol."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from cachelab.tf.per_example.extents import Size, divide, product

if TYPE_CHECKING:
    from collections.abc import Sequence

    import tensorflow as tf

    from cachelab.tf.per_example.flow import Flow

_SAME_SHAPE = frozenset(
    {"Softmax", "LogSoftmax", "Cumsum", "Cumprod", "ReverseV2", "Identity", "StopGradient", "BiasAdd"}
)
_LIMIT = 4096
"""Longer tensors are data, not shapes."""


def derived_shape(flow: Flow, tensor: tf.Tensor) -> list[Size | None]:
    """Return sizes that follow from the op that makes ``tensor``, ``None`` where they don't."""
    op, rank = tensor.op, tensor.shape.rank
    rule = _SHAPES.get(op.type)
    if rule is None and (op.type in _SAME_SHAPE or _is_elementwise(op)):
        rule = _like_an_input
    found = None if rule is None else rule(flow, op, rank)
    return [None] * rank if found is None or len(found) != rank else list(found)


def _asked_for(flow: Flow, op: tf.Operation, _rank: int) -> Any:
    value = flow.value(op.inputs[0 if op.type == "Fill" else 1])
    if value is None or op.type != "Reshape":
        return value
    return completed(flow.shape(op.inputs[0]), list(value))


def _transposed(flow: Flow, op: tf.Operation, _rank: int) -> Any:
    order, sizes = flow.value(op.inputs[1]), flow.shape(op.inputs[0])
    return None if order is None or sizes is None else [sizes[int(axis)] for axis in order]


def _multiplied(flow: Flow, op: tf.Operation, rank: int) -> Any:
    names = ("transpose_a", "transpose_b") if op.type == "MatMul" else ("adj_x", "adj_y")
    left, right = flow.shape(op.inputs[0]), flow.shape(op.inputs[1])
    if left is None or right is None:
        return None
    rows = left[-1 if op.get_attr(names[0]) else -2]
    columns = right[-2 if op.get_attr(names[1]) else -1]
    return [*(left[:-2] if len(left) == rank else right[:-2]), rows, columns]


def _like_an_input(flow: Flow, op: tf.Operation, rank: int) -> Any:
    for source in op.inputs:
        sizes = flow.shape(source) if source.shape.rank == rank else None
        if sizes is not None and all(size != 1 for size in sizes):
            return sizes
    return None


_SHAPES: dict[str, Any] = {
    **dict.fromkeys(("Reshape", "BroadcastTo", "Fill"), _asked_for),
    **dict.fromkeys(("MatMul", "BatchMatMulV2", "BatchMatMulV3"), _multiplied),
    "Transpose": _transposed,
}


def _is_elementwise(op: tf.Operation) -> bool:
    from cachelab.tf.per_example.layout_rules import ELEMENTWISE

    return op.type in ELEMENTWISE


def completed(sizes: Sequence[Size] | None, new: list[Any]) -> list[Size] | None:
    """Return ``new`` with its -1 worked out from ``sizes``."""
    if -1 not in new:
        return new
    if sizes is None:
        return None
    hole = new.index(-1)
    known = product(size for axis, size in enumerate(new) if axis != hole)
    missing = divide(product(sizes), known)
    return [missing if axis == hole else size for axis, size in enumerate(new)]


def derived_value(flow: Flow, tensor: tf.Tensor) -> np.ndarray | None:
    """Return the value of ``tensor`` as an object array of sizes, ``None`` if it can't be followed."""
    if not (tensor.dtype.is_integer or tensor.dtype.is_bool):
        return None
    op = tensor.op
    evaluate = _EVALUATORS.get(op.type)
    if evaluate is None:
        return None
    try:
        result = evaluate(flow, op, tensor.value_index)
    except (TypeError, ValueError, IndexError, ZeroDivisionError):
        return None
    if result is None:
        return None
    array = np.empty(np.shape(result), dtype=object)
    array[...] = result
    return array if array.size <= _LIMIT else None


def _shape(flow: Flow, op: tf.Operation, index: int) -> Any:
    source = op.inputs[index]
    sizes = flow.shape(source)
    return None if sizes is None else sizes


def _all(flow: Flow, op: tf.Operation) -> list[np.ndarray]:
    values = [flow.value(tensor) for tensor in op.inputs]
    if any(value is None for value in values):
        raise ValueError
    return values


def _binary(function: Any) -> Any:
    return lambda flow, op, _index: function(*_all(flow, op))


def _strided_slice(flow: Flow, op: tf.Operation, _index: int) -> Any:
    value, begin, end, strides = _all(flow, op)
    masks = {name: op.get_attr(f"{name}_mask") for name in ("begin", "end", "ellipsis", "new_axis", "shrink_axis")}
    if masks["ellipsis"] or value.ndim != 1:
        return None
    keys: list[Any] = []
    for i in range(len(begin)):
        if masks["new_axis"] >> i & 1:
            keys.append(None)
        elif masks["shrink_axis"] >> i & 1:
            keys.append(int(begin[i]))
        else:
            first = None if masks["begin"] >> i & 1 else int(begin[i])
            last = None if masks["end"] >> i & 1 else int(end[i])
            keys.append(slice(first, last, int(strides[i])))
    return value[tuple(keys)]


def _concat(flow: Flow, op: tf.Operation, _index: int) -> Any:
    *parts, axis = _all(flow, op)
    return np.concatenate(parts, int(axis))


def _reduce(function: Any) -> Any:
    def evaluate(flow: Flow, op: tf.Operation, _index: int) -> Any:
        value, axes = _all(flow, op)
        if value.ndim > 1 or not np.size(axes):
            return value if not np.size(axes) else None
        result = function(list(value))
        return [result] if op.get_attr("keep_dims") else result

    return evaluate


def _one_of_equals(values: list[Size]) -> Size:
    if any(value != values[0] for value in values):
        raise ValueError
    return values[0]


def _select(flow: Flow, op: tf.Operation, _index: int) -> Any:
    decision, one, other = _all(flow, op)
    return np.where(decision.astype(bool), one, other)


def _maximum(one: np.ndarray, other: np.ndarray) -> Any:
    # A size is at least 1 for what follows: max(size, 1) is how TensorFlow guards its divisions.
    if other.ndim == 0 and other == 1:
        return one
    if one.ndim == 0 and one == 1:
        return other
    return np.maximum(one, other)


def _gather(flow: Flow, op: tf.Operation, _index: int) -> Any:
    values = _all(flow, op)
    return values[0][values[1].astype(int)]


def _broadcast_gradient_args(flow: Flow, op: tf.Operation, index: int) -> Any:
    shapes = [list(value) for value in _all(flow, op)]
    rank = max(map(len, shapes))
    padded = [[1] * (rank - len(shape)) + shape for shape in shapes]
    axes: list[list[int]] = [[], []]
    for axis, (one, other) in enumerate(zip(*padded, strict=True)):
        if flow.same(one, other):
            # Both 1: TensorFlow sums both there; summing an axis of size 1 mixes nothing.
            if flow.same(one, 1):
                axes[0].append(axis)
                axes[1].append(axis)
        elif flow.same(one, 1):
            axes[0].append(axis)
        elif flow.same(other, 1):
            axes[1].append(axis)
        else:
            return None
    return axes[index]


def _dynamic_stitch(flow: Flow, op: tf.Operation, _index: int) -> Any:
    values = _all(flow, op)
    half = len(values) // 2
    result: dict[int, Any] = {}
    for where, data in zip(values[:half], values[half:], strict=True):
        result.update(zip(where.ravel().astype(int).tolist(), data.ravel().tolist(), strict=True))
    return [result[i] for i in range(len(result))]


def _slice(flow: Flow, op: tf.Operation, _index: int) -> Any:
    value, begin, size = _all(flow, op)
    (first,), (count,) = begin.astype(int), size.astype(int)
    return value[first:] if count == -1 else value[first : first + count]


def _split(flow: Flow, op: tf.Operation, index: int) -> Any:
    axis, value = _all(flow, op)
    return np.split(value, len(op.outputs), int(axis))[index]


def _fill(flow: Flow, op: tf.Operation, _index: int) -> Any:
    dims, value = _all(flow, op)
    return np.full([int(size) for size in dims], value.item(), dtype=object)


def _range(flow: Flow, op: tf.Operation, _index: int) -> Any:
    return np.arange(*(int(value.item()) for value in _all(flow, op))).astype(object)


def _floor_mod(one: np.ndarray, other: np.ndarray) -> Any:
    # (axis + rank) % rank, as gradients of reductions write it.
    return one % other


_EVALUATORS: dict[str, Any] = {
    "Shape": _shape,
    "ShapeN": _shape,
    "Size": lambda flow, op, _i: product(flow.shape(op.inputs[0])),
    "Rank": lambda _flow, op, _i: op.inputs[0].shape.rank,
    "Identity": lambda flow, op, _i: flow.value(op.inputs[0]),
    "StopGradient": lambda flow, op, _i: flow.value(op.inputs[0]),
    "Cast": lambda flow, op, _i: flow.value(op.inputs[0]),
    "StridedSlice": _strided_slice,
    "Pack": lambda flow, op, _i: np.stack(_all(flow, op), op.get_attr("axis")),
    "ConcatV2": _concat,
    "Slice": _slice,
    "Split": _split,
    "Max": _reduce(_one_of_equals),
    "SelectV2": _select,
    "Prod": _reduce(product),
    "Sum": _reduce(sum),
    "Mul": _binary(lambda a, b: a * b),
    "AddV2": _binary(lambda a, b: a + b),
    "Add": _binary(lambda a, b: a + b),
    "Sub": _binary(lambda a, b: a - b),
    "Greater": _binary(lambda a, b: np.vectorize(int)(a > b)),
    "GreaterEqual": _binary(lambda a, b: np.vectorize(int)(a >= b)),
    "FloorDiv": _binary(lambda a, b: a // b),
    "FloorMod": _binary(_floor_mod),
    "Maximum": _binary(_maximum),
    "GatherV2": _gather,
    "ExpandDims": lambda flow, op, _i: np.expand_dims(flow.value(op.inputs[0]), int(flow.value(op.inputs[1]))),
    "Squeeze": lambda flow, op, _i: np.squeeze(flow.value(op.inputs[0])),
    "Reshape": lambda flow, op, _i: np.reshape(flow.value(op.inputs[0]), flow.value(op.inputs[1]).astype(int)),
    "InvertPermutation": lambda flow, op, _i: np.argsort(flow.value(op.inputs[0]).astype(int)),
    "BroadcastGradientArgs": _broadcast_gradient_args,
    "DynamicStitch": _dynamic_stitch,
    "Fill": _fill,
    "Range": _range,
}
