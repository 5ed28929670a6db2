"""Truth for per-example gradients: one backward pass an example, in a loop, in float64."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from cachelab.tf.per_example import clipped_sum, per_example_gradients, per_example_squared_norms

TOLERANCE = {"float64": 1e-9, "float32": 3e-4, "float16": 2e-2, "bfloat16": 1e-1}


def loop_of_gradients(loss, variables, inputs):
    """Return one array a variable, ``[m, *shape]``: the gradient of each example by itself."""
    count = len(inputs[0])
    rows = []
    for i in range(count):
        with tf.GradientTape() as tape:
            value = loss(*(tensor[i : i + 1] for tensor in inputs))
        found = tape.gradient(value, variables, unconnected_gradients="zero")
        rows.append([np.asarray(tf.convert_to_tensor(g), dtype="float64") for g in found])
    return [np.stack(parts) for parts in zip(*rows, strict=True)]


def close(got, expected, tolerance, scale=0.0):
    """Assert equality relative to ``scale`` or the largest entry: sums are taken in another order."""
    got, expected = np.asarray(got, dtype="float64"), np.asarray(expected, dtype="float64")
    assert got.shape == expected.shape
    scale = max(scale, np.abs(expected).max(initial=0), 1e-6)
    np.testing.assert_allclose(got, expected, rtol=tolerance, atol=tolerance * scale)


def norms_of(gradients):
    """Return squared norms from arrays ``[m, ...]``."""
    return sum((g.reshape(len(g), -1) ** 2).sum(1) for g in gradients)


def clipped_of(gradients, limit):
    """Return clipped sums from arrays ``[m, ...]``."""
    norms = np.sqrt(norms_of(gradients))
    factors = np.where(norms > limit, limit / np.maximum(norms, 1e-300), 1.0)
    return [np.tensordot(factors, g, 1) for g in gradients]


def all_tasks(loss, variables, inputs, *, method, tasks, limit):
    """Run the tasks in the graph form, in one trace with an open batch size."""

    @tf.function(input_signature=[tf.TensorSpec([None, *x.shape[1:]], x.dtype) for x in inputs], autograph=False)
    def together(*tensors):
        losses = loss(*tensors)
        results = []
        if "gradients" in tasks:
            results.append(per_example_gradients(losses, variables, tensors, method=method))
        if "norms" in tasks:
            results.append(per_example_squared_norms(losses, variables, tensors, method=method))
        if "clipped" in tasks:
            results.append(clipped_sum(losses, variables, tensors, method=method, max_norm=limit))
        return results

    return list(together(*inputs))


@pytest.fixture
def check():
    """Compare the three tasks with the loop, by each of ``methods``."""

    def compare(loss, variables, inputs, methods=("auto",), *, tasks=("gradients", "norms", "clipped"), truth=None):
        inputs = [tf.convert_to_tensor(value) for value in inputs]
        tensors = [getattr(variable, "_value", variable) for variable in variables]
        truth = loop_of_gradients(truth or loss, tensors, inputs)
        tolerance = max(TOLERANCE[tensor.dtype.name] for tensor in [*tensors, loss(*inputs)])
        # Some gradients are zero but for rounding (the bias of attention keys): the scale is that of all variables.
        scale = max(np.abs(gradient).max(initial=0) for gradient in truth)
        limit = float(np.median(np.sqrt(norms_of(truth))))
        for method in methods:
            found = all_tasks(loss, variables, inputs, method=method, tasks=tasks, limit=limit)
            if "gradients" in tasks:
                for got, expected in zip(found.pop(0), truth, strict=True):
                    close(got, expected, tolerance, scale)
            if "norms" in tasks:
                close(found.pop(0), norms_of(truth), 2 * tolerance)
            if "clipped" in tasks:
                for got, expected in zip(found.pop(0), clipped_of(truth, limit), strict=True):
                    close(got, expected, 2 * tolerance, scale)
        return truth

    return compare


@pytest.fixture
def check_function():
    """Compare the gradients of the function form, in eager code, with the loop, by each of ``methods``."""

    def compare(loss, variables, inputs, methods=("auto",), *, tolerance=1e-9):
        truth = loop_of_gradients(loss, variables, inputs)
        for method in methods:
            found = per_example_gradients(loss, variables, inputs, method=method)
            for got, expected in zip(found, truth, strict=True):
                close(got, expected, tolerance)
        return truth

    return compare
