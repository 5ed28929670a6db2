"""Classes of ops with the same sources, for one plan and one set of branches taken."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from cachelab.explain.flat import OUTSIDE, SELECT, VIRTUAL, Ref

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from cachelab.explain.guards import Guards
    from cachelab.explain.plan import Plan

MERGES = frozenset({"Merge", "RefMerge"})
SWITCHES = frozenset({"Switch", "RefSwitch", "_SwitchN"})
COMES_ROUND = frozenset({"NextIteration", "RefNextIteration"})


class Slot(NamedTuple):
    """A source as one plan sees it; each call gives it a version.

    ``kind``: ``feed`` (``of``: the tensor), ``cell`` (``of``: the cell; ``after``: rows of the last writes before
    the read, none if the read sees what the call began with), ``unique`` (a read that agrees with no other; ``of``:
    the cell, ``after``: the reading row), ``race`` (likewise, because of an unordered write), ``restless`` (likewise,
    as the cell may be written at any time), ``draw`` (``of``: the row that draws), ``frozen`` (likewise, but graph
    optimisation ran it before the call and kept the value), ``outside`` (``of``: the row whose input is unknown).
    """

    kind: str
    of: int | Ref
    after: tuple[int, ...] = ()


class Seen(NamedTuple):
    """What is known of the ops that ran, as far as it matters for sources.

    ``ran``: those that did, ``None`` if not known. ``untaken``: those that surely did not, as their branch was not
    taken. ``frozen``: those that draw, and were run before the call by graph optimisation, which keeps their values.
    """

    ran: frozenset[int] | None = None
    untaken: frozenset[int] = frozenset()
    frozen: frozenset[int] = frozenset()


class Variant:
    """Source classes of a plan.

    Parameters
    ----------
    number, plan
        Number among the variants of the plan.
    seen
        What is known of the ops that ran.

    Attributes
    ----------
    slots
        All sources.
    masks, classes
        For each class its slots, as a bit set and as indices.
    members
        For each class its rows (shown rows only).
    class_of
        Row -> class.
    maybe
        For each class the slots that come only through a branch that may not have been taken.
    """

    def __init__(self, number: int, plan: Plan, seen: Seen) -> None:
        self.id = (plan.id, number)
        self.plan = plan
        self.ran, self.untaken, self.frozen = seen
        self._doubtful = self.ran is None and plan.conditional
        self.slots: list[Slot] = []
        self._slot: dict[Slot, int] = {}
        self._handed: dict[int, tuple[int, ...]] = {}
        masks = self._masks(certain=False)
        sure = self._masks(certain=True) if self._doubtful else masks
        numbers: dict[int, int] = {}
        members: list[list[int]] = []
        optional: list[int] = []
        self.class_of: dict[int, int] = {}
        for row in plan.shown:
            mask = masks.get(row, 0)
            if row in plan.fed_only:
                mask = 0
                for ref in plan.closure.fed_reached:
                    if ref[0] == row:
                        mask |= self._bit(Slot("feed", ref))
            index = numbers.setdefault(mask, len(members))
            if index == len(members):
                members.append([])
                optional.append(0)
            members[index].append(row)
            optional[index] |= mask & ~sure.get(row, mask)
            self.class_of[row] = index
        self.masks = tuple(numbers)
        self.classes = [bits(mask) for mask in numbers]
        self.members = [tuple(rows) for rows in members]
        self.maybe = [frozenset(bits(mask)) for mask in optional]

    def _bit(self, slot: Slot) -> int:
        index = self._slot.setdefault(slot, len(self.slots))
        if index == len(self.slots):
            self.slots.append(slot)
        return 1 << index

    def _masks(self, *, certain: bool) -> dict[int, int]:
        """Return row -> bit set of slots that its value depends on; loops are iterated until nothing changes."""
        closed = self.plan.closure
        masks: dict[int, int] = {}
        dead: dict[int, int] = {}
        own: dict[int, dict[int, int]] = {}
        in_cycle = {row: cycle for cycle in closed.cycles for row in cycle}
        done: set[int] = set()
        for row in closed.order:
            if row in done:
                continue
            cycle = in_cycle.get(row)
            if cycle is None:
                masks[row] = self._mask(row, masks, dead, own, certain=certain)
                if row in self.plan.dead:
                    dead[row] = self._deadness(row, masks, dead)
                continue
            changed = True
            while changed:
                changed = False
                for member in cycle:
                    mask = self._mask(member, masks, dead, own, certain=certain) | masks.get(member, 0)
                    gone = self._deadness(member, masks, dead) if member in self.plan.dead else 0
                    if (mask, gone) != (masks.get(member), dead.get(member, 0)):
                        masks[member], dead[member] = mask, gone
                        changed = True
            done.update(cycle)
        bypassed = 0
        for ref in sorted(self.plan.bypassed):
            bypassed |= self._bit(Slot("feed", ref))
        for stray in sorted(self.plan.strays):
            bypassed |= self._bit(Slot("outside", stray))
        return {row: mask | bypassed if mask else 0 for row, mask in masks.items()} if bypassed else masks

    def _deadness(self, row: int, masks: dict[int, int], dead: dict[int, int]) -> int:
        """Return the slots that decide whether an op's output is dead: those of the predicates above it.

        A control edge from an op of a branch carries that and nothing else: not the values that the op was given.
        """
        plan, flat = self.plan, self.plan.flat
        mask = 0
        for other in plan.closure.waits[row]:
            mask |= dead.get(other, 0)
        if flat.type[row] not in SWITCHES:
            return mask
        target = flat.resolve(flat.inputs[row][1], plan.signature.feeds)
        if target in plan.signature.feeds:
            return mask | self._bit(Slot("feed", target))
        known = target[0] != OUTSIDE and not plan.closure.aliases.get(target[0])
        return mask | masks.get(target[0] if known else row, 0)

    def _mask(
        self,
        row: int,
        masks: dict[int, int],
        dead: dict[int, int],
        own: dict[int, dict[int, int]],
        *,
        certain: bool,
    ) -> int:
        plan, flat = self.plan, self.plan.flat
        mask = 0
        for ref in self._data(row, certain=certain):
            if ref in plan.signature.feeds:
                mask |= self._bit(Slot("feed", ref))
                continue
            if ref[0] == OUTSIDE:
                mask |= self._bit(Slot("outside", row))
                continue
            inherited = masks.get(ref[0], 0)
            for cell in self._aliased(ref[0]):
                # The buffer of a ref variable is seen as it is when this op runs, not when its producer ran.
                inherited &= ~own.get(ref[0], {}).get(cell, 0)
                if plan.replaced(row, ref, cell, self.ran) is not None:
                    mask |= self._bit(Slot("race", cell, (row,)))
                else:
                    mask |= self._read(row, cell, own)
            mask |= inherited
        drawn = row in flat.draws  # new with every execution, whatever the state it drew from was
        for cell in () if drawn else flat.reads.get(row, ()):
            if flat.cells[cell].local:
                for writer in plan.local_writers.get(cell, ()):
                    mask |= masks.get(writer, 0)
            else:
                mask |= self._read(row, cell, own)
        for cell in self._aliased(row):
            mask |= self._read(row, cell, own)
        if drawn:
            mask |= self._bit(Slot("frozen" if row in self.frozen else "draw", row))
        for control in flat.control[row]:
            mask |= dead.get(control, 0)
        for ref in flat.outputs.get(row, ()):
            target = flat.resolve(ref, plan.signature.feeds)
            mask |= self._bit(Slot("feed", target)) if target in plan.signature.feeds else masks.get(target[0], 0)
        return mask

    def _aliased(self, row: int) -> tuple[int, ...]:
        """Return the cells whose buffer an op hands on: a merge that of the branch taken, not those of the others."""
        known = self._handed.get(row)
        if known is None:
            plan = self.plan
            known = self._handed[row] = tuple(plan.closure.aliases.get(row, ()))  # the end of the way round a loop
            if known and self.ran is not None:
                feeds = plan.signature.feeds
                data = [ref for ref in self._data(row, certain=False) if ref[0] >= 0 and ref not in feeds]
                if data and not any(plan.flat.type[ref[0]] in VIRTUAL for ref in data):
                    through = {cell for ref in data for cell in self._aliased(ref[0])}
                    known = self._handed[row] = tuple(cell for cell in known if cell in through)
        return known

    def _data(self, row: int, *, certain: bool) -> Iterable[Ref]:
        """Return the data inputs that count, fed ones too: of merges and conditionals only those of branches taken."""
        plan, ran = self.plan, self.ran
        flat, feeds = plan.flat, plan.signature.feeds
        if row in flat.branches:  # the rest counts where the branches take it
            return [flat.resolve(flat.inputs[row][0], feeds)]
        if flat.type[row] == SELECT:
            predicate, *inputs = (flat.resolve(ref, feeds) for ref in flat.inputs[row])
            if ran is not None:
                inputs = self._kept(inputs, self._bodies_out(row), certain=certain)
            elif certain:
                inputs = []
            return [predicate, *inputs]
        data = (*plan.closure.fed.get(row, ()), *plan.closure.data[row])
        if flat.type[row] not in MERGES:
            return data
        if ran is None:
            return [ref for ref in data if flat.type[ref[0]] in {"Enter", "RefEnter"}] if certain else data
        if any(flat.type[ref[0]] in COMES_ROUND for ref in data):
            return data
        out = [ref[0] in self.untaken or self._is_out(plan.guard_of(ref)) for ref in data]
        return self._kept(data, out, certain=certain)

    def _kept(self, refs: Sequence[Ref], out: Sequence[bool], *, certain: bool) -> list[Ref]:
        """Return the inputs whose branch may have been taken; those of which it is certain, if that is asked."""
        kept = [ref for ref, gone in zip(refs, out, strict=True) if not gone] or list(refs)
        if len(kept) < 2:  # noqa: PLR2004
            return kept
        self._doubtful = True
        return [] if certain else kept

    def _bodies_out(self, row: int) -> list[bool]:
        """Tell of each branch of a conditional whether it was surely not taken; in a loop, not once."""
        hub = self.plan.flat.selects[row]
        bodies = self.plan.flat.branches[hub]
        if hub not in self.plan.loops:
            return [self._is_out({(hub, "branch"): number}) for number in range(len(bodies))]
        assert self.ran is not None
        return [not body & self.ran and bool(body & self.untaken) for body in bodies]

    def _is_out(self, guard: Guards) -> bool:
        """Tell whether one of these branches was not taken."""
        taken, out = self._branches
        return any(taken.get(condition, branch) != branch or (condition, branch) in out
                   for condition, branch in guard.items())  # fmt: skip

    @cached_property
    def _branches(self) -> tuple[Guards, set[tuple[Any, int]]]:
        """The branches that ops which ran show to be taken, and those shown not to be by ops that did not run."""
        taken: Guards = {}
        for row in self.ran or ():
            taken.update(self.plan.guards.get(row, {}))
        out = set()
        for row in self.untaken:
            left = [one for one in self.plan.guards.get(row, {}).items() if taken.get(one[0]) != one[1]]
            if len(left) == 1:
                out.add(left[0])
        return taken, out

    def _read(self, row: int, cell: int, own: dict[int, dict[int, int]]) -> int:
        """Return the slot of a read of ``cell`` at ``row``."""
        known = own.setdefault(row, {}).get(cell)
        if known is None:
            state = self.plan.state(row, cell, self.ran)
            if cell in self.plan.flat.restless:
                slot = Slot("restless", cell, (row,))
            elif self.plan.later(row, cell, self.ran):
                slot = Slot("race", cell, (row,))
            elif state.unique:
                slot = Slot("race" if state.race is not None else "unique", cell, (row,))
            else:
                slot = Slot("cell", cell, state.after)
            known = own[row][cell] = self._bit(slot)
        return known


def bits(mask: int) -> tuple[int, ...]:
    """Return the positions of the bits set in ``mask``, lowest first."""
    found = []
    while mask:
        low = mask & -mask
        found.append(low.bit_length() - 1)
        mask ^= low
    return tuple(found)
