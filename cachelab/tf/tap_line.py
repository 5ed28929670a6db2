"""One line of values: those that one name receives from one place, with the count of its steps."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import tensorflow as tf

from cachelab.errors import NotApplicableError
from cachelab.i18n import translate as _
from cachelab.tf.tap_store import Cell, Entry, Spec, Store, counter, make_store
from cachelab.tf.tap_where import in_body_of_v1_graph

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cachelab.tf.tap_graph import Watched
    from cachelab.tf.tap_where import Where


@dataclass
class Line:
    """Values of one name from one place; ``count`` numbers its writes, ``stores`` keep them with their structure."""

    name: str
    where: Where
    length: int
    count: Cell = field(default_factory=counter)
    stores: list[tuple[Store, Any]] = field(default_factory=list)
    watched: tuple[Watched, ...] = ()

    def write(self, flat: Sequence[Any], spec: Spec, structure: Any, clock: Cell) -> list[Any]:
        """Write the components ``flat``; return the ops that do it. ``clock`` orders all writes of the name."""
        # In a body of a v1 graph TensorFlow would take the counter's VarIsInitializedOp for loop-invariant.
        with tf.control_dependencies(list(flat) if in_body_of_v1_graph() else []):
            ticked = [self.count.increment(), clock.increment()]
        with tf.control_dependencies(_ops(ticked)):
            step, stamp = self.count.current(), clock.current()
        return _ops(self._store(spec, structure).write(flat, step, stamp))

    def _store(self, spec: Spec, structure: Any) -> Store:
        """Return the largest store that can take ``spec``, made now if there is none."""
        fitting = [store for store, _structure in self.stores if takes(store.spec, spec)]
        if not fitting:
            fitting.append(make_store(spec, self.length))
            self.stores.append((fitting[0], structure))
        return max(fitting, key=lambda store: store.spec.size)

    def read(self, session: Any) -> list[tuple[Entry, Any]]:
        """Return (entry, structure) pairs of the steps that are kept, in order."""
        found = [
            (entry, structure) for store, structure in self.stores for entry in store.entries(session) if entry.step
        ]
        found.sort(key=lambda pair: pair[0].stamp)
        last = max((entry.step for entry, _structure in found), default=0)
        return [pair for pair in found if pair[0].step > last - self.length]

    def reset(self) -> None:
        """Forget all steps; functions that were traced go on to write."""
        self.count.reset()
        for store, _structure in self.stores:
            store.reset()


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
