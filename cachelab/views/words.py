"""How figures and lists are worded: one unit and fixed decimals in a column, numbers with their unit elsewhere."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cachelab.i18n import translate as _
from cachelab.model import STATUSES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from cachelab.model import ModeResult

LETTERS = {"c": "C", "r": "R", "s": "S", "d": "F", "m": "M", "k": "K", "u": "U", "p": "P", "t": "T", "n": "N", "x": "X"}
"""Letter in the columns -> letter that people see (``d`` is shown as F for fed)."""

ORDER = "rscdmkuptnx"
"""Letters of the columns in the order in which a mix shows them: what matters first."""

MEANINGS = {
    "c": "new inputs",
    "r": "ran again on equal inputs",
    "s": "not run, value served",
    "d": "value given by the caller",
    "m": "shared with an equal op",
    "k": "constant before the run",
    "u": "part of a larger kernel",
    "p": "not needed",
    "t": "branch not taken",
    "n": "after an error",
    "x": "no evidence",
}

_MILLI = 1e-3
_MICRO = 1e-6


def status_title(letter: str) -> str:
    """Return status and meaning of a column letter, such as ``recomputed: ran again on equal inputs``."""
    return f"{STATUSES[letter]}: {_(MEANINGS[letter])}"


def seconds(value: float) -> str:
    """Return a duration with its unit: microseconds below 1 ms, three figures at most."""
    if value <= 0:
        return "0 ms"
    if value < 0.9995 * _MILLI:
        micro = value / _MICRO
        return f"{micro:.0f} µs" if micro >= 0.95 else "<1 µs"  # noqa: PLR2004 - rounds to 1
    if value < 0.9995:  # noqa: PLR2004 - rounds to 1 s
        milli = value / _MILLI
        return f"{milli:.1f} ms" if milli < 9.95 else f"{milli:.0f} ms"  # noqa: PLR2004
    return f"{value:.2f} s" if value < 9.995 else f"{value:,.1f} s"  # noqa: PLR2004


def seconds_column(values: Iterable[float]) -> Callable[[float], str]:
    """Return a function that words each duration of one column in the same unit with the same decimals."""
    top = max(values, default=0.0)
    if top >= 1:
        factor, unit, smallest = 1.0, "s", 0.01
    elif top >= _MILLI:
        factor, unit, smallest = _MILLI, "ms", 0.1
    else:
        factor, unit, smallest = _MICRO, "µs", 1.0
    decimals = {0.01: 2, 0.1: 1, 1.0: 0}[smallest]

    def word(value: float) -> str:
        if value <= 0:
            return "–"
        scaled = value / factor
        return f"<{smallest:g} {unit}" if scaled < smallest / 2 else f"{scaled:,.{decimals}f} {unit}"

    return word


def size(count: float) -> str:
    """Return a number of bytes with its decimal unit."""
    for factor, unit in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if count >= factor:
            scaled = count / factor
            return f"{scaled:.2f} {unit}" if scaled < 9.995 else f"{scaled:,.1f} {unit}"  # noqa: PLR2004
    return f"{count:.0f} B"


def share(part: float) -> str:
    """Return a share as a percentage that never rounds something to nothing or a part to the whole."""
    percent = 100 * part
    if 0 < percent < 0.5:  # noqa: PLR2004
        return "<1 %"
    if 99.5 <= percent < 100:  # noqa: PLR2004
        return ">99 %"
    return f"{percent:.0f} %"


def runs(numbers: Iterable[int], limit: int = 6) -> str:
    """Return sorted numbers as ranges, such as ``0-2, 5``; at most ``limit`` of them, then ``...``."""
    spans: list[list[int]] = []
    for number in sorted(set(numbers)):
        if spans and spans[-1][1] == number - 1:
            spans[-1][1] = number
        else:
            spans.append([number, number])
    worded = [str(low) if low == high else f"{low}–{high}" for low, high in spans[:limit]]
    return ", ".join(worded) + (" …" if len(spans) > limit else "")


def listing(words: Sequence[str], limit: int = 3) -> str:
    """Return words joined as in a sentence: ``a, b and c``, or ``a, b, c and 4 more``."""
    if len(words) > limit + 1:
        return _("{some} and {n} more").format(some=", ".join(words[:limit]), n=len(words) - limit)
    if len(words) > 1:
        return _("{some} and {last}").format(some=", ".join(words[:-1]), last=words[-1])
    return "".join(words)


def shorten(text: str, length: int) -> str:
    """Return ``text`` with its middle left out where it is longer than ``length``."""
    if len(text) <= length:
        return text
    head = (length - 1) // 2
    return f"{text[:head]}…{text[len(text) - (length - 1 - head) :]}"


def first_line(text: str, length: int) -> str:
    """Return the first line of an error's text, shortened."""
    return shorten(text.strip().split("\n", 1)[0], length)


def proof(result: ModeResult) -> str:
    """Return what a mode's results proved, such as ``close, within 1e-07: optimised differently``."""
    said = result.equality
    if result.equality == "close":
        said = _("close, within {d:.2g}").format(d=result.max_difference)
    return f"{said}: {result.reason}" if result.reason else said


def call_name(call: int | None) -> str:
    """Return ``call 3``."""
    return _("call {n}").format(n=call)
