"""What can be handed over, and what is said about the rest."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

from cachelab.errors import OptionError
from cachelab.tf.per_example import clipped_sum, derivatives, per_example_gradients, per_example_squared_norms, plan

W = tf.Variable([[1.0], [2.0]])
X = tf.constant([[1.0, 0.0], [0.0, 1.0], [3.0, 1.0]])


def loss(x):
    return tf.reduce_sum(tf.square(x @ W), 1)


def test_the_plan_is_found_by_its_full_name():
    lines = [
        "import sys, cachelab",
        "cachelab.tf",
        "assert 'tensorflow' not in sys.modules",
        "print(cachelab.tf.per_example.plan.__name__, hasattr(cachelab, 'no'), hasattr(cachelab.tf, 'no'))",
    ]
    found = subprocess.run([sys.executable, "-c", "\n".join(lines)], capture_output=True, text=True, check=True)
    assert found.stdout.split() == ["plan", "False", "False"]


def test_a_single_variable_is_a_list_of_one():
    expected = per_example_gradients(loss, [W], X)[0]
    (found,) = per_example_gradients(loss, W, X)
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(per_example_squared_norms(loss, W, X), per_example_squared_norms(loss, [W], X))
    assert len(clipped_sum(loss, W, X, max_norm=1.0)) == 1 == len(plan(loss, W, X).variables)


@pytest.mark.parametrize(
    ("variables", "says"), [({"w": W}, "is a dict.*list"), ([W, "w"], "Entry 1 .* is a str"), (3.0, "is a float")]
)
def test_what_is_no_list_of_variables(variables, says):
    for ask in (per_example_gradients, per_example_squared_norms, plan):
        with pytest.raises(OptionError, match=says):
            ask(loss, variables, X)


@pytest.mark.parametrize(
    ("made", "kind"),
    [
        (lambda: tf.ragged.constant([[1.0], [2.0, 3.0]]), "RaggedTensor"),
        (lambda: tf.sparse.from_dense(X), "SparseTensor"),
    ],
)
def test_inputs_that_are_not_dense(made, kind):
    for inputs in (made(), [X, made()], [{"a": made()}]):
        with pytest.raises(OptionError, match=f"{kind}.*dense"):
            per_example_squared_norms(lambda *_inputs: loss(X), [W], inputs)

    @tf.function(autograph=False)
    def work(x):
        return per_example_gradients(loss(x), [W], made())

    with pytest.raises(OptionError, match=f"{kind}.*dense"):
        work(X)


def test_derivatives_that_have_no_meaning():
    with pytest.raises(OptionError, match="complex"):
        derivatives(lambda z: z * z, tf.constant([1j]))
    with pytest.raises(OptionError, match=r"int32.*no derivatives"):
        derivatives(lambda x: x * x, tf.constant([1, 2]))
    with pytest.raises(OptionError, match=r"`y` has dtype int32"):
        derivatives(lambda x: tf.cast(x, tf.int32), tf.constant([1.0, 2.0]))
    for wrong in ([1.0, 2.0], tf.ones([4, 1]), tf.ones([1])):
        with pytest.raises(OptionError, match=r"grad_ys.*shape"):
            derivatives(tf.sin, tf.ones([4]), grad_ys=wrong)
    for right in (2.0, 2, [2, 2, 2, 2], tf.fill([4], 2.0)):
        np.testing.assert_allclose(
            derivatives(tf.sin, tf.ones([4]), grad_ys=right), np.full(4, 2 * np.cos(1)), rtol=1e-6
        )
    square = tf.ones([3, 3])
    with pytest.raises(OptionError, match=r"grad_ys.*shape"):
        derivatives(tf.nn.softmax, square, grad_ys=tf.ones([3]))
    np.testing.assert_allclose(derivatives(tf.nn.softmax, square, grad_ys=2.0), np.full((3, 3), 4 / 9), rtol=1e-5)
