"""Where a tap keeps values: raw resources, outside every model, checkpoint, export and variable collection.

A raw resource (``VarHandleOp``) has no initializer, is in no collection, takes any shape and costs one
``AssignVariableOp`` a step, which shares the tensor's buffer and copies nothing.
"""

from __future__ import annotations

import math
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import tensorflow as tf
from tensorflow.python.eager import context

from cachelab.errors import NotApplicableError
from cachelab.i18n import translate as _

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy as np

raw = tf.raw_ops
_ANY_SHAPE = -1


class Cell:
    """One raw resource that holds a tensor.

    In eager TensorFlow it may start with a value. In a v1 graph it starts empty, and its read is built at once,
    as the graph may be finalized later.
    """

    def __init__(self, dtype: Any, shape: Any = None, initial: Callable[[], Any] | None = None) -> None:
        with tf.init_scope():
            self.dtype = tf.as_dtype(dtype)
            self.eager = tf.executing_eagerly()
            name = context.anonymous_name() if self.eager else f"cachelab_tap_{uuid.uuid4().hex}"
            self.handle = raw.VarHandleOp(dtype=self.dtype, shape=tf.TensorShape(shape), shared_name=name)
            self._initial = initial
            if self.eager and initial is not None:
                raw.AssignVariableOp(resource=self.handle, value=initial())
            self._read = None if self.eager else raw.ReadVariableOp(resource=self.handle, dtype=self.dtype)
            self._filled = None if self.eager else raw.VarIsInitializedOp(resource=self.handle)

    def assign(self, value: Any) -> Any:
        """Write ``value``; return the op (``None`` in eager code)."""
        return raw.AssignVariableOp(resource=self.handle, value=value)

    def current(self) -> Any:
        """Return the value as a tensor of the step being built; before the first write the initial value."""
        if self.eager or self._initial is None:
            return raw.ReadVariableOp(resource=self.handle, dtype=self.dtype)
        return tf.cond(
            raw.VarIsInitializedOp(resource=self.handle),
            lambda: raw.ReadVariableOp(resource=self.handle, dtype=self.dtype),
            self._initial,
        )

    def increment(self) -> Any:
        """Add one; return the op."""
        if self.eager:
            return raw.AssignAddVariableOp(resource=self.handle, value=tf.constant(1, self.dtype))
        return self.assign(self.current() + tf.constant(1, self.dtype))

    def raise_to(self, value: Any) -> Any:
        """Write the larger of the present value and ``value``, in one atomic op where TensorFlow is eager."""
        if self.eager:
            return raw.ResourceScatterMax(resource=self.handle, indices=0, updates=value)
        return self.assign(tf.maximum(self.current(), tf.reshape(value, [1])))

    def tensor(self) -> Any:
        """Return the value as an eager tensor, or the read op's output in a v1 graph."""
        return raw.ReadVariableOp(resource=self.handle, dtype=self.dtype) if self.eager else self._read

    def value(self, session: Any = None, default: Any = None) -> Any:
        """Return the value as numpy, ``default`` if nothing was written."""
        if self.eager:
            return self.tensor().numpy()
        return session.run(self._read) if session.run(self._filled) else default


def counter() -> Cell:
    """Return a cell that counts from 0."""
    return Cell(tf.int64, [], lambda: tf.constant(0, tf.int64))


def mark() -> Cell:
    """Return a cell of shape [1] for :meth:`Cell.raise_to`, from 0."""
    return Cell(tf.int64, [1], lambda: tf.zeros([1], tf.int64))


@dataclass(frozen=True)
class Spec:
    """The kind of value a store takes: dtypes of its flat components, how they nest, shapes held for XLA (or none)."""

    dtypes: tuple[Any, ...]
    kind: str
    held: tuple[tuple[int, ...], ...] | None = None

    @property
    def size(self) -> int:
        """Number of elements held."""
        return sum(math.prod(shape) for shape in self.held or ())


class Store(Protocol):
    """Keeps the last ``length`` values of one spec."""

    spec: Spec

    def write(self, flat: Sequence[Any], step: Any) -> list[Any]:
        """Keep the components ``flat`` as those of step ``step`` (int64 scalar, from 1); return the write ops."""
        ...

    def entries(self, session: Any, step: int) -> list[tuple[int, list[np.ndarray[Any, Any]]]]:
        """Return (step, components) pairs, the last of which is of step ``step``."""
        ...


class Latest:
    """One tensor of any shape: a single assign, which is atomic."""

    def __init__(self, spec: Spec) -> None:
        self.spec = spec
        self._cell = Cell(spec.dtypes[0])

    def write(self, flat: Sequence[Any], step: Any) -> list[Any]:  # noqa: ARG002 - the count of steps says it
        """See :meth:`Store.write`."""
        return [self._cell.assign(flat[0])]

    def entries(self, session: Any, step: int) -> list[tuple[int, list[np.ndarray[Any, Any]]]]:
        """See :meth:`Store.entries`."""
        return [(step, [self._cell.value(session)])]


