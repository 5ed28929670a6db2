"""Sizes of axes as products, so that ``[-1, heads * width]`` is understood where the batch size is unknown."""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import dataclass
from typing import Final

_fresh = itertools.count()
EXAMPLES: Final = "m"
"""The symbol of the number of examples."""


@dataclass(frozen=True)
class Extent:
    """``factor`` times a product of symbols: the size of an axis that is not known as a number.

    Products and exact quotients of extents are extents; anything else is a fresh symbol, equal to nothing but
    itself, so that what can't be followed is never taken for proven.
    """

    factor: int
    symbols: tuple[str, ...]

    @classmethod
    def of(cls, symbol: str) -> Extent:
        """Return the extent that is one symbol."""
        return cls(1, (symbol,))

    @classmethod
    def unknown(cls) -> Extent:
        """Return an extent that equals nothing else."""
        return cls(1, (f"?{next(_fresh)}",))

    def __mul__(self, other: Extent | int) -> Extent | int:
        """Return the product."""
        factor, symbols = _parts(other)
        return _simplest(self.factor * factor, (*self.symbols, *symbols))

    __rmul__ = __mul__

    def _other(self, _other: object) -> Extent:
        return Extent.unknown()

    __add__ = __radd__ = __sub__ = __rsub__ = __mod__ = __rmod__ = __rfloordiv__ = __neg__ = _other

    def __floordiv__(self, other: Extent | int) -> Extent | int:
        """Return the exact quotient, or an unknown where it does not divide."""
        quotient = divide(self, other)
        return Extent.unknown() if quotient is None else quotient


Size = Extent | int


def _parts(size: Size) -> tuple[int, tuple[str, ...]]:
    return (size.factor, size.symbols) if isinstance(size, Extent) else (int(size), ())


def _simplest(factor: int, symbols: tuple[str, ...]) -> Size:
    return Extent(factor, tuple(sorted(symbols))) if symbols and factor else factor


def divide(size: Size, by: Size) -> Size | None:
    """Return ``size / by`` if it is exact, else ``None``."""
    factor, symbols = _parts(size)
    divisor, other = _parts(by)
    if not divisor or factor % divisor:
        return None
    left = Counter(symbols)
    left.subtract(other)
    if any(count < 0 for count in left.values()):
        return None
    return _simplest(factor // divisor, tuple(left.elements()))


def mentions_examples(size: object) -> bool:
    """Return whether ``size`` is a multiple of the number of examples."""
    return isinstance(size, Extent) and EXAMPLES in size.symbols


def product(sizes: object) -> Size:
    """Return the product of an iterable of sizes."""
    result: Size = 1
    for size in sizes:
        result = result * size
    return result
