"""The line of user code behind an op or a call."""

from __future__ import annotations

import ast
import linecache
import re
import sys
import sysconfig
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cachelab.model import Line

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from types import FrameType

_PACKAGE = str(Path(__file__).resolve().parent.parent)
_LIBRARY = sysconfig.get_paths()["stdlib"]
_FOREIGN = re.compile(r"[/\\](site-packages|dist-packages)[/\\]|^<frozen |^<__array_function__|^<string>$")
_MAGIC = re.compile(r"<timed exec>$|<timed eval>$|<magic-timeit>$")
"""What IPython calls the code that ``%%time`` and its like compile by themselves."""
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

    def number(self, file: str, line: int, text: str | None = None) -> int:
        """Return the index of a line; ``text`` is read from its file if it is not given."""
        key = (file, line)
        index = self._index.get(key)
        if index is None:
            index = self._index[key] = len(self.all)
            text = linecache.getline(file, line) if text is None else text
            self.all.append(Line(shown_file(file), line, text.strip()))
        return index

    def of_caller(self) -> int:
        """Return the innermost line of user code that is being executed, -1 if there is none."""
        return self._innermost(_stack(sys._getframe(1)))

    def of_op(self, operation: Any) -> int:
        """Return the innermost line of user code that built an op, -1 if unknown."""
        trace = getattr(operation, "traceback", None)
        if trace is None:
            return -1
        frames = trace.get_user_frames() if hasattr(trace, "get_user_frames") else trace
        return self._innermost((frame.filename, frame.lineno, frame.name) for frame in reversed(list(frames)))

    def _innermost(self, frames: Iterable[tuple[str, int, str]]) -> int:
        """Return the first line of user code; ``frames`` are file, line and function, innermost first."""
        inside = None
        for file, line, function in frames:
            if not is_user_file(file):
                continue
            if _MAGIC.match(file):
                inside = inside or (file, line, function)
            elif inside is None:
                return self.number(file, line)
            else:
                return self._below_magic(inside, file, line)
        return -1 if inside is None else self.number(*inside[:2])

    def _below_magic(self, inside: tuple[str, int, str], file: str, line: int) -> int:
        """Return the line of the cell behind code that a magic on ``line`` of the cell compiled by itself."""
        text = linecache.getline(file, line)
        within, number, function = inside
        body = _magic_body(text) or []
        # IPython leaves empty lines at the top out before it compiles.
        at = number + next((i for i, one in enumerate(body) if one.strip()), 0)
        if within == "<timed exec>" and at <= len(body):
            own = function == "<module>" or re.search(rf"\bdef {re.escape(function)}\b", "\n".join(body[:at]))
            return self.number(file, line + at, body[at - 1]) if own else self.number(within, number)
        return self.number(file, line) if "get_ipython()" in text else self.number(within, number)


def _stack(frame: FrameType | None) -> Iterator[tuple[str, int, str]]:
    while frame is not None:
        yield frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name
        frame = frame.f_back


def _magic_body(text: str) -> list[str] | None:
    """Return the lines below a cell magic, from the call that IPython makes of it; ``None`` for others."""
    if "get_ipython().run_cell_magic(" not in text:
        return None
    try:
        call = ast.parse(text.strip()).body[0]
    except SyntaxError:
        return None
    body = call.value.args[-1] if isinstance(call, ast.Expr) and isinstance(call.value, ast.Call) else None
    return body.value.splitlines() if isinstance(body, ast.Constant) and isinstance(body.value, str) else None
