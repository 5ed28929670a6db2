"""Option values as people type them: traces, modes, sizes such as ``"256MB"``."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from cachelab.errors import OptionError
from cachelab.i18n import translate as _

if TYPE_CHECKING:
    from collections.abc import Sequence

TRACES: Final = ("auto", "full", "light", "off")
"""How often the runtime's own trace is taken: see :func:`cachelab.record`."""

MEMORY_BUDGET: Final = 256 * 1024**2
"""Bytes of feeds and variable values kept for replays, unless asked otherwise."""

_POWERS: Final = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}
_SIZE: Final = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([kmgt]?)(i?)b?\s*", re.IGNORECASE)


def check_choice(option: str, value: str, choices: Sequence[str]) -> str:
    """Return ``value`` if it is one of ``choices``.

    Raises
    ------
    OptionError
        It is not; the message lists the choices.
    """
    if value not in choices:
        raise OptionError(
            _("{option} can't be {value!r}.").format(option=option, value=value),
            _("Choose one of: {choices}.").format(choices=", ".join(choices)),
        )
    return value


def parse_bytes(size: int | str) -> int:
    """Return a size in bytes.

    Parameters
    ----------
    size
        A number of bytes, or text such as ``"1GB"``, ``"256 MiB"``, ``"64k"``: powers of 1000, of 1024 with
        an ``i``.

    Raises
    ------
    OptionError
        The text is no size, or the size is negative.
    """
    if isinstance(size, int) and not isinstance(size, bool) and size >= 0:
        return size
    match = _SIZE.fullmatch(size) if isinstance(size, str) else None
    if match is None:
        raise OptionError(
            _("A size was asked for, and {size!r} is none.").format(size=size),
            _("Write a number of bytes or a size such as '256MB'."),
        )
    return int(float(match[1]) * (1024 if match[3] else 1000) ** _POWERS[match[2].lower()])
