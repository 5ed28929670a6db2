"""What a live session knows of one signature: which tensors depend on what, and which run serves them.

A tensor may be kept if its value depends on feeds and variables only, each read at the beginning of the call. Its
key is the content of those feeds and the versions of those variables.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cachelab.explain.closure import Signature
from cachelab.explain.plan import make_plan
from cachelab.model import BOOKKEEPING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from cachelab.explain.flat import Ref
    from cachelab.explain.variant import Variant
    from cachelab.modes.graphs import Facts


@dataclass(frozen=True)
class Class:
    """Tensors with the same sources: feeds, by their places among those of the call, and keys of variable cells.

    ``group``: place of ``cells`` among the :attr:`LivePlan.groups`.
    """

    number: int
    places: tuple[int, ...]
    cells: tuple[str, ...]
    group: int


@dataclass
class Way:
    """How a call is run: what is fed from kept values, what is fetched in addition to be kept, what is still fed.

    ``serve`` and ``keep`` hold (tensor, class index), ``rest`` the places of the fetches that are not served. ``mixes``
    tells that the ops that still run read a variable that a served value depends on too. ``spares`` tells whether the
    optimised graph was seen to do nothing with the other feeds: ``None`` until then.
    """

    serve: tuple[tuple[str, int], ...]
    keep: tuple[tuple[str, int], ...]
    rest: tuple[int, ...]
    feeds: frozenset[str]
    needed: frozenset[str]
    mixes: bool
    seen: tuple[bool, ...]
    """Of which classes the key was seen before."""
    spares: bool | None = None
    references: tuple[Any, ...] = ()
    """Of the served tensors, by which they are fed; for those who hold values, to be worked out once."""
    _feeding: tuple[bool, ...] | None = None

    def feeding(self, feeds: tuple[str, ...]) -> tuple[bool, ...]:
        """Return which of the call's feeds are still needed; empty if all are."""
        if self._feeding is None:
            needed = tuple(name in self.feeds for name in feeds)
            self._feeding = () if all(needed) else needed
        return self._feeding


