"""``Tap``: the value that a tensor had inside a Keras loss, layer, metric or function, without a second pass."""

from __future__ import annotations

import threading
import warnings
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import tensorflow as tf

from cachelab.errors import NameNotFoundError, NotApplicableError, OptionError
from cachelab.i18n import translate as _
from cachelab.tf import tap_graph, tap_traps, tap_where
from cachelab.tf.tap_line import Line, known_shapes
from cachelab.tf.tap_store import Cell, Entry, counter
from cachelab.tf.tap_value import Reading, TapWarning, pack, spec_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from contextlib import AbstractContextManager

__all__ = ["Reading", "Tap", "TapWarning"]


class Tap:
    """Keeps tensors that are computed inside a Keras loss, layer, metric, ``train_step`` or ``tf.function``.

    ``d = tap("diff", labels - predictions)`` returns the tensor unchanged and keeps its value; after the step
    ``tap["diff"]`` is that value. Nothing is computed twice and training is not changed. Make the tap outside of
    the function that uses it. It is in no model, checkpoint, export or variable collection.

    Parameters
    ----------
    history
        How many steps to keep for each name and place; their memory is held. One step costs no copy.
    check_stale
        In a v1 graph, keep with each value a fingerprint of the variables that it depends on, so that a stale read
        is reported. Costs one pass over these variables a run.

    Examples
    --------
    >>> import numpy as np, keras, cachelab
    >>> tap = cachelab.Tap()
    >>> def loss(labels, predictions):
    ...     return tap("diff", labels - predictions) ** 2
    >>> model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1, kernel_initializer="zeros")])
    >>> model.compile("sgd", loss)
    >>> _ = model.train_on_batch(np.ones((4, 2)), np.full((4, 1), 3.0))
    >>> tap["diff"].ravel()
    array([3., 3., 3., 3.], dtype=float32)
    """

    def __init__(self, *, history: int = 1, check_stale: bool = True) -> None:
        if not isinstance(history, int) or history < 1:
            raise OptionError(
                _("Tap(history={history!r}): the number of steps to keep is a whole number from 1.").format(
                    history=history
                )
            )
        tap_traps.refuse_inside_function()
        self._length, self._check_stale = history, check_stale
        self._lines: dict[tuple[str, tap_where.Where], Line] = {}
        self._clocks: dict[tuple[str, int], Cell] = {}
        self._lock = threading.RLock()
        self._off = 0

    @tf.autograph.experimental.do_not_convert
    def __call__(self, name: str, value: Any, *, shape: Sequence[int] | None = None) -> Any:
        """Keep ``value`` under ``name`` each time the surrounding step runs, and return it unchanged.

        Parameters
        ----------
        name
            The name to read it by.
        value
            A tensor of any shape and dtype, or a nested structure of tensors (also ragged and sparse ones).
        shape
            The largest shape to hold, for ``jit_compile=True`` only: XLA fixes the shape of a variable. By default
            the shape of the first step; smaller values are held too, a read of a larger one is an error.

        Returns
        -------
        The very same object. In a v1 graph an identity of it that runs the write first
        (``tf.control_dependencies``): use it in what follows.
        """
        if not isinstance(name, str):
            raise OptionError(_("tap({name!r}, ...): the first argument is a name.").format(name=name))
        tap_traps.refuse_symbolic(name, value)
        if self._off or tap_where.must_not_write():
            return value
        if tap_where.in_vectorized_map():
            raise NotApplicableError(
                _("Tap {name!r} is inside tf.vectorized_map, where all examples are one execution.").format(name=name),
                _("Tap the stacked result outside of the map, or use tf.map_fn."),
            )
        if tap_where.replicas() > 1:
            raise NotApplicableError(
                _("Tap {name!r} is used in {n} replicas at once, which would overwrite each other's value.").format(
                    name=name, n=tap_where.replicas()
                ),
                _("Tap outside of strategy.run, on the reduced value."),
            )
        parts = tf.nest.flatten(value, expand_composites=True)
        flat = [tf.convert_to_tensor(part) for part in parts if part is not None]
        where = tap_where.here()
        spec, structure = spec_of(name, value, flat, shape, in_graph=where.in_graph)
        writes_run = tap_where.orders_writes()
        with self._lock:
            spec = known_shapes(name, spec, [line for (known, _w), line in self._lines.items() if known == name])
            line, clock = self._line(name, where)
            watch_ops: list[Any] = []
            if where.in_graph:
                flat = [tap_graph.own_buffer(tensor) for tensor in flat]
                if self._check_stale and not writes_run:
                    watched, watch_ops = tap_graph.watch(flat)
                    line.watched += tuple(watched)
            written = line.write(flat, spec, structure, clock)
        if writes_run:
            return value
        with tf.control_dependencies([*written, *watch_ops]):
            return tf.nest.map_structure(lambda part: None if part is None else tf.identity(part), value)

    def _line(self, name: str, where: tap_where.Where) -> tuple[Line, Cell]:
        key = (name, where.token if where.in_graph else 0)
        clock = self._clocks.get(key)
        if clock is None:
            clock = self._clocks[key] = counter()
        line = self._lines.get((name, where))
        if line is None:
            for known, place in [*self._lines]:
                if known == name and place.gone:
                    del self._lines[known, place]
            line = self._lines[name, where] = Line(name, where, self._length)
        return line, clock

    @contextmanager
    def off(self) -> Iterator[None]:
        """Return a context in which the tap writes nothing: eager calls, and functions that are traced inside it.

        For a concrete function to be exported: trace it, from a ``tf.function`` of its own, inside the context.
        """
        with self._lock:
            self._off += 1
        try:
            yield
        finally:
            with self._lock:
                self._off -= 1

    # Reading

    def __getitem__(self, name: str) -> Any:
        """Return the value of the last step, see :meth:`last`."""
        reading, warning = self._last(name)
        _warn(warning)
        return reading.value

    def __contains__(self, name: object) -> bool:
        return name in self.names

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)

    @property
    def names(self) -> tuple[str, ...]:
        """The names tapped so far, in order."""
        return tuple(dict.fromkeys(name for name, _where in self._lines))

    def get(self, name: str, default: Any = None, **place: Any) -> Any:
        """Return the value of the last step; before any step warn and return ``default``.

        ``place`` are the arguments of :meth:`last`.
        """
        try:
            reading, warning = self._last(name, **place)
        except NameNotFoundError as error:
            _warn(str(error))
            return default
        _warn(warning)
        return reading.value

    def last(self, name: str, *, call: str | None = None, model: Any = None, session: Any = None) -> Reading:
        """Return the value of the last step and where it is from.

        Parameters
        ----------
        name
            The name given to the tap.
        call
            Only steps of this kind: ``train``, ``test``, ``predict``, ``function``, ``eager`` or ``graph``. Values
            of different kinds do not overwrite each other.
        model
            Only steps of this Keras model (or ``tf.function``).
        session
            In a v1 graph: the session to read in, by default the current one.

        Raises
        ------
        NameNotFoundError
            No step wrote the name yet.
        """
        reading, warning = self._last(name, call=call, model=model, session=session)
        _warn(warning)
        return reading

    def history(
        self, name: str, n: int | None = None, *, call: str | None = None, model: Any = None, session: Any = None
    ) -> list[Reading]:
        """Return the last ``n`` steps that are kept (all by default), oldest first; arguments as in :meth:`last`.

        ``Tap(history=n)`` says how many are kept. The steps are of one place: the one that wrote last.
        """
        if n is not None and n > self._length:
            raise OptionError(
                _("tap.history({name!r}, {n}): this tap keeps {length}.").format(name=name, n=n, length=self._length),
                _("Make it with Tap(history={n}) before the first step.").format(n=n),
            )
        line, kept = self._latest(name, call, model, session)
        wanted = kept[-(self._length if n is None else n) :]
        return [self._reading(line, entry, structure, session) for entry, structure in wanted]

    def steps(self, name: str, *, call: str | None = None, model: Any = None, session: Any = None) -> int:
        """Return how many steps wrote ``name`` so far, over all places that match; arguments as in :meth:`last`."""
        lines = self._matching(name, call, model, session)
        return sum(int(line.count.value(self._session(line, session), 0)) for line in lines)

    def clear(self) -> None:
        """Forget all values, as if no step had run; functions that use the tap go on to write."""
        with self._lock:
            for line in self._lines.values():
                if not line.where.in_graph:
                    line.reset()

    def check_second_pass(self, name: str, other: Any, *, model: Any = None) -> Reading:
        """Check a value got by a second forward pass against that of the last step.

        Parameters
        ----------
        name
            The name given to the tap.
        other
            What the second pass gave, such as ``labels - model(x)``.
        model
            The Keras model, to name what makes its second pass differ.

        Returns
        -------
        The reading, if both are bitwise equal.

        Raises
        ------
        NotApplicableError
            They differ: by how much, and why.
        """
        reading = self._last(name, model=model)[0]
        tap_traps.compare_second_pass(reading, other, model)
        return reading

    @staticmethod
    def clear_errors() -> AbstractContextManager[None]:
        """Return a context in which errors of the hand-made ways (a scalar variable, ...) say what to do.

        Examples
        --------
        >>> with cachelab.Tap.clear_errors():
        ...     model.train_on_batch(x, y)     # doctest: +SKIP
        """
        return tap_traps.clear_errors()

    def _matching(self, name: str, call: str | None, model: Any, session: Any) -> list[Line]:
        if call is not None and call not in tap_where.CALLS:
            raise OptionError(
                _("call={call!r} is no kind of call; there are {calls}.").format(
                    call=call, calls=", ".join(tap_where.CALLS)
                )
            )
        token = None if model is None else tap_where.token_of(model)
        session = session or tf.compat.v1.get_default_session()
        with self._lock:
            lines = [line for (known, _where), line in self._lines.items() if known == name]
        return [
            line
            for line in lines
            if (call is None or line.where.call == call)
            and (token is None or line.where.token == token)
            and (not line.where.in_graph or (session is not None and line.where.graph is session.graph))
        ]

    def _latest(self, name: str, call: str | None, model: Any, session: Any) -> tuple[Line, list[tuple[Entry, Any]]]:
        """Return the line that was written last and what it keeps."""
        lines = self._matching(name, call, model, session)
        kept = [(line, line.read(self._session(line, session))) for line in lines]
        written = [(line, pairs) for line, pairs in kept if pairs]
        if not written:
            raise NameNotFoundError(*self._nothing(name, call, model, session))
        return max(written, key=lambda found: found[1][-1][0].stamp)

    def _nothing(self, name: str, call: str | None, model: Any, session: Any) -> tuple[str, str]:
        """Return what to say where no step wrote ``name``."""
        known = [line for (other, _where), line in self._lines.items() if other == name]
        if not known:
            names = ", ".join(repr(other) for other in self.names) or _("none")
            return (
                _("No step with a tap {name!r} was traced yet; names so far: {names}.").format(name=name, names=names),
                _("Use tap({name!r}, tensor) in the loss, layer or function and run a step.").format(name=name),
            )
        if any(line.where.in_graph for line in known) and not (session or tf.compat.v1.get_default_session()):
            return (
                _("{name!r} was tapped in a v1 graph, and there is no current session.").format(name=name),
                _("Name it: tap.last({name!r}, session=sess).").format(name=name),
            )
        if call is not None or model is not None:
            there = ", ".join(f"{line.where.call} {line.where.owner}".strip() for line in known)
            return (
                _("No step of that kind or model wrote {name!r} yet.").format(name=name),
                _("It was tapped in: {there}.").format(there=there),
            )
        return (
            _("{name!r} is read before any step wrote it.").format(name=name),
            _("Run a step first; a step that failed does not count."),
        )

    def _session(self, line: Line, session: Any) -> Any:
        return None if not line.where.in_graph else session or tf.compat.v1.get_default_session()

    def _reading(self, line: Line, entry: Entry, structure: Any, session: Any) -> Reading:
        stale: tuple[str, ...] = ()
        if line.watched:
            stale = tap_graph.stale_variables(line.watched, self._session(line, session))
        return Reading(line.name, pack(structure, entry.parts), entry.step, line.where.call, line.where.owner, stale)

    def _last(
        self, name: str, *, call: str | None = None, model: Any = None, session: Any = None
    ) -> tuple[Reading, str]:
        """Return the last value and what to warn of."""
        line, kept = self._latest(name, call, model, session)
        reading = self._reading(line, *kept[-1], session)
        if reading.stale:
            changed = ", ".join(f"`{variable}`" for variable in reading.stale)
            template = _("{name!r} is stale: {changed} changed since the run that wrote it.")
            return reading, template.format(name=name, changed=changed)
        if call is not None or reading.call not in {"test", "predict"}:
            return reading, ""
        if not any(other.read(None) for other in self._matching(name, "train", model, session)):
            return reading, ""
        template = _(
            "{text} It came after the last training step, whose value is kept: tap.last({name!r}, call='train')."
        )
        return reading, template.format(text=reading.text, name=name)

    def __repr__(self) -> str:
        rows = [
            f"  {name!r}: {line.where.call} {line.where.owner}".rstrip()
            + (f", {int(line.count.value())} steps" if not line.where.in_graph else "")
            for (name, _where), line in self._lines.items()
        ]
        return "\n".join([f"<Tap of {len(self)} names>", *rows])


def _warn(text: str) -> None:
    """Warn, in the name of the line that called the tap's method."""
    if text:
        warnings.warn(text, TapWarning, stacklevel=3)
