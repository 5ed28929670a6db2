"""Every kind of layer by every method, task and kind of graph against a float64 loop; chunks; the trial of XLA."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
import tqdm.auto
from per_example_layers import LAYERS

from cachelab.tf.per_example import clipped_sum, per_example_gradients, per_example_squared_norms, plan
from cachelab.tf.per_example.plans import TASKS
from cachelab.tf.per_example.trial import Trial

tf1 = tf.compat.v1
PAIRS = [(task, method) for task, methods in TASKS.items() for method in methods]


def ask(task, method, losses, variables, inputs=None, **options):
    """Return the results of a task as a list."""
    if task == "norms":
        return [per_example_squared_norms(losses, variables, inputs, method=method, **options)]
    if task == "gradients":
        return per_example_gradients(losses, variables, inputs, method=method, **options)
    return clipped_sum(losses, variables, inputs, method=method, max_norm=0.7, **options)


def expected(rows):
    """Return each task's results from the loop's gradients."""
    norms = sum((g.reshape(len(g), -1) ** 2).sum(1) for g in rows)
    factors = np.minimum(1, 0.7 / np.sqrt(norms))
    return {"gradients": rows, "norms": [norms], "clipped": [np.tensordot(factors, g, 1) for g in rows]}


def assert_equal(found, truth):
    for (task, method), parts in found.items():
        for got, wanted in zip(parts, truth[task], strict=True):
            np.testing.assert_allclose(got, wanted, rtol=1e-9, atol=1e-10, err_msg=f"{task} by {method}")


@pytest.mark.parametrize("flavour", ["v1 graph", "tf.function"])
@pytest.mark.parametrize("name", LAYERS)
def test_every_layer_by_every_method(name, flavour):
    values, apply, batch = LAYERS[name]()
    if flavour == "tf.function":
        variables = [tf.Variable(value) for value in values]

        @tf.function(input_signature=[tf.TensorSpec([None, *batch.shape[1:]], batch.dtype)], autograph=False)
        def together(x):
            losses = apply(x, variables)
            return [ask(task, method, losses, variables, [x]) for task, method in PAIRS]

        def gradients(x):
            with tf.GradientTape() as tape:
                value = apply(x, variables)
            return [np.asarray(tf.convert_to_tensor(g)) for g in tape.gradient(value, variables)]

        rows = [gradients(tf.constant(batch[i : i + 1])) for i in range(len(batch))]
        results = together(batch)
    else:
        with tf.Graph().as_default(), tf1.Session() as session:
            variables = [tf1.Variable(value, use_resource=True) for value in values]
            x = tf1.placeholder(batch.dtype, [None, *batch.shape[1:]])
            losses = apply(x, variables)
            single = [tf.convert_to_tensor(g) for g in tf1.gradients(losses, variables)]
            asked = [ask(task, method, losses, variables) for task, method in PAIRS]
            session.run(tf1.global_variables_initializer())
            rows = [session.run(single, {x: batch[i : i + 1]}) for i in range(len(batch))]
            results = session.run(asked, {x: batch})
    truth = expected([np.stack(parts) for parts in zip(*rows, strict=True)])
    assert_equal(dict(zip(PAIRS, results, strict=True)), truth)


def test_every_method_in_eager_code_with_and_without_xla():
    values, apply, batch = LAYERS["dense"]()
    variables = [tf.Variable(value) for value in values]

    def loss(x):
        return apply(x, variables)

    rows = []
    for i in range(len(batch)):
        with tf.GradientTape() as tape:
            value = loss(tf.constant(batch[i : i + 1]))
        rows.append(tape.gradient(value, variables))
    truth = expected([np.stack(parts) for parts in zip(*rows, strict=True)])
    for jit in (False, True):
        pairs = [(task, method) for task, method in PAIRS if not (jit and method == "loop")]
        found = {(task, method): ask(task, method, loss, variables, batch, jit=jit) for task, method in pairs}
        assert_equal(found, truth)


def test_a_budget_sets_the_size_of_chunks_and_progress_shows_them(monkeypatch):
    weights = tf.Variable(np.ones((4, 3)))
    shown = []

    def progress(steps, **_options):
        shown.append(list(steps))
        return shown[-1]

    monkeypatch.setattr(tqdm.auto, "tqdm", progress)

    def loss(x):
        return tf.reduce_sum(tf.sin(x @ weights), 1)

    x = tf.constant(np.random.default_rng(0).normal(size=(50, 4)))
    whole = per_example_gradients(loss, [weights], x)[0]
    assert not shown
    for budget in (6_000, 2_000, 1):
        found = per_example_gradients(loss, [weights], x, chunk_size="auto", memory_budget=budget)[0]
        np.testing.assert_allclose(found, whole)
    assert 1 < len(shown[0]) < len(shown[1]) < len(shown[2]) == 50
    (total,) = clipped_sum(loss, [weights], x, max_norm=0.5, chunk_size=7)
    assert shown[-1] == list(range(0, 50, 7))
    np.testing.assert_allclose(total, clipped_sum(loss, [weights], x, max_norm=0.5)[0])


@pytest.mark.parametrize(
    ("plain", "xla", "wins", "calls", "disturbed"),
    [
        (2.0, 1.0, True, 6, False),
        (1.0, 2.0, False, 6, False),
        (1.2, 1.0, True, 10, False),
        (1.0, 1.2, False, 10, False),
        (1.0, 1.01, False, 22, False),
        (1.0, 2.0, False, 7, True),
        (1.01, 1.0, True, 22, True),
    ],
)
def test_the_trial_keeps_what_is_faster_and_does_not_count_tracing(plain, xla, wins, calls, disturbed):
    trial = Trial(8)
    runs = []
    while not trial.decided:
        runs.append(trial.xla)
        first = runs.count(runs[-1]) == 1
        slow = 5.0 if disturbed and runs.count(runs[-1]) == 2 and runs[-1] is wins else 1.0
        trial.note(1e-9 if first else slow * (xla if runs[-1] else plain), xla=runs[-1])
    assert runs[:6] == [False, False, False, True, True, True]
    assert len(runs) == calls
    assert sum(runs) == calls // 2
    assert trial.xla is wins
    trial.note(1e-9, xla=not wins)  # what comes later changes nothing
    assert trial.xla is wins


def test_the_plan_says_what_the_trial_found():
    weights = tf.Variable(np.ones((4, 3)))

    def loss(x):
        return tf.reduce_sum(tf.sin(x @ weights), 1)

    x = tf.constant(np.random.default_rng(0).normal(size=(5, 4)))
    first = per_example_gradients(loss, [weights], x)[0]
    before = plan(loss, [weights], x)
    assert not before.jit
    assert "fourth" in str(before)
    for _call in range(22):
        np.testing.assert_allclose(per_example_gradients(loss, [weights], x)[0], first, rtol=1e-12)
    after = str(plan(loss, [weights], x))
    assert "For 5 examples" in after
    assert "with XLA" in after