class LivePlan:
    """Analysis of one (fetches, targets, fed tensors) of the user's graph.

    Parameters
    ----------
    facts
        Of the user's graph.
    fetches, targets, feeds
        Names.
    number
        Function that numbers a class by its sources; classes of different signatures share numbers.
    by_cells
        Whether values that depend on variables may be kept.

    Attributes
    ----------
    classes, class_of
        Tensors by what they depend on; op name -> place of its class.
    groups
        The sets of variable cells that classes depend on, each once.
    """

    def __init__(
        self,
        facts: Facts,
        fetches: tuple[str, ...],
        targets: tuple[str, ...],
        feeds: tuple[str, ...],
        number: Any,
        *,
        by_cells: bool,
    ) -> None:
        self.facts, self.fetches, self.targets, self.feeds = facts, fetches, targets, feeds
        flat = facts.flat
        plan = make_plan(0, flat, Signature(
            tuple(self._ref(name) for name in fetches),
            tuple(flat.index[name] for name in targets),
            frozenset(self._ref(name) for name in feeds),
        ))  # fmt: skip
        self.writes = frozenset(flat.cells[cell].key for cell in plan.writers)
        self.effects = frozenset(flat.name[row] for row in plan.effects)
        self.closure = facts.closure(fetches, targets, feeds)
        # An assertion that passed with other feeds says nothing of these.
        self.effects |= {name for name in self.closure if flat.type[flat.index[name]] == "Assert"}
        self.reads = frozenset(flat.cells[cell].key for cell in plan.cells_read)
        self.classes: list[Class] = []
        self.groups: tuple[tuple[str, ...], ...] = ()
        self.class_of: dict[str, int] = {}
        self.unworthy: set[str] = set()
        self.saved: dict[str, float] = {}
        self.alive: tuple[Any, ...] = ()
        self._ways: dict[Any, Way] = {}
        self._variant: Variant | None = None
        if not facts.looked_through(feeds):
            self._classify(plan, number, by_cells=by_cells)

    def _ref(self, tensor: str) -> Ref:
        name, _colon, output = tensor.rpartition(":")
        return self.facts.flat.index[name], int(output)

    def _classify(self, plan: Any, number: Any, *, by_cells: bool) -> None:
        flat = self.facts.flat
        variant = self._variant = plan.variant(None)
        groups: dict[tuple[str, ...], int] = {}
        for slots, members in zip(variant.classes, variant.members, strict=True):
            sources = [variant.slots[slot] for slot in slots]
            ops = [flat.name[row] for row in members if flat.type[row] not in BOOKKEEPING]
            if not ops or not sources or not all(self._keyed(source, by_cells=by_cells) for source in sources):
                continue
            feeds = tuple(sorted(flat.tensor_name(source.of) for source in sources if source.kind == "feed"))
            cells = tuple(sorted(flat.cells[source.of].key for source in sources if source.kind == "cell"))
            at = len(self.classes)
            places = tuple(self.feeds.index(name) for name in feeds)
            group = groups.setdefault(cells, len(groups))
            self.classes.append(Class(number((feeds, cells)), places, cells, group))
            self.class_of.update(dict.fromkeys(ops, at))
        self.groups = tuple(groups)

    def _keyed(self, source: Any, *, by_cells: bool) -> bool:
        """Whether a source has a version that says all about its value."""
        if source.kind == "feed":
            return True
        known = source.kind == "cell" and not source.after and self.facts.flat.cells[source.of].kind == "variable"
        return known and by_cells

    def way(self, seen: tuple[bool, ...], kept: tuple[frozenset[str], ...]) -> Way:
        """Return how to run the call.

        Parameters
        ----------
        seen
            For each class, whether its key was seen before.
        kept
            For each class, the tensors kept under its key.
        """
        key = (seen, kept)
        found = self._ways.get(key)
        if found is None:
            if len(self._ways) > 64:  # noqa: PLR2004 - a bound on memory, far above what programs need
                self._ways.clear()
            found = self._ways[key] = self._make(seen, kept)
        return found

    def forget(self) -> None:
        """Drop the ways, after what is worth keeping changed."""
        self._ways.clear()

    def _make(self, seen: tuple[bool, ...], kept: tuple[frozenset[str], ...]) -> Way:
        barred: set[str] = set()
        while True:
            serve, keep = self._walk(seen, kept, barred)
            needed = self.facts.closure(self.fetches, self.targets, (*self.feeds, *(name for name, _at in serve)))
            lost = (self.effects - needed) | self.facts.torn(self.closure, needed) | self._unchecked(needed, serve)
            names = tuple(name for name, _at in serve)
            if not lost and names and self.facts.reordered(self.fetches, self.targets, self.feeds, names):
                barred.update(names)
                continue
            if not lost:
                break
            barred.update(name for name, _at in serve if lost & self.facts.closure((name,), (), self.feeds))
        ops = self.facts.ops
        used = {value.name for name in needed if name in ops for value in ops[name].inputs} | set(self.fetches)
        cells = {cell for _name, at in serve for cell in self.classes[at].cells}
        reads = {cell for name in needed for cell in self._reads(name)}
        served = {name: at for name, at in serve if name in used and name.rpartition(":")[0] not in needed}
        return Way(
            serve=tuple(served.items()),
            keep=tuple(item for item in keep if item[0].rpartition(":")[0] in needed),
            rest=tuple(place for place, name in enumerate(self.fetches) if name not in served),
            feeds=frozenset(
                self.facts.feeds_needed(self.feeds, self.fetches, self.targets, [name for name, _at in serve])
            ),
            needed=needed,
            mixes=bool(cells & reads),
            seen=seen,
        )

    def _unchecked(self, needed: frozenset[str], serve: Iterable[tuple[str, int]]) -> frozenset[str]:
        """Return the ops left out that could fail on what this call feeds, though no served tensor depends on it.

        Such as a check behind a control dependency: that a tensor was made before, of the same inputs, says of the ops
        behind it only that they passed with what *it* depends on.
        """
        if self._variant is None:
            return frozenset()
        flat, place, masks = self.facts.flat, self._variant.class_of, self._variant.masks
        rows = ((name, flat.index[name]) for name in self.closure - needed)
        left = {name: masks[place[row]] for name, row in rows if row in place and flat.type[row] not in BOOKKEEPING}
        for served, _at in serve:
            known = masks[place[flat.index[served.rpartition(":")[0]]]]
            behind = self.facts.closure((served,), (), self.feeds)
            left = {name: mask for name, mask in left.items() if mask & ~known or name not in behind}
        return frozenset(left)

    def _reads(self, name: str) -> list[str]:
        flat = self.facts.flat
        row = flat.index.get(name, -1)
        return [flat.cells[cell].key for cell in (*flat.reads.get(row, ()), *flat.aliases.get(row, ()))]

    def _walk(
        self, seen: tuple[bool, ...], kept: tuple[frozenset[str], ...], barred: set[str]
    ) -> tuple[list[tuple[str, int]], list[tuple[str, int]]]:
        """Walk back from the fetches: serve what is kept, keep the first redundant tensor above what is not."""
        serve: dict[str, int] = {}
        keep: dict[str, int] = {}
        visited: set[tuple[str, bool]] = set()
        stack = [(name, False) for name in self.fetches if name not in self.feeds]
        stack += [(f"^{name}", False) for name in self.targets]
        while stack:
            name, below = stack.pop()
            if (name, below) in visited:
                continue
            visited.add((name, below))
            op = self.facts.ops.get(name[1:] if name[0] == "^" else name.rpartition(":")[0])
            if op is None:
                continue
            at = self.class_of.get(op.name) if name[0] != "^" and name not in barred else None
            if at is not None and seen[at]:
                if name in kept[at]:
                    serve[name] = at
                    continue
                if not below and name not in self.unworthy and not self.facts.unholdable(name):
                    keep[name] = at
                    below = True
            stack.extend((value.name, below) for value in op.inputs if value.name not in self.feeds)
            stack.extend((f"^{control.name}", below) for control in op.control_inputs)
        return list(serve.items()), list(keep.items())
