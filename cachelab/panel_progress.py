"""Tells front ends how many calls a cell that is being recorded made so far: a few messages, however long it runs."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

FIRST_SECONDS = 1.0
LONGEST_SECONDS = 30.0


class Progress:
    """Calls ``tell`` in a thread with the number of calls, at growing intervals, from :meth:`start` to :meth:`stop`.

    Parameters
    ----------
    count
        Function () -> calls recorded so far, ``None`` while nothing is recorded.
    tell
        Called with that number where it changed.
    """

    def __init__(self, count: Callable[[], int | None], tell: Callable[[int], None]) -> None:
        self._count = count
        self._tell = tell
        self._stop = threading.Event()

    def start(self) -> None:
        """Watch the cell that starts now."""
        self.stop()
        self._stop = threading.Event()
        threading.Thread(target=self._watch, args=(self._stop,), name="cachelab-progress", daemon=True).start()

    def stop(self) -> None:
        """Watch no longer: the cell ended."""
        self._stop.set()

    def _watch(self, stop: threading.Event) -> None:
        pause, told = FIRST_SECONDS, None
        while not stop.wait(pause):
            calls = self._count()
            if calls is not None and calls != told and not stop.is_set():
                self._tell(calls)
                told = calls
            pause = min(pause * 1.5, LONGEST_SECONDS)
