"""What runs when in a partial run, as far as the graph tells: everything that waits for no feed runs at set-up."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cachelab.explain.closure import needed_inside
from cachelab.explain.log import Outcome

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from cachelab.explain.flat import Ref
    from cachelab.explain.plan import Plan


def derived(plan: Plan) -> Outcome:
    """Return what ran in a call without a trace: the whole closure, but where branches and loops decide."""
    return _shared(plan, "derived", lambda: _derived(plan))


def _shared(plan: Plan, what: Hashable, make: Callable[[], Outcome]) -> Outcome:
    """Return an outcome that all calls of a plan with the same story share: entries and columns are kept by it."""
    known: Outcome | None = plan.memo.get(what)
    if known is None:
        known = plan.memo[what] = make()
    return known


def _derived(plan: Plan) -> Outcome:
    fates = _fed(plan)
    ran = set(plan.shown) - fates.keys()
    unsure = uncertain(plan) & ran
    fates.update(dict.fromkeys(unsure, ("x", -1)))
    return Outcome(frozenset(ran - unsure), fates, "d", dict.fromkeys(unsure, "a"), complete=not plan.conditional)


def _fed(plan: Plan) -> dict[int, tuple[str, int]]:
    """Return the fates of ops that were fed."""
    flat = plan.flat
    rows = set(plan.fed_only)
    rows.update(ref[0] for ref in plan.closure.fed_reached if flat.type[ref[0]].startswith("Placeholder"))
    return dict.fromkeys(rows, ("d", -1))


def uncertain(plan: Plan) -> set[int]:
    """Return the rows that may not run, or any number of times: values or the runtime's inlining decide."""
    flat = plan.flat
    rows = set(plan.dead) | set(plan.loops)
    if flat.outputs:
        needed = needed_inside(flat, plan.signature, plan.closure)
        rows.update(row for row in plan.closure.order if row not in needed and row not in flat.outputs)
    for hub in plan.closure.order:
        for body in flat.branches.get(hub, ()):
            rows |= body
    return rows


def needed_feeds(plan: Plan) -> dict[int, int]:
    """Return row -> bit set of the fed tensors (in sorted order) that have to be there before it can run."""
    bit = {ref: 1 << number for number, ref in enumerate(sorted(plan.closure.fed_reached))}
    masks: dict[int, int] = {}
    in_cycle = {row: cycle for cycle in plan.closure.cycles for row in cycle}
    done: set[int] = set()
    for row in plan.closure.order:
        if row in done:
            continue
        rows = in_cycle.get(row, (row,))
        mask = 0
        for member in rows:
            for ref in (*plan.closure.fed.get(member, ()), *plan.closure.gates.get(member, ())):
                mask |= bit[ref]
            for other in plan.closure.waits[member]:
                mask |= masks.get(other, 0)
        masks.update(dict.fromkeys(rows, mask))
        done.update(rows)
    return masks


class HandleSteps:
    """Splits the closure of a partial-run handle into what becomes ready with each set of feeds."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self._needs = needed_feeds(plan)
        self._bits = {ref: 1 << number for number, ref in enumerate(sorted(plan.closure.fed_reached))}
        self._unsure = uncertain(plan)
        self._ran: set[int] = set()
        self._fed = 0

    def step(self, feeds: set[Ref], fetched: set[int]) -> Outcome:
        """Return what runs in the next piece: ops that its feeds make ready; served are values made earlier."""
        plan = self.plan
        for ref in feeds:
            self._fed |= self._bits.get(ref, 0)
        ready = {row for row in plan.shown if row in self._needs and not self._needs[row] & ~self._fed}
        new = ready - self._ran
        story = ("step", frozenset(feeds), frozenset(fetched), frozenset(new), frozenset(self._ran))
        made = _shared(plan, story, lambda: self._outcome(feeds, fetched, new))
        self._ran |= new
        return made

    def _outcome(self, feeds: set[Ref], fetched: set[int], new: set[int]) -> Outcome:
        plan, flat = self.plan, self.plan.flat
        fates: dict[int, tuple[str, int]] = {ref[0]: ("d", -1) for ref in feeds}
        used = {ref[0] for row in new for ref in plan.closure.data.get(row, ())} | fetched
        fates.update({row: ("s", -1) for row in used & self._ran if flat.shown[row]})
        unsure = new & self._unsure
        fates.update(dict.fromkeys(unsure, ("x", -1)))
        placeholders = {row for row in new if flat.type[row].startswith("Placeholder")}
        ran = frozenset(new - unsure - placeholders)
        return Outcome(ran, fates, "d", dict.fromkeys(unsure, "a"), complete=not plan.conditional)

    def refused(self, *, hard: bool) -> Outcome:
        """Return what is known of a piece that failed: nothing ran, or (``hard``) anything not run so far may have."""
        rest = [row for row in self.plan.shown if row in self._needs and row not in self._ran] if hard else []
        return Outcome(frozenset(), dict.fromkeys(rest, ("x", -1)), "d", dict.fromkeys(rest, "a"), complete=False)


def failed(plan: Plan, culprit: int | None) -> Outcome:
    """Return what is known of a failed call: what the failing op waited for ran, what waits for it was not reached."""
    return _shared(plan, ("failed", culprit), lambda: _failed(plan, culprit))


def _failed(plan: Plan, culprit: int | None) -> Outcome:
    flat, fates = plan.flat, _fed(plan)
    ran: set[int] = set()
    if culprit is not None and culprit in plan.closure.waits:
        pending = [culprit]
        while pending:
            row = pending.pop()
            if row not in ran:
                ran.add(row)
                pending.extend(plan.closure.waits[row])
    unsure = uncertain(plan)
    after: set[int] = {culprit} if culprit is not None else set()
    for row in plan.closure.order:
        if any(other in after for other in plan.closure.waits[row]):
            after.add(row)
    for row in plan.shown:
        if row not in ran and row not in fates:
            fates[row] = ("n" if row in after else "x", -1)
    kept = frozenset(row for row in ran if flat.shown[row] and row not in fates and row not in unsure)
    for row in ran - kept:
        fates.setdefault(row, ("x", -1))
    return Outcome(kept, fates, "d", {row: "a" for row, fate in fates.items() if fate[0] == "x"}, complete=False)
