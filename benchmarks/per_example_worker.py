"""The pipe between per_example.py and its workers: each framework runs in a process of its own and takes orders."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).parent


class Worker:
    """One framework in its own process; one order at a time, so that rounds can be interleaved."""

    def __init__(self, framework: str, python: str, **environment: str) -> None:
        self.framework = framework
        self.process = subprocess.Popen(  # noqa: S603  an interpreter that the caller named
            [python, str(HERE / f"per_example_{framework}.py")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "JAX_PLATFORMS": "cpu", **environment},
        )

    def ask(self, **order: Any) -> Any:
        """Send an order and wait for the answer."""
        self.process.stdin.write(json.dumps(order) + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if not answer:
            message = f"the worker for {self.framework} ended with {self.process.wait()} at {order}"
            raise RuntimeError(message)
        return json.loads(answer)

    def close(self) -> None:
        """End the worker's process."""
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait()


def serve(names: Any, build: Any, arrays: Any) -> None:
    """Answer orders by line until the pipe closes.

    Parameters
    ----------
    names
        ``names(model, m, task)`` tells the contenders of a cell.
    build
        ``build(model, m, task, name)`` makes a function without arguments that returns when its result is there.
    arrays
        ``arrays(model, task, result)`` gives a result as named numpy arrays in the layout of
        ``per_example_models.parameters``.
    """
    made: dict[tuple[Any, ...], Any] = {}
    # What libraries print must not come between the answers.
    answers, sys.stdout = sys.stdout, sys.stderr
    for line in sys.stdin:
        order = json.loads(line)
        cell = (order["model"], order["m"], order["task"])
        if "name" not in order:
            answer: Any = names(*cell)
        else:
            key = (*cell, order["name"])
            before = memory("VmRSS")
            if key not in made:
                made[key] = build(*key)
            start, used = time.perf_counter(), time.process_time()
            result = made[key]()
            seconds, used = time.perf_counter() - start, time.process_time() - used
            answer = {"ms": seconds * 1e3, "cpu_ms": used * 1e3, "peak_mb": memory("VmHWM") - before}
            if order.get("save"):
                np.savez(order["save"], **arrays(order["model"], order["task"], result))
            del result
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


def memory(field: str) -> float:
    """Return the resident memory of this process (``VmRSS``) or its peak (``VmHWM``) in MB."""
    for line in Path("/proc/self/status").read_text(encoding="utf-8").splitlines():
        if line.startswith(field):
            return int(line.split()[1]) / 1024
    return float("nan")
