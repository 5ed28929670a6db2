"""Live modes for the plain sessions of a cell: ``%%cachelab --mode memo`` and ``feed``.

While the cell runs, a plain ``tf.compat.v1.Session`` that makes a call becomes a :class:`cachelab.modes.live.Session`
in place: same object, same graph, same runtime session, no op added. After the cell it is what it was.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import tensorflow as tf
from tensorflow.python.client.session import BaseSession

from cachelab.errors import OptionError
from cachelab.i18n import plural
from cachelab.i18n import translate as _
from cachelab.modes.live import Session, served

if TYPE_CHECKING:
    from collections.abc import Sequence


class _Open(tf.compat.v1.Session):
    """Stands for TensorFlow's session in the line of initialisers: this one is open already."""

    def __init__(self, *_arguments: Any) -> None:
        pass


_inside = threading.local()
"""How deep this thread is in calls that the session keeps book of."""


_adopting = threading.RLock()


def _ready(session: Any) -> Any:
    """Return a session once the thread that adopts it has done so."""
    if "_activation" not in vars(session):
        with _adopting:
            pass
    return session


class Adopted(Session, _Open):
    """A user's own session while it serves kept values."""

    def _do_run(self, handle: Any, *arguments: Any) -> Any:
        _ready(self)
        if handle is not None:
            # The handle may be older than the adoption, and what it still writes, in the background, is not known.
            self.mode = "run"
            self.clear_cache()
        _inside.depth = getattr(_inside, "depth", 0) + 1
        try:
            results = super()._do_run(handle, *arguments)
        finally:
            _inside.depth -= 1
        what = served()
        if what is not None and what.skipped:
            self._activation.skipped += 1
        return results


class Activation:
    """A live mode that is on, for the sessions of all threads, until :meth:`close`.

    Parameters
    ----------
    mode
        ``memo`` or ``feed``.
    memory_budget
        Bytes that each session may hold.
    """

    def __init__(self, mode: str, memory_budget: int | str) -> None:
        self.mode = mode
        self.memory_budget = memory_budget
        self.hits = 0
        self.misses = 0
        self.bytes = 0
        self.skipped = 0
        self.seconds_saved = 0.0
        self._attributes: WeakKeyDictionary[Any, set[str]] = WeakKeyDictionary()
        self._saved: list[tuple[Any, str, Any]] = []
        self._patch(BaseSession, "_do_run", self._do_run)
        # Callables made before the adoption go past it, by one of these two ways.
        self._patch(BaseSession, "_call_tf_sessionrun", self._call_tf_sessionrun)
        self._patch(BaseSession._Callable, "__call__", self._call)

    def close(self) -> None:
        """Make every session what it was, and drop what they kept."""
        for owner, name, original in reversed(self._saved):
            setattr(owner, name, original)
        self._saved.clear()
        for session, before in list(self._attributes.items()):
            info = session.cache_info()
            self.hits += info.hits
            self.misses += info.misses
            self.bytes += info.bytes
            self.seconds_saved += info.seconds_saved
            session.clear_cache()
            session.__class__ = tf.compat.v1.Session
            for name in set(vars(session)) - before:
                delattr(session, name)
        self._attributes.clear()

    def __str__(self) -> str:
        """Return what was served, as a sentence."""
        tensors = plural("{n} tensor was served", "{n} tensors were served", self.hits)
        text = _("mode {mode}: {tensors} from kept values, {seconds:.3g} s of op time saved (estimated)").format(
            mode=self.mode, tensors=tensors, seconds=self.seconds_saved
        )
        if self.skipped:
            whole = plural(
                "{n} call was served whole: it ran nothing",
                "{n} calls were served whole: they ran nothing",
                self.skipped,
            )
            text = f"{text}; {whole}"
        return text

    def _patch(self, owner: Any, name: str, replacement: Any) -> None:
        original = getattr(owner, name)
        self._saved.append((owner, name, original))
        setattr(owner, name, replacement(original))

    def _do_run(self, original: Any) -> Any:
        def _do_run(session: Any, *arguments: Any) -> Any:
            if type(session) is tf.compat.v1.Session and arguments[0] is None:
                self._adopt(session)
                return session._do_run(*arguments)
            return original(session, *arguments)

        return _do_run

    @staticmethod
    def _call_tf_sessionrun(original: Any) -> Any:
        def _call_tf_sessionrun(session: Any, *arguments: Any) -> Any:
            if not isinstance(session, Adopted) or getattr(_inside, "depth", 0):
                return original(session, *arguments)
            with _ready(session)._versions.writing_anything():  # nothing is known of what it writes
                return original(session, *arguments)

        return _call_tf_sessionrun

    @staticmethod
    def _call(original: Any) -> Any:
        def __call__(made: Any, *arguments: Any, **options: Any) -> Any:  # noqa: N807
            if not isinstance(made._session, Adopted):
                return original(made, *arguments, **options)
            with _ready(made._session)._versions.writing_anything():
                return original(made, *arguments, **options)

        return __call__

    def _adopt(self, session: Any) -> None:
        with _adopting:
            if type(session) is not tf.compat.v1.Session:
                return
            before = set(vars(session))
            session.__class__ = Adopted
            Adopted.__init__(session, mode=self.mode, memory_budget=self.memory_budget)
            self._attributes[session] = before
            session._activation = self


def activate(mode: str, cuts: Sequence[str] = (), memory_budget: int | str = "1GB") -> Activation:
    """Switch a live mode on for the plain sessions of this process; ``close()`` switches it off.

    Raises
    ------
    OptionError
        Cuts were asked for: a live mode chooses by itself what to keep.
    """
    if cuts:
        raise OptionError(
            _("Mode {mode} was asked to keep {cuts}; live, it chooses by itself.").format(
                mode=mode, cuts=", ".join(cuts)
            ),
            _("Leave --cut out, or use it with a mode that is replayed, such as variable."),
        )
    return Activation(mode, memory_budget)
