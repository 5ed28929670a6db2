"""``memoize``: reuse the result of a pure function of tensors and variables for as long as both hold the same."""

from __future__ import annotations

import functools
import threading
import time
from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import tensorflow as tf
import xxhash
from tensorflow.python import pywrap_tfe
from tensorflow.python.eager import context, record
from tensorflow.python.eager.polymorphic_function import polymorphic_function

from cachelab.errors import NotApplicableError, OptionError
from cachelab.i18n import translate as _
from cachelab.options import parse_bytes
from cachelab.tf.purity import impurity, variable_dtype

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["CacheInfo", "Memoized", "memoize"]


class CacheInfo(NamedTuple):
    """What a memoized function did so far.

    ``bypassed`` calls were computed as if there were no memo: a gradient tape or a function being traced needed
    them. ``unstored`` results were not kept: too large, or a variable was written while they were computed.
    ``seconds_saved`` is the time that hits would have cost, measured when they were computed, less the time spent
    on looking up (hits and misses); it can be negative.
    """

    hits: int
    misses: int
    bypassed: int
    unstored: int
    entries: int
    bytes: int
    evictions: int
    seconds_saved: float


@dataclass(frozen=True)
class _Entry:
    result: Any
    size: int
    seconds: float


class _Version:
    """The content digest of a variable, computed again only if its buffer is another.

    The tensor that was read is held, so TensorFlow can't change its buffer in place: a write makes a new one. An
    equal address therefore means unchanged content, and costs no pass over it.
    """

    def __init__(self) -> None:
        self._tensor: Any = None
        self._digest = ""

    def digest(self, handle: Any, dtype: Any) -> str:
        """Return the digest of what the variable holds now."""
        tensor = tf.raw_ops.ReadVariableOp(resource=handle, dtype=dtype)
        if self._tensor is None or _address(tensor) is None or _address(tensor) != _address(self._tensor):
            self._digest = _digest(tensor)
        self._tensor = tensor
        return self._digest


