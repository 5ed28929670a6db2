"""What callers hand over, checked: variables and inputs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import tensorflow as tf
from tensorflow.python.framework.composite_tensor import CompositeTensor

from cachelab.errors import OptionError
from cachelab.i18n import translate as _


def as_variables(variables: Any) -> list[Any]:
    """Return the variables as a list; a single one is a list of one."""
    if _is_variable(variables):
        return [variables]
    if isinstance(variables, Mapping):
        raise OptionError(
            _("`variables` is a dict, and the results are a list."),
            _("Pass `list(variables.values())`: the results come in that order."),
        )
    found = list(variables) if isinstance(variables, Iterable) and not isinstance(variables, str) else [variables]
    for place, variable in enumerate(found):
        if not _is_variable(variable):
            raise OptionError(
                _("Entry {place} of `variables` is a {kind}, not a variable.").format(
                    place=place, kind=type(variable).__name__
                ),
                _("Pass TensorFlow or Keras variables, or tensors of the graph, in a list."),
            )
    return found


def _is_variable(value: Any) -> bool:
    return isinstance(value, (tf.Tensor, tf.Variable)) or isinstance(getattr(value, "_value", None), tf.Variable)


def check_dense(inputs: Any) -> None:
    """Refuse ragged, sparse and other composite inputs."""
    for tensor in tf.nest.flatten(inputs):
        if isinstance(tensor, CompositeTensor) and not isinstance(tensor, (tf.Tensor, tf.Variable)):
            raise OptionError(
                _("An input is a {kind}; inputs are dense tensors with the examples on their first axis.").format(
                    kind=type(tensor).__name__
                ),
                _(
                    "Pass its dense values (`ragged.to_tensor()` with the lengths as a second input, "
                    "`tf.sparse.to_dense`), and make it ragged or sparse again inside the loss if need be."
                ),
            )
