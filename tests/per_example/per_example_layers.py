"""One small float64 model for each kind of layer: name -> function that gives values, losses and a batch."""

from __future__ import annotations

import numpy as np
import tensorflow as tf


def _summed(value):
    flat = tf.reshape(value, [tf.shape(value)[0], int(np.prod(value.shape[1:]))])
    return tf.reduce_sum(tf.sin(flat) * np.sqrt(np.arange(1.0, flat.shape[1] + 1)), 1)


def _layer(apply, batch, *shapes):
    def make():
        random = np.random.default_rng(len(shapes))
        x = random.normal(size=batch) if isinstance(batch, tuple) else np.array(batch)
        return [random.normal(size=shape) for shape in shapes], lambda x, w: _summed(apply(x, *w)), x

    return make


def _attention(x, query, key, value, out):
    q, k, v = (tf.einsum("btd,dhf->bhtf", x, weight) for weight in (query, key, value))
    mask = np.where(np.tri(4), 0.0, -1e9)
    mixed = tf.nn.softmax(tf.matmul(q, k, transpose_b=True) + mask) @ v
    return tf.einsum("bhtf,hfd->btd", mixed, out)


def _normalised(x, scale, shift):
    centred = x - tf.reduce_mean(x, -1, keepdims=True)
    return centred * tf.math.rsqrt(tf.reduce_mean(centred**2, -1, keepdims=True) + 1e-3) * scale + shift


def _unrolled(x, kernel, recurrent, bias):
    state = tf.zeros_like(x[:, 0, :2])
    for t in range(3):
        state = tf.tanh(x[:, t] @ kernel + state @ recurrent + bias)
    return state


def _transposed(x, kernel):
    return tf.nn.conv2d_transpose(x, kernel, tf.stack([tf.shape(x)[0], 6, 6, 2]), 2, "SAME")[:, :, :6]


LAYERS = {
    "dense": _layer(lambda x, w, b: x @ w + b, (3, 4), (4, 2), (2,)),
    "dense over positions": _layer(lambda x, w, b: tf.tensordot(x, w, 1) + b, (3, 5, 2), (2, 3), (3,)),
    "conv1d": _layer(lambda x, k, b: tf.nn.bias_add(tf.nn.conv1d(x, k, 1, "SAME"), b), (3, 5, 2), (3, 2, 2), (2,)),
    "conv2d": _layer(lambda x, k, b: tf.nn.conv2d(x, k, 2, "SAME") + b, (3, 5, 4, 2), (3, 2, 2, 3), (3,)),
    "conv3d": _layer(lambda x, k: tf.nn.conv3d(x, k, [1] * 5, "VALID"), (2, 3, 3, 3, 1), (2, 2, 2, 1, 2)),
    "depthwise": _layer(lambda x, k: tf.nn.depthwise_conv2d(x, k, [1] * 4, "VALID"), (3, 4, 4, 2), (2, 3, 2, 2)),
    "transposed": _layer(_transposed, (2, 3, 3, 2), (3, 3, 2, 2)),
    "embedding": _layer(lambda ids, table: tf.gather(table, ids), [[0, 1, 1], [2, 2, 2], [3, 0, 2]], (4, 2)),
    "normalisation": _layer(_normalised, (3, 2, 4), (4,), (4,)),
    "attention": _layer(_attention, (2, 4, 4), (4, 2, 2), (4, 2, 2), (4, 2, 2), (2, 2, 4)),
    "unrolled recurrence": _layer(_unrolled, (3, 3, 2), (2, 2), (2, 2), (2,)),
    "tied weights": _layer(lambda x, w: tf.tanh(x @ w) @ tf.transpose(w), (3, 4), (4, 3)),
}
