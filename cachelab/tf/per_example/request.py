"""What a caller asked for, in one value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from cachelab.errors import OptionError
from cachelab.i18n import translate as _


@dataclass(frozen=True)
class Request:
    """The task and the options of :func:`cachelab.tf.per_example.per_example_gradients` and its siblings."""

    task: str
    method: str = "auto"
    jit: bool | str = "auto"
    chunk_size: int | str | None = None
    memory_budget: int = 1 << 30
    max_norm: Any = None

    def __post_init__(self) -> None:
        """Refuse chunk sizes and limits that mean nothing."""
        size = self.chunk_size
        if not (size is None or size == "auto" or (isinstance(size, int) and size > 0)):
            raise OptionError(
                _("There is no chunk size {size!r}.").format(size=size), _("Give a positive number, `auto` or None.")
            )
        if self.task == "clipped":
            check_limit(self.max_norm)


def check_limit(max_norm: Any) -> None:
    """Refuse a norm to clip to that is no number, negative or NaN, as far as it is known before the run."""
    kind = type(max_norm)
    if not (kind is float or kind is int):  # the usual case costs nothing
        max_norm = _known(max_norm)
        if max_norm is None:
            return
    if not max_norm >= 0:
        raise OptionError(
            _("Gradients can't be clipped to a norm of {max_norm}.").format(max_norm=max_norm),
            _("Give a number that is not negative; `float('inf')` clips nothing."),
        )


def _known(max_norm: Any) -> float | None:
    """Return the value of a scalar of some kind, ``None`` for a tensor whose value only the run knows."""
    import tensorflow as tf
    from tensorflow.python.framework import tensor_util

    value = max_norm
    if tf.is_tensor(max_norm):
        if max_norm.shape.rank in {0, None} and not tf.executing_eagerly():
            if not tf.is_symbolic_tensor(max_norm):
                return None  # a variable, which is read in the run
            value = tensor_util.constant_value(max_norm)
            if value is None:
                return None
        elif max_norm.shape.rank:
            value = None
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError) as error:
        raise OptionError(
            _("`max_norm` is no number: {max_norm!r}.").format(max_norm=max_norm),
            _("Give a number or a scalar tensor that is not negative."),
        ) from error
