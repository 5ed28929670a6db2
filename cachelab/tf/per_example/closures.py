"""What a function would read from Python when it is traced: the values that a trace of it has built in."""

from __future__ import annotations

import dis
import functools
from enum import Enum
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any, Final, NamedTuple

import numpy as np

_PLAIN: Final = frozenset({int, bool, str, bytes, type(None), type(Ellipsis)})
_FEW: Final = 64
"""Longer containers and arrays count by their identity: reading them would cost more than the call."""
_DEPTH: Final = 4
_MOST: Final = 256
"""So many values are read at most, and to that depth."""
_LIBRARIES: Final = frozenset({"tensorflow", "keras", "tf_keras", "numpy", "cachelab", "builtins"})
"""Packages whose functions are not looked into."""
_MUTATING: Final = frozenset({"append", "extend", "insert", "pop", "clear", "update", "setdefault", "remove", "fill"})
_MISSING: Final = object()


class _Reads(NamedTuple):
    """What a function's code reads: globals, cells and attributes by name, less those that it writes itself."""

    names: tuple[str, ...]
    cells: frozenset[str]
    attributes: frozenset[str]
    mutates: bool
    """Whether it changes containers: one that counts the traces, say, is then no reason for another trace."""


_NOTHING: Final = _Reads((), frozenset(), frozenset(), mutates=False)


def outside(function: Any, kept: list[Any]) -> tuple[Any, ...]:
    """Return what identifies the Python values that ``function`` closes over, hashable; it takes microseconds.

    Plain values count by value (in short lists, dicts and arrays too, and as attributes that the code names), layers
    of Keras by their ``trainable`` flags and everything else by identity: such objects are added to ``kept``, which
    must live as long as the result, as an identity may be used again.
    """
    reader = _Reader(kept)
    reader.read(function, _NOTHING, 0)
    return tuple(reader.found)


class _Reader:
    def __init__(self, kept: list[Any]) -> None:
        self.found: list[Any] = []
        self.kept = kept
        self.seen: set[int] = set()

    def read(self, value: Any, code: _Reads, depth: int) -> None:
        """Add what identifies ``value``, which the function with ``code`` has."""
        kind = type(value)
        if kind in _PLAIN:
            self.found.append((kind, value))
        elif kind is float or kind is complex or isinstance(value, (np.generic, Enum)):
            self.found.append((kind, repr(value)))  # NaN equals itself so, and -0.0 is not 0.0
        elif id(value) in self.seen or depth > _DEPTH or len(self.found) > _MOST:
            self._identity(value)
        elif kind is FunctionType:
            self._function(value, depth)
        elif kind is MethodType:
            self._function(value.__func__, depth)
            self.read(value.__self__, _reads(value.__func__.__code__), depth + 1)
        elif kind is functools.partial:
            for part in (value.func, value.args, value.keywords):
                self.read(part, code, depth + 1)
        elif kind is tuple or (kind in {list, dict} and len(value) <= _FEW and not code.mutates):
            self._container(value, code, depth)
        elif kind is np.ndarray and value.size <= _FEW and value.dtype.kind in "biufc" and not code.mutates:
            self.found.append((value.dtype.str, value.shape, value.tobytes()))
        else:
            self._object(value, code, depth)

    def _identity(self, value: Any) -> None:
        self.found.append(id(value))
        self.kept.append(value)
        self.seen.add(id(value))

    def _function(self, function: FunctionType, depth: int) -> None:
        self._identity(function)
        values = function.__globals__
        if _is_library(values.get("__name__", "")):
            return
        code = _reads(function.__code__)
        for name in code.names:
            value = values.get(name, _MISSING)
            if value is not _MISSING:
                self.read(value, code, depth + 1)
        if function.__closure__:
            for name, cell in zip(function.__code__.co_freevars, function.__closure__, strict=True):
                if name not in code.cells:
                    continue
                try:
                    value = cell.cell_contents
                except ValueError:  # not assigned yet
                    continue
                self.read(value, code, depth + 1)
        for value in (function.__defaults__, function.__kwdefaults__):
            if value:
                self.read(value, code, depth + 1)

    def _container(self, value: Any, code: _Reads, depth: int) -> None:
        self.seen.add(id(value))
        self.found.append((type(value), len(value)))
        parts = (part for pair in value.items() for part in pair) if type(value) is dict else value
        for part in parts:
            self.read(part, code, depth + 1)

    def _object(self, value: Any, code: _Reads, depth: int) -> None:
        """Add the identity of an object, the flags of a layer, and the attributes that the code names."""
        self._identity(value)
        kind = type(value)
        own = getattr(value, "__dict__", None)
        if hasattr(kind, "_flatten_layers"):
            self.found.append(_flags(value))
        if not own:
            return
        if isinstance(value, ModuleType):
            if not _is_library(value.__name__):
                self._attributes(own, code, depth)
            return
        self._attributes(own, code, depth)
        # It may be called, or be asked for something by a method, and then reads more of itself.
        for method in _methods(kind, code.attributes):
            self._method(own, method, kind, depth)

    def _attributes(self, own: dict[str, Any], code: _Reads, depth: int) -> None:
        for name in code.attributes:
            part = own.get(name, _MISSING)
            if part is not _MISSING:
                self.read(part, code, depth + 1)

    def _method(self, own: dict[str, Any], method: FunctionType, kind: type, depth: int) -> None:
        if id(method) in self.seen or depth > _DEPTH:
            return
        self._function(method, depth + 1)
        code = _reads(method.__code__)
        self._attributes(own, code, depth + 1)
        for other in _methods(kind, code.attributes):
            self._method(own, other, kind, depth + 1)


