"""Long JSON lists written short: runs, differences, tables, digits. A reader needs forty lines.

A packed list is an object in the place of a list; each form names itself by its first key:

- ``{"runs": [value, times, value, times, ...]}``
- ``{"delta": LIST}``: each number is the one before plus this (the first stands for itself)
- ``{"digits": "..."}``: whole numbers in base 46, most significant digit first. The characters are those from
  ``#`` on without the backslash; the first 46 end a number, the next 46 say that more digits follow. An even number
  ``2 n`` stands for ``n``, an odd one ``2 n - 1`` for ``-n``.
- ``{"table": [...], "at": LIST}``: indices into the table
- ``{"scaled": 1e-9, "of": LIST}``: whole numbers times a factor
- ``{"paths": LIST, "stems": LIST, "numbers": LIST}``: a string is path + stem, and + ``_number`` unless that is -1
- ``{"front": LIST, "rest": [...]}``: a string starts with so many characters of the one before
- ``{"lists": LIST, "of": LIST}``: lists of these lengths, one after the other

where LIST is a plain or a packed list. Short recordings are written plain.
"""

from __future__ import annotations

import re
from itertools import accumulate, chain, groupby, islice, pairwise
from operator import ne, sub
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

Packed: TypeAlias = "list[Any] | dict[str, Any]"

NANO = 1e-9
BASE = 46
_CHARS = "".join(chr(code) for code in range(ord("#"), 127) if chr(code) != "\\") + "!"
_END, _MORE = _CHARS[:BASE], _CHARS[BASE : 2 * BASE]
_END_CODES = np.frombuffer(_END.encode(), np.uint8)
_MORE_CODES = np.frombuffer(_MORE.encode(), np.uint8)
_POWERS = np.array([BASE**place for place in range(12)], np.int64)
_VALUES: Any = np.full(256, -1, np.int64)
_VALUES[_END_CODES] = _VALUES[_MORE_CODES] = np.arange(BASE)
_FINAL: Any = np.zeros(256, bool)
_FINAL[_END_CODES] = True
_LARGEST = 2**61
_RUN_SHARE = 3
_TABLE_SHARE = 8
_SHORT = 24
_MOST = 20_000_000
_NAME = re.compile(r"(?s)(.*/)?(.*?)(?:_(0|[1-9]\d{0,8}))?\Z")


def pack(values: Sequence[Any], *, tables: bool = True) -> Packed:
    """Return a short form of a list of numbers, ``None``, strings or lists of these, with or without tables."""
    values = list(values)
    if len(values) < _SHORT:
        return values
    if _few_runs(values):
        return {"runs": _run_lengths(values)}
    kinds = set(map(type, values))
    if kinds == {list}:
        return {"lists": pack(list(map(len, values))), "of": pack(list(chain.from_iterable(values)))}
    if kinds == {int}:
        return (_pack_table(values) if tables else None) or _pack_whole(values)
    if kinds == {str}:
        return _pack_strings(values, tables=tables)
    return values if kinds == {float} or list in kinds or not tables else _pack_table(values) or values


def _few_runs(values: list[Any]) -> bool:
    changes = sum(map(ne, values, islice(values, 1, None)), start=1)
    return bool(changes * _RUN_SHARE <= len(values))


def _run_lengths(values: list[Any]) -> list[Any]:
    return list(chain.from_iterable((value, len(list(group))) for value, group in groupby(values)))


def _pack_whole(values: list[int]) -> Packed:
    if not -_LARGEST < min(values) <= max(values) < _LARGEST:
        return values
    steps = [values[0], *map(sub, islice(values, 1, None), values)]
    if _few_runs(steps):
        return {"delta": {"runs": _run_lengths(steps)}}
    if sum(map(int.bit_length, steps)) < sum(map(int.bit_length, values)):
        return {"delta": {"digits": digits(steps)}}
    return {"digits": digits(values)}


def digits(values: Sequence[int]) -> str:
    """Return whole numbers in base 46, see the top of this module."""
    number = np.asarray(values, np.int64)
    number = np.where(number >= 0, 2 * number, -2 * number - 1)
    lengths = 1 + np.searchsorted(_POWERS[1:], number, side="right")
    ends = np.cumsum(lengths)
    written: Any = np.zeros(int(ends[-1]) if len(ends) else 0, np.uint8)
    number, digit = np.divmod(number, BASE)
    written[ends - 1] = _END_CODES[digit]
    for place in range(1, int(lengths.max(initial=1))):
        longer = lengths > place
        number, digit = np.divmod(number, BASE)
        written[ends[longer] - 1 - place] = _MORE_CODES[digit[longer]]
    return str(written.tobytes(), "ascii")


