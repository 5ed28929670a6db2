"""A drop-in session that serves what it computed before: ``cachelab.Session``.

Every run passes through :meth:`Session._do_run`, below TensorFlow's own handling of fetch structures and feeds. There
the tensors whose key was seen before are fed from kept values, so that what lies behind them does not run. Modes
``run``, ``memo`` and ``feed`` add no op to the graph; ``handle`` and ``variable`` do.
"""

from __future__ import annotations

import threading
from contextlib import nullcontext
from itertools import compress, count
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakSet

import tensorflow as tf

from cachelab.errors import OptionError
from cachelab.i18n import translate as _
from cachelab.modes.arrays import idle
from cachelab.modes.graphs import Facts
from cachelab.modes.live_digests import Digests
from cachelab.modes.live_holders import Wanted, holder_of
from cachelab.modes.live_plan import LivePlan
from cachelab.modes.live_store import CacheInfo, Store
from cachelab.modes.live_versions import Versions
from cachelab.modes.place import HandleSession
from cachelab.options import parse_bytes
from cachelab.session_state import choice
from cachelab.tf import hooks
from cachelab.tf.logbook import optimized

if TYPE_CHECKING:
    from cachelab.modes.live_plan import Way

LIVE_MODES = ("run", "memo", "feed", "variable", "handle")
NOTHING = nullcontext()
MOST_SEEN = 100_000
"""Keys remembered; over it the oldest are forgotten."""
WORTH_SECONDS = 5e-6
"""Op time that a kept tensor has to save in a hit."""
WORTH_SECONDS_A_BYTE = 1e-11
"""And for each of its bytes."""


_made: WeakSet[Session] = WeakSet()
_numbers = count(1)


def open_sessions() -> list[Session]:
    """Return the live sessions of this process that are open, oldest first."""
    return sorted((one for one in tuple(_made) if isinstance(one, Session) and not one._closed), key=lambda s: s.number)


class Served(NamedTuple):
    """What the session did for the call under way in this thread: kept tensors served, tensors kept."""

    serve: tuple[str, ...]
    keep: tuple[str, ...]
    skipped: bool


_local = threading.local()


def served() -> Served | None:
    """Return what a live session served in the latest call of this thread, ``None`` if it served and kept nothing."""
    found = getattr(_local, "served", None)
    if found is None:
        return None
    way, skipped = found
    return Served(tuple(name for name, _at in way.serve), tuple(name for name, _at in way.keep), skipped)


