"""Ways to record a program and to execute printed code, for the tests of the modes."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np

from cachelab.tf.recorder import Recorder


def record(program, *, trace="full", **options):
    """Record a program in a session of its own and return what the modes take."""
    recorder = Recorder(trace=trace, name="test", **options)
    recorder.start()
    try:
        with program.session() as session:
            for fetches, feed in program.calls:
                session.run(fetches, feed)
    finally:
        recorder.stop()
    assert not recorder.faults
    return freeze(recorder)


def freeze(recorder):
    """Return record and material of a recorder."""
    return SimpleNamespace(record=recorder.record(), material=recorder.material)


def by_hand(program, code):
    """Execute printed code on the user's own session and return what it left in ``results``."""
    with program.session() as session:
        space = {"sess": session, "feeds": [{}, *(feed for _fetches, feed in program.calls)]}
        exec(code, space)
    return space["results"]


def same(ours, theirs, tolerance=0.0):
    a, b = np.asarray(ours), np.asarray(theirs)
    if a.dtype.kind in "OSU":
        return a.tolist() == b.tolist()
    return a.shape == b.shape and bool(np.all(np.abs(a.astype("f8") - b.astype("f8")) <= tolerance))
