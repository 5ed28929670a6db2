"""What a call reads and writes, and in which order: computed once per signature, for every call of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations, islice
from typing import TYPE_CHECKING, Any, NamedTuple

from cachelab.explain.closure import Closure, Signature, closure
from cachelab.explain.guards import Guards, exclusive, guard_of, guards
from cachelab.explain.orders import Orders, orders
from cachelab.explain.variant import MERGES, SWITCHES, Seen, Variant

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Iterator

    from cachelab.explain.flat import FlatGraph, Ref
    from cachelab.explain.log import Outcome

LAST = -2
"""Stands for the end of a call, as the reader of what is fetched."""
NOTHING: frozenset[int] = frozenset()
OF_THE_WHOLE = frozenset({"VarIsInitializedOp", "IsVariableInitialized", "VariableShape"})
"""Types that ask whether a variable has a value, or for its shape: updates fail without one, and keep it."""
SETTERS = frozenset({"Assign", "AssignVariableOp", "DestroyResourceOp", "DestroyTemporaryVariable"})
MOST_PAIRS = 1_000
"""Pairs of writes of one variable that are looked at."""


class Race(NamedTuple):
    """A read and a possible write of one cell that no edge of the call's graph orders."""

    cell: int
    reader: int
    writer: int
    both: bool = False


@dataclass(frozen=True, slots=True)
class State:
    """What a read sees of a cell.

    ``after``: the rows of the last writes before it, none if it sees what the call began with. ``unique``: no
    other execution is known to see the same, because of ``race`` with a write or a write in the same loop.
    """

    after: tuple[int, ...] = ()
    unique: bool = False
    race: int | None = None


