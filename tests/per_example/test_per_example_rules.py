"""Rules op by op against a float64 loop over the examples: shapes, strides, paddings, dilations, groups, masks."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cachelab.tf.per_example import plan
from cachelab.tf.per_example.rules import registered

RANDOM = np.random.default_rng(1)
FEW = settings(
    max_examples=4, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


def normal(*shape):
    return RANDOM.normal(size=shape)


def variable(*shape):
    return tf.Variable(normal(*shape))


def summed(value):
    """Return a loss [m] that weighs all entries of each example differently."""
    flat = tf.reshape(value, [tf.shape(value)[0], -1])
    return tf.reduce_sum(
        tf.sin(flat) * tf.range(1.0, tf.cast(tf.shape(flat)[1] + 1, tf.float64), dtype=tf.float64) ** 0.5, 1
    )


@FEW
@given(
    size=st.tuples(st.integers(4, 7), st.integers(4, 6)),
    kernel=st.tuples(st.integers(1, 3), st.integers(1, 3)),
    stride=st.integers(1, 2),
    padding=st.sampled_from(["SAME", "VALID", [[0, 0], [1, 2], [0, 1], [0, 0]]]),
    groups=st.integers(1, 2),
    channels=st.integers(1, 2),
    out=st.integers(1, 3),
    m=st.integers(1, 3),
)
def test_conv2d(check, *, size, kernel, stride, padding, groups, channels, out, m):
    weights, bias = variable(*kernel, channels, out * groups), variable(out * groups)
    x = normal(m, *size, channels * groups)

    def loss(x):
        return summed(tf.nn.bias_add(tf.tanh(tf.nn.conv2d(x, weights, stride, padding)), bias))

    def apart(x):
        # TensorFlow on CPU neither fuses a bias with grouped convolutions (hence the tanh) nor has their gradient.
        parts = zip(tf.split(x, groups, -1), tf.split(weights, groups, -1), strict=True)
        joined = tf.concat([tf.nn.conv2d(i, w, stride, padding) for i, w in parts], -1)
        return summed(tf.nn.bias_add(tf.tanh(joined), bias))

    check(loss, [weights, bias], [x], truth=apart)


@pytest.mark.parametrize(("padding", "dilation"), list(itertools.product(["SAME", "VALID"], [2, 3])))
def test_dilated_conv2d(check, padding, dilation):
    weights = variable(2, 2, 2, 3)
    x = normal(3, 7, 8, 2)

    def blocks(x):
        # On CPU in TensorFlow: rows of the image dealt out to the batch and back.
        return summed(tf.nn.convolution(x, weights, padding=padding, dilations=dilation))

    def direct(x):
        return summed(tf.nn.conv2d(x, weights, 1, padding, dilations=dilation))

    def by_hand(x):
        reach = dilation
        rows = (
            tf.pad(x, [[0, 0], [reach // 2, reach - reach // 2], [reach // 2, reach - reach // 2], [0, 0]])
            if padding == "SAME"
            else x
        )
        height, width = rows.shape[1] - reach, rows.shape[2] - reach
        return summed(
            sum(
                tf.einsum(
                    "bhwc,cd->bhwd",
                    rows[:, i * reach : i * reach + height, j * reach : j * reach + width],
                    weights[i, j],
                )
                for i in range(2)
                for j in range(2)
            )
        )

    np.testing.assert_allclose(direct(tf.constant(x)), by_hand(tf.constant(x)), rtol=1e-9)
    check(direct, [weights], [x], truth=by_hand)
    check(blocks, [weights], [x], truth=by_hand)


@FEW
@given(
    kernel=st.tuples(st.integers(1, 3), st.integers(1, 3)),
    stride=st.integers(1, 2),
    padding=st.sampled_from(["SAME", "VALID"]),
    channels=st.integers(1, 3),
    multiplier=st.integers(1, 2),
)
def test_depthwise_conv(check, *, kernel, stride, padding, channels, multiplier):
    weights = variable(*kernel, channels, multiplier)

    def loss(x):
        return summed(tf.nn.depthwise_conv2d(x, weights, [1, stride, stride, 1], padding))

    check(loss, [weights], [normal(3, 5, 6, channels)])


@pytest.mark.parametrize(("stride", "padding"), list(itertools.product([1, 2], ["SAME", "VALID"])))
def test_transposed_conv(check, stride, padding):
    weights = variable(3, 2, 2, 3)
    size = [4 * stride + (2 if padding == "VALID" and stride == 1 else 1 if padding == "VALID" else 0), 0]
    size[1] = 3 * stride + (1 if padding == "VALID" and stride == 1 else 0)

    def loss(x):
        shape = tf.stack([tf.shape(x)[0], *size, 2])
        return summed(tf.nn.conv2d_transpose(x, weights, shape, stride, padding))

    check(loss, [weights], [normal(3, 4, 3, 3)])


@pytest.mark.parametrize("padding", ["SAME", "VALID"])
def test_conv3d_and_conv1d(check, padding):
    three, one = variable(2, 2, 2, 2, 2), variable(3, 2, 2)

    def loss(x):
        hidden = tf.nn.conv3d(x, three, [1, 1, 2, 1, 1], padding)
        return summed(tf.nn.conv1d(tf.reshape(hidden, [tf.shape(x)[0], -1, 2]), one, 1, padding))

    check(loss, [three, one], [normal(2, 3, 4, 3, 2)])


def test_kernel_larger_than_the_image_uses_gram_matrices(check):
    weights = variable(2, 2, 6, 8)

    def loss(x):
        return summed(tf.nn.conv2d(x, weights, 1, "VALID"))

    x = normal(4, 3, 3, 6)
    check(loss, [weights], [x])
    assert plan(loss, [weights], [x], task="norms").variables[0].method == "ghost"


EQUATIONS = [
    ("btd,df->btf", (3, 4, 5), (5, 6)),
    ("btd,hdf->bhtf", (3, 4, 5), (2, 5, 3)),
    ("bhtf,hfd->btd", (3, 2, 4, 3), (2, 3, 5)),
    ("bd,fd->bf", (3, 5), (6, 5)),
    ("btd,td->btd", (3, 4, 5), (4, 5)),
    ("tbd,df->tbf", (4, 3, 5), (5, 6)),
    ("bdt,df->bf", (3, 5, 4), (5, 6)),
    ("...d,df->...f", (3, 4, 2, 5), (5, 6)),
]


@pytest.mark.parametrize(("equation", "x_shape", "w_shape"), EQUATIONS)
def test_einsum(check, equation, x_shape, w_shape):
    weights = variable(*w_shape)
    swap = equation.startswith("tb")

    def loss(x):
        value = tf.einsum(equation, tf.transpose(x, [1, 0, 2]) if swap else x, weights)
        return summed(tf.transpose(value, [1, 0, 2]) if swap else value)

    x = normal(*x_shape)
    check(loss, [weights], [np.swapaxes(x, 0, 1) if swap else x], ("auto", "vectorized"))
    assert plan(loss, [weights], [np.swapaxes(x, 0, 1) if swap else x]).method == "outer"


@pytest.mark.parametrize(("left", "right"), list(itertools.product([False, True], repeat=2)))
def test_matmul_with_either_side_and_transposes(check, left, right):
    first, second = variable(*((5, 4) if right else (4, 5))), variable(*((3, 2) if left else (2, 3)))

    def loss(x):
        hidden = tf.matmul(x, first, transpose_b=right)
        turned = tf.matmul(second, tf.transpose(hidden[:, :3]), transpose_a=left)
        return summed(tf.transpose(turned)) + summed(hidden)

    fix = second if second.shape[1 - left] == 3 else None
    assert fix is not None
    check(loss, [first, second], [normal(3, 4)])


def test_batched_products_and_rows_merged_with_examples(check):
    shared, plain, time_major = variable(4, 3), variable(1, 4, 5), variable(4, 2)

    def loss(x):
        merged = tf.reshape(tf.reshape(x, [-1, 4]) @ shared, [-1, 6 * 3])
        batched = tf.matmul(x, plain)
        turned = tf.reshape(tf.reshape(tf.transpose(x, [1, 0, 2]), [-1, 4]) @ time_major, [6, -1, 2])
        return summed(merged) + summed(batched) + summed(tf.transpose(turned, [1, 0, 2]))

    check(loss, [shared, plain, time_major], [normal(3, 6, 4)])
    assert plan(loss, [shared, plain, time_major], [normal(3, 6, 4)]).method == "outer"


@FEW
@given(
    kind=st.sampled_from(["mul", "add", "sub", "rsub", "div", "rdiv", "pow", "maximum", "squared_difference", "where"]),
    shape=st.sampled_from([(), (4,), (3, 1), (3, 4), (1, 3, 4), (1, 1, 1)]),
)
def test_elementwise(check, kind, shape):
    weights = tf.Variable(np.abs(normal(*shape)) + 0.5)
    combine = {
        "mul": lambda x: x * weights,
        "add": lambda x: x + weights,
        "sub": lambda x: x - weights,
        "rsub": lambda x: weights - x,
        "div": lambda x: x / weights,
        "rdiv": lambda x: weights / (tf.abs(x) + 1),
        "pow": lambda x: tf.pow(tf.abs(x) + 0.1, weights),
        "maximum": lambda x: tf.maximum(x, weights),
        "squared_difference": lambda x: tf.math.squared_difference(x, weights),
        "where": lambda x: tf.where(x > 0, x * 2, weights),
    }[kind]
    check(lambda x: summed(combine(x)), [weights], [normal(3, 3, 4)])


@pytest.mark.parametrize("length", [1, 5])
def test_embeddings_with_repeated_rows(check, length):
    table, head = variable(7, 3), variable(3, 2)
    ids = RANDOM.integers(0, 7, (4, length))
    ids[0] = 2

    def loss(ids):
        return summed(tf.reduce_mean(tf.gather(table, ids), 1) @ head)

    check(loss, [table, head], [ids], ("auto", "vectorized"))
    assert [v.method for v in plan(loss, [table], [ids], task="norms").variables] == ["ghost"]


def test_long_lookups_are_grouped_by_unique_rows(check):
    table = variable(5, 2)
    check(lambda ids: summed(tf.gather(table, ids)), [table], [RANDOM.integers(0, 5, (2, 300))], tasks=("norms",))


def test_bias_scale_shift_tile_and_broadcast(check):
    bias, scale, token, number, row = variable(4), variable(4), variable(1, 1, 4), variable(), variable(1, 4)

    def loss(x):
        rows = tf.shape(x)[0]
        joined = tf.concat([tf.tile(token, [rows, 2, 1]), tf.nn.bias_add(x * scale, bias)], 1)
        spread = tf.broadcast_to(row, tf.stack([rows, 4])) * tf.fill(tf.stack([rows, 4]), number)
        return summed(joined) + summed(spread)

    check(loss, [bias, scale, token, number, row], [normal(3, 2, 4)], ("auto", "vectorized", "loop"))


def test_normalisation_with_stored_statistics(check):
    scale, shift = tf.Variable(np.float32(normal(3))), tf.Variable(np.float32(normal(3)))
    mean, variance = np.float32(normal(3)), np.float32(np.abs(normal(3)) + 0.5)

    def loss(x):
        y, _, _ = tf.compat.v1.nn.fused_batch_norm(x, scale, shift, mean, variance, is_training=False)
        return tf.reduce_sum(tf.sin(y), [1, 2, 3])

    check(loss, [scale, shift], [np.float32(normal(3, 2, 2, 3))])
    assert plan(loss, [scale], [np.float32(normal(3, 2, 2, 3))]).method == "outer"


def test_masks_and_weights(check):
    weights = variable(4, 3)

    def loss(x, mask, importance):
        scores = tf.where(mask[..., tf.newaxis], x @ weights, tf.zeros([], tf.float64))
        attention = tf.nn.softmax(tf.where(mask, tf.reduce_sum(scores, -1), tf.constant(-1e9, tf.float64)))
        return importance * tf.reduce_sum(attention[..., tf.newaxis] * scores, [1, 2])

    mask = np.arange(5) < np.array([[5], [3], [1]])
    check(loss, [weights], [normal(3, 5, 4), mask, np.array([1.0, 0.0, 2.5])])


def test_the_table_of_rules_has_what_the_documentation_promises():
    promised = {"MatMul", "BatchMatMulV2", "Einsum", "Conv2D", "Conv3D", "DepthwiseConv2dNative", "Conv2DBackpropInput"}
    assert promised | {"GatherV2", "ResourceGather", "BiasAdd", "Mul", "AddV2", "FusedBatchNormV3"} <= set(registered())
