"""Where a tap keeps values: raw resources, outside every model, checkpoint, export and variable collection.

A raw resource (``VarHandleOp``) has no initializer, is in no collection and takes any shape. A write shares the
tensor's buffer and copies nothing (but for XLA).
"""

from __future__ import annotations

import math
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import tensorflow as tf
from tensorflow.python.eager import context

from cachelab.errors import NotApplicableError
from cachelab.i18n import translate as _

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

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

    def reset(self) -> None:
        """Write the initial value again (eager TensorFlow only)."""
        self.assign(self._initial())

    def tensor(self) -> Any:
        """Return the value as an eager tensor, or the read op's output in a v1 graph."""
        return raw.ReadVariableOp(resource=self.handle, dtype=self.dtype) if self.eager else self._read

    def value(self, session: Any = None, default: Any = None) -> Any:
        """Return the value as numpy, ``default`` if nothing was written."""
        if self.eager:
            return self.tensor().numpy()
        return session.run(self._read) if self.is_filled(session) else default

    def is_filled(self, session: Any) -> bool:
        """Return whether a v1 session has written the cell."""
        return bool(session.run(self._filled))


def counter() -> Cell:
    """Return a cell that counts from 0."""
    return Cell(tf.int64, [], lambda: tf.constant(0, tf.int64))


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


@dataclass(frozen=True)
class Entry:
    """The components that one step wrote; ``stamp`` orders the writes of all places of a name."""

    step: int
    stamp: int
    parts: list[np.ndarray[Any, Any]]


class Store(Protocol):
    """Keeps the last ``length`` values of one spec."""

    spec: Spec

    def write(self, flat: Sequence[Any], step: Any, stamp: Any) -> list[Any]:
        """Keep the components ``flat``; ``step`` and ``stamp`` are int64 scalars from 1. Return the write ops."""
        ...

    def entries(self, session: Any) -> list[Entry]:
        """Return what is kept, all from one moment, in any order."""
        ...

    def reset(self) -> None:
        """Forget what is kept (eager TensorFlow only)."""
        ...


class Listed:
    """Values of any shapes: one variant tensor with a list a component and one of (step, stamp).

    All of it changes in a single assign, so that a reader or a second writer never sees parts of two steps. No
    control edge leaves the tapped tensor: such an edge would keep TensorFlow from merging it with an equal op.
    """

    def __init__(self, spec: Spec, length: int) -> None:
        self.spec, self._length = spec, length
        self._cell = Cell(tf.variant, [len(spec.dtypes) + 1], self._empty)
        with tf.init_scope():
            self._fresh = tf.unstack(self._empty()) if self._cell.eager else None
            self._built = None if self._cell.eager else self._build_reads()

    def _empty(self) -> Any:
        lists = [
            raw.TensorListReserve(element_shape=_ANY_SHAPE, num_elements=self._length, element_dtype=dtype)
            for dtype in self.spec.dtypes
        ]
        marks = raw.TensorListFromTensor(tensor=tf.zeros([self._length, 2], tf.int64), element_shape=[2])
        return tf.stack([*lists, marks])

    def write(self, flat: Sequence[Any], step: Any, stamp: Any) -> list[Any]:
        """See :meth:`Store.write`."""
        if self._length == 1:
            old, index = self._fresh or tf.unstack(self._empty()), tf.constant(0)
        else:
            old, index = tf.unstack(self._cell.current(), num=len(flat) + 1), tf.cast(step % self._length, tf.int32)
        items = [*flat, tf.stack([step, stamp])]
        changed = [
            raw.TensorListSetItem(input_handle=part, index=index, item=item)
            for part, item in zip(old, items, strict=True)
        ]
        return [self._cell.assign(tf.stack(changed))]

    def _lists(self) -> list[Any]:
        return tf.unstack(self._cell.tensor(), num=len(self.spec.dtypes) + 1)

    def _marks(self, lists: Any) -> Any:
        return raw.TensorListStack(input_handle=lists[-1], element_shape=[2], element_dtype=tf.int64)

    def _parts(self, lists: Any, row: int) -> list[Any]:
        return [
            raw.TensorListGetItem(input_handle=lists[i], index=row, element_shape=_ANY_SHAPE, element_dtype=dtype)
            for i, dtype in enumerate(self.spec.dtypes)
        ]

    def _build_reads(self) -> tuple[Any, list[list[Any]]]:
        """Return the tensors that a session fetches: marks [length, 2] and the components of each row."""
        lists = self._lists()
        return self._marks(lists), [self._parts(lists, row) for row in range(self._length)]

    def entries(self, session: Any) -> list[Entry]:
        """See :meth:`Store.entries`."""
        if self._built is None:
            lists = self._lists()
            marks = self._marks(lists).numpy()
            return _entries(marks, {row: [part.numpy() for part in self._parts(lists, row)] for row in _filled(marks)})
        if not self._cell.is_filled(session):
            return []
        marks, parts = self._built
        while True:
            rows = _filled(session.run(marks))
            seen, found = session.run([marks, [parts[row] for row in rows]])
            if _filled(seen) == rows:
                return _entries(seen, dict(zip(rows, found, strict=True)))

    def reset(self) -> None:
        """See :meth:`Store.reset`."""
        self._cell.reset()