class Memoized:
    """A function whose results are reused; made by :func:`memoize`.

    Attributes
    ----------
    function
        The ``tf.function`` that computes.
    """

    def __init__(self, function: Any, budget: int) -> None:
        self.function, self._budget = function, budget
        functools.update_wrapper(self, getattr(function, "python_function", function))
        self._entries: OrderedDict[tuple[Any, ...], _Entry] = OrderedDict()
        self._checked: dict[int, tuple[Any, str]] = {}
        self._versions: dict[int, tuple[Any, _Version]] = {}
        self._lock = threading.RLock()
        self.cache_clear()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Return what the function gives, computed now or earlier from the same inputs and variables."""
        if not tf.executing_eagerly():
            return self._bypass(args, kwargs)
        started = time.perf_counter()
        concrete = self._concrete(args, kwargs)
        reason = self._impurity(concrete)
        if reason:
            raise NotApplicableError(
                _("memoize({name}): its result can't be reused, as {reason}.").format(name=self._name, reason=reason),
                _("Move that part out of the function and memoize the rest."),
            )
        if self._gradient_may_be_needed(concrete, args, kwargs):
            return self._bypass(args, kwargs)
        versions = self._variable_digests(concrete)
        key = (id(concrete), *self._configuration(), *_inputs(args, kwargs), *versions)
        with self._lock:
            entry = self._entries.get(key)
            if entry is not None:
                self._entries.move_to_end(key)
                self._hits += 1
                self._saved += entry.seconds - (time.perf_counter() - started)
                return tf.nest.map_structure(lambda leaf: leaf, entry.result)
        self._saved -= time.perf_counter() - started
        started = time.perf_counter()
        result = self.function(*args, **kwargs)
        seconds = time.perf_counter() - started
        self._keep(key, result, seconds, unchanged=versions == self._variable_digests(concrete))
        return tf.nest.map_structure(lambda leaf: leaf, result)

    def reason(self, *args: Any, **kwargs: Any) -> str:
        """Return why a call with these arguments can't be reused, ``""`` if it can. Traces, but does not compute."""
        return self._impurity(self._concrete(args, kwargs))

    def cache_info(self) -> CacheInfo:
        """Return counts, bytes held and seconds saved."""
        with self._lock:
            return CacheInfo(
                self._hits,
                self._misses,
                self._bypassed,
                self._unstored,
                len(self._entries),
                self._bytes,
                self._evictions,
                self._saved,
            )

    def cache_clear(self) -> None:
        """Forget all results and counts."""
        with self._lock:
            self._entries.clear()
            self._versions.clear()
            self._hits = self._misses = self._bypassed = self._unstored = self._bytes = self._evictions = 0
            self._saved = 0.0

    @property
    def _name(self) -> str:
        return getattr(self, "__name__", type(self.function).__name__)

    def _bypass(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        with self._lock:
            self._bypassed += 1
        return self.function(*args, **kwargs)

    def _concrete(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return self.function.get_concrete_function(*args, **kwargs)

    def _impurity(self, concrete: Any) -> str:
        with self._lock:
            found = self._checked.get(id(concrete))
            if found is None:
                # The concrete function is kept with its verdict, so that its id is not given to another.
                found = self._checked[id(concrete)] = (concrete, impurity(concrete))
            return found[1]

    def _configuration(self) -> tuple[Any, ...]:
        """Return what else a value can depend on: device and how the function is compiled and optimised."""
        return (
            context.context().device_name,
            bool(getattr(self.function, "_jit_compile", False)),
            tf.config.optimizer.get_jit(),
            tuple(sorted(tf.config.optimizer.get_experimental_options().items())),
            tf.config.experimental.tensor_float_32_execution_enabled(),
        )

    def _gradient_may_be_needed(self, concrete: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        if not record.could_possibly_record():
            return False
        if any(variable.trainable for variable in concrete.graph.variables):
            return True
        tensors = [leaf for leaf in _leaves(args, kwargs) if tf.is_tensor(leaf)] + list(concrete.captured_inputs)
        return bool(pywrap_tfe.TFE_Py_TapeSetPossibleGradientTypes(tensors))

    def _variable_digests(self, concrete: Any) -> list[str]:
        digests = []
        with self._lock:
            for handle in concrete.captured_inputs:
                dtype = variable_dtype(handle) if handle.dtype == tf.resource else None
                if dtype is None:
                    continue
                _kept, version = self._versions.setdefault(id(handle), (handle, _Version()))
                digests.append(version.digest(handle, dtype))
        return digests

    def _keep(self, key: tuple[Any, ...], result: Any, seconds: float, *, unchanged: bool) -> None:
        leaves = tf.nest.flatten(result, expand_composites=True)
        plain = all(tf.is_tensor(leaf) and leaf.dtype not in {tf.resource, tf.variant} for leaf in leaves)
        size = sum(_size(leaf) for leaf in leaves) if plain else 0
        with self._lock:
            self._misses += 1
            if not unchanged or not plain or size > self._budget:
                self._unstored += 1
                return
            if key in self._entries:  # another thread computed the same
                return
            self._entries[key] = _Entry(result, size, seconds)
            self._bytes += size
            while self._bytes > self._budget:
                _key, oldest = self._entries.popitem(last=False)
                self._bytes -= oldest.size
                self._evictions += 1


def memoize(fn: Callable[..., Any] | None = None, *, memory_budget: int | str = "256MB") -> Any:
    """Reuse the results of a pure function of tensors and variables.

    A call is served from the memo only if the content of every tensor and array passed, every Python value passed
    and the content of every variable that the function reads are those of an earlier call, on the same device and
    compiled in the same way. Functions with effects, stateful random ops or opaque code are refused with the reason.
    Under a gradient tape that needs the result, and inside another function being traced, the call is computed.

    Parameters
    ----------
    fn
        A ``tf.function`` or a Python function, which then runs as ``tf.function(fn)`` does: Python values that it
        reads from outside are frozen at the first trace.
    memory_budget
        Bytes of results to hold, such as ``"256MB"``; the least recently used go first. A variable's present
        content is held too, shared with the variable until that is written.

    Returns
    -------
    Memoized
        Call it as ``fn``; it has ``cache_info()``, ``cache_clear()`` and ``reason(*args)``.

    Raises
    ------
    NotApplicableError
        On a call, if the result can't be reused truthfully.

    Notes
    -----
    The key holds 128-bit xxh3 digests of contents. If a variable is written by another thread while the function
    runs, the result is returned, but not kept.

    Examples
    --------
    >>> import tensorflow as tf, cachelab
    >>> weights = tf.Variable(tf.ones([2, 2]))
    >>> @cachelab.memoize
    ... @tf.function
    ... def encode(x):
    ...     return tf.linalg.matmul(x, weights)
    >>> _ = encode(tf.ones([1, 2])), encode(tf.ones([1, 2]))
    >>> encode.cache_info().hits
    1
    """
    if fn is None:
        return functools.partial(memoize, memory_budget=memory_budget)
    if not isinstance(fn, polymorphic_function.Function):
        if not callable(fn):
            raise OptionError(
                _("memoize({fn!r}): this is no function.").format(fn=fn), _("Pass a tf.function or a Python function.")
            )
        fn = tf.function(fn)
    return Memoized(fn, parse_bytes(memory_budget))


def _leaves(args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
    return tf.nest.flatten((args, kwargs), expand_composites=True)


def _inputs(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Iterator[Any]:
    """Yield what identifies each argument. Other objects are told apart by the trace of ``tf.function`` itself."""
    for leaf in _leaves(args, kwargs):
        if isinstance(leaf, tf.Variable):
            yield _digest(leaf.read_value())
        elif tf.is_tensor(leaf) or isinstance(leaf, np.ndarray | np.generic):
            yield _digest(leaf)
        elif leaf is None or isinstance(leaf, bool | int | float | complex | str | bytes):
            yield type(leaf).__name__, repr(leaf)


def _digest(value: Any) -> str:
    """Return a digest of dtype, shape and content."""
    array = np.ascontiguousarray(_view(value))
    shape = tuple(value.shape)
    state = xxhash.xxh3_128(f"{array.dtype.str}{array.dtype.name}{shape}".encode())
    if array.dtype.hasobject or array.dtype.kind in "SU":
        for item in array.ravel().tolist():
            data = item if isinstance(item, bytes) else str(item).encode()
            state.update(f"{len(data)}:".encode())
            state.update(data)
    elif array.size:
        state.update(array.reshape(-1).view(np.uint8))
    return state.hexdigest()


def _view(value: Any) -> np.ndarray[Any, Any]:
    """Return the content as numpy, without a copy where TensorFlow allows it."""
    if isinstance(value, np.ndarray | np.generic):
        return np.asarray(value)
    try:
        return np.asarray(memoryview(value))
    except (TypeError, BufferError, ValueError):
        return value.numpy() if isinstance(value.numpy(), np.ndarray) else np.asarray(value.numpy())


def _address(tensor: Any) -> int | None:
    """Return where the content of an eager tensor lies, ``None`` if that can't be told."""
    try:
        view = np.asarray(memoryview(tensor))
    except (TypeError, BufferError, ValueError):
        return None
    return view.ctypes.data if view.size else None


def _size(tensor: Any) -> int:
    if tensor.dtype == tf.string:
        return sum(len(item) for item in np.asarray(tensor.numpy()).ravel().tolist())
    return int(np.prod(tensor.shape)) * tensor.dtype.size
