"""What is asked of CacheLab in the process of a script without sessions, once it has ended: with its own objects.

Each function takes the script's names and returns what it found, as JSON can hold it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

import cachelab


def case_52(names: dict[str, Any]) -> dict[str, Any]:
    report = cachelab.explain_retrace(names["f"])
    calls = int(names["v"])
    reason = cachelab.memoize(names["f"]).reason(tf.ones([2]))
    return {
        "changes": [[[change.kind, change.argument] for change in trace.changes] for trace in report.traces],
        "reason": reason,
        "called": int(names["v"]) - calls,
    }


def case_54(names: dict[str, Any]) -> dict[str, Any]:
    return {name: cachelab.memoize(names[name]).reason() for name in ("r1", "r2", "twice", "loop")}


def case_55(names: dict[str, Any]) -> dict[str, Any]:
    compiled = {}
    for jit in (False, True):
        draw = cachelab.memoize(tf.function(lambda: names["st"]("auto_select"), jit_compile=jit))
        values = [draw().numpy() for _ in range(2)]
        compiled[jit] = (values, draw.cache_info().hits)
    return {
        "hits": [hits for _, hits in compiled.values()],
        "equal": [bool(np.array_equal(*values)) for values, _ in compiled.values()],
        "same when compiled": bool(np.array_equal(compiled[False][0][0], compiled[True][0][0])),
        "generator": cachelab.memoize(lambda: names["g"].uniform([2])).reason(),
    }


def case_56(names: dict[str, Any]) -> dict[str, Any]:
    fresh = names["C"]()
    counted = cachelab.memoize(fresh.__call__)
    values = [int(fresh()), int(fresh())]
    return {"values": values, "reason": counted.reason(), "left": int(fresh.v)}


def case_58(names: dict[str, Any]) -> dict[str, Any]:
    import keras

    x, y = names["x"], names["y"]
    tap = cachelab.Tap()

    def loss(truth: Any, predicted: Any) -> Any:
        return tf.square(tap("diff", truth - predicted))

    model = keras.Sequential([keras.layers.Input((2,)), keras.layers.Dense(1)])
    model.compile("rmsprop", loss)
    found: dict[str, Any] = {}
    for size in (8, 3):  # the last batch of an epoch is smaller
        before = y[:size] - model(x[:size]).numpy()
        model.train_on_batch(x[:size], y[:size])
        after = y[:size] - model(x[:size]).numpy()
        kept = np.asarray(tap["diff"])
        found[str(size)] = [list(kept.shape), bool(np.allclose(kept, before)), bool(np.allclose(kept, after))]
    kept = np.asarray(tap["diff"])
    model.predict(x, verbose=0)
    found["predict overwrites"] = not np.array_equal(kept, np.asarray(tap["diff"]))
    return found


def case_62(names: dict[str, Any]) -> dict[str, Any]:
    layer, x, state = names["d"], tf.constant(names["x"]), names["st"]
    inference = cachelab.memoize(lambda x: layer(x, training=False))
    before = state.numpy().tolist()
    values = [inference(x).numpy() for _ in range(2)]
    return {
        "hits": inference.cache_info().hits,
        "equal": bool(np.array_equal(values[0], values[1]) and np.array_equal(values[0], names["x"])),
        "state kept": state.numpy().tolist() == before,
        "training": cachelab.memoize(lambda x: layer(x, training=True)).reason(x),
    }


def case_71(names: dict[str, Any]) -> dict[str, Any]:
    x, y = tf.constant(names["x"]), names["y"]

    def gradient(loss: Any) -> Any:
        def work(x: Any) -> Any:
            return tf.gradients(loss(x), x)[0]

        return work

    def softmax(x: Any) -> Any:
        return tf.nn.softmax_cross_entropy_with_logits(y, x)

    def cubic(x: Any) -> Any:
        return tf.reduce_sum(x**3)

    def judge(loss: Any, truth: Any) -> bool | str:
        try:
            second = cachelab.derivatives(gradient(loss), x).numpy()
        except cachelab.NotApplicableError as error:
            return str(error)
        return bool(np.allclose(second, truth, atol=1e-6))

    return {"softmax": judge(softmax, names["b"]), "cubic": judge(cubic, names["d"])}


def case_73(names: dict[str, Any]) -> dict[str, Any]:
    weights, x, y = names["W"], names["X"], names["Y"]
    (gradients,) = cachelab.per_example_gradients(names["loss"], [weights], [x, y])
    norms = cachelab.per_example_squared_norms(names["loss"], [weights], [x, y])
    (clipped,) = cachelab.clipped_sum(names["loss"], [weights], [x, y], max_norm=5.0)
    return {
        "gradients": bool(np.allclose(gradients, names["A"], atol=1e-5)),
        "norms": bool(np.allclose(norms, names["trick"], rtol=1e-4)),
        "clipped mean": bool(np.allclose(clipped / 8, names["a"], atol=1e-5)),
        "microbatch of 2": bool(np.allclose(clipped / 8, names["m"], atol=1e-3)),
    }