class Held:
    """Buffers of fixed shapes for XLA, which can't change a variable's shape; the true shape is kept beside them.

    A smaller value fills a corner of its buffer. Of a larger one the shape is kept, so that a read can refuse.
    XLA writes all of them at once when the compiled step ends.
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
        self._marks = Cell(tf.int64, [length, 2], lambda: tf.zeros([length, 2], tf.int64))

    def write(self, flat: Sequence[Any], step: Any, stamp: Any) -> list[Any]:
        """See :meth:`Store.write`."""
        row = tf.cast(step % self._length, tf.int32)
        written = [self._put(self._marks, tf.stack([step, stamp]), row)]
        for value, held, buffer, shape in zip(flat, self.spec.held, self._buffers, self._shapes, strict=True):
            written.append(self._put(buffer, _fit(value, held), row))
            written.append(self._put(shape, tf.shape(value), row))
        return written

    def _put(self, cell: Cell, value: Any, row: Any) -> Any:
        if self._length == 1:
            return cell.assign(tf.expand_dims(value, 0))
        return raw.ResourceScatterUpdate(resource=cell.handle, indices=row, updates=value)

    def entries(self, session: Any) -> list[Entry]:
        """See :meth:`Store.entries`."""
        while True:
            marks = self._marks.value(session)
            if marks is None:
                return []
            shapes = [cell.value(session) for cell in self._shapes]
            buffers = [cell.value(session) for cell in self._buffers]
            if np.array_equal(marks, self._marks.value(session)):
                break
        cut = {
            row: [
                self._cut(buffer[row], tuple(map(int, shape[row])), held)
                for buffer, shape, held in zip(buffers, shapes, self.spec.held, strict=True)
            ]
            for row in _filled(marks)
        }
        return _entries(marks, cut)

    def reset(self) -> None:
        """See :meth:`Store.reset`."""
        self._marks.reset()

    @staticmethod
    def _cut(buffer: np.ndarray[Any, Any], shape: tuple[int, ...], held: tuple[int, ...]) -> np.ndarray[Any, Any]:
        if any(n > most for n, most in zip(shape, held, strict=True)):
            raise NotApplicableError(
                _(
                    "The tapped value has shape {shape}; under jit_compile=True XLA fixes the shape of a variable, and "
                    "this tap holds at most {held}."
                ).format(shape=shape, held=held),
                _("Name the largest shape: tap(name, value, shape={largest}).").format(
                    largest=tuple(max(pair) for pair in zip(shape, held, strict=True))
                ),
            )
        return buffer[tuple(slice(n) for n in shape)].copy()


def _filled(marks: np.ndarray[Any, Any]) -> list[int]:
    """Return the rows of ``marks`` [length, 2] that a step has written; steps count from 1."""
    return [int(row) for row in np.flatnonzero(marks[:, 0])]


def _entries(marks: np.ndarray[Any, Any], parts: dict[int, list[Any]]) -> list[Entry]:
    return [Entry(int(marks[row][0]), int(marks[row][1]), found) for row, found in parts.items()]


def _fit(value: Any, held: tuple[int, ...]) -> Any:
    """Return ``value`` cut and padded to ``held``, without an op where its shape is known to be that."""
    if value.shape.is_fully_defined() and tuple(value.shape) == held:
        return value
    value = value[tuple(slice(n) for n in held)] if held else value
    missing = [[0, most - tf.shape(value)[axis]] for axis, most in enumerate(held)]
    return tf.ensure_shape(tf.pad(value, missing), held)


def make_store(spec: Spec, length: int) -> Store:
    """Return a store for ``spec`` that keeps ``length`` steps."""
    return Listed(spec, length) if spec.held is None else Held(spec, length)
