"""Runs case scripts under the recorder, replays each in every mode, and prints one JSON object a line.

Run as ``python modes_case_runner.py SCRIPT ...`` in a process of its own: the scripts switch eager execution off.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import signal
import sys
import time
import traceback
from pathlib import Path
from types import SimpleNamespace

SECONDS = 240

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")


def report(path, *, allow=True, repeats=1):
    """Return what the recorder and every mode say of one script."""
    import numpy as np
    import tensorflow as tf

    from cachelab.errors import CacheLabError
    from cachelab.model import MODES
    from cachelab.modes.bench import Bench
    from cachelab.tf import hooks
    from cachelab.tf.recorder import Recorder

    recorder = Recorder(trace="full", name=Path(path).stem)
    printed, error = io.StringIO(), ""
    tf.compat.v1.reset_default_graph()
    recorder.start()
    try:
        with contextlib.redirect_stdout(printed):
            exec(compile(Path(path).read_text(), path, "exec"), {"__name__": "__main__"})
    except BaseException as raised:  # noqa: BLE001
        error = f"{type(raised).__name__}: {raised}"
    finally:
        recorder.stop()
    found = {"case": Path(path).stem, "ok": printed.getvalue().rstrip().endswith("OK"), "error": error}
    recording = SimpleNamespace(record=recorder.record(), material=recorder.material)
    found["unknown"] = sum(columns.status.count("x") for columns in recording.record.columns)
    found["faults"], found["calls"] = recorder.faults, len(recording.material.calls)
    places = recorder._capture.graphs.values() if recorder._capture else ()
    before = [(place.graph.version, len(place.graph.get_operations())) for place in places]
    state = np.random.mtrand._rand.get_state()[1].tobytes()
    found["modes"] = {}
    try:
        bench = Bench(recording, allow_side_effects=allow, repeats=repeats)
    except CacheLabError as refused:
        found["modes"] = {mode: {"applicable": False, "reason": str(refused)} for mode in MODES}
        return found
    for mode in MODES:
        start = time.perf_counter()
        try:
            replay = bench.replay(mode)
            one = {
                "applicable": replay.applicable, "equality": replay.equality, "reason": replay.reason,
                "notes": list(replay.notes), "executed": replay.result.executed,
                "recomputed": replay.result.recomputed, "reused": replay.result.reused,
                "defect": any(e.defect for e in [*replay.fetches.values(), *replay.variables.values()]),
            }  # fmt: skip
            if replay.record is not None:
                one["unknown"] = sum(c.status.count("x") for c in replay.record.columns)
        except Exception:  # noqa: BLE001
            one = {"crash": traceback.format_exc()}
        one["seconds"] = round(time.perf_counter() - start, 2)
        found["modes"][mode] = one
    after = [(place.graph.version, len(place.graph.get_operations())) for place in places]
    found["untouched"] = (
        before == after and not hooks.installed() and state == np.random.mtrand._rand.get_state()[1].tobytes()
    )
    return found


def expire(*_arguments):
    raise TimeoutError


def main():
    signal.signal(signal.SIGALRM, expire)
    for path in sys.argv[1:]:
        signal.alarm(SECONDS)
        try:
            found = report(path)
        except Exception:  # noqa: BLE001
            found = {"case": Path(path).stem, "crash": traceback.format_exc()}
        signal.alarm(0)
        print(json.dumps(found), flush=True)


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
    main()