class Listed:
    """Several components or steps, of any shapes: one variant tensor with a list a component and one of steps.

    All of it changes in a single assign, so that components and steps of different writes never mix.
    """

    def __init__(self, spec: Spec, length: int) -> None:
        self.spec, self._length = spec, length
        self._dtypes = (*spec.dtypes, tf.int64)
        self._cell = Cell(tf.variant, [len(self._dtypes)], self._empty)
        self._items = None if self._cell.eager else self._read_items(self._cell.tensor())

    def _empty(self) -> Any:
        return tf.stack(
            [
                raw.TensorListReserve(element_shape=_ANY_SHAPE, num_elements=self._length, element_dtype=dtype)
                for dtype in self._dtypes
            ]
        )

    def write(self, flat: Sequence[Any], step: Any) -> list[Any]:
        """See :meth:`Store.write`."""
        lists = tf.unstack(self._cell.current(), num=len(self._dtypes))
        index = tf.cast(step % self._length, tf.int32)
        items = [*flat, step]
        changed = [
            raw.TensorListSetItem(input_handle=old, index=index, item=item)
            for old, item in zip(lists, items, strict=True)
        ]
        return [self._cell.assign(tf.stack(changed))]

    def _read_items(self, lists: Any) -> list[list[Any]]:
        with tf.init_scope():
            return [
                [
                    raw.TensorListGetItem(input_handle=lists[i], index=k, element_shape=_ANY_SHAPE, element_dtype=dtype)
                    for i, dtype in enumerate(self._dtypes)
                ]
                for k in range(self._length)
            ]

    def entries(self, session: Any, step: int) -> list[tuple[int, list[np.ndarray[Any, Any]]]]:
        """See :meth:`Store.entries`."""
        found = []
        lists = self._cell.tensor() if self._cell.eager else None
        for wanted in range(max(1, step - self._length + 1), step + 1):
            k = wanted % self._length
            row = (
                session.run(self._items[k])
                if self._items is not None
                else [
                    raw.TensorListGetItem(
                        input_handle=lists[i], index=k, element_shape=_ANY_SHAPE, element_dtype=dtype
                    ).numpy()
                    for i, dtype in enumerate(self._dtypes)
                ]
            )
            if int(row[-1]) == wanted:
                found.append((wanted, row[:-1]))
        return found


class Held:
    """Buffers of fixed shapes for XLA, which can't change a variable's shape; the true shape is kept beside them.

    A smaller value fills a corner of its buffer. Of a larger one the shape is kept, so that a read can refuse.
    """

    def __init__(self, spec: Spec, length: int) -> None:
        self.spec, self._length = spec, length
        self._buffers = [
            Cell(dtype, [length, *shape], lambda d=dtype, s=shape: tf.zeros([length, *s], d))
            for dtype, shape in zip(spec.dtypes, spec.held, strict=True)
        ]
        self._shapes = [
            Cell(tf.int32, [length, len(shape)], lambda s=shape: tf.zeros([length, len(s)], tf.int32))
            for shape in spec.held
        ]
        self._steps = Cell(tf.int64, [length], lambda: tf.zeros([length], tf.int64))

    def write(self, flat: Sequence[Any], step: Any) -> list[Any]:
        """See :meth:`Store.write`."""
        row = tf.cast(step % self._length, tf.int32)
        written = [self._put(self._steps, step, row)]
        for value, held, buffer, shape in zip(flat, self.spec.held, self._buffers, self._shapes, strict=True):
            written.append(self._put(buffer, _fit(value, held), row))
            written.append(self._put(shape, tf.shape(value), row))
        return written

    def _put(self, cell: Cell, value: Any, row: Any) -> Any:
        if self._length == 1:
            return cell.assign(tf.expand_dims(value, 0))
        return raw.ResourceScatterUpdate(resource=cell.handle, indices=row, updates=value)

    def entries(self, session: Any, step: int) -> list[tuple[int, list[np.ndarray[Any, Any]]]]:
        """See :meth:`Store.entries`."""
        steps = self._steps.value(session)
        shapes = [cell.value(session) for cell in self._shapes]
        buffers = [cell.value(session) for cell in self._buffers]
        found = []
        for wanted in range(max(1, step - self._length + 1), step + 1):
            row = wanted % self._length
            if steps[row] != wanted:
                continue
            values = []
            for buffer, shape, held in zip(buffers, shapes, self.spec.held, strict=True):
                true = tuple(int(n) for n in shape[row])
                if any(n > most for n, most in zip(true, held, strict=True)):
                    raise NotApplicableError(
                        _(
                            "The value of step {step} has shape {true}; under jit_compile=True XLA fixes the shape of "
                            "a variable, and this tap holds at most {held}."
                        ).format(step=wanted, true=true, held=held),
                        _("Name the largest shape: tap(name, value, shape={largest}).").format(
                            largest=tuple(max(pair) for pair in zip(true, held, strict=True))
                        ),
                    )
                values.append(buffer[row][tuple(slice(n) for n in true)].copy())
            found.append((wanted, values))
        return found


def _fit(value: Any, held: tuple[int, ...]) -> Any:
    """Return ``value`` cut and padded to ``held``, without an op where its shape is known to be that."""
    if value.shape.is_fully_defined() and tuple(value.shape) == held:
        return value
    value = value[tuple(slice(n) for n in held)] if held else value
    missing = [[0, most - tf.shape(value)[axis]] for axis, most in enumerate(held)]
    return tf.ensure_shape(tf.pad(value, missing), held)


def make_store(spec: Spec, length: int) -> Store:
    """Return the cheapest store for ``spec`` that keeps ``length`` steps."""
    if spec.held is not None:
        return Held(spec, length)
    return Latest(spec) if length == len(spec.dtypes) == 1 else Listed(spec, length)