def _undigits(text: str) -> list[int]:
    code = np.frombuffer(text.encode("ascii"), np.uint8)
    value, final = _VALUES[code], _FINAL[code]
    if (value < 0).any() or (len(code) and not final[-1]):
        raise ValueError("a packed list of digits with a character that is none")
    ends = np.flatnonzero(final)
    starts = np.concatenate([[0], ends[:-1] + 1]) if len(ends) else ends
    place = np.repeat(ends, ends - starts + 1) - np.arange(len(code))
    if place.max(initial=0) >= len(_POWERS):
        raise ValueError("a packed list of digits with a number that is too large")
    number = np.add.reduceat(value * _POWERS[place], starts) if len(ends) else value
    signed: list[int] = np.where(number % 2 == 0, number // 2, -(number + 1) // 2).tolist()
    return signed


def _pack_strings(values: list[str], *, tables: bool) -> Packed:
    table = _pack_table(values) if tables else None
    if table is not None:
        return table
    parts = [cast("re.Match[str]", _NAME.match(value)).groups("") for value in values]
    paths = [path for path, _stem, _number in parts]
    stems = [stem for _path, stem, _number in parts]
    if tables and len(set(paths)) * 2 <= len(values) and len(set(stems)) * _TABLE_SHARE <= len(values):
        numbers = [int(number) if number else -1 for _path, _stem, number in parts]
        return {"paths": _table(paths), "stems": _table(stems), "numbers": pack(numbers)}
    shared = [0, *(_shared(before, after) for before, after in pairwise(values))]
    return {"front": pack(shared), "rest": [value[start:] for start, value in zip(shared, values, strict=True)]}


def _shared(before: str, after: str) -> int:
    """Return the number of characters with which both strings begin."""
    for i, (a, b) in enumerate(zip(before, after, strict=False)):
        if a != b:
            return i
    return min(len(before), len(after))


def _pack_table(values: list[Any]) -> Packed | None:
    return _table(values) if len(set(values)) * _TABLE_SHARE <= len(values) else None


def _table(values: list[Any]) -> Packed:
    index = {value: i for i, value in enumerate(dict.fromkeys(values))}
    return {"table": pack(list(index), tables=False), "at": pack([index[value] for value in values], tables=False)}


def nanoseconds(values: Sequence[float]) -> list[int]:
    """Return durations as whole nanoseconds of four significant digits."""
    whole = np.rint(np.asarray(values, float) * _PER_SECOND).astype(np.int64)
    finer = np.maximum(np.searchsorted(_TENS, np.abs(whole), side="right") - _SIGNIFICANT, 0)
    scale = 10**finer
    rounded: list[int] = ((np.abs(whole) + scale // 2) // scale * scale * np.sign(whole)).tolist()
    return rounded


def seconds(values: Sequence[float]) -> list[float]:
    """Return durations in seconds with four significant digits and no finer than a nanosecond."""
    return [whole / _PER_SECOND if whole else 0 for whole in nanoseconds(values)]


def pack_seconds(values: Sequence[float]) -> Packed:
    """Return durations, rounded as by :func:`seconds`, as packed nanoseconds."""
    return {"scaled": NANO, "of": pack(nanoseconds(values))} if len(values) >= _SHORT else seconds(values)


_PER_SECOND = round(1 / NANO)
_SIGNIFICANT = 4
_TENS = np.array([10**place for place in range(18)], np.int64)


def unpack(form: Packed) -> list[Any]:
    """Return the list that :func:`pack` was given.

    Raises
    ------
    ValueError
        If the object is of none of the forms.
    """
    if isinstance(form, list):
        return form
    for key, read in _READERS.items():
        if key in form:
            return read(form)
    raise ValueError(f"a packed list of an unknown form, with the keys {sorted(form)}")


def _runs(form: dict[str, Any]) -> list[Any]:
    runs = form["runs"]
    if sum(runs[1::2]) > _MOST:
        raise ValueError("a packed list that is longer than any graph")
    return [value for value, times in zip(runs[::2], runs[1::2], strict=True) for _ in range(times)]


def _indexed(form: dict[str, Any]) -> list[Any]:
    table = unpack(form["table"])
    return [table[index] for index in unpack(form["at"])]


def _scaled(form: dict[str, Any]) -> list[Any]:
    # Divide, so that the nearest decimal number comes back and not one next to it.
    return [number / round(1 / form["scaled"]) for number in unpack(form["of"])]


def _paths(form: dict[str, Any]) -> list[Any]:
    parts = zip(unpack(form["paths"]), unpack(form["stems"]), unpack(form["numbers"]), strict=True)
    return [path + stem if number < 0 else f"{path}{stem}_{number}" for path, stem, number in parts]


def _front(form: dict[str, Any]) -> list[Any]:
    last = ""
    strings = []
    for shared, rest in zip(unpack(form["front"]), form["rest"], strict=True):
        last = last[:shared] + rest
        strings.append(last)
    return strings


def _lists(form: dict[str, Any]) -> list[Any]:
    flat = iter(unpack(form["of"]))
    return [[next(flat) for _ in range(length)] for length in unpack(form["lists"])]


_READERS: dict[str, Callable[[dict[str, Any]], list[Any]]] = {
    "runs": _runs,
    "delta": lambda form: list(accumulate(unpack(form["delta"]))),
    "digits": lambda form: _undigits(form["digits"]),
    "table": _indexed,
    "scaled": _scaled,
    "paths": _paths,
    "front": _front,
    "lists": _lists,
}
