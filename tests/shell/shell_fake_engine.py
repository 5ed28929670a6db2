"""A stand-in for the engine: notes the calls of a session that computes nothing.

The shell's tests are about cells, options and outputs; with this they need no TensorFlow and know what was called.
The tests in test_shell_real.py use the engine itself.
"""

from __future__ import annotations

import sys
from types import ModuleType

from cachelab.material import Material, ValueStore
from cachelab.model import Call, CauseRow, Columns, Finding, GraphTable, Line, Record, Source

OPEN: list[Recorder] = []
"""The recorders whose hooks are in place."""


class Recorder:
    """Same interface as ``cachelab.tf.recorder.Recorder``."""

    def __init__(self, trace="auto", values=False, name=None, memory_budget=268435456):
        self.trace, self.values, self.name, self.memory_budget = trace, values, name, memory_budget
        self.made: list[str] = []
        self.material = Material(ValueStore(memory_budget))

    def start(self):
        OPEN.append(self)

    def stop(self):
        if self in OPEN:
            OPEN.remove(self)

    @property
    def call_count(self):
        return len(self.made)

    def record(self):
        return make_record(self.made, self.name or "fake", trace=self.trace)


def run(fetch="h:0"):
    """Stand for ``sess.run(fetch)``: an op ``enc/h`` that is recomputed from the second call on."""
    for recorder in OPEN:
        recorder.made.append(fetch)
    return 42


def make_record(made, name="fake", **options):
    """Return the record of calls that each fetch one tensor of ``x -> enc/h -> y``."""
    graph = GraphTable(
        id=0,
        name=("x", "enc/h", "y"),
        type=("Placeholder", "Tanh", "Mul"),
        inputs=((), ("x:0",), ("enc/h:0", "enc/h:0")),
        control=((), (), ()),
        line=(0, 0, 0),
    )
    first = Columns((0, 1), "dc", "mm", (0.0, 0.5), (0, 4), (0, 1), (None, None), ((), (0,)))
    again = Columns((0, 1), "dr", "mm", (0.0, 0.5), (0, 4), (0, 1), (None, 1), ((), (1,)))
    calls = [
        Call(
            i, "run", 0, 0, 0, (fetch,), ("x:0",), 0, float(i), 0.6, min(i, 1), versions=((0, "v1"),), needs=(("x:0",),)
        )
        for i, fetch in enumerate(made)
    ]
    if len(calls) > 2:  # Equal calls in a row are one entry.
        calls = [calls[0], Call(**{**_fields(calls[1]), "repeat": len(calls) - 1})]
    return Record(
        name=name,
        environment={"cachelab": "0", "tensorflow": "0", "optimizers": True},
        lines=(Line("cell 1", 2, "sess.run(h)"),),
        graphs=(graph,),
        sources=(Source("x:0", "feed", 0),),
        causes=(
            CauseRow("first", "", None, "it had not run before"),
            CauseRow("not_kept", "", 1, "same inputs as in call {call}: values live for one call only"),
        ),
        columns=(first, again),
        calls=tuple(calls),
        findings=(Finding("unneeded_feed", ("z",), 0, "z was fed and not needed"),),
        options=options,
    )


def _fields(call):
    return {name: getattr(call, name) for name in Call.__slots__}


def install():
    """Put this in the engine's place; returns what undoes it."""
    import cachelab.tf

    before = sys.modules.get("cachelab.tf.recorder")
    module = ModuleType("cachelab.tf.recorder")
    module.Recorder = Recorder
    sys.modules["cachelab.tf.recorder"] = module
    cachelab.tf.recorder = module

    def undo():
        OPEN.clear()
        if before is None:
            del sys.modules["cachelab.tf.recorder"], cachelab.tf.recorder
        else:
            sys.modules["cachelab.tf.recorder"] = cachelab.tf.recorder = before

    return undo
