"""Runs Keras training steps with or without a tap in a process of its own; prints what was executed and the weights.

Argument: a JSON object with ``tap`` and ``optimizers`` (both true or false).
The executor's own log says which nodes ran (environment ``TF_CPP_VMODULE=executor=1``, set by the parent).
"""

import hashlib
import json
import os
import re
import sys
import tempfile

options = json.loads(sys.argv[1])
log = tempfile.TemporaryFile()  # noqa: SIM115 - open for the life of the process
errors = os.dup(2)
os.dup2(log.fileno(), 2)

import keras  # noqa: E402
import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402

from cachelab.tf.taps import Tap  # noqa: E402

NODE = re.compile(r"Process node: \d+ step (-?\d+) \{\{node ([^}]+)\}\} = (\w+)(.*)")


def drain():
    """Return (name, type) of all nodes executed since the last call."""
    log.seek(0)
    text = log.read().decode(errors="replace")
    log.seek(0)
    log.truncate()
    found = []
    for line in text.splitlines():
        match = NODE.search(line)
        if match and not line.rstrip().endswith("is dead"):
            found.append((match[2], match[3]))
    return found


def build(kind, loss, jit):
    layers = keras.layers
    if kind == "sequential":
        model = keras.Sequential([keras.Input((6,)), layers.Dense(8, "relu"), layers.Dropout(0.5), layers.Dense(1)])
    elif kind == "functional":
        inputs = keras.Input((6,))
        hidden = layers.BatchNormalization()(layers.Dense(8, "tanh")(inputs))
        model = keras.Model(inputs, layers.Dense(1)(layers.LayerNormalization()(hidden) + hidden))
    else:

        class Subclassed(keras.Model):
            def __init__(self):
                super().__init__()
                self.first, self.second = layers.Dense(8, "gelu"), layers.Dense(1)

            def call(self, inputs):
                return self.second(self.first(inputs))

        model = Subclassed()
    model.compile("adam", loss, metrics=["mae"], jit_compile=jit)
    return model


if not options["optimizers"]:
    tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})
draw = np.random.default_rng(0)
x, y = draw.random((16, 6), np.float32), draw.random((16, 1), np.float32)
results = {}
for kind in ("sequential", "functional", "subclassed"):
    for jit in (False, True) if options["optimizers"] else (False,):
        keras.utils.set_random_seed(3)
        tap = Tap() if options["tap"] else lambda _name, value: value
        model = build(kind, lambda labels, predictions, tap=tap: tf.square(tap("diff", labels - predictions)), jit)
        losses = []
        for _step in range(3):
            drain()
            losses.append([float(v) for v in model.train_on_batch(x, y)])
            nodes = drain()
        digest = hashlib.sha256()
        for variable in [*model.variables, *model.optimizer.variables]:
            digest.update(np.asarray(variable).tobytes())
        results[f"{kind} jit" if jit else kind] = {"nodes": nodes, "losses": losses, "weights": digest.hexdigest()}
print(json.dumps(results))
