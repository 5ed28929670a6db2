"""The traps of the hand-made ways to get a tensor out of a loss, caught with errors that say what to do."""

from __future__ import annotations

import re
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
import tensorflow as tf

from cachelab.errors import NotApplicableError
from cachelab.i18n import translate as _

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cachelab.tf.taps import Reading

_SHAPES = re.compile(r"variable shape (\([^)]*\)).*?assigned value shape (\([^)]*\))", re.DOTALL)
_XLA_SHAPES = re.compile(
    r"cannot be changed after initialization: old shape was (\[[^\]]*\]), new shape is (\[[^\]]*\])"
)
_UNTRACKED = "references an 'untracked' resource"
_ANONYMOUS = 'container="Anonymous"'
_SINGLETON = "only supports singleton tf.Variables"
_OUT_OF_SCOPE = ("out of scope", "inaccessible", "is a symbolic")


def refuse_inside_function() -> None:
    """Raise if a tap is being made inside a function that is being traced."""
    with tf.init_scope():
        eager_outside = tf.executing_eagerly()
    if eager_outside and not tf.executing_eagerly():
        raise NotApplicableError(
            _("A Tap was made inside a function that TensorFlow is tracing, such as a loss."),
            _("Make it outside, tap = cachelab.Tap(), and use it inside: each trace would make a new one."),
        )


def refuse_symbolic(name: str, value: Any) -> None:
    """Raise if ``value`` holds tensors of a Keras functional model that is being built, which have no value."""
    for leaf in tf.nest.flatten(value):
        if type(leaf).__name__ == "KerasTensor":
            raise NotApplicableError(
                _(
                    "Tap {name!r} got a KerasTensor: a place in a functional model that is being built, not a value."
                ).format(name=name),
                _("Use the tap in the call method of a layer, keras.layers.Lambda(lambda t: tap({name!r}, t)).").format(
                    name=name
                ),
            )


@contextmanager
def clear_errors() -> Iterator[None]:
    """Re-raise TensorFlow's errors for these traps as errors that say what was found and what to do."""
    try:
        yield
    except NotApplicableError:
        raise
    except Exception as error:
        clear = explain(error)
        if clear is None:
            raise
        raise clear from error


def explain(error: Exception) -> NotApplicableError | None:
    """Return a clear error for one of TensorFlow's that comes of a trap, ``None`` for any other."""
    text = str(error)
    shapes = _SHAPES.search(text)
    if shapes:
        return NotApplicableError(
            _(
                "A value of shape {value} was assigned to a variable of shape {variable} inside the step: a variable "
                "has the shape of its initial value (`tf.Variable(0.0)` is a scalar)."
            ).format(value=shapes[2], variable=shapes[1]),
            _(
                "Use tap(name, value), which takes any shape; by hand: "
                "tf.Variable(value, shape=tf.TensorShape(None), trainable=False), made outside."
            ),
        )
    shapes = _XLA_SHAPES.search(text)
    if shapes:
        return NotApplicableError(
            _(
                "Under jit_compile=True a variable of shape {old} was given a value of shape {new}: XLA fixes it."
            ).format(old=shapes[1], new=shapes[2]),
            _("Use tap(name, value), which holds smaller values too, or compile the model with jit_compile=False."),
        )
    if _SINGLETON in text:
        return NotApplicableError(
            _(
                "A tf.Variable was made inside the loss or function: it would be made anew at each trace, so "
                "TensorFlow refuses it."
            ),
            _("Make it outside, or use a cachelab.Tap made outside."),
        )
    if _UNTRACKED in text and _ANONYMOUS in text:
        return NotApplicableError(
            _(
                "A concrete function that writes a tap or an untracked variable was passed to an export; it was traced "
                "before, so that the export can't leave the write out."
            ),
            _("Trace it from a tf.function of its own inside `with tap.off():`, or pass no signatures."),
        )
    if isinstance(error, tf.errors.OpError | TypeError | AttributeError | NotImplementedError) and _is_leak(text):
        return NotApplicableError(
            _(
                "A tensor of a traced step was kept in a Python variable and used outside: it is a symbol of the "
                "trace and has no value there."
            ),
            _("Use tap(name, tensor) inside and tap[name] outside."),
        )
    return None


def _is_leak(text: str) -> bool:
    return "symbolic" in text.lower() or any(part in text for part in _OUT_OF_SCOPE)


def compare_second_pass(reading: Reading, other: Any, model: Any) -> None:
    """Raise if ``other``, from a second forward pass, is not bitwise the value of the step, with the reasons."""
    second = np.asarray(other)
    value = np.asarray(reading.value)
    if second.shape == value.shape and second.dtype == value.dtype and second.tobytes() == value.tobytes():
        return
    if second.shape != value.shape:
        found = _("shape {second} instead of {first}").format(second=second.shape, first=value.shape)
    else:
        found = _("largest difference {difference:.3g}").format(
            difference=float(np.max(np.abs(second.astype(np.float64) - value.astype(np.float64)), initial=0.0))
        )
    reasons = _reasons(reading, model) or [_("another input, or ops optimised differently")]
    raise NotApplicableError(
        _("A second pass does not give the value of the step: {found}. {text} What differs: {reasons}.").format(
            found=found, text=reading.text, reasons="; ".join(reasons)
        ),
        _("Use tap[{name!r}]: it is the value that the step computed.").format(name=reading.name),
    )


def _reasons(reading: Reading, model: Any) -> list[str]:
    """Return why a second forward pass of ``model`` gives other values than its training step."""
    reasons = []
    if reading.call == "train":
        reasons.append(_("the step has updated the weights since"))
    for layer in model._flatten_layers() if model is not None else ():
        kind = type(layer).__name__
        if "Dropout" in kind or "Noise" in kind:
            reasons.append(
                _("{layer} ({kind}) draws anew, or not at all outside training").format(layer=layer.name, kind=kind)
            )
        elif "BatchNormalization" in kind:
            reasons.append(
                _("{layer} ({kind}) uses the batch's statistics in training and moving ones elsewhere").format(
                    layer=layer.name, kind=kind
                )
            )
    return reasons
