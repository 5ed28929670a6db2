"""A trace is found again only while the loss closes over the same Python values."""

from __future__ import annotations

import functools
from types import ModuleType

import keras
import numpy as np
import pytest
import tensorflow as tf

from cachelab.errors import NotApplicableError
from cachelab.tf.per_example import derivatives, per_example_squared_norms
from cachelab.tf.per_example.compiled import entry_for
from cachelab.tf.per_example.request import Request

W = tf.Variable([[1.0], [2.0]])
X = tf.constant([[1.0, 0.0], [0.0, 1.0]])
factor = 1.0
settings = ModuleType("settings")
options = {"factor": 1.0}
table = np.ones(1, "float32")
tensor = tf.constant(1.0)


class Scaled:
    def __init__(self):
        self.factor = 1.0

    def scale(self, value):
        return self.factor * value

    def loss(self, x):
        return self.scale(tf.reduce_sum(x @ W, 1))

    __call__ = loss


class Net(keras.Model):
    def __init__(self):
        super().__init__()
        self.factor = 1.0

    def call(self, x):
        return self.factor * (x @ W)


def helper(value):
    return factor * value


scaled, net = Scaled(), Net()
settings.factor = 1.0


def set_global(value):
    global factor  # noqa: PLW0603
    factor = value


def set_tensor(value):
    global tensor  # noqa: PLW0603
    tensor = tf.constant(value)


def total(x):
    return tf.reduce_sum(x @ W, 1)


CASES = {
    "global": (lambda x: factor * total(x), set_global),
    "global of a helper": (lambda x: helper(total(x)), set_global),
    "argument of a partial": (functools.partial(lambda x, how: how["factor"] * total(x), how=options), None),
    "dict": (lambda x: options["factor"] * total(x), None),
    "array": (lambda x: table * total(x), table.fill),
    "another tensor": (lambda x: tensor * total(x), set_tensor),
    "attribute": (lambda x: scaled.factor * total(x), lambda value: setattr(scaled, "factor", value)),
    "module": (lambda x: settings.factor * total(x), lambda value: setattr(settings, "factor", value)),
    "bound method": (scaled.loss, lambda value: setattr(scaled, "factor", value)),
    "callable": (scaled, lambda value: setattr(scaled, "factor", value)),
    "model of the user's own": (lambda x: net(x)[:, 0], lambda value: setattr(net, "factor", value)),
}


@pytest.mark.parametrize("name", CASES)
def test_values_that_a_loss_closes_over(name):
    loss, change = CASES[name]
    change = change or functools.partial(options.__setitem__, "factor")
    for value in (1.0, 10.0, 1.0):
        change(value)
        np.testing.assert_allclose(per_example_squared_norms(loss, [W], X), [value**2] * 2)


def test_cells_and_derivatives():
    k = 1.0

    def f(x):
        return k * x

    assert derivatives(f, X[:, 0]).numpy().tolist() == [1.0, 1.0]
    k = 10.0
    assert derivatives(f, X[:, 0]).numpy().tolist() == [10.0, 10.0]


def test_a_layer_that_is_unfrozen():
    model = keras.Sequential([keras.layers.Dense(2), keras.layers.BatchNormalization()])
    model(X)
    model.layers[1].trainable = False
    variables = model.trainable_variables

    def loss(x):
        return tf.reduce_sum(model(x, training=True) ** 2, 1)

    per_example_squared_norms(loss, variables, X)
    model.layers[1].trainable = True  # now it uses the statistics of the batch
    with pytest.raises(NotApplicableError, match="batch normalisation"):
        per_example_squared_norms(loss, variables, X)


def test_what_did_not_change_is_found_again():
    traces, count = [], 0

    def loss(x):
        nonlocal count
        count += 1
        traces.append(count)
        return factor * total(x)

    def entry():
        return entry_for(loss, [W], (X,), Request("norms"))

    first = entry()
    for _ in range(3):
        per_example_squared_norms(loss, [W], X)
    assert entry() is first