@functools.lru_cache(maxsize=256)
def _methods(kind: type, names: frozenset[str]) -> tuple[FunctionType, ...]:
    """Return the methods of a user's class that its being called runs, and those with these names."""
    if _is_library(kind.__module__):
        return ()
    found = (getattr(kind, name, None) for name in sorted({*names, "__call__", "call"}))
    return tuple(method for method in found if type(method) is FunctionType and not _is_library(method.__module__))


def _is_library(module: str) -> bool:
    return module.partition(".")[0] in _LIBRARIES


def _flags(layer: Any) -> tuple[Any, ...]:
    """Return the ``trainable`` flags of a layer and of all layers in it."""
    if not hasattr(layer, "_layers"):
        return tuple(inner.trainable for inner in layer._flatten_layers())
    flags, pending, seen = [], [layer], {id(layer)}
    while pending:
        inner = pending.pop()
        flags.append(inner.__dict__.get("_trainable", True))
        for part in getattr(inner, "_layers", ()):
            if id(part) not in seen:
                seen.add(id(part))
                pending.append(part)
    return tuple(flags)


@functools.lru_cache(maxsize=256)
def _reads(code: CodeType) -> _Reads:
    """Return what code reads, the functions within it included."""
    read: dict[str, dict[str, None]] = {"GLOBAL": {}, "ATTR": {}}
    written: dict[str, set[str]] = {"GLOBAL": set(), "ATTR": set(), "DEREF": set()}
    mutates = False
    pending = [code]
    while pending:
        body = pending.pop()
        pending.extend(constant for constant in body.co_consts if isinstance(constant, CodeType))
        for step in dis.get_instructions(body):
            action, _, where = step.opname.partition("_")
            where = {"NAME": "GLOBAL", "METHOD": "ATTR"}.get(where, where)
            if action == "LOAD" and where in read:
                read[where][step.argval] = None
            elif action == "STORE" and where in written:
                written[where].add(step.argval)
            mutates = mutates or step.opname == "STORE_SUBSCR"
    attributes = frozenset(read["ATTR"])
    return _Reads(
        tuple(name for name in read["GLOBAL"] if name not in written["GLOBAL"]),
        frozenset(code.co_freevars) - written["DEREF"],
        attributes - written["ATTR"],
        mutates or not attributes.isdisjoint(_MUTATING),
    )