@dataclass
class Plan:
    """The closure of one signature with the orders of its reads and writes.

    ``writers``: cell -> rows that may write it. ``dead``: rows whose output is dead if a branch is not taken; a
    control edge from one of these carries the branch. ``conditional``: what runs depends on values. ``memo``: what
    was derived from the plan, such as outcomes, which calls must share for a loop of them to stay small.
    """

    id: int
    flat: FlatGraph
    signature: Signature
    closure: Closure
    writers: dict[int, tuple[int, ...]]
    local_writers: dict[int, tuple[int, ...]]
    dead: frozenset[int]
    conditional: bool
    _bit: dict[int, int]
    _orders: Orders
    _variants: dict[tuple[Seen, int], Variant] = field(default_factory=dict)
    memo: dict[Hashable, Any] = field(default_factory=dict, repr=False)
    bypassed: frozenset[Ref] = frozenset()
    strays: frozenset[int] = frozenset()

    def bypass(self, feeds: Iterable[Ref], rows: Iterable[int] = ()) -> None:
        """Note that the runtime was seen to compute from what nothing of the closure takes: fed tensors, or ops.

        Graph optimisation can look through a fed tensor: of ``n = -(x * x)`` with ``x`` and the product fed, it makes
        one kernel that takes ``x``. So these count as sources of all that comes of fed tensors.
        """
        more, strays = self.bypassed.union(feeds), self.strays.union(rows)
        if (more, strays) != (self.bypassed, self.strays):
            self.bypassed, self.strays = more, strays
            self._variants.clear()

    @property
    def _before(self) -> dict[int, int]:
        return self._orders.before

    @cached_property
    def effects(self) -> frozenset[int]:
        """Rows whose effect has to happen in every call."""
        return frozenset(row for row in self.closure.order if row in self.flat.effects)

    @cached_property
    def groups(self) -> frozenset[int]:
        """Rows that do nothing but wait for effects, such as the op that ``minimize`` returns."""
        found: set[int] = set()
        for row in self.closure.order:
            if self.flat.type[row] == "NoOp" and any(
                other in self.flat.effects or other in found for other in self.flat.control[row]
            ):
                found.add(row)
        return frozenset(found)

    @cached_property
    def shown(self) -> tuple[int, ...]:
        """Rows that users see, in the order of the graph."""
        rows = {row for row in self.closure.order if self.flat.shown[row]}
        rows.update(ref[0] for ref in self.closure.fed_reached)
        return tuple(sorted(rows))

    @cached_property
    def fed_only(self) -> frozenset[int]:
        """Rows of fed tensors that the call doesn't need otherwise: their op can't run."""
        return frozenset(ref[0] for ref in self.closure.fed_reached if ref[0] not in self.closure.data)

    @cached_property
    def cells_read(self) -> frozenset[int]:
        """Cells that outlive the call and that some op of it reads."""
        flat = self.flat
        found = {cell for row in self.closure.order for cell in flat.reads.get(row, ())}
        for row, refs in self.closure.data.items():
            for ref in refs:
                found.update(self.closure.aliases.get(ref[0], ()))
            found.update(self.closure.aliases.get(row, ()))
        return frozenset(cell for cell in found if not flat.cells[cell].local)

    @cached_property
    def loops(self) -> frozenset[int]:
        """Rows that may run several times in a call."""
        return frozenset(row for row in self.closure.order if self.flat.frame.get(row))

    @cached_property
    def guards(self) -> dict[int, Guards]:
        """Row -> the branches under which alone it runs."""
        return guards(self.flat, self.closure) if self.conditional else {}

    def guard_of(self, ref: Ref) -> Guards:
        """Return the branches that a tensor lies in."""
        return guard_of(self.flat, self.guards, ref)

    def variant(self, outcome: Outcome | None) -> Variant:
        """Return the classes of equal sources for an outcome (``None``, or an incomplete one: not known what ran).

        What ran matters only where there are branches: an untaken branch contributes no sources.
        """
        seen = Seen()
        if outcome is not None and outcome.complete:
            frozen = frozenset(row for row in self._drawing if outcome.fates.get(row, ("",))[0] == "k")
            seen = Seen(outcome.ran, outcome.untaken, frozen) if self.conditional else Seen(frozen=frozen)
        key = (seen, len(self.flat.restless))  # which grows with the graph
        found = self._variants.get(key)
        if found is None:
            found = self._variants[key] = Variant(len(self._variants), self, seen)
        return found

    @cached_property
    def _drawing(self) -> tuple[int, ...]:
        return tuple(row for row in self.closure.order if row in self.flat.draws)

    def state(self, row: int, cell: int, ran: frozenset[int] | None) -> State:
        """Return what the op in ``row`` sees of ``cell`` when it runs (``LAST``: what the end of the call sees)."""
        writers = self.written(cell, ran)
        if row == LAST or not writers:
            return State(self._maximal(writers))
        preceding, around = [], False
        for writer, place in self._places(row, writers):
            if place == "unordered":
                return State(unique=True, race=writer)
            around |= place == "around"
            if place == "before":
                preceding.append(writer)
        return State(unique=True) if around else State(self._maximal(preceding))

    def _places(self, row: int, writers: Iterable[int]) -> Iterator[tuple[int, str]]:
        """Yield the writers with where they stand to ``row``; those of branches that exclude it are left out.

        ``around``: the two take turns in a loop.
        """
        own, before = self._bit.get(row, 0), self._before.get(row, 0)
        for writer in writers:
            if writer == row or self._blind(row, writer):
                continue
            is_before = bool(before & self._bit[writer])
            is_after = bool(self._before[writer] & own)
            if (is_before and is_after) or self._same_loop(row, writer):
                yield writer, "around" if self._take_turns(row, writer) else "unordered"
            elif self._overlap(row, writer):
                yield writer, "unordered"
            elif not self._exclusive(row, writer):
                yield writer, "before" if is_before else "after" if is_after else "unordered"

    def _blind(self, row: int, writer: int) -> bool:
        """Tell whether a read asks only for what a write keeps: that a variable has a value, or the shape of that."""
        return self.flat.type[row] in OF_THE_WHOLE and self.flat.type[writer] not in SETTERS

    def written(self, cell: int, ran: frozenset[int] | None) -> tuple[int, ...]:
        """Return the rows that wrote ``cell``, or may have where what ran is not known."""
        rows = self.writers.get(cell, ())
        return rows if ran is None or not self.conditional else tuple(row for row in rows if row in ran)

    def races(self) -> Iterator[Race]:
        """Yield every read with each write that no edge orders, and pairs of unordered writes of one variable.

        A pass-through op of a ref variable counts only where something else sees its buffer at the same moment;
        what its consumers see is judged at the consumers.
        """
        flat = self.flat
        for row in self.closure.order:
            if row in flat.outputs:  # the ops of its body read
                continue
            cells = set(flat.reads.get(row, ()))
            if not self.closure.aliases.get(row):
                for ref in self.closure.data[row]:
                    cells.update(self.closure.aliases.get(ref[0], ()))
            if row in flat.writes:
                cells -= set(flat.writes[row])
            for cell in cells & self.writers.keys():
                places = self._places(row, self.writers[cell])
                found = [Race(cell, row, writer) for writer, place in places if place == "unordered"]
                yield from found
                if not found and not self.closure.aliases.get(row):
                    for ref in self.closure.data[row]:
                        yield from self._replacements(row, ref, cell, self.writers[cell])
        for row in sorted(self._fetched):
            for cell in self.closure.aliases.get(row, ()):
                yield from (Race(cell, row, writer) for writer in self.later(row, cell, None))
        yield from self._rivals()

    def later(self, row: int, cell: int, ran: frozenset[int] | None) -> tuple[int, ...]:
        """Return the writes that a fetched tensor may show, though ``row`` made it before them.

        If it shares the buffer of a ref variable, it shows what that holds when it is copied out, at the end.
        """
        if row not in self._fetched or cell not in self.closure.aliases.get(row, ()):
            return ()
        before = self._before.get(row, 0)
        return tuple(other for other in self.written(cell, ran) if other != row and not before & self._bit[other])

    @cached_property
    def _fetched(self) -> frozenset[int]:
        return frozenset(self.flat.resolve(ref, self.signature.feeds)[0] for ref in self.signature.fetches)

    def _rivals(self) -> Iterator[Race]:
        """Yield pairs of writes of one variable of which nothing tells which comes first."""
        flat = self.flat
        for cell, writers in self.writers.items():
            if flat.cells[cell].kind != "variable":
                continue
            rows = [row for row in writers if cell in flat.writes.get(row, ())]  # not through an unknown handle
            for row, other in islice(combinations(rows, 2), MOST_PAIRS):
                mine, its = self._bit[row], self._bit[other]
                ordered = self._before[row] & its or self._before[other] & mine
                if not ordered and not self._exclusive(row, other):
                    yield Race(cell, row, other, both=True)

    def replaced(self, row: int, ref: Ref, cell: int, ran: frozenset[int] | None) -> Race | None:
        """Return a write that may give ``cell`` another buffer between the moment ``ref`` took it and ``row`` uses it.

        An op such as ``Identity`` takes the buffer of a ref variable when it runs. A write in place is seen by all
        that use the buffer later; one that replaces it, as ref ``Assign`` without ``validate_shape`` may, is not.
        """
        return next(self._replacements(row, ref, cell, self.written(cell, ran)), None)

    def _replacements(self, row: int, ref: Ref, cell: int, writers: Iterable[int]) -> Iterator[Race]:
        flat = self.flat
        replacing = [writer for writer in writers if writer in flat.replaces and writer != row]
        if not replacing:
            return
        pending, seen = [ref[0]], set()
        while pending:
            taker = pending.pop()
            if taker in seen or taker not in flat.takes or cell not in self.closure.aliases.get(taker, ()):
                continue
            seen.add(taker)
            for writer in replacing:
                bit = self._bit[writer]
                ordered = bool(self._before[taker] & bit) or bool(self._before[writer] & self._bit[taker])
                if not ordered or bool(self._before[taker] & bit) != bool(self._before[row] & bit):
                    yield Race(cell, taker, writer)
            pending.extend(other[0] for other in self.closure.data.get(taker, ()))

    def _exclusive(self, row: int, other: int) -> bool:
        """Tell whether two rows lie in different branches of one condition."""
        mine = self.guards.get(row)
        return mine is not None and exclusive(mine, self.guards.get(other, {}))

    def _same_loop(self, row: int, other: int) -> bool:
        frames, others = self.flat.frame.get(row, ()), self.flat.frame.get(other, ())
        return bool(frames and others and frames[0] == others[0])

    def _take_turns(self, row: int, writer: int) -> bool:
        """Tell whether an iteration of a loop of version 1 orders two of its rows."""
        if row in self.flat.frame or row == writer:
            return True
        once, own, its = self._orders.once, self._bit[row], self._bit[writer]
        return bool(once.get(row, 0) & its or once.get(writer, 0) & own)

    def _overlap(self, row: int, other: int) -> bool:
        """Tell whether two rows lie in one loop of version 1, whose iterations overlap."""
        loops = self._orders.loops
        return not loops.get(row, NOTHING).isdisjoint(loops.get(other, NOTHING))

    def _maximal(self, writers: Iterable[int]) -> tuple[int, ...]:
        """Return the writes that no other of ``writers`` surely follows."""
        rows = tuple(writers)
        last = [r for r in rows if not any(self._before[other] & self._bit[r] for other in rows if other != r)]
        return tuple(sorted(last or rows))  # in a loop each may follow the other


