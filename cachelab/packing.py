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
from itertools import accumulate, chain, groupby, pairwise
from typing import TYPE_CHECKING, Any, TypeAlias, cast

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

Packed: TypeAlias = "list[Any] | dict[str, Any]"

NANO = 1e-9
BASE = 46
_CHARS = "".join(chr(code) for code in range(ord("#"), 127) if chr(code) != "\\") + "!"
_END, _MORE = _CHARS[:BASE], _CHARS[BASE : 2 * BASE]
_VALUE = {char: value for value, char in enumerate(_END)} | {char: value for value, char in enumerate(_MORE)}
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
    runs = [(value, len(list(group))) for value, group in groupby(values)]
    if len(runs) * _RUN_SHARE <= len(values):
        return {"runs": list(chain.from_iterable(runs))}
    kinds = set(map(type, values))
    if kinds == {list}:
        return {"lists": pack(list(map(len, values))), "of": pack(list(chain.from_iterable(values)))}
    if kinds == {int}:
        return (_pack_table(values) if tables else None) or _pack_whole(values)
    if kinds == {str}:
        return _pack_strings(values, tables=tables)
    return values if kinds == {float} or list in kinds or not tables else _pack_table(values) or values


def _pack_whole(values: list[int]) -> Packed:
    steps = [values[0], *(after - before for before, after in pairwise(values))]
    runs = [(value, len(list(group))) for value, group in groupby(steps)]
    if len(runs) * _RUN_SHARE <= len(steps):
        return {"delta": {"runs": list(chain.from_iterable(runs))}}
    if sum(map(int.bit_length, steps)) < sum(map(int.bit_length, values)):
        return {"delta": {"digits": digits(steps)}}
    return {"digits": digits(values)}


_HIGH = [(_MORE[n // BASE] if n >= BASE else "") + _MORE[n % BASE] for n in range(BASE * BASE)]
_LOW = [_MORE[n // BASE] + _END[n % BASE] for n in range(BASE * BASE)]


def digits(values: Iterable[int]) -> str:
    """Return whole numbers in base 46, see the top of this module."""
    written = []
    for value in values:
        number = 2 * value if value >= 0 else -2 * value - 1
        if number < BASE:
            written.append(_END[number])
            continue
        number, low = divmod(number, BASE * BASE)
        text = _LOW[low]
        while number >= BASE * BASE:
            number, high = divmod(number, BASE * BASE)
            text = _MORE[high // BASE] + _MORE[high % BASE] + text
        written.append(_HIGH[number] + text if number else text)
    return "".join(written)


def _undigits(text: str) -> list[int]:
    values = []
    number = 0
    for char in text:
        number = number * BASE + _VALUE[char]
        if char in _END:
            values.append(number // 2 if number % 2 == 0 else -(number + 1) // 2)
            number = 0
    return values


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


def pack_seconds(values: Sequence[float]) -> Packed:
    """Return durations that are whole nanoseconds as such, packed; others as they are."""
    if len(values) < _SHORT:
        return list(values)
    whole = [round(value / NANO) for value in values]
    if any(number / _PER_SECOND != value for number, value in zip(whole, values, strict=True)):
        return list(values)
    return {"scaled": NANO, "of": pack(whole)}


_PER_SECOND = round(1 / NANO)


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
