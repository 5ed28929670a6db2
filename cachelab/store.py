"""Recordings as JSON: columns, not an object per op; no pickle, and no value of the user's data.

In the file a witness and the call of a cause are absolute numbers, as people read them; the model says how many
calls back they lie, so that the calls of a loop share columns. Shared columns carry ``base``, the first call that
uses them: for another call ``n`` add ``n - base``, which is what ``{call}`` in a cause's text stands for too.
Large recordings are written with packed lists, see :mod:`cachelab.packing`; there a field of columns that equals that
of earlier columns is ``{"as": k}``, and the inputs of a graph are ``{"rows", "outputs", "others"}`` (``_references``).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from cachelab.errors import CacheLabError, FormatError
from cachelab.i18n import translate as _
from cachelab.store_reader import from_json
from cachelab.store_writer import to_json

if TYPE_CHECKING:
    import os

    from cachelab.model import Record

__all__ = ["dumps", "from_json", "load", "loads", "save", "to_json", "write_text"]


def dumps(record: Record, *, packed: bool | None = None) -> str:
    """Return the recording as one line of JSON, see :func:`to_json`."""
    data = to_json(record, packed=packed)
    return json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False, default=str)


def save(record: Record, path: str | os.PathLike[str]) -> None:
    """Write the recording to ``path`` as JSON.

    Raises
    ------
    CacheLabError
        If the file can't be written.
    """
    write_text(path, dumps(record))


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Write a text file as UTF-8, with an error that says what to do where that fails."""
    try:
        # Names may hold lone surrogates (a Python string can); they are written as "?" rather than not at all.
        Path(path).write_text(text, encoding="utf-8", errors="replace")
    except OSError as error:
        raise CacheLabError(
            _("The file {path} can't be written: {reason}.").format(path=path, reason=error.strerror or error),
            _("Name a file in a folder that exists and that you may write to."),
        ) from error


def load(path: str | os.PathLike[str]) -> Record:
    """Read a recording that :func:`save` wrote.

    Raises
    ------
    FormatError
        If the file is not there, is no recording, is broken or is of a version that this CacheLab doesn't know.
    """
    try:
        text = Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise FormatError(
            _("The file {path} can't be read: {reason}.").format(path=path, reason=error.strerror or error),
            _("Name a file that `recording.save` or `%cachelab export` wrote."),
        ) from error
    except UnicodeDecodeError as error:
        raise FormatError(
            _("The file {path} is no text: {reason}.").format(path=path, reason=error),
            _("Name a file that `recording.save` or `%cachelab export` wrote."),
        ) from error
    try:
        return loads(text)
    except FormatError as error:
        raise FormatError(f"{path}: {error.found}", error.todo) from error


def loads(text: str) -> Record:
    """Return the recording that a JSON text holds.

    Raises
    ------
    FormatError
        If the text is no JSON, no recording, broken or of an unknown version.
    """
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise FormatError(
            _("This is no JSON: {reason}.").format(reason=error),
            _("The file may have been cut short; save the recording again."),
        ) from error
    return from_json(data)
