"""Traces of the user's functions, found again as long as the function is the same object."""

from __future__ import annotations

from collections import OrderedDict
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, cast

from tensorflow.python import pywrap_tfe
from tensorflow.python.autograph.core import ag_ctx as control_status
from tensorflow.python.autograph.impl import api as autograph

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_KEPT: Final = 64


class Traces:
    """Values by key, the least recently used one goes first; a key's function is kept alive with its value."""

    def __init__(self) -> None:
        self._found: OrderedDict[Any, tuple[Any, Any]] = OrderedDict()

    def get(self, function: Any, rest: tuple[Any, ...], make: Callable[[], Any]) -> Any:
        """Return the value for ``function`` and the hashable ``rest``, made now or found again."""
        try:
            hash(function)
            key = (function, rest)
        except TypeError:
            key = (id(function), rest)
        if key not in self._found:
            self._found[key] = (function, make())
            while len(self._found) > _KEPT:
                self._found.popitem(last=False)
        self._found.move_to_end(key)
        return self._found[key][1]


@contextmanager
def recording() -> Iterator[None]:
    """Let tapes record, also where the caller stopped them: a tape in a trace would find no gradients at all."""
    stopped = pywrap_tfe.TFE_Py_TapeSetIsStopped()
    if stopped:
        pywrap_tfe.TFE_Py_TapeSetRestartOnThread()
    try:
        yield
    finally:
        if stopped:
            pywrap_tfe.TFE_Py_TapeSetStopOnThread()


def converted(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the user's function as AutoGraph makes it.

    Ours are not: tracing them with it takes several times as long.
    """
    status = control_status.ControlStatusCtx(status=control_status.Status.UNSPECIFIED)
    return autograph.tf_convert(function, status)


def flat_call(trace: Any) -> Callable[..., Any]:
    """Return what calls a trace with flat tensors of the right types, as they are.

    TensorFlow's own call binds them to names first, which takes half the time of a call that does little.
    """
    call = getattr(trace, "_call_flat", None)
    if call is None:
        return cast("Callable[..., Any]", trace)
    return lambda *tensors: call(list(tensors), trace.captured_inputs)
