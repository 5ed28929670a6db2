"""Hooks on TensorFlow's session, in place only while a recording is open.

The lowest level that all ways of running a graph share is hooked (``BaseSession._call_tf_sessionrun`` and its
sisters), so that ``Session.run``, ``Tensor.eval``, ``Operation.run`` and callables made earlier are all seen.
If TensorFlow has not been imported yet, the hooks follow as soon as it is.
"""

from __future__ import annotations

import functools
import importlib.abc
import importlib.util
import sys
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PACKAGE = "tensorflow"
SESSION_MODULE = "tensorflow.python.client.session"


class Observer(Protocol):
    """What a recorder offers to the hooks. ``proceed`` runs the original and returns or raises what it does."""

    def on_run(self, session: Any, arguments: tuple[Any, ...], proceed: Callable[..., Any]) -> Any:
        """Observe ``_call_tf_sessionrun(options, feeds, fetches, targets, metadata)``."""

    def on_setup(self, session: Any, arguments: tuple[Any, ...], proceed: Callable[..., Any]) -> Any:
        """Observe the set-up of a partial run (feeds, fetches, targets); the result is the handle."""

    def on_partial(self, session: Any, arguments: tuple[Any, ...], proceed: Callable[..., Any]) -> Any:
        """Observe ``_call_tf_sessionprun(handle, feeds, fetches)``."""

    def on_callable(self, made: Any, arguments: tuple[Any, ...], proceed: Callable[..., Any]) -> Any:
        """Observe a call of a ``_Callable``."""

    def on_served(self, session: Any, values: dict[str, Any]) -> None:
        """Note a call all of whose fetches (name -> value) a live session served: nothing ran."""

    def on_made(self, made: Any, session: Any, options: Any) -> None:
        """Note a ``_Callable`` that was made."""

    def on_born(self, session: Any) -> None:
        """Note a session that was made."""

    def on_ready(self) -> None:
        """Note that TensorFlow is there, which it may not have been when the recording began."""

    def on_close(self, session: Any) -> None:
        """Note a session that is about to close."""


_lock = threading.RLock()
_observers: list[Observer] = []
_saved: list[tuple[Any, str, Any]] = []
_local = threading.local()


@contextmanager
def unobserved() -> Iterator[None]:
    """Run session calls of CacheLab's own, which no recording sees."""
    before = getattr(_local, "quiet", False)
    _local.quiet = True
    try:
        yield
    finally:
        _local.quiet = before


class Serving(NamedTuple):
    """What a live session makes of the call under way: tensors that it serves, and what its user fetches, by name."""

    serve: frozenset[str]
    fetches: tuple[str, ...]


@contextmanager
def serving(note: Serving | None) -> Iterator[None]:
    """Tell recordings, for the one run in this block, what of it a live session serves."""
    before = serving_now()
    _local.serving = note
    try:
        yield
    finally:
        _local.serving = before


def serving_now() -> Serving | None:
    """Return what a live session serves of the run under way in this thread, ``None`` if it serves nothing."""
    return getattr(_local, "serving", None)


def served_whole(session: Any, values: dict[str, Any]) -> None:
    """Tell recordings of a call that a live session served without running anything."""
    _notify("on_served", session, values)


def give_back(buffer: Any, content: bytes) -> None:
    """Have TensorFlow's Python code read ``content`` from ``buffer``, once, in this thread."""
    _local.given = (buffer, content)


def add(observer: Observer) -> None:
    """Start to observe; the first observer installs the hooks."""
    with _lock:
        _observers.append(observer)
        if len(_observers) == 1:
            if SESSION_MODULE in sys.modules:
                _install()
            else:
                sys.meta_path.insert(0, _finder)
    if SESSION_MODULE in sys.modules:
        observer.on_ready()


def remove(observer: Observer) -> None:
    """Stop to observe; the last observer takes the hooks away."""
    with _lock:
        if observer not in _observers:
            return
        _observers.remove(observer)
        if not _observers:
            if _finder in sys.meta_path:
                sys.meta_path.remove(_finder)
            while _saved:
                owner, name, original = _saved.pop()
                setattr(owner, name, original)


def installed() -> bool:
    """Tell whether TensorFlow is hooked right now."""
    return bool(_saved)


def _observe(method: str, subject: Any, arguments: tuple[Any, ...], original: Callable[..., Any]) -> Any:
    """Pass a call through all observers, the latest outermost, down to the original."""
    if getattr(_local, "quiet", False):
        return original(*arguments)
    proceed = original
    for observer in _observers:
        proceed = functools.partial(_one, observer, method, subject, proceed)
    return proceed(*arguments)


