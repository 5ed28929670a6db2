"""Runs a Python script as ``python script.py`` would, with something done before and after it."""

from __future__ import annotations

import os
import sys
import threading
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType, TracebackType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

_OWN = str(Path(__file__).parent) + os.sep


def run_script(path: str, arguments: list[str], finish: Callable[[], None]) -> None:
    """Execute a script as ``__main__`` and call ``finish`` when it has ended, however it ended.

    What the script raises, ``SystemExit`` and ``KeyboardInterrupt`` included, is raised again, so that the
    interpreter ends as it would have; the traceback that it prints has no frame of CacheLab.

    Parameters
    ----------
    path
        The script.
    arguments
        ``sys.argv[1:]`` of the script.
    finish
        Called once, after the script's threads have ended.
    """
    main = ModuleType("__main__")
    main.__dict__.update(
        __file__=path,
        __builtins__=__builtins__,
        __loader__=SourceFileLoader("__main__", path),
        __cached__=None,
        __annotations__={},
    )
    sys.modules["__main__"] = main
    sys.argv = [path, *arguments]
    if not getattr(sys.flags, "safe_path", False):
        sys.path[0] = str(Path(path).resolve().parent)
    try:
        try:
            code = compile(Path(path).read_bytes(), path, "exec", dont_inherit=True)
            exec(code, main.__dict__)  # noqa: S102 - that is the job
        finally:
            _join_threads()
            finish()
    except BaseException as error:
        _show_plain_traceback(error)
        raise


def _join_threads() -> None:
    """Wait for the script's threads, as the interpreter does before it ends."""
    for thread in threading.enumerate():
        if thread is not threading.main_thread() and not thread.daemon and thread is not threading.current_thread():
            thread.join()


def _show_plain_traceback(error: BaseException) -> None:
    """Have the interpreter's handler, or the script's own, see a traceback without CacheLab's frames."""
    handler = sys.excepthook

    def hook(kind: type[BaseException], value: BaseException, traceback: TracebackType | None) -> None:
        if value is error:
            _clean(value, set())
            traceback = value.__traceback__
        handler(kind, value, traceback)

    sys.excepthook = hook


def _clean(error: BaseException | None, seen: set[int]) -> None:
    """Drop CacheLab's frames from an error and those that it came from."""
    if error is None or id(error) in seen:
        return
    frames = []
    traceback = error.__traceback__
    # Above the script stand only the command and what started it. Errors behind this one were caught further down.
    started = bool(seen)
    seen.add(id(error))
    while traceback is not None:
        started = started or traceback.tb_frame.f_globals is sys.modules["__main__"].__dict__
        if started and not traceback.tb_frame.f_code.co_filename.startswith(_OWN):
            frames.append(traceback)
        traceback = traceback.tb_next
    rebuilt: TracebackType | None = None
    for frame in reversed(frames):
        rebuilt = TracebackType(rebuilt, frame.tb_frame, frame.tb_lasti, frame.tb_lineno)
    error.__traceback__ = rebuilt
    _clean(error.__cause__, seen)
    _clean(error.__context__, seen)
