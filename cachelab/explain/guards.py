"""Under which branches an op runs: of two ops in different branches of one condition, at most one runs in a call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cachelab.explain.variant import MERGES, SWITCHES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cachelab.explain.closure import Closure
    from cachelab.explain.flat import FlatGraph, Ref

ENTERS = frozenset({"Enter", "RefEnter"})
EXITS = frozenset({"Exit", "RefExit"})

Guards = dict[Any, int]
"""Condition (hub row, or tensor of the predicate) -> branch under which alone an op runs."""


def guards(flat: FlatGraph, closed: Closure) -> dict[int, Guards]:
    """Return the guards of all rows that have any.

    Conditions inside loops are left out: there both branches may run in one call, in different iterations.
    """
    found: dict[int, Guards] = {}
    depth = _depths(flat, closed)
    for row in closed.order:
        waits = closed.waits[row]
        if flat.type[row] in MERGES:
            merged = [found.get(other, {}).items() for other in waits]
            own = dict(set.intersection(*map(set, merged))) if merged else {}
        else:
            own = {}
            for other in waits:
                own.update(found.get(other, {}))
            for producer, output in closed.data[row]:
                if flat.type[producer] in SWITCHES and not depth.get(producer) and producer not in flat.frame:
                    own[flat.resolve(flat.inputs[producer][1])] = output
        if own:
            found[row] = own
    for hub, bodies in flat.branches.items():
        if hub in closed.data and not depth.get(hub) and hub not in flat.frame:
            for branch, body in enumerate(bodies):
                for row in body & closed.data.keys():
                    found.setdefault(row, {})[hub, "branch"] = branch
    return found


def _depths(flat: FlatGraph, closed: Closure) -> dict[int, int]:
    """Return how many loops of control flow version 1 each row lies in, where it is in any."""
    depth: dict[int, int] = {}
    cycle_of = {row: cycle for cycle in closed.cycles for row in cycle}
    for row in closed.order:
        cycle = cycle_of.get(row)
        if cycle is not None:
            depth[row] = 1 + max((depth.get(other, 0) for member in cycle for other in closed.waits[member]), default=0)
            continue
        own = max((depth.get(other, 0) for other in closed.waits[row]), default=0)
        own += (flat.type[row] in ENTERS) - (flat.type[row] in EXITS)
        if own > 0:
            depth[row] = own
    return depth


def guard_of(flat: FlatGraph, found: Mapping[int, Guards], ref: Ref) -> Guards:
    """Return the branches that a tensor lies in, given the guards of rows: a switch has one output for each."""
    known = found.get(ref[0], {})
    if flat.type[ref[0]] in SWITCHES:
        return {**known, flat.resolve(flat.inputs[ref[0]][1]): ref[1]}
    return known


def exclusive(one: Guards, other: Guards) -> bool:
    """Tell whether two ops with these guards can't both run."""
    return any(other.get(condition, branch) != branch for condition, branch in one.items())
