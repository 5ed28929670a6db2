"""How a live session holds kept values: as arrays that it feeds, as session handles, or in variables."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import tensorflow as tf
from tensorflow.python.client import pywrap_tf_session as runtime
from tensorflow.python.ops import session_ops

from cachelab.i18n import translate as _
from cachelab.modes import copying
from cachelab.modes.arrays import aligned, own, size_of
from cachelab.modes.optimizer import taken
from cachelab.modes.variable import Store as VariableStore
from cachelab.tf import hooks
from cachelab.tf.nodes import LABEL
from cachelab.tf.tracing import trace_options

if TYPE_CHECKING:
    from collections.abc import Iterable

    from cachelab.modes.live_plan import LivePlan, Way
    from cachelab.modes.live_store import Store

tf1 = tf.compat.v1


@dataclass
class Issue:
    """What to run: tensors (the user's first, then those to keep), ops, and feeds by tensor reference."""

    fetches: list[Any]
    targets: list[Any]
    feeds: dict[Any, Any]


@dataclass
class Wanted:
    """What a run is asked for: tensors that are not served, ops, names of tensors to keep; values of those served."""

    fetches: list[Any]
    targets: list[Any]
    extra: list[str]
    values: dict[str, Any]


class Tracer:
    """Asks TensorFlow for op times of one run, and for its optimised ``graph``."""

    def __init__(self, *, graph: bool) -> None:
        options = trace_options(graph=graph)
        self.pointers = (runtime.TF_NewBufferFromString(options.SerializeToString()), runtime.TF_NewBuffer())

    def seconds(self) -> dict[str, float]:
        """Return op -> seconds."""
        found: dict[str, float] = {}
        for device in self._metadata.step_stats.dev_stats:
            for node in device.node_stats:
                if LABEL.search(node.timeline_label):
                    found[node.node_name] = found.get(node.node_name, 0.0) + node.all_end_rel_nanos * 1e-9
        return found

    def taken(self, tensors: Iterable[str]) -> tuple[str, ...]:
        """Return the fed tensors that the optimised graph takes."""
        return taken(self._metadata, tensors)

    @cached_property
    def _metadata(self) -> Any:
        return tf1.RunMetadata.FromString(bytes(runtime.TF_GetBuffer(self.pointers[1])))

    def close(self) -> None:
        """Free the buffers."""
        for pointer in self.pointers:
            runtime.TF_DeleteBuffer(pointer)


class Arrays:
    """Holds numpy arrays and feeds them; adds no op."""

    note = ""
    overwrites = False
    """Whether keeping a value overwrites the earlier one of the same tensor in place."""
    adds_ops = False
    """Whether keeping or serving a value may add ops to the graph."""

    def __init__(self, session: Any) -> None:
        self.session = session

    @staticmethod
    def tracer(*, graph: bool) -> Tracer:
        """Return what measures the op times of one run, and shows its optimised ``graph``."""
        return Tracer(graph=graph)

    def prepare(self, _plan: LivePlan, way: Way, wanted: Wanted) -> Issue:
        """Return what to run: without the fetches that are served, which :meth:`finish` adds."""
        fetches = wanted.fetches
        if wanted.extra:
            fetches = [*fetches, *(self.session.graph.get_tensor_by_name(name) for name in wanted.extra)]
        feeds = dict(zip(self._references(way), wanted.values.values(), strict=True))
        return Issue(fetches, wanted.targets, feeds)

    def _references(self, way: Way) -> tuple[Any, ...]:
        """Return the references by which the served tensors are fed."""
        if len(way.references) != len(way.serve):
            tensors = (self.session.graph.get_tensor_by_name(name) for name, _at in way.serve)
            way.references = tuple(tensor.ref() for tensor in tensors)
        return way.references

    def finish(self, found: list[Any], fetches: tuple[str, ...], values: dict[str, Any]) -> list[Any]:
        """Return the user's results, copies in the place of kept values."""
        rest = iter(found)
        return [own(values[name]) if name in values else next(rest) for name in fetches]

    def results(self, values: list[Any]) -> list[Any]:
        """Return results that are all served: copies, so that users can't change what is kept."""
        return [own(value) for value in values]

    def hold(self, _name: str, value: Any, *, shared: bool) -> tuple[Any, int]:
        """Return what to keep of a fetched value, and its bytes; a copy where the user has the array too."""
        kept = aligned(own(value) if shared else value)
        return kept, size_of(kept)

    def sweep(self, store: Store) -> None:
        """Release what the store keeps no more."""

    def drop(self, store: Store) -> None:
        """Release what is kept."""


class Handles(Arrays):
    """Holds session handles and feeds them; adds one op a kept tensor."""

    adds_ops = True

    def __init__(self, session: Any) -> None:
        super().__init__(session)
        self.note = _("`handle` adds one op a kept tensor to your graph.")
        self._makers: dict[str, Any] = {}

    @hooks.unobserved()
    def prepare(self, _plan: LivePlan, way: Way, wanted: Wanted) -> Issue:
        """Return what to run, with handles in place of values."""
        fetches = [*wanted.fetches, *(self._maker(name) for name in wanted.extra)]
        held = (value.to_numpy_array() for value in wanted.values.values())
        feeds = dict(zip(self._references(way), held, strict=True))
        return Issue(fetches, wanted.targets, feeds)

    def _maker(self, name: str) -> Any:
        found = self._makers.get(name)
        if found is None:
            graph = self.session.graph
            with graph.as_default(), tf.device(None):
                found = self._makers[name] = tf1.get_session_handle(graph.get_tensor_by_name(name))
        return found

    @hooks.unobserved()
    def finish(self, found: list[Any], fetches: tuple[str, ...], values: dict[str, Any]) -> list[Any]:
        """Return the user's results, with what handles hold in the place of kept values."""
        rest = iter(found)
        return [values[name].eval() if name in values else next(rest) for name in fetches]

    @hooks.unobserved()
    def results(self, values: list[Any]) -> list[Any]:
        """Return results that are all served, out of their handles."""
        return [value.eval() for value in values]

    @hooks.unobserved()
    def hold(self, name: str, value: Any, *, shared: bool) -> tuple[Any, int]:
        """Return a session handle, and the bytes behind it; a fetched array is held as it is."""
        if shared:
            return _Direct(own(value)), size_of(value)
        dtype = self.session.graph.get_tensor_by_name(name).dtype.base_dtype
        held = session_ops.TensorHandle(value, dtype, self.session)
        return held, size_of(held.eval())


class _Direct:
    """A kept array that looks like a handle: for tensors that the user fetched anyway."""

    def __init__(self, array: Any) -> None:
        self._array = aligned(array)

    def to_numpy_array(self) -> Any:
        """Return what to feed."""
        return self._array

    def eval(self) -> Any:
        """Return a copy for the user."""
        return own(self._array)


class Variables(Arrays):
    """Holds values in variables, and runs copies of their consumers; adds those to the graph."""

    overwrites = True
    adds_ops = True

    def __init__(self, session: Any) -> None:
        super().__init__(session)
        self.note = _("`variable` adds variables, and copies of what uses them, to your graph.")
        self._stores: dict[str, VariableStore] = {}
        self._filled: set[str] = set()
        self._ways: dict[Any, Issue | None] = {}

    @hooks.unobserved()
    def prepare(self, plan: LivePlan, way: Way, wanted: Wanted) -> Issue:
        """Return what to run: copies of consumers on the variables, and ops that fill them."""
        key = (plan.fetches, plan.targets, plan.feeds, way.serve, way.keep)
        if key not in self._ways:
            self._ways[key] = self._build(plan, way, wanted)
        found = self._ways[key]
        if found is not None:
            return found
        graph = self.session.graph  # what uses the tensor can't be copied: read the variables and feed
        read = self.session.run
        feeds = {graph.get_tensor_by_name(name).ref(): read(store.read) for name, store in wanted.values.items()}
        fills = [self._store(name).write for name, _at in way.keep]
        return Issue(wanted.fetches, [*wanted.targets, *fills], feeds)

    def _store(self, name: str) -> VariableStore:
        found = self._stores.get(name)
        if found is None:
            graph = self.session.graph
            tensor = graph.get_tensor_by_name(name)
            found = self._stores[name] = VariableStore(graph, tensor, duplicate=True)
        return found

    def _build(self, plan: LivePlan, way: Way, wanted: Wanted) -> Issue | None:
        graph, facts = self.session.graph, plan.facts
        serve = tuple(name for name, _at in way.serve)
        replace = {name: self._store(name).read for name in serve}
        names = copying.consumers(facts, serve, way.needed)
        if copying.uncopyable(facts, names):
            return None
        prefix = copying.copy(facts, names, replace, plan.feeds, "cachelab_variable")[0] if names else ""

        def copied(name: str) -> str:
            return f"{prefix}/{name}" if name.rpartition(":")[0] in names and name not in plan.feeds else name

        fetches = [graph.get_tensor_by_name(copied(tensor.name)) for tensor in wanted.fetches]
        targets = [
            graph.get_operation_by_name(f"{prefix}/{o.name}" if o.name in names else o.name) for o in wanted.targets
        ]
        for name, _at in way.keep:
            store = self._store(name)
            fill = store.write
            if copied(name) != name:
                fill = store.fill(graph, graph.get_tensor_by_name(copied(name)))
            targets.append(fill)
        return Issue(fetches, targets, {})

    @hooks.unobserved()
    def finish(self, found: list[Any], fetches: tuple[str, ...], values: dict[str, Any]) -> list[Any]:
        """Return the user's results, with what variables hold in the place of kept values."""
        rest = iter(found)
        run = self.session.run
        return [run(values[name].read) if name in values else next(rest) for name in fetches]

    @hooks.unobserved()
    def results(self, values: list[Any]) -> list[Any]:
        """Return results that are all served, read from their variables."""
        return list(self.session.run([store.read for store in values]))

    @hooks.unobserved()
    def hold(self, name: str, value: Any, *, shared: bool) -> tuple[Any, int]:
        """Return the variable that was filled, and its bytes."""
        store = self._store(name)
        self._filled.add(name)
        kept = value if shared else self.session.run(store.read)
        return store, size_of(kept)

    @hooks.unobserved()
    def sweep(self, store: Store) -> None:
        """Free the variables of what was evicted, or was too large to be kept."""
        gone = [name for name in self._filled if not store.holds(name)]
        if gone:
            self._filled.difference_update(gone)
            self.session.run([self._stores[name].drop for name in gone])

    @hooks.unobserved()
    def drop(self, _store: Store) -> None:
        """Free the variables; those of a session that an error has killed, or whose server has gone, went with it."""
        if self._stores and not self.session._closed:
            with suppress(tf.errors.CancelledError, tf.errors.AbortedError, tf.errors.UnavailableError):
                self.session.run([store.drop for store in self._stores.values()])


def holder_of(mode: str, session: Any) -> Any:
    """Return what holds the values of a live mode; arrays where the graph is finalized."""
    kinds = {"handle": Handles, "variable": Variables}
    if mode not in kinds:
        return Arrays(session)
    if session.graph.finalized:
        found = Arrays(session)
        found.note = _("The graph is finalized, so `{mode}` feeds kept arrays instead.").format(mode=mode)
        return found
    return kinds[mode](session)
