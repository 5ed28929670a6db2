"""What made a ``tf.function`` trace again: from its signatures, or while it happens, with the time each trace cost."""

from __future__ import annotations

import linecache
import threading
import time
import weakref
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from tensorflow.python.eager.polymorphic_function import function_context, polymorphic_function, tracing_compilation

from cachelab.errors import NotApplicableError
from cachelab.i18n import translate as _
from cachelab.model import Finding, Line
from cachelab.tf.lines import is_user_file, shown_file
from cachelab.tf.retrace_types import Change, changes, signature
from cachelab.tf.tap_where import frames, function_name

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = ["Change", "RetraceReport", "RetraceWatch", "Trace", "explain_retrace", "watch_retraces"]


@dataclass(frozen=True)
class Trace:
    """One trace of a ``tf.function``.

    Attributes
    ----------
    function
        The name of the function.
    number
        Which of its traces this is, from 1.
    signature
        What it was traced for.
    changes
        What made it trace again, against the most similar earlier trace; empty for the first trace.
    seconds
        Wall time of the trace, functions traced inside it included; ``None`` if nobody watched.
    line
        The line of user code whose call traced, if watched.
    """

    function: str
    number: int
    signature: str
    changes: tuple[Change, ...]
    seconds: float | None = None
    line: Line | None = None

    @property
    def again(self) -> bool:
        """Whether this is a trace that another one made necessary."""
        return bool(self.changes)

    @property
    def text(self) -> str:
        """One or two sentences: what happened, why, what it cost, and the fix."""
        took = "" if self.seconds is None else _(", {ms:.0f} ms").format(ms=self.seconds * 1e3)
        head = _("`{function}`, trace {number}{took}").format(function=self.function, number=self.number, took=took)
        if not self.changes:
            return f"{head}: " + _("first trace, for ({signature}).").format(signature=self.signature)
        why = "; ".join(change.text for change in self.changes)
        fixes = "; ".join(dict.fromkeys(change.fix for change in self.changes))
        return f"{head}: {why}. " + _("Fix: {fixes}.").format(fixes=fixes)


@dataclass(frozen=True)
class RetraceReport:
    """What :func:`explain_retrace` found: the traces of one function, in order."""

    function: str
    traces: tuple[Trace, ...]

    @property
    def text(self) -> str:
        """The report, a line a trace."""
        again = sum(trace.again for trace in self.traces)
        if not self.traces:
            return _("`{function}` was not traced yet.").format(function=self.function)
        head = _("`{function}` was traced {n} times, {again} of them again.").format(
            function=self.function, n=len(self.traces), again=again
        )
        return "\n".join([head, *(f"  {trace.text}" for trace in self.traces)])

    @property
    def seconds(self) -> float | None:
        """Time of all traces that were timed, ``None`` if none was."""
        known = [trace.seconds for trace in self.traces if trace.seconds is not None]
        return sum(known) if known else None

    def __str__(self) -> str:
        return self.text

    __repr__ = __str__


_seen: weakref.WeakKeyDictionary[Any, tuple[float, Line | None]] = weakref.WeakKeyDictionary()
"""ConcreteFunction -> (seconds, line) of its trace, for those made while a watch was open."""

_lock = threading.RLock()
_watches: list[RetraceWatch] = []