def make_plan(number: int, flat: FlatGraph, signature: Signature) -> Plan:
    """Analyse one signature: its closure, its writes, and what surely comes before what."""
    closed = closure(flat, signature)
    writers: dict[int, list[int]] = {}
    local: dict[int, list[int]] = {}
    for row in closed.order:
        for cell in flat.writes.get(row, ()):
            (local if flat.cells[cell].local else writers).setdefault(cell, []).append(row)
    _share_unknown(flat, closed, writers)
    bit: dict[int, int] = {}
    for row in closed.order:
        cells = set(flat.writes.get(row, ())) | set(flat.reads.get(row, ())) | set(closed.aliases.get(row, ()))
        for ref in closed.data[row]:
            cells.update(closed.aliases.get(ref[0], ()))
        if cells & writers.keys():
            bit[row] = 1 << len(bit)
    conditional = any(
        flat.type[row] in SWITCHES or flat.type[row] in MERGES or row in flat.branches or row in flat.frame
        for row in closed.order
    )
    return Plan(
        id=number,
        flat=flat,
        signature=signature,
        closure=closed,
        writers={cell: tuple(rows) for cell, rows in writers.items()},
        local_writers={cell: tuple(rows) for cell, rows in local.items()},
        dead=_maybe_dead(flat, closed) if conditional else frozenset(),
        conditional=conditional,
        _bit=bit,
        _orders=orders(flat, closed, bit) if bit else Orders({}, {}, {}),
    )


