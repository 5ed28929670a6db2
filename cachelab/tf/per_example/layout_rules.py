"""How the op types of TensorFlow pass examples on (see :mod:`cachelab.tf.per_example.flow`): values, sums, products."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from cachelab.i18n import translate as _
from cachelab.tf.per_example import (  # noqa: F401  fill the registry
    layout_rules_control,
    layout_rules_lookup,
    layout_rules_shape,
)
from cachelab.tf.per_example.equations import equation_of
from cachelab.tf.per_example.extents import mentions_examples
from cachelab.tf.per_example.flow import Layout, M, layout_rule
from cachelab.tf.per_example.layout_tools import creates, merge

if TYPE_CHECKING:
    import tensorflow as tf

    from cachelab.tf.per_example.flow import Flow, State

ELEMENTWISE: Final = frozenset(
    {
        "Abs", "Acos", "Acosh", "Add", "AddN", "AddV2", "Angle", "ApproximateEqual", "Asin", "Asinh", "Atan", "Atan2",
        "Atanh", "BesselI0", "BesselI0e", "BesselI1", "BesselI1e", "BesselJ0", "BesselJ1", "BesselK0", "BesselK0e",
        "BesselK1", "BesselK1e", "BesselY0", "BesselY1", "Betainc", "BitwiseAnd", "BitwiseOr", "BitwiseXor",
        "Cast", "Ceil", "CheckNumerics", "CheckNumericsV2", "ClipByValue", "Complex", "ComplexAbs", "Conj", "Cos",
        "Cosh", "Digamma", "Div", "DivNoNan", "Elu", "EluGrad", "EnsureShape", "Equal", "Erf", "Erfc", "Erfinv", "Exp",
        "Expint", "Expm1", "FakeQuantWithMinMaxArgs", "FakeQuantWithMinMaxVars", "Floor", "FloorDiv", "FloorMod",
        "Greater", "GreaterEqual", "Identity", "Igamma", "IgammaGradA", "Igammac", "Imag", "Inv", "InvGrad", "Invert",
        "IsFinite", "IsInf", "IsNan", "LeakyRelu", "LeakyReluGrad", "LeftShift", "Less", "LessEqual", "Lgamma", "Log",
        "Log1p", "LogicalAnd", "LogicalNot", "LogicalOr", "LogicalXor", "Maximum", "Minimum", "Mod", "Mul", "MulNoNan",
        "Ndtri", "Neg", "NextAfter", "NotEqual", "OnesLike", "Polygamma", "PopulationCount", "Pow", "PreventGradient",
        "Real", "RealDiv", "Reciprocal", "ReciprocalGrad", "Relu", "Relu6", "Relu6Grad", "ReluGrad", "RightShift",
        "Rint", "Round", "Rsqrt", "RsqrtGrad", "Select", "SelectV2", "Selu", "SeluGrad", "Sigmoid", "SigmoidGrad",
        "Sign", "Sin", "Sinh", "Snapshot", "Softplus", "SoftplusGrad", "Softsign", "SoftsignGrad", "Sqrt", "SqrtGrad",
        "Square", "SquaredDifference", "StopGradient", "Sub", "Tan", "Tanh", "TanhGrad", "TruncateDiv", "TruncateMod",
        "Xdivy", "Xlog1py", "Xlogy", "ZerosLike", "Zeta",
    }
)  # fmt: skip
"""Op types that compute each entry from the entries at the same place, with broadcasting."""


@layout_rule(*ELEMENTWISE)
def _elementwise(flow: Flow, op: tf.Operation) -> list[State] | None:
    if op.type == "Select" and op.inputs[0].shape.rank == 1 and op.inputs[1].shape.rank != 1:
        return _select_rows(flow, op)
    if op.type == "SelectV2" and _numbers_or_zero(flow, op):
        return [flow.layout(op.inputs[1])]
    return [merge(flow, op, list(op.inputs), op.outputs[0])]


def _numbers_or_zero(flow: Flow, op: tf.Operation) -> bool:
    """Return whether ``op`` is ``where(m > 1, range(m), 0)``, as ``tf.vectorized_map`` has it: range(m) either way."""
    decision, numbers, zero = op.inputs
    own = flow.layout(numbers)
    if own is None or not own.iota or decision.op.type != "Greater" or decision.shape.rank != 0:
        return False
    left, right, other = flow.value(decision.op.inputs[0]), flow.value(decision.op.inputs[1]), flow.value(zero)
    if left is None or right is None or other is None:
        return False
    return (left.item(), right.item(), other.tolist()) == (M, 1, 0)


def _select_rows(flow: Flow, op: tf.Operation) -> list[State] | None:
    """Handle the old ``Select``, whose vector of conditions goes along the first axis."""
    layouts = flow.layouts(op.inputs)
    rest = [layout for layout in layouts if layout is not None]
    if any(layout != rest[0] for layout in rest):
        raise flow.couples(op)
    return [rest[0]] if rest[0].axis == 0 and layouts[0] is not None else None


@layout_rule("IdentityN", "ShapeN")
def _each(flow: Flow, op: tf.Operation) -> list[State]:
    return [flow.state(tensor) for tensor in op.inputs] if op.type == "IdentityN" else _sizes(flow, op)


@layout_rule("Shape", "Size", "Rank", "ShapeN", "TensorListLength", "TensorListElementShape")
def _sizes(flow: Flow, op: tf.Operation) -> list[State]:
    from cachelab.tf.per_example.flow import SIZE

    del flow
    return [SIZE] * len(op.outputs)


@layout_rule("Sum", "Mean", "Prod", "Max", "Min", "All", "Any", "EuclideanNorm")
def _reduce(flow: Flow, op: tf.Operation) -> list[State] | None:
    layout, axes, rank = flow.layout(op.inputs[0]), flow.value(op.inputs[1]), op.inputs[0].shape.rank
    if layout is None or axes is None or rank is None:
        return None
    reduced = {int(axis) % rank for axis in axes.ravel()} if rank else set()
    if layout.axis in reduced:
        raise flow.couples(op, _("it reduces over the axis of the examples"))
    if op.get_attr("keep_dims"):
        return [layout]
    return [layout.moved(layout.axis - sum(axis < layout.axis for axis in reduced))]


@layout_rule("ArgMax", "ArgMin")
def _arg(flow: Flow, op: tf.Operation) -> list[State] | None:
    layout, axis, rank = flow.layout(op.inputs[0]), flow.value(op.inputs[1]), op.inputs[0].shape.rank
    if layout is None or axis is None or rank is None:
        return None
    along = int(axis) % rank
    if along == layout.axis:
        raise flow.couples(op, _("it compares entries along the axis of the examples"))
    return [layout.moved(layout.axis - (along < layout.axis))]


@layout_rule("Softmax", "LogSoftmax", "TopKV2", "TopK", "InTopKV2", "FFT", "IFFT", "RFFT", "IRFFT", "Cross")
def _last_axis(flow: Flow, op: tf.Operation) -> list[State] | None:
    return _rows(flow, op, op.inputs[0], 1)


@layout_rule(
    "MatrixDiagV3", "MatrixDiagPartV3", "MatrixBandPart", "MatrixInverse", "Cholesky", "MatrixDeterminant", "Qr",
    "Svd", "MatrixSetDiagV3", "MatrixSolve", "MatrixTriangularSolve", "LogMatrixDeterminant", "SelfAdjointEigV2",
    "CholeskyGrad",
)  # fmt: skip
def _matrices(flow: Flow, op: tf.Operation) -> list[State] | None:
    return _rows(flow, op, op.inputs[0], 1 if op.type == "MatrixDiagV3" else 2)


def _rows(flow: Flow, op: tf.Operation, tensor: tf.Tensor, own: int) -> list[State] | None:
    """Pass on examples that lie on an axis before the last ``own`` ones, on which the op works."""
    rank, layout = tensor.shape.rank, flow.layout(tensor)
    others = [other for other in flow.layouts(op.inputs) if other is not None]
    if rank is None or layout is None or any(other != layout for other in others):
        return None
    if layout.axis >= rank - own:
        raise flow.couples(op, _("it works along the axis of the examples"))
    return [layout] * len(op.outputs)


@layout_rule("SoftmaxCrossEntropyWithLogits", "SparseSoftmaxCrossEntropyWithLogits")
def _cross_entropy(flow: Flow, op: tf.Operation) -> list[State] | None:
    layouts = [layout for layout in flow.layouts(op.inputs) if layout is not None]
    fixed = [tensor for tensor in op.inputs if flow.layout(tensor) is None]
    if any(layout != layouts[0] for layout in layouts) or layouts[0].axis != 0:
        raise flow.couples(op)
    if not all(flow.accepts(tensor, 0, layouts[0]) for tensor in fixed):
        return None
    return [layouts[0], layouts[0]]


_ON_ROWS: Final = {
    "Conv2D": (0,), "Conv3D": (0,), "DepthwiseConv2dNative": (0,), "Conv": (0,), "Dilation2D": (0,),
    "Conv2DBackpropInput": (2,), "Conv3DBackpropInputV2": (2,), "DepthwiseConv2dNativeBackpropInput": (2,),
    "AvgPool": (0,), "AvgPool3D": (0,), "MaxPool": (0,), "MaxPoolV2": (0,), "MaxPool3D": (0,), "LRN": (0,),
    "AvgPoolGrad": (1,), "AvgPool3DGrad": (1,), "MaxPoolGrad": (0, 1, 2), "MaxPoolGradV2": (0, 1, 2),
    "MaxPool3DGrad": (0, 1, 2), "MaxPoolGradGrad": (0, 1, 2), "LRNGrad": (0, 1, 2), "DepthToSpace": (0,),
    "SpaceToDepth": (0,), "ExtractImagePatches": (0,), "ResizeBilinear": (0,), "ResizeNearestNeighbor": (0,),
    "ResizeBicubic": (0,), "ResizeBilinearGrad": (0,), "ResizeNearestNeighborGrad": (0,), "AdjustHue": (0,),
}  # fmt: skip
"""Op types that work on each row of axis 0 by itself, and which inputs have such rows."""


@layout_rule(*_ON_ROWS)
def _on_rows(flow: Flow, op: tf.Operation) -> list[State] | None:
    rows = _ON_ROWS[op.type]
    layouts = flow.layouts(op.inputs)
    found = [layout for layout in layouts if layout is not None]
    if any(layout is not None for i, layout in enumerate(layouts) if i not in rows):
        return None
    if any(layout != found[0] for layout in found) or any(layouts[i] is None for i in rows):
        return None
    if found[0].axis != 0:
        raise flow.couples(op, _("the examples are not on its axis of rows"))
    return [found[0]] * len(op.outputs)


@layout_rule("Conv2DBackpropFilter", "Conv3DBackpropFilterV2", "DepthwiseConv2dNativeBackpropFilter")
def _sum_over_rows(flow: Flow, op: tf.Operation) -> list[State]:
    raise flow.couples(op, _("it sums over the examples"))


@layout_rule("BiasAddGrad")
def _bias_grad(flow: Flow, op: tf.Operation) -> list[State]:
    raise flow.couples(op, _("it sums over the examples"))


@layout_rule("BiasAdd")
def _bias(flow: Flow, op: tf.Operation) -> list[State] | None:
    layout, rank = flow.layout(op.inputs[0]), op.inputs[0].shape.rank
    channels = 1 if op.get_attr("data_format") == b"NCHW" else (rank or 0) - 1
    if layout is None or rank is None or layout.axis == channels or flow.layout(op.inputs[1]) is not None:
        return None
    return [layout]


@layout_rule("FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3", "_FusedBatchNormEx")
def _batch_norm(flow: Flow, op: tf.Operation) -> list[State] | None:
    if op.get_attr("is_training"):
        raise flow.couples(op, _("batch normalisation uses the mean and variance of the batch"))
    layouts = flow.layouts(op.inputs)
    if any(layout is not None for layout in layouts[1:]) or layouts[0].axis != 0:
        return None
    from cachelab.tf.per_example.flow import FIXED

    return [layouts[0]] + [FIXED] * (len(op.outputs) - 1)


@layout_rule("MatMul", "BatchMatMul", "BatchMatMulV2", "BatchMatMulV3", "Einsum", "SparseMatMul")
def _contract(flow: Flow, op: tf.Operation) -> list[State] | None:
    equation = equation_of(op)
    if equation is None:
        return None
    *terms, out = equation
    found: dict[str, Layout] = {}
    for term, tensor in zip(terms, op.inputs, strict=True):
        layout = flow.layout(tensor)
        if layout is not None:
            found[term[layout.axis]] = layout
    if len(found) > 1:
        raise flow.couples(op, _("it multiplies each example with every other one"))
    (label, layout), *_rest = found.items()
    for term, tensor in zip(terms, op.inputs, strict=True):
        if label not in term:
            continue
        other = flow.layout(tensor)
        if other is None and label in out and not flow.accepts(tensor, term.index(label), layout):
            return None
        if other is not None and (other.before, other.after) != (layout.before, layout.after):
            return None
    if label not in out:
        raise flow.couples(op, _("it sums over the axis of the examples"))
    return [layout.moved(out.index(label))]


@layout_rule("L2Loss")
def _l2(flow: Flow, op: tf.Operation) -> list[State]:
    raise flow.couples(op, _("it sums over all examples"))


@layout_rule("CTCLoss", "CTCLossV2")
def _ctc(flow: Flow, op: tf.Operation) -> list[State] | None:
    del flow, op
    return None


@layout_rule("Fill")
@creates
def _fill(flow: Flow, op: tf.Operation) -> list[State] | None:
    return _created(flow, op, op.inputs[0])


@layout_rule(
    "RandomUniform", "RandomStandardNormal", "TruncatedNormal", "RandomUniformInt", "StatelessRandomUniform",
    "StatelessRandomNormal", "StatelessTruncatedNormal", "StatelessRandomUniformInt", "StatelessRandomUniformV2",
    "StatelessRandomNormalV2", "StatelessTruncatedNormalV2", "StatelessRandomUniformIntV2", "StatefulUniform",
    "StatefulStandardNormalV2", "StatefulTruncatedNormal", "StatefulUniformInt",
)  # fmt: skip
@creates
def _draw(flow: Flow, op: tf.Operation) -> list[State] | None:
    position = 2 if op.type.startswith("Stateful") else 0
    if any(flow.layout(tensor) is not None for tensor in op.inputs):
        return None
    states = _created(flow, op, op.inputs[position])
    if states is not None and isinstance(states[0], Layout):
        flow.draws[op.outputs[0].ref()] = states[0]
    return states


def _created(flow: Flow, op: tf.Operation, shape: tf.Tensor) -> list[State] | None:
    """Return the layout of an op that makes a new tensor of a shape with the number of examples in it."""
    from cachelab.tf.per_example.flow import FIXED

    if any(flow.layout(tensor) is not None for tensor in op.inputs):
        return None
    sizes = flow.value(shape)
    if sizes is None:
        return None
    axes = [axis for axis, size in enumerate(sizes) if mentions_examples(size)]
    if not axes:
        return [FIXED]
    if len(axes) > 1:
        return None
    after: Any = sizes[axes[0]] // M
    return [Layout(axes[0], 1, after)]


__all__ = ["ELEMENTWISE"]