def explain_retrace(fn: Any, *, measure: bool = False) -> RetraceReport:
    """Say which argument made a ``tf.function`` trace again, with the fix and the time that each trace cost.

    Parameters
    ----------
    fn
        The ``tf.function``, or a method made with it.
    measure
        Trace a copy of the function again for signatures whose trace was not watched (see
        :func:`watch_retraces`), to measure the time. Python code in the function runs again.

    Returns
    -------
    RetraceReport
        ``.traces``, ``.text``, ``.seconds``; shows as text.

    Raises
    ------
    NotApplicableError
        ``fn`` is not made with ``tf.function``.

    Notes
    -----
    The signatures are those that TensorFlow keeps; each is compared with the most similar earlier one.

    Examples
    --------
    >>> import tensorflow as tf, cachelab
    >>> @tf.function
    ... def scale(x, n):
    ...     return x * n
    >>> for n in (1, 2):
    ...     _ = scale(tf.ones([3]), n)
    >>> cachelab.explain_retrace(scale).traces[1].changes[0].fix
    'pass a tensor: n=tf.constant(2)'
    """
    if not isinstance(fn, polymorphic_function.Function):
        raise NotApplicableError(
            _("explain_retrace({fn!r}): this is not made with tf.function.").format(fn=fn),
            _("Pass the decorated function; for a Keras model, open a recording or watch_retraces() around its steps."),
        )
    name = function_name(fn)
    earlier: list[tuple[Any, Any]] = []
    traces = []
    for (context, function_type), concrete in list(fn._function_cache._primary.items()):
        seconds, line = _seen.get(concrete, (None, None))
        if seconds is None and measure:
            seconds = _measure(fn, concrete)
        why = _why(earlier, context, function_type, relaxes=bool(fn._reduce_retracing))
        traces.append(Trace(name, len(traces) + 1, signature(function_type), why, seconds, line))
        earlier.append((context, function_type))
    return RetraceReport(name, tuple(traces))


def _measure(fn: Any, concrete: Any) -> float | None:
    """Return how long a copy of ``fn`` takes to trace for the signature of ``concrete``; ``None`` if it can't."""
    args, kwargs = concrete.structured_input_signature
    copy = fn._clone(None)
    started = time.perf_counter()
    try:
        copy.get_concrete_function(*args, **kwargs)
    except Exception:  # noqa: BLE001 - user code, and objects of the signature that are gone
        return None
    return time.perf_counter() - started


def _why(earlier: Sequence[tuple[Any, Any]], context: Any, function_type: Any, *, relaxes: bool) -> tuple[Change, ...]:
    """Return what made a trace necessary, against the most similar of the ``earlier`` (context, type) pairs.

    ``relaxes``: the function has ``reduce_retracing``, so that it was traced for any size.
    """
    if not earlier:
        return ()
    found = [
        [*changes(old_type, function_type), *_context_changes(old_context, context)]
        for old_context, old_type in earlier
    ]
    least = min(reversed(found), key=len)
    if relaxes:
        fix = _("none needed, reduce_retracing is on and this trace serves all sizes")
        least = [replace(change, fix=fix) if change.kind == "shape" else change for change in least]
    return tuple(least)


def _context_changes(old: Any, new: Any) -> Iterator[Change]:
    if old == new:
        return
    if old.scope_type != new.scope_type:
        text = _("the first call made a variable, and TensorFlow then traces a second time without that")
        yield Change("variable", "", "", text, _("make variables before the first call, outside the function"))
    names = {
        "device_functions": _("the device around the call"),
        "parent_graph": _("the graph around the call"),
        "xla_context_id": _("whether XLA compiles the function around the call"),
        "variable_policy": _("the variable policy around the call"),
        "colocation_stack": _("the colocation around the call"),
        "in_cross_replica_context": _("the replica context around the call"),
    }
    for field, name in names.items():
        if getattr(old.context, field, None) != getattr(new.context, field, None):
            text = _("{what} is another one").format(what=name)
            yield Change("context", "", "", text, _("call the function in the same surroundings each time"))


