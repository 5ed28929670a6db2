"""What a ``partial_run`` really ran: the executor's own log, from a persistent child process.

``partial_run`` takes no ``RunOptions``, so no trace exists. TensorFlow's executor can log every node that it
processes, but only if an environment variable is set before TensorFlow is imported, and the log can't be switched
off again (``tensorflow-facts.md`` section 1). So one child process repeats the calls; it is started on first use,
serves all later replays, and ends with this process.
"""

from __future__ import annotations

import atexit
import os
import pickle
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cachelab.errors import CacheLabError
from cachelab.i18n import translate as _

if TYPE_CHECKING:
    from collections.abc import Callable

    from cachelab.modes.traces import Ran

POLL_SECONDS = 0.1
SECONDS = 120.0
"""The child gives up, or is given up, after this time."""


class LogError(CacheLabError):
    """The child process could not repeat the calls."""


class Child:
    """A process that repeats recordings under the executor's log; use :func:`child` for the shared one."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None

    def trace(self, job: dict[str, Any], cancel: Callable[[], bool] | None = None) -> list[tuple[str, Ran]]:
        """Repeat a recording in mode ``partial_run`` and return (phase, what ran) in order.

        Parameters
        ----------
        job
            ``record``, ``material``, ``optimizers`` and ``quiet`` (seconds without a log line after which a phase
            counts as finished).
        cancel
            Asked now and then; true ends the child.

        Raises
        ------
        LogError
            If the child died, took too long or could not repeat the calls.
        """
        with self._lock:
            process = self._running()
            try:
                pickle.dump(job, process.stdin, protocol=pickle.HIGHEST_PROTOCOL)
                process.stdin.flush()
                answer = self._answer(process, cancel)
            except (OSError, EOFError, pickle.PickleError) as error:
                self.stop()
                raise LogError(
                    _("The process that reads TensorFlow's log ended: {error}.").format(error=error)
                ) from error
        if isinstance(answer, str):
            raise LogError(_("The calls could not be repeated under TensorFlow's log: {error}").format(error=answer))
        return answer

    def _running(self) -> Any:
        if self._process is None or self._process.poll() is not None:
            package = str(Path(__file__).resolve().parents[2])
            paths = [package, *(path for path in sys.path if path)]
            environment = {
                **os.environ,
                "TF_CPP_VMODULE": "executor=1",
                "TF_CPP_MIN_LOG_LEVEL": "0",
                "PYTHONPATH": os.pathsep.join(dict.fromkeys(paths)),
            }
            self._process = subprocess.Popen(
                [sys.executable, "-m", "cachelab.modes.executor_child"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env=environment,
            )
            atexit.register(self.stop)
        return self._process

    def _answer(self, process: subprocess.Popen[bytes], cancel: Callable[[], bool] | None) -> Any:
        """Return what the child answers; give it up where it takes too long or the user cancels."""
        found: list[Any] = []

        def read() -> None:
            try:
                found.append(pickle.load(process.stdout))  # noqa: S301 - written by our own child
            except (OSError, EOFError, ValueError, pickle.PickleError) as error:
                found.append(error)

        reader = threading.Thread(target=read, daemon=True)
        reader.start()
        waited = 0.0
        while not found:
            reader.join(POLL_SECONDS)
            waited += POLL_SECONDS
            if not found and (waited > SECONDS or (cancel is not None and cancel())):
                self.stop()
                raise LogError(_("The replay under TensorFlow's log was given up."))
        if isinstance(found[0], Exception):
            raise found[0]
        return found[0]

    def stop(self) -> None:
        """End the child process, if there is one."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()
            process.stdin.close()


_shared = Child()


def child() -> Child:
    """Return the child process that all replays share."""
    return _shared
