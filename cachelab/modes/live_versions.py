"""Versions of what a live session's runs may write: variables, by the key of their cell."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


class Versions:
    """Counts writes; thread-safe.

    Attributes
    ----------
    volatile
        Cells that something may write at any time, such as an open ``partial_run``: never served.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._version: dict[str, int] = {}
        self._writing: dict[str, int] = {}
        self._everything = 0
        self._writers = 0
        self.volatile: set[str] = set()

    def of(self, cells: tuple[str, ...]) -> tuple[int, ...]:
        """Return the versions of cells now; the first number counts calls that may have written anything."""
        if not cells:
            return ()
        return self._everything, *[self._version.get(cell, 0) for cell in cells]

    def settled(self, cells: Iterable[str]) -> bool:
        """Whether nobody is writing any of the cells, nor may at any time."""
        if not (self._writers or self.volatile):
            return True
        return not any(cell in self.volatile or self._writing.get(cell) for cell in cells)

    @contextmanager
    def writing(self, cells: frozenset[str]) -> Iterator[None]:
        """Make every value that depends on a written cell another version, before and after the write."""
        if not cells:
            yield
            return
        with self._lock:
            self._writers += 1
            for cell in cells:
                self._version[cell] = self._version.get(cell, 0) + 1
                self._writing[cell] = self._writing.get(cell, 0) + 1
        try:
            yield
        finally:
            with self._lock:
                for cell in cells:
                    self._version[cell] += 1
                    self._writing[cell] -= 1
                self._writers -= 1

    @contextmanager
    def writing_anything(self) -> Iterator[None]:
        """Like :meth:`writing`, for a call of which nothing is known."""
        self._everything += 1
        try:
            yield
        finally:
            self._everything += 1
