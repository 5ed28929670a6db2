"""Sizes of axes as products, so that ``[-1, heads * width]`` is understood where the batch size is unknown."""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import dataclass
from typing import Final

_fresh = itertools.count()
EXAMPLES: Final = "m"
"""The symbol of the number of examples."""
_DERIVED: Final = "?m"
"""How symbols begin for numbers that are made from the number of examples, such as m - 1."""


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
    def unknown(cls, *made_from: object) -> Extent:
        """Return an extent that equals nothing else; it depends on the number of examples if ``made_from`` does."""
        start = _DERIVED if any(depends_on_examples(size) for size in made_from) else "?"
        return cls(1, (f"{start}{next(_fresh)}",))

    def __mul__(self, other: Extent | int) -> Extent | int:
        """Return the product."""
        factor, symbols = _parts(other)
        return _simplest(self.factor * factor, (*self.symbols, *symbols))

    __rmul__ = __mul__

    def _other(self, other: object = None) -> Extent:
        return Extent.unknown(self, other)

    __add__ = __radd__ = __sub__ = __rsub__ = __mod__ = __rmod__ = __rfloordiv__ = __neg__ = _other

    def __floordiv__(self, other: Extent | int) -> Extent | int:
        """Return the exact quotient, or an unknown where it does not divide."""
        quotient = divide(self, other)
        return Extent.unknown(self, other) if quotient is None else quotient


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


def derived_symbols(size: object) -> frozenset[str]:
    """Return the symbols in ``size`` for numbers made from the number of examples, which are no multiples of it."""
    symbols = size.symbols if isinstance(size, Extent) else ()
    return frozenset(symbol for symbol in symbols if symbol.startswith(_DERIVED))


def depends_on_examples(size: object) -> bool:
    """Return whether ``size`` changes with the number of examples."""
    return mentions_examples(size) or bool(derived_symbols(size))


def product(sizes: object) -> Size:
    """Return the product of an iterable of sizes."""
    result: Size = 1
    for size in sizes:
        result = result * size
    return result
