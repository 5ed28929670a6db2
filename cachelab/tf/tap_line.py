"""One line of values: those that one name receives from one place, with the count of its steps."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import tensorflow as tf

from cachelab.errors import NotApplicableError
from cachelab.i18n import translate as _
from cachelab.tf.tap_store import Cell, Spec, Store, counter, make_store, mark

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cachelab.tf.tap_graph import Watched
    from cachelab.tf.tap_where import Where

_PATIENCE_SECONDS: Final = 1.0


@dataclass
class Line:
    """Values of one name from one place.

    ``begun`` and ``done`` hold the number of the last write that began and that ended: a read between the two is not
    consistent and is repeated. A write that failed in between is made up for by the next. ``stamp`` is the clock of
    the name at the last write, ``which`` the store that was written last.
    """

    name: str
    where: Where
    length: int
    begun: Cell = field(default_factory=counter)
    done: Cell = field(default_factory=mark)
    stamp: Cell = field(default_factory=counter)
    which: Cell = field(default_factory=counter)
    stores: list[tuple[Store, Any]] = field(default_factory=list)
    watched: tuple[Watched, ...] = ()

    def write(self, flat: Sequence[Any], spec: Spec, structure: Any, clock: Cell) -> list[Any]:
        """Write the components ``flat``; return the ops after which the write is complete."""
        number = self._store_number(spec, structure)
        store = self.stores[number][0]
        with tf.control_dependencies([] if tf.executing_eagerly() else list(flat)):
            begun = self.begun.increment()
        with tf.control_dependencies(_ops([begun])):
            step = self.begun.current()
            written = store.write(flat, step)
            ticked = clock.increment()
        with tf.control_dependencies(_ops([*written, ticked])):
            marked = [self.stamp.assign(clock.current()), self.which.assign(tf.constant(number, tf.int64))]
        with tf.control_dependencies(_ops(marked)):
            return _ops([self.done.raise_to(step)])

    def _store_number(self, spec: Spec, structure: Any) -> int:
        """Return the number of a store that can take ``spec``, made now if there is none."""
        fitting = [number for number, (store, _s) in enumerate(self.stores) if takes(store.spec, spec)]
        if not fitting:
            self.stores.append((make_store(spec, self.length), structure))
            return len(self.stores) - 1
        return max(fitting, key=lambda number: self.stores[number][0].spec.size)

    def steps(self, session: Any = None) -> int:
        """Return how many writes are complete."""
        return int(np.max(self.done.value(session, 0)))

    def order(self, session: Any = None) -> int:
        """Return when the last write was, against other lines of the same name."""
        return int(self.stamp.value(session, 0))

    def read(self, session: Any, *, every: bool) -> tuple[list[tuple[int, list[np.ndarray[Any, Any]]]], Any]:
        """Return ((step, components) pairs in order, structure), consistent even while another thread writes.

        The last pair is of the last step; ``every`` adds the kept steps before it, of all stores.
        """
        limit = time.monotonic() + _PATIENCE_SECONDS
        while True:
            done = self.steps(session)
            number = int(self.which.value(session, 0))
            entries = self.stores[number][0].entries(session, done)
            if every:
                for other, (store, _structure) in enumerate(self.stores):
                    entries = entries if other == number else entries + store.entries(session, done)
            if done == int(self.begun.value(session, 0)):
                entries.sort(key=lambda entry: entry[0])
                return entries, self.stores[number][1]
            if time.monotonic() > limit:
                raise NotApplicableError(
                    _("{name!r} can't be read: step {step} began to write it and did not end, so it failed.").format(
                        name=self.name, step=done + 1
                    ),
                    _("See the error of that step; after the next complete step the tap can be read again."),
                )
            time.sleep(0.0005)

    def reset(self) -> None:
        """Forget all steps (eager TensorFlow only)."""
        for cell in (self.begun, self.stamp):
            cell.assign(tf.constant(0, tf.int64))
        self.done.assign(tf.zeros([1], tf.int64))


def _ops(written: Sequence[Any]) -> list[Any]:
    """Return the ops of a list as control inputs; eager code has none, it is in order by itself."""
    return [op for op in written if op is not None]


def takes(have: Spec, want: Spec) -> bool:
    """Return whether a store of ``have`` can keep values of ``want``."""
    if have.dtypes != want.dtypes or have.kind != want.kind or (have.held is None) != (want.held is None):
        return False
    if have.held is None or want.held is None:
        return True
    return all(
        len(most) == len(shape) and all(n <= m for n, m in zip(shape, most, strict=True))
        for most, shape in zip(have.held, want.held, strict=True)
    )


def known_shapes(name: str, spec: Spec, lines: Sequence[Line]) -> Spec:
    """Return ``spec`` with unknown sizes of held shapes (-1) taken from what ``lines`` of the same name hold."""
    if spec.held is None or all(n >= 0 for shape in spec.held for n in shape):
        return spec
    have = [store.spec for line in lines for store, _structure in line.stores if takes(store.spec, spec)]
    if not have:
        shapes = ", ".join(str(tuple(None if n < 0 else n for n in shape)) for shape in spec.held)
        raise NotApplicableError(
            _(
                "Tap {name!r} got a value of shape {shapes} inside jit_compile=True: XLA fixes the shape of a "
                "variable, and this shape is not known while the function is traced (`fit` leaves the batch size open)."
            ).format(name=name, shapes=shapes),
            _(
                "Name the largest shape to hold, tap({name!r}, value, shape=(64, 10)), let the first step have a full "
                "batch of known size, or compile with jit_compile=False."
            ).format(name=name),
        )
    return max(have, key=lambda found: found.size)
