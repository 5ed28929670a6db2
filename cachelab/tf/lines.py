"""The line of user code behind an op or a call."""

from __future__ import annotations

import linecache
import re
import sys
import sysconfig
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cachelab.model import Line

if TYPE_CHECKING:
    from types import FrameType

_PACKAGE = str(Path(__file__).resolve().parent.parent)
_LIBRARY = sysconfig.get_paths()["stdlib"]
_FOREIGN = re.compile(r"[/\\](site-packages|dist-packages)[/\\]|^<frozen |^<__array_function__|^<string>$")
_CELL = re.compile(r"<ipython-input-(\d+)-|[/\\]ipykernel_\d+[/\\]")


@cache
def is_user_file(name: str) -> bool:
    """Tell whether a file is the user's own: neither installed, nor Python's, nor CacheLab's."""
    if _CELL.search(name):
        return True
    return not (_FOREIGN.search(name) or name.startswith((_PACKAGE, _LIBRARY)))


def shown_file(name: str) -> str:
    """Return the name under which people know a file: ``cell 3`` for a cell, else the name of the file."""
    match = _CELL.search(name)
    if not match and "IPython" not in sys.modules:
        return Path(name).name
    if match and match[1]:
        return f"cell {match[1]}"
    number = _cell_number(name)
    if number is not None:
        return f"cell {number}"
    return "cell" if match else Path(name).name


def _cell_number(name: str) -> int | None:
    shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    names = getattr(getattr(shell, "compile", None), "_filename_map", None) or {}
    return names.get(name)


class Lines:
    """Collects the lines that ops and calls refer to, each once."""

    def __init__(self) -> None:
        self.all: list[Line] = []
        self._index: dict[tuple[str, int], int] = {}

    def number(self, file: str, line: int) -> int:
        """Return the index of a line."""
        key = (file, line)
        index = self._index.get(key)
        if index is None:
            index = self._index[key] = len(self.all)
            self.all.append(Line(shown_file(file), line, linecache.getline(file, line).strip()))
        return index

    def of_caller(self) -> int:
        """Return the innermost line of user code that is being executed, -1 if there is none."""
        frame: FrameType | None = sys._getframe(1)
        while frame is not None:
            if is_user_file(frame.f_code.co_filename):
                return self.number(frame.f_code.co_filename, frame.f_lineno)
            frame = frame.f_back
        return -1

    def of_op(self, operation: Any) -> int:
        """Return the innermost line of user code that built an op, -1 if unknown."""
        trace = getattr(operation, "traceback", None)
        if trace is None:
            return -1
        frames = trace.get_user_frames() if hasattr(trace, "get_user_frames") else trace
        for frame in reversed(list(frames)):
            if is_user_file(frame.filename):
                return self.number(frame.filename, frame.lineno)
        return -1