class RetraceWatch:
    """The traces made while it is open, and the findings of those that were not the first.

    Attributes
    ----------
    traces
        Every :class:`Trace`, in the order in which they ended.
    """

    def __init__(self) -> None:
        self.traces: list[Trace] = []
        self._codes: dict[Any, int] = {}

    def open(self) -> RetraceWatch:
        """Begin to watch; :meth:`close` ends it. :func:`watch_retraces` does both."""
        with _lock:
            if self not in _watches:
                _watches.append(self)
            if _original is None:
                _hook()
        return self

    def close(self) -> None:
        """Stop watching; a second time does nothing."""
        with _lock:
            if self in _watches:
                _watches.remove(self)
            if not _watches and _original is not None:
                _unhook()

    @property
    def again(self) -> list[Trace]:
        """The traces that an earlier one made necessary."""
        return [trace for trace in self.traces if trace.again]

    def findings(self, call: int | None = None) -> tuple[Finding, ...]:
        """Return a finding of kind ``retrace`` for each trace that was not the first; ``call`` is where it was."""
        return tuple(Finding("retrace", (trace.function,), call, trace.text) for trace in self.again)

    def take(self, call: int | None = None) -> tuple[Finding, ...]:
        """Return the findings since the last time, and forget the traces: what a recording does after each call."""
        found = self.findings(call)
        self.traces.clear()
        return found

    def _add(self, function: Any, trace: Trace) -> None:
        if trace.number == 1 and function is not None:
            trace = replace(trace, changes=self._made_again(function))
        self.traces.append(trace)

    def _made_again(self, function: Any) -> tuple[Change, ...]:
        """Return a change if user code was wrapped in ``tf.function`` before, which starts without any trace."""
        code = getattr(getattr(function, "python_function", None), "__code__", None)
        if code is None or not is_user_file(code.co_filename):
            return ()
        self._codes[code] = self._codes.get(code, 0) + 1
        if self._codes[code] == 1:
            return ()
        text = _("tf.function was applied to this Python code again ({n} times so far), and starts anew").format(
            n=self._codes[code]
        )
        return (Change("new_function", "", "", text, _("apply tf.function once, outside of the loop or call")),)


@contextmanager
def watch_retraces() -> Iterator[RetraceWatch]:
    """Watch every trace of a ``tf.function`` while the context is open, Keras's own functions included.

    TensorFlow is hooked only while at least one watch is open.

    Examples
    --------
    >>> import tensorflow as tf
    >>> from cachelab.tf.retrace import watch_retraces
    >>> double = tf.function(lambda x: x * 2)
    >>> with watch_retraces() as watch:
    ...     for n in (2, 3):
    ...         _ = double(tf.ones([n]))
    >>> [change.kind for trace in watch.again for change in trace.changes]
    ['shape']
    """
    watch = RetraceWatch().open()
    try:
        yield watch
    finally:
        watch.close()


_original: Any = None


def _hook() -> None:
    global _original  # noqa: PLW0603 - one hook for all watches
    _original = tracing_compilation._create_concrete_function
    tracing_compilation._create_concrete_function = _traced


def _unhook() -> None:
    global _original  # noqa: PLW0603
    tracing_compilation._create_concrete_function = _original
    _original = None


def _traced(function_type: Any, type_context: Any, func_graph: Any, tracing_options: Any) -> Any:
    """Stand in for TensorFlow's own function: time it and tell the watches."""
    create = _original or tracing_compilation._create_concrete_function
    cache = tracing_options.function_cache
    earlier = [] if cache is None else list(cache._primary)
    context = function_context.make_function_context(tracing_options.scope_type)
    function, line = _caller(cache)
    started = time.perf_counter()
    concrete = create(function_type, type_context, func_graph, tracing_options)
    seconds = time.perf_counter() - started
    name = tracing_options.name if function is None else function_name(function)
    why = _why(earlier, context, function_type, relaxes=bool(tracing_options.reduce_retracing))
    trace = Trace(name, len(earlier) + 1, signature(function_type), why, seconds, line)
    with _lock:
        _seen[concrete] = (seconds, line)
        for watch in _watches:
            watch._add(function, trace)
    return concrete


def _caller(cache: Any) -> tuple[Any, Line | None]:
    """Return the ``tf.function`` whose cache this is, and the line of user code that called it."""
    function = None
    for _name, frame in frames(2):
        first = frame.f_code.co_varnames[:1] if frame.f_code.co_argcount else ()
        if function is None and first and "polymorphic_function" in frame.f_code.co_filename:
            owner = frame.f_locals.get(first[0])
            if isinstance(owner, polymorphic_function.Function) and owner._function_cache is cache:
                function = owner
        elif function is not None and is_user_file(frame.f_code.co_filename):
            file, number = frame.f_code.co_filename, frame.f_lineno
            return function, Line(shown_file(file), number, linecache.getline(file, number).strip())
    return function, None
