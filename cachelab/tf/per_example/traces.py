"""Traces of the user's functions, found again as long as the function is the same object and closes over the same."""

from __future__ import annotations

from collections import OrderedDict
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, cast

from tensorflow.python import pywrap_tfe
from tensorflow.python.autograph.core import ag_ctx as control_status
from tensorflow.python.autograph.impl import api as autograph

from cachelab.tf.per_example.closures import outside

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_KEPT: Final = 64


class Traces:
    """Values by key, the least recently used one goes first; a key's function is kept alive with its value.

    What the function closes over is part of the key: a trace has the numbers built in that it found there.
    """

    def __init__(self) -> None:
        self._found: OrderedDict[Any, tuple[Any, Any]] = OrderedDict()

    def get(self, function: Any, rest: tuple[Any, ...], make: Callable[[], Any]) -> Any:
        """Return the value for ``function`` and the hashable ``rest``, made now or found again."""
        kept: list[Any] = [function]
        around = outside(function, kept)
        try:
            hash(function)
            key = (function, rest, around)
        except TypeError:
            key = (id(function), rest, around)
        if key not in self._found:
            self._found[key] = (kept, make())
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