class Session(HandleSession):
    """Like ``tf.compat.v1.Session``, but computes nothing twice that can be served from a kept value.

    Parameters
    ----------
    target, graph, config
        As for ``tf.compat.v1.Session``.
    mode
        ``memo`` (any number of values a tensor, within the budget), ``feed`` (the latest value a tensor), ``handle``
        (values stay in the runtime), ``variable`` (likewise, in variables) or ``run`` (serve nothing). ``handle`` and
        ``variable`` add ops to the graph; if it is finalized they do as ``memo`` does, and :meth:`cache_info` says so.
        By default the mode that ``%cachelab mode`` or JupyterLab's switch chose before, if it is one of the first four,
        else ``memo``.
    memory_budget
        Bytes that may be held, as a number or a text such as ``"1GB"``.

    Raises
    ------
    OptionError
        If there is no such live mode, or the budget is no size.

    Notes
    -----
    A value is served only if the same tensor was computed in this session before, from feeds of the same content and
    variables that no run of this session has written since. In a session on a server (``target="grpc://..."``) others
    may write variables unseen, so there only what depends on feeds alone is served.
    """

    _session = None  # for TensorFlow's __del__, if an option is refused before the session exists

    def __init__(
        self,
        target: str = "",
        graph: Any = None,
        config: Any = None,
        *,
        mode: str | None = None,
        memory_budget: int | str | None = "1GB",
    ) -> None:
        if mode is None:
            mode = choice.mode if choice.mode in LIVE_MODES and choice.mode != "run" else "memo"
        if mode not in LIVE_MODES:
            raise OptionError(
                _("There is no live mode `{mode}`.").format(mode=mode),
                _("Use one of {modes}; the others need to know later calls.").format(modes=", ".join(LIVE_MODES)),
            )
        super().__init__(target, graph, config)
        self.mode = mode
        self.memory_budget = None if memory_budget is None else parse_bytes(memory_budget)
        self._store = Store(self.memory_budget, None if mode == "memo" else 1)
        self._holder = holder_of(mode, self)
        self._digests = Digests()
        self._lock = threading.RLock()
        self._facts: Facts | None = None
        self._graph_version = -1
        self._plans: dict[Any, LivePlan] = {}
        self._class_numbers: dict[Any, int] = {}
        self._versions = Versions()
        self._seen: dict[Any, None] = {}
        self._threads: set[int] = set()
        self.number = next(_numbers)
        _made.add(self)

    # -- what users ask ------------------------------------------------------------------------------------------

    def cache_info(self) -> CacheInfo:
        """Return hits, misses, bytes held, evictions, seconds saved, and what the mode did to the graph."""
        with self._lock:
            return self._store.info(self._holder.note)

    def clear_cache(self) -> None:
        """Drop every kept value, and count from zero."""
        with self._lock:
            self._holder.drop(self._store)
            self._store.clear()
            self._seen.clear()

    def close(self) -> None:
        """Close the session and drop what it kept; :meth:`cache_info` still says what it did."""
        with self._lock:
            self._holder.drop(self._store)
            self._store.forget_all()
            self._seen.clear()
        super().close()

    def make_callable(self, fetches: Any, feed_list: Any = None, accept_options: bool = False) -> Any:
        """Return a callable like TensorFlow's; it is served as :meth:`run` is."""
        if feed_list is None and not accept_options:
            return lambda: self.run(fetches)
        made = super().make_callable(fetches, feed_list, accept_options)
        return made if feed_list is not None else self._noted(made)  # with feeds TensorFlow's calls our ``run``

    def _writes_everything(self) -> Any:
        """Return a context in which a call of which nothing is known may write anything."""
        return self._versions.writing_anything()

    def _make_callable_from_options(self, callable_options: Any) -> Any:
        return self._noted(super()._make_callable_from_options(callable_options))

    def _noted(self, made: Any) -> Any:
        """Return a callable that goes past :meth:`_do_run`, counted as one that may write anything."""

        def call(*arguments: Any, **options: Any) -> Any:
            with self._writes_everything():
                return made(*arguments, **options)

        return call

    # -- every run -----------------------------------------------------------------------------------------------

    def _do_run(
        self, handle: Any, target_list: Any, fetch_list: Any, feed_dict: Any, options: Any, run_metadata: Any
    ) -> Any:
        _local.served = None
        if self._closed:
            return super()._do_run(handle, target_list, fetch_list, feed_dict, options, run_metadata)
        if handle is not None:
            with self._versions.writing(frozenset(self._versions.volatile)):
                return super()._do_run(handle, target_list, fetch_list, feed_dict, options, run_metadata)
        plan = self._plan(target_list, fetch_list, feed_dict)
        if self.mode == "run" or not plan.classes:
            with self._versions.writing(plan.writes):
                return super()._do_run(handle, target_list, fetch_list, feed_dict, options, run_metadata)
        return self._run_served(plan, (target_list, fetch_list, feed_dict, options, run_metadata))

    def partial_run_setup(self, fetches: Any, feeds: Any = None) -> Any:
        """Set up a partial run; variables that it may write are not served from then on."""
        names = [self._graph.as_graph_element(item) for item in tf.nest.flatten(fetches)]
        with self._lock:
            facts = self._current_facts()
            closure = facts.closure(
                tuple(item.name for item in names if isinstance(item, tf.Tensor)),
                tuple(item.name for item in names if not isinstance(item, tf.Tensor)),
            )
            flat = facts.flat
            rows = (flat.index.get(name, -1) for name in closure)
            self._versions.volatile.update(flat.cells[cell].key for row in rows for cell in flat.writes.get(row, ()))
        return super().partial_run_setup(fetches, feeds)

    def _run_served(self, plan: LivePlan, arguments: tuple[Any, ...]) -> Any:
        target_list, _fetch_list, feed_dict = arguments[:3]
        with self._lock:
            self._threads.add(threading.get_ident())
            if self._holder.adds_ops and self._graph.finalized:  # as people do once it is built, and then train
                former, self._holder = self._holder, holder_of(self.mode, self)
                former.drop(self._store)
                self._store.forget_all()
                self._plans.clear()  # they tell how the former one's runs were optimised
                plan = self._plan(*arguments[:3])
            keys = self._keys(plan, feed_dict)
            way = self._way(plan, keys)
            values = {name: self._store.get(keys[at], name) for name, at in way.serve}
            self._store.misses += len(way.keep)
        skipped = bool(values) and not way.needed and not target_list
        if skipped:
            results = self._holder.results([values[name] for name in plan.fetches])
            if hooks.installed():
                hooks.served_whole(self, dict(zip(plan.fetches, results, strict=True)))
        else:
            results = self._execute(plan, way, (values, keys), arguments)
        if values or way.keep:
            _local.served = way, skipped
        with self._lock:
            for key, seen in zip(keys, way.seen, strict=True):
                if not seen and key is not None:
                    self._seen[key] = None
            while len(self._seen) > MOST_SEEN:
                del self._seen[next(iter(self._seen))]
        return results

    def _execute(
        self, plan: LivePlan, way: Way, kept: tuple[dict[str, Any], list[Any]], arguments: tuple[Any, ...]
    ) -> list[Any]:
        """Run what is left of a call, and keep what is to be kept."""
        values, keys = kept
        target_list, fetch_list, feed_dict, options, run_metadata = arguments
        base = super()._do_run
        extra = [name for name, _at in way.keep if name not in plan.fetches] if way.keep else []
        needed = way.feeding(plan.feeds)
        risky = bool(needed) and self._may_look_through(way)
        feeds = feed_dict
        if needed and not risky:
            feeds = dict(compress(feed_dict.items(), needed))
        elif risky and way.spares and options is None and not hooks.installed():  # a record has what users feed
            spared = zip(feed_dict.items(), needed, strict=True)
            feeds = feed_dict | {key: idle(value) for (key, value), fed in spared if not fed}
        own = None
        unknown = risky and way.spares is None
        untold = unknown or any(name not in plan.saved for name, _at in way.keep)
        if untold and options is None and run_metadata is None and not self._remote:
            own = self._holder.tracer(graph=unknown)
        if self._holder.overwrites:
            with self._lock:
                for name, _at in way.keep:
                    self._store.forget(name)
        unserved = [fetch_list[place] for place in way.rest]
        run = self._holder.prepare(plan, way, Wanted(unserved, target_list, extra, values))
        with self._versions.writing(plan.writes) if plan.writes else NOTHING:
            if own is not None:
                options, run_metadata = own.pointers
            try:
                with hooks.serving(hooks.Serving(frozenset(values), plan.fetches)) if hooks.installed() else NOTHING:
                    found = base(None, run.targets, run.fetches, feeds | run.feeds, options, run_metadata)
                seconds = own.seconds() if own is not None else None
                if own is not None and unknown:
                    way.spares = not own.taken(set(plan.feeds) - way.feeds)
            finally:
                if own is not None:
                    own.close()
        count = len(unserved)
        results = list(found[:count])
        if count < len(plan.fetches):
            results = self._holder.finish(results, plan.fetches, values)
        if way.keep:
            got = dict(zip(plan.fetches, results, strict=True))
            got.update(zip(extra, found[count:], strict=False))
            got.update(dict.fromkeys(set(extra) - got.keys()))
            self._keep(plan, way, keys, (got, seconds))
        return results

    def _may_look_through(self, way: Way) -> bool:
        """Whether graph optimisation may ask for feeds that served values make unnecessary."""
        return bool(way.serve) and (self._remote or self._facts is None or self._facts.optimized)

    def _keep(self, plan: LivePlan, way: Way, keys: list[Any], got: tuple[Any, Any]) -> None:
        """Keep what a run gave, unless a variable that it depends on was written meanwhile."""
        kept, seconds = got
        with self._lock:
            for name, at in way.keep:
                cells = plan.classes[at].cells
                if keys[at][1] != self._versions.of(cells) or not self._versions.settled(cells):
                    continue
                value, size = self._holder.hold(name, kept[name], shared=name in plan.fetches)
                saved = self._saved(plan, name, seconds)
                if saved < max(WORTH_SECONDS, size * WORTH_SECONDS_A_BYTE):
                    plan.unworthy.add(name)
                    plan.forget()
                    continue
                if not self._store.put(keys[at], name, value, size, saved):
                    plan.unworthy.add(name)  # larger than the budget
                    plan.forget()
            self._holder.sweep(self._store)

    def _saved(self, plan: LivePlan, name: str, seconds: dict[str, float] | None) -> float:
        """Return the op time of a tensor and its ancestors, measured; assumed to be worth it where unknown."""
        if name in plan.saved:
            return plan.saved[name]
        if seconds is None:
            return 10 * WORTH_SECONDS
        closure = plan.facts.closure((name,), (), plan.feeds)
        plan.saved[name] = sum(seconds.get(op, 0.0) for op in closure)
        return plan.saved[name]

    # -- keys ----------------------------------------------------------------------------------------------------

    @property
    def _remote(self) -> bool:
        return bool(self._target)

    def _current_facts(self) -> Facts:
        version = self._graph.version
        if self._facts is None:
            self._facts = Facts(self._graph, optimized=optimized(self._config.SerializeToString()))
        elif version != self._graph_version:
            self._facts.update()
            self._plans.clear()
        self._graph_version = version
        return self._facts

    def _plan(self, target_list: Any, fetch_list: Any, feed_dict: Any) -> LivePlan:
        key = (
            tuple([id(item) for item in target_list]), tuple([id(item) for item in fetch_list]),
            tuple([id(key.deref()) for key in feed_dict]),
        )  # fmt: skip
        plan = self._plans.get(key) if self._graph.version == self._graph_version else None
        if plan is None:
            fed = [key.deref() for key in feed_dict]
            with self._lock:
                facts = self._current_facts()
                plan = self._plans[key] = LivePlan(
                    facts,
                    tuple(tensor.name for tensor in fetch_list),
                    tuple(op.name for op in target_list),
                    tuple(tensor.name for tensor in fed),
                    lambda sources: self._class_numbers.setdefault(sources, len(self._class_numbers)),
                    by_cells=not self._remote,
                )
                plan.alive = (*target_list, *fetch_list, *fed)  # so that their ids stay theirs
        return plan

    def _keys(self, plan: LivePlan, feed_dict: Any) -> list[Any]:
        """Return the key of each class now, ``None`` where a variable of it is being written."""
        digests = [self._digests.of(value) for value in feed_dict.values()]  # in the order of ``plan.feeds``
        versions = [self._versions.of(cells) if self._versions.settled(cells) else None for cells in plan.groups]
        return [
            None if (version := versions[one.group]) is None
            else (one.number, version, *[digests[at] for at in one.places])
            for one in plan.classes
        ]  # fmt: skip

    def _way(self, plan: LivePlan, keys: list[Any]) -> Way:
        nothing: frozenset[str] = frozenset()
        seen = tuple([key is not None and key in self._seen for key in keys])
        kept = tuple([self._store.tensors(key) if flag else nothing for key, flag in zip(keys, seen, strict=True)])
        way = plan.way(seen, kept)
        risky = way.mixes or self._holder.overwrites
        if risky and len(self._threads) > 1:  # another thread may write between the served read and ours
            way = plan.way(tuple([False] * len(keys)), tuple([nothing] * len(keys)))
        return way


__all__ = ["LIVE_MODES", "CacheInfo", "Served", "Session", "served"]