def _share_unknown(flat: FlatGraph, closed: Closure, writers: dict[int, list[int]]) -> None:
    """Count a write through an unknown handle as a write of every cell of the call, and the other way round."""
    unknown = {row for cell, rows in writers.items() if flat.cells[cell].kind == "opaque" for row in rows}
    used = {cell for row in closed.order for table in (flat.reads, flat.writes, closed.aliases)
            for cell in table.get(row, ()) if not flat.cells[cell].local}  # fmt: skip
    opaque = {cell for cell in used if flat.cells[cell].kind == "opaque"}
    if not opaque:
        return
    everything = {row for rows in writers.values() for row in rows}
    for cell in used:
        rows = everything if cell in opaque else unknown.union(writers.get(cell, ()))
        if rows:
            writers[cell] = sorted(rows)


def _maybe_dead(flat: FlatGraph, closed: Closure) -> frozenset[int]:
    """Return the rows downstream of a switch and not yet merged: dead when their branch is not taken."""
    dead: set[int] = set()
    changed = True
    while changed:
        changed = False
        for row in closed.order:
            if row in dead or flat.type[row] in MERGES:
                continue
            if flat.type[row] in SWITCHES or any(other in dead for other in closed.waits[row]):
                dead.add(row)
                changed = bool(closed.cycles)
    return frozenset(dead)
