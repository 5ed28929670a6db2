"""The child process of :mod:`cachelab.modes.executor_log`: repeats calls and reads the executor's log."""

from __future__ import annotations

import os
import pickle
import re
import sys
import tempfile
import time
from itertools import pairwise
from typing import TYPE_CHECKING, Any, BinaryIO

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cachelab.modes.traces import Ran

_NODE = re.compile(rb"Process node: \d+ step -?\d+ \{\{node ([^}]+)\}\} = (\w+)(.*)")
POLL_SECONDS = 0.005
MOST_QUIET_SECONDS = 0.3


class Log:
    """File descriptor 2, led into a file: what TensorFlow logs between two moments."""

    def __init__(self) -> None:
        self.file: BinaryIO = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the process
        os.dup2(self.file.fileno(), 2)

    def size(self) -> int:
        """Return the length of the log now."""
        return os.fstat(self.file.fileno()).st_size

    def settle(self, quiet: float) -> int:
        """Wait until nothing was logged for ``quiet`` seconds; return the length of the log."""
        size, since = -1, time.monotonic()
        while time.monotonic() - since < quiet:
            now = self.size()
            if now != size:
                size, since = now, time.monotonic()
            time.sleep(POLL_SECONDS)
        return size

    def nodes(self, start: int, end: int) -> list[tuple[str, str]]:
        """Return name and op type of the nodes that were processed, dead ones left out."""
        text = os.pread(self.file.fileno(), end - start, start)
        return [
            (name.decode(), kind.decode())
            for name, kind, rest in _NODE.findall(text)
            if b"is dead" not in rest and not name.startswith(b"_")
        ]

    def clear(self) -> None:
        """Forget everything logged so far."""
        os.ftruncate(self.file.fileno(), 0)
        os.lseek(2, 0, os.SEEK_SET)


def repeat(job: dict[str, Any], log: Log) -> list[tuple[str, Ran]]:
    """Repeat a recording in mode ``partial_run``; return (phase, what ran) in order."""
    from cachelab.modes.partial_run import PartialRun
    from cachelab.modes.place import Place
    from cachelab.modes.runner import Runner
    from cachelab.modes.script import Script

    place = Place(job["material"], optimizers=job["optimizers"], pruned=False)
    script = Script(job["record"], job["material"], place)
    quiet = min(job["quiet"], MOST_QUIET_SECONDS)
    marks: list[tuple[str, tuple[int, ...], int]] = []

    class Marking(Runner):
        """Notes where in the log every phase begins."""

        def mark(self, call: int, phase: str) -> None:
            marks.append((phase, tuple(mode.together(call)), log.settle(quiet)))

        def run(self, session: int, fetches: Sequence[Any], feed: Any, calls: tuple[int, ...], **options: Any) -> Any:
            marks.append(("run", calls, log.size()))
            values = super().run(session, fetches, feed, calls, **options)
            marks.append(("end", calls, log.size()))
            return values

    mode = PartialRun(script)
    reason = mode.applies()
    if reason:
        raise ValueError(reason)
    mode.prepare()
    with place.open() as sessions:
        log.clear()
        mode.issue(Marking(script, sessions))
        marks.append(("end", (), log.settle(quiet)))
    found = []
    for (phase, calls, start), (_next, _calls, end) in pairwise(marks):
        if phase != "end":
            reader = script.graph(script.calls[calls[0]]).reader
            found.append((phase, reader.of_log(log.nodes(start, end), calls)))
    return found


def main() -> None:
    """Answer jobs on standard input until it closes."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    log = Log()
    while True:
        try:
            job = pickle.load(sys.stdin.buffer)  # noqa: S301 - written by our own parent
        except EOFError:
            return
        try:
            answer: Any = repeat(job, log)
        except Exception as error:  # noqa: BLE001 - the parent is told
            answer = f"{type(error).__name__}: {error}"
        pickle.dump(answer, answers, protocol=pickle.HIGHEST_PROTOCOL)
        answers.flush()


if __name__ == "__main__":
    main()
