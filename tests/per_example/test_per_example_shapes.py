"""Rules for shapes that hypothesis makes up, against a float64 loop: dilations, groups, strides, masks, precisions."""

from __future__ import annotations

import itertools

import numpy as np
import tensorflow as tf
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

MADE_UP = settings(
    max_examples=4, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
SEEDS = st.integers(0, 2**16)
TAPS = st.tuples(st.integers(1, 3), st.integers(1, 3))


def summed(value):
    """Return a loss [m] that weighs all entries of each example differently."""
    flat = tf.reshape(value, [tf.shape(value)[0], -1])
    count = tf.cast(tf.shape(flat)[1] + 1, tf.float64)
    return tf.reduce_sum(tf.cast(tf.sin(flat), tf.float64) * tf.range(1.0, count, dtype=tf.float64) ** 0.5, 1)


def by_taps(x, kernel, strides, dilations, groups):
    """Return a convolution without padding, tap by tap, which has TensorFlow's plain gradient everywhere."""
    height, width = kernel.shape[:2]
    rows = (x.shape[1] - (height - 1) * dilations[0] - 1) // strides[0] + 1
    columns = (x.shape[2] - (width - 1) * dilations[1] - 1) // strides[1] + 1
    parts = []
    for group in zip(tf.split(x, groups, -1), tf.split(kernel, groups, -1), strict=True):
        total = 0.0
        for i, j in itertools.product(range(height), range(width)):
            down = slice(i * dilations[0], i * dilations[0] + (rows - 1) * strides[0] + 1, strides[0])
            across = slice(j * dilations[1], j * dilations[1] + (columns - 1) * strides[1] + 1, strides[1])
            total += tf.tensordot(group[0][:, down, across], group[1][i, j], 1)
        parts.append(total)
    return tf.concat(parts, -1)


@MADE_UP
@given(
    taps=TAPS, dilations=TAPS, strides=st.tuples(st.integers(1, 2), st.integers(1, 3)), groups=st.integers(1, 3),
    more=st.tuples(st.integers(0, 3), st.integers(0, 3)), m=st.integers(1, 3), seed=SEEDS,
)  # fmt: skip
def test_convolutions_with_dilations_strides_and_groups(check, *, taps, dilations, strides, groups, more, m, seed):
    random = np.random.default_rng(seed)
    kernel = tf.Variable(random.normal(size=(*taps, 2, 2 * groups)))
    size = [(tap - 1) * far + 1 + extra for tap, far, extra in zip(taps, dilations, more, strict=True)]
    x = random.normal(size=(m, *size, 2 * groups))

    def loss(x):
        return summed(tf.nn.conv2d(x, kernel, strides, "VALID", dilations=dilations))

    def truth(x):
        return summed(by_taps(x, kernel, strides, dilations, groups))

    np.testing.assert_allclose(loss(tf.constant(x)), truth(tf.constant(x)), rtol=1e-9)
    check(loss, [kernel], [x], truth=truth)


@MADE_UP
@given(taps=TAPS, dilations=TAPS, channels=st.integers(1, 3), multiplier=st.integers(1, 2), seed=SEEDS)
def test_depthwise_convolutions_with_dilations(check, *, taps, dilations, channels, multiplier, seed):
    random = np.random.default_rng(seed)
    kernel = tf.Variable(random.normal(size=(*taps, channels, multiplier)))

    def loss(x):
        return summed(tf.nn.depthwise_conv2d(x, kernel, [1] * 4, "SAME", dilations=dilations))

    check(loss, [kernel], [random.normal(size=(2, 5, 6, channels))])


@MADE_UP
@given(
    size=TAPS, taps=TAPS, strides=st.tuples(st.integers(1, 2), st.integers(1, 2)),
    padding=st.sampled_from(["SAME", "VALID"]), seed=SEEDS,
)  # fmt: skip
def test_transposed_convolutions(check, *, size, taps, strides, padding, seed):
    random = np.random.default_rng(seed)
    kernel = tf.Variable(random.normal(size=(*taps, 3, 2)))
    out = [
        n * step if padding == "SAME" else (n - 1) * step + tap
        for n, step, tap in zip(size, strides, taps, strict=True)
    ]

    def loss(x):
        return summed(tf.nn.conv2d_transpose(x, kernel, tf.stack([tf.shape(x)[0], *out, 3]), strides, padding))

    check(loss, [kernel], [random.normal(size=(2, *size, 2))])


@MADE_UP
@given(
    size=st.tuples(*[st.integers(2, 4)] * 3), taps=st.tuples(*[st.integers(1, 2)] * 3), stride=st.integers(1, 2),
    padding=st.sampled_from(["SAME", "VALID"]), seed=SEEDS,
)  # fmt: skip
def test_convolutions_in_three_dimensions(check, *, size, taps, stride, padding, seed):
    random = np.random.default_rng(seed)
    kernel = tf.Variable(random.normal(size=(*taps, 2, 2)))

    def loss(x):
        return summed(tf.nn.conv3d(x, kernel, [1, stride, 1, stride, 1], padding))

    check(loss, [kernel], [random.normal(size=(2, *size, 2))])


@MADE_UP
@given(
    m=st.integers(1, 4), length=st.integers(1, 9), width=st.integers(1, 5), out=st.integers(1, 6),
    heads=st.integers(1, 2), seed=SEEDS,
)  # fmt: skip
def test_products_over_masked_positions(check, *, m, length, width, out, heads, seed):
    """Lengths on both sides of 2 T^2 = p d, so that Gram matrices and gradients both serve the norms."""
    random = np.random.default_rng(seed)
    split = tf.Variable(random.normal(size=(width, heads, out)))
    joined = tf.Variable(random.normal(size=(heads * out, 2)))

    def loss(x, mask):
        spread = tf.einsum("btd,dhf->bthf", x, split)
        kept = tf.where(mask[:, :, tf.newaxis, tf.newaxis], spread, tf.zeros([], tf.float64))
        return summed(tf.tensordot(tf.reshape(kept, [-1, length, heads * out]), joined, 1))

    mask = random.random((m, length)) < 0.6
    check(loss, [split, joined], [random.normal(size=(m, length, width)), mask])


@MADE_UP
@given(m=st.integers(1, 4), length=st.integers(1, 6), rows=st.integers(1, 5), padded=st.booleans(), seed=SEEDS)
def test_lookups_with_padding(check, *, m, length, rows, padded, seed):
    random = np.random.default_rng(seed)
    table = tf.Variable(random.normal(size=(rows, 3)))

    def loss(ids):
        found = tf.gather(table, ids)
        return summed(found * tf.cast(ids > 0, tf.float64)[..., tf.newaxis] if padded else found)

    check(loss, [table], [random.integers(0, rows, (m, length))])


@MADE_UP
@given(kind=st.sampled_from(["float16", "bfloat16"]), m=st.integers(1, 3), length=st.integers(1, 3), seed=SEEDS)
def test_layers_in_half_precision(check, *, kind, m, length, seed):
    random = np.random.default_rng(seed)
    dense = tf.Variable(np.float32(random.normal(size=(3, 4))))
    kernel = tf.Variable(np.float32(random.normal(size=(2, 4, 2))))
    scale = tf.Variable(np.float32(random.normal(size=2)))

    def built(x, kind):
        hidden = tf.tensordot(tf.cast(x, kind), tf.cast(dense, kind), 1)
        hidden = tf.nn.conv1d(hidden, tf.cast(kernel, kind), 1, "SAME") * tf.cast(scale, kind)
        return summed(hidden)

    # Compared with float32: half precision itself is off by its own rounding.
    x = np.float32(random.normal(size=(m, length, 3)))
    check(lambda x: tf.cast(built(x, kind), kind), [dense, kernel, scale], [x], truth=lambda x: built(x, tf.float32))
