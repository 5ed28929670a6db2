"""One process that has imported TensorFlow, and forks a child for each script: an import costs seconds, a fork none.

Run as a program it reads one request a line from stdin (JSON: the command line of ``cachelab``, or a script to be
run plainly; the files for stdout and stderr) and answers each with the child's exit status.

The parent makes no session and runs no op, so it has none of TensorFlow's threads, and a child is as good as new.
"""

from __future__ import annotations

import json
import os
import runpy
import subprocess
import sys
from pathlib import Path

SECONDS = 300
"""Alarm of a child, so that a script that hangs ends its own test and no other."""


class Zygote:
    """The parent process, as its user sees it."""

    def __init__(self, root: Path) -> None:
        environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "PYTHONPATH": str(root)}
        environment.pop("COLUMNS", None)
        self._process = subprocess.Popen(
            [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )

    def run(self, command: list[str], *, recorded: bool, out: Path, err: Path, probe: str = "") -> int:
        """Run a command in a child and return its exit status.

        ``probe`` names a function of ``cases_probes`` that is given the names of a script that was run plainly;
        what it returns is written as JSON beside ``out``.
        """
        request = {"command": command, "recorded": recorded, "out": str(out), "err": str(err), "probe": probe}
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        assert answer, f"the process that starts the scripts ended with status {self._process.wait()}"
        return int(answer)

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


def _child(request: dict[str, object]) -> None:
    """Become what was asked for; never returns."""
    import signal

    signal.alarm(SECONDS)
    for stream, name in ((1, "out"), (2, "err")):
        file = os.open(str(request[name]), os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(file, stream)
        os.close(file)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    command = [str(word) for word in request["command"]]  # type: ignore[attr-defined]
    status = 1
    try:
        if request["recorded"]:
            from cachelab.cli import main

            status = main(command)
        else:
            sys.argv = command
            sys.path.insert(0, str(Path(command[0]).parent))
            names = runpy.run_path(command[0], run_name="__main__")
            if request["probe"]:
                import cases_probes

                found = getattr(cases_probes, str(request["probe"]))(names)
                Path(str(request["out"])).with_suffix(".probe").write_text(json.dumps(found))
            status = 0
    except SystemExit as stop:
        status = stop.code if isinstance(stop.code, int) else 0 if stop.code is None else 1
    except BaseException:  # noqa: BLE001  reported by the status and on stderr
        import traceback

        traceback.print_exc()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def _serve() -> None:
    import tensorflow  # noqa: ICN001  what every script is about to import
    import tensorflow.compat.v1  # noqa: F401

    for line in sys.stdin:
        request = json.loads(line)
        pid = os.fork()
        if not pid:
            _child(request)
        _, status = os.waitpid(pid, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


if __name__ == "__main__":
    _serve()
