"""What a tap keeps and gives back: readings, and the kinds of value that it can hold."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import tensorflow as tf

from cachelab.errors import NotApplicableError, OptionError
from cachelab.i18n import translate as _
from cachelab.tf import tap_where
from cachelab.tf.tap_store import Spec

if TYPE_CHECKING:
    from collections.abc import Sequence


_DENSE, _ABSENT = ".", "none"


class TapWarning(UserWarning):
    """A tapped value is not from the call that a reader may think of, is stale, or does not exist yet."""


@dataclass(frozen=True)
class Reading:
    """A tapped value and where it is from.

    Attributes
    ----------
    name
        The name given to the tap.
    value
        The value: a numpy array, or the structure that was tapped with arrays in it.
    step
        Number of the step that wrote it, from 1, counted for each name, call and owner (a tap in a loop counts
        each iteration).
    call
        ``train``, ``test``, ``predict`` (Keras steps), ``function``, ``eager`` or ``graph``.
    owner
        Name of the model or function.
    stale
        In a v1 graph: names of the variables that changed since, so that the tensor would now have another value.
    """

    name: str
    value: Any
    step: int
    call: str
    owner: str
    stale: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """One sentence on where the value is from."""
        places = {
            "train": _("train step {step} of model {owner!r}, before that step updated the weights"),
            "test": _("test step {step} of model {owner!r}"),
            "predict": _("predict step {step} of model {owner!r}"),
            "function": _("call {step} of function {owner!r}"),
            "eager": _("eager call {step}"),
            "graph": _("run {step} of the graph"),
        }
        place = places[self.call].format(step=self.step, owner=self.owner)
        text = _("{name!r} is from {place}.").format(name=self.name, place=place)
        if self.stale:
            changed = ", ".join(f"`{variable}`" for variable in self.stale)
            text += " " + _("It is stale: {changed} changed since.").format(changed=changed)
        return text

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        return np.array(self.value, dtype=dtype, copy=True if copy is None else copy)


def spec_of(
    name: str, value: Any, flat: Sequence[Any], shape: Sequence[int] | None, *, in_graph: bool
) -> tuple[Spec, Any]:
    """Return the kind of store that ``value`` needs, and its structure without shapes."""
    structure = tf.nest.map_structure(_kind, value)
    composite = any(isinstance(kind, tf.TypeSpec) for kind in tf.nest.flatten(structure))
    if composite and in_graph:
        raise NotApplicableError(
            _("Tap {name!r} got a ragged or sparse tensor in a v1 graph.").format(name=name),
            _("Tap its parts, such as value.values and value.indices."),
        )
    if sum(map(_parts, tf.nest.flatten(structure))) != len(flat):
        raise NotApplicableError(
            _("Tap {name!r} got a composite value that is no tensor, ragged or sparse tensor.").format(name=name),
            _("Tap its parts."),
        )
    if not flat:
        raise OptionError(_("Tap {name!r} got no tensor.").format(name=name))
    held = None
    if tap_where.in_xla():
        held = tuple(_held(name, tensor, shape if len(flat) == 1 else None) for tensor in flat)
    return Spec(tuple(tensor.dtype for tensor in flat), str(structure), held), structure


def _held(name: str, tensor: Any, shape: Sequence[int] | None) -> tuple[int, ...]:
    rank = tensor.shape.rank
    if rank is None or (shape is not None and len(shape) != rank):
        raise NotApplicableError(
            _("Tap {name!r} can't hold a value of shape {found} as {shape} under jit_compile=True.").format(
                name=name, found=tensor.shape, shape=shape
            ),
            _("XLA needs a known number of dimensions; give shape= with as many sizes."),
        )
    if shape is not None:
        return tuple(int(n) for n in shape)
    return tuple(-1 if n is None else n for n in tensor.shape)


def _kind(leaf: Any) -> Any:
    """Return what stands for ``leaf`` in a structure: a relaxed spec for ragged and sparse tensors, else a mark."""
    if isinstance(leaf, tf.SparseTensor):
        return tf.SparseTensorSpec([None] * leaf.shape.rank if leaf.shape.rank is not None else None, leaf.dtype)
    if isinstance(leaf, tf.RaggedTensor):
        return tf.RaggedTensorSpec([None] * leaf.shape.rank, leaf.dtype, leaf.ragged_rank, leaf.row_splits.dtype)
    if isinstance(leaf, tf.IndexedSlices):
        dense = None if leaf.dense_shape is None else leaf.dense_shape.dtype
        return tf.IndexedSlicesSpec(None, leaf.dtype, leaf.indices.dtype, dense)
    return _ABSENT if leaf is None else _DENSE


def _parts(kind: Any) -> int:
    """Return of how many flat components a leaf of a structure consists."""
    if isinstance(kind, tf.TypeSpec):
        return len(tf.nest.flatten(kind, expand_composites=True))
    return 0 if kind == _ABSENT else 1


def pack(structure: Any, flat: Sequence[Any]) -> Any:
    """Return the structure with ``flat`` in it: arrays, and eager ragged or sparse tensors."""
    rest, leaves = list(flat), []
    for kind in tf.nest.flatten(structure):
        count = _parts(kind)
        parts, rest = rest[:count], rest[count:]
        if isinstance(kind, tf.TypeSpec):
            leaves.append(tf.nest.pack_sequence_as(kind, [tf.constant(p) for p in parts], expand_composites=True))
        else:
            leaves.append(parts[0] if parts else None)
    return tf.nest.pack_sequence_as(structure, leaves)