def _one(observer: Observer, method: str, subject: Any, proceed: Callable[..., Any], *arguments: Any) -> Any:
    return getattr(observer, method)(subject, arguments, proceed)


def _notify(method: str, *arguments: Any) -> None:
    if not getattr(_local, "quiet", False):
        for observer in _observers:
            getattr(observer, method)(*arguments)


def _install() -> None:  # noqa: C901, PLR0915  one small wrapper a hook, kept together
    """Replace the methods; the order of arguments is TensorFlow's own."""
    module = sys.modules[SESSION_MODULE]
    base = module.BaseSession
    runtime = module.tf_session

    def wrap(owner: Any, name: str, make: Callable[[Any], Any]) -> None:
        original = getattr(owner, name)
        replacement = functools.wraps(original)(make(original)) if callable(original) else make(original)
        _saved.append((owner, name, original))
        setattr(owner, name, replacement)

    def run(original: Any) -> Any:
        def _call_tf_sessionrun(self: Any, *arguments: Any) -> Any:
            return _observe("on_run", self, arguments, functools.partial(original, self))

        return _call_tf_sessionrun

    def partial(original: Any) -> Any:
        def _call_tf_sessionprun(self: Any, *arguments: Any) -> Any:
            return _observe("on_partial", self, arguments, functools.partial(original, self))

        return _call_tf_sessionprun

    def calling(original: Any) -> Any:
        # partial_run_setup itself stays as it is: its deprecation warning names the line of its caller.
        def _do_call(self: Any, *arguments: Any) -> Any:
            before = getattr(_local, "session", None)
            _local.session = self
            try:
                return original(self, *arguments)
            finally:
                _local.session = before

        return _do_call

    def lower_setup(original: Any) -> Any:
        def setup_wrapper(handle: Any, *arguments: Any) -> Any:
            session = getattr(_local, "session", None)
            if session is None:
                return original(handle, *arguments)
            return _observe("on_setup", session, arguments, functools.partial(original, handle))

        return setup_wrapper

    def called(original: Any) -> Any:
        def __call__(self: Any, *arguments: Any, **options: Any) -> Any:  # noqa: N807
            return _observe("on_callable", self, arguments, functools.partial(original, self, **options))

        return __call__

    def made(original: Any) -> Any:
        def __init__(self: Any, session: Any, options: Any) -> None:  # noqa: N807
            original(self, session, options)
            _notify("on_made", self, session, options)

        return __init__

    def born(original: Any) -> Any:
        def __init__(self: Any, *arguments: Any, **options: Any) -> None:  # noqa: N807
            original(self, *arguments, **options)
            _notify("on_born", self)

        return __init__

    def close(original: Any) -> Any:
        def close(self: Any) -> Any:
            if not getattr(self, "_closed", True):
                _notify("on_close", self)
            return original(self)

        return close

    def buffer(original: Any) -> Any:
        def get_buffer(pointer: Any) -> Any:
            given = getattr(_local, "given", None)
            if given is None or given[0] is not pointer:
                return original(pointer)
            _local.given = None
            return given[1]

        return get_buffer

    wrap(base, "_call_tf_sessionrun", run)
    wrap(base, "_call_tf_sessionprun", partial)
    wrap(base, "_do_call", calling)
    wrap(base, "__init__", born)
    wrap(base, "close", close)
    wrap(base._Callable, "__call__", called)
    wrap(base._Callable, "__init__", made)
    wrap(runtime, "TF_SessionPRunSetup_wrapper", lower_setup)
    wrap(runtime, "TF_GetBuffer", buffer)


class _Finder(importlib.abc.MetaPathFinder):
    """Waits for TensorFlow: hooks its session module, and tells the observers when all of it is there."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:  # noqa: ARG002  the interface's own
        if name not in {SESSION_MODULE, PACKAGE}:
            return None
        sys.meta_path.remove(self)
        try:
            spec = importlib.util.find_spec(name)
        finally:
            sys.meta_path.insert(0, self)
        if spec is None or spec.loader is None:
            return None
        spec.loader = _Loader(spec.loader, name)
        return spec


class _Loader(importlib.abc.Loader):
    """Loads a module as its own loader does, then does what waited for it."""

    def __init__(self, loader: Any, name: str) -> None:
        self._loader = loader
        self._name = name

    def create_module(self, spec: Any) -> Any:
        return self._loader.create_module(spec)

    def exec_module(self, module: Any) -> None:
        module.__spec__.loader = module.__loader__ = self._loader
        self._loader.exec_module(module)
        with _lock:
            if self._name == SESSION_MODULE:
                if _observers and not _saved:
                    _install()
                return
            if _finder in sys.meta_path:
                sys.meta_path.remove(_finder)
        _notify("on_ready")


_finder = _Finder()
