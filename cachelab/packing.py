"""Long JSON lists written short: runs, differences, tables, shared beginnings. A reader needs thirty lines.

A packed list is an object in the place of a list; each form names itself by its first key:

- ``{"runs": [value, times, value, times, ...]}``
- ``{"delta": LIST}``: each number is the one before plus this
- ``{"table": [...], "at": LIST}``: indices into the table
- ``{"scaled": 1e-9, "of": LIST}``: whole numbers times a factor
- ``{"front": LIST, "rest": [...]}``: a string starts with so many characters of the one before
- ``{"lists": LIST, "of": LIST}``: lists of these lengths, one after the other

where LIST is a plain or a packed list. Short recordings are written plain.
"""

from __future__ import annotations

from itertools import accumulate, chain, groupby, pairwise
from os.path import commonprefix
from typing import TYPE_CHECKING, Any, TypeAlias, cast

if TYPE_CHECKING:
    from collections.abc import Sequence

Packed: TypeAlias = "list[Any] | dict[str, Any]"

NANO = 1e-9
_RUN_SHARE = 3
_TABLE_SHARE = 8


def pack(values: Sequence[Any]) -> Packed:
    """Return the shorter form of a list of numbers, ``None``, strings or lists of these."""
    values = list(values)
    if not values:
        return values
    runs = [(value, len(list(group))) for value, group in groupby(values)]
    if len(runs) * _RUN_SHARE <= len(values):
        return {"runs": list(chain.from_iterable(runs))}
    kinds = set(map(type, values))
    if kinds == {list}:
        return {"lists": pack(list(map(len, values))), "of": pack(list(chain.from_iterable(values)))}
    if kinds == {int}:
        return _pack_whole(values)
    if kinds == {str}:
        return _pack_strings(values)
    return values if kinds == {float} or list in kinds else _pack_table(values) or values


def _pack_whole(values: list[int]) -> Packed:
    steps = [values[0], *(after - before for before, after in pairwise(values))]
    plain, different = _length(values), _length(steps)
    runs = [(value, len(list(group))) for value, group in groupby(steps)]
    if len(runs) * _RUN_SHARE <= len(steps):
        return {"delta": {"runs": list(chain.from_iterable(runs))}}
    return {"delta": steps} if different * 10 < plain * 9 else values


def _length(values: list[int]) -> int:
    """Return a rough number of characters, from the bits of each number."""
    return sum(abs(value).bit_length() * 3 // 10 + (2 if value >= 0 else 3) for value in values)


def _pack_strings(values: list[str]) -> Packed:
    table = _pack_table(values)
    if table is not None:
        return table
    shared = [0, *(len(commonprefix(pair)) for pair in pairwise(values))]
    return {"front": shared, "rest": [value[start:] for start, value in zip(shared, values, strict=True)]}


def _pack_table(values: list[Any]) -> Packed | None:
    table = dict.fromkeys(values)
    if len(table) * _TABLE_SHARE > len(values):
        return None
    index = {value: i for i, value in enumerate(table)}
    return {"table": list(table), "at": pack([index[value] for value in values])}


def pack_seconds(values: Sequence[float]) -> Packed:
    """Return durations (as :func:`rounded`) as whole nanoseconds, packed."""
    whole = [round(value / NANO) for value in values]
    if any(abs(number * NANO - value) > NANO / 1e3 for number, value in zip(whole, values, strict=True)):
        return list(values)
    return {"scaled": NANO, "of": pack(whole)}


def unpack(form: Packed) -> list[Any]:
    """Return the list that :func:`pack` was given.

    Raises
    ------
    ValueError
        If the object is of none of the forms.
    """
    if isinstance(form, list):
        return form
    if "runs" in form:
        runs = form["runs"]
        return [value for value, times in zip(runs[::2], runs[1::2], strict=True) for _ in range(times)]
    if "delta" in form:
        return list(accumulate(unpack(form["delta"])))
    if "table" in form:
        table = form["table"]
        return [table[index] for index in unpack(form["at"])]
    if "scaled" in form:
        # Divide, so that the nearest decimal number comes back and not one next to it.
        return [number / round(1 / form["scaled"]) for number in unpack(form["of"])]
    if "front" in form:
        last = ""
        strings = []
        for shared, rest in zip(unpack(form["front"]), form["rest"], strict=True):
            last = last[:shared] + rest
            strings.append(last)
        return strings
    if "lists" in form:
        flat = iter(unpack(form["of"]))
        return [[next(flat) for _ in range(length)] for length in unpack(form["lists"])]
    raise ValueError(f"a packed list of an unknown form, with the keys {sorted(cast('dict[str, Any]', form))}")
