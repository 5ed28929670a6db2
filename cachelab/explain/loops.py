"""The loops of a call's graph: their variables, and which loop counts another one's iterations."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from cachelab.explain.flat import LOOP_VAR, OUTSIDE
from cachelab.explain.guards import ENTERS, EXITS
from cachelab.explain.variant import COMES_ROUND, MERGES, SWITCHES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cachelab.explain.closure import Closure
    from cachelab.explain.flat import FlatGraph, Ref


class Head(NamedTuple):
    """Where a loop variable enters each iteration: a merge, or the virtual row of a loop of version 2.

    ``back``: what comes round to it. ``loop``, ``condition``: the loop that it belongs to, and the row that decides
    whether that goes on. ``bit``: stands for it among the events.
    """

    back: int
    loop: int
    condition: int
    bit: int


def loop_variables(flat: FlatGraph, closed: Closure, first: int) -> dict[int, Head]:
    """Return the loop variables of a closure; their bits begin with number ``first``."""
    found: dict[int, Head] = {}
    for row in closed.order:
        if flat.type[row] in MERGES:
            backs = [ref[0] for ref in closed.data[row] if flat.type[ref[0]] in COMES_ROUND]
            if backs:
                loop = _loop_around(flat, closed, backs[0])
                found[row] = Head(backs[0], loop, loop, 1 << (first + len(found)))
        elif flat.type[row] == LOOP_VAR and len(flat.inputs[row]) > 1:
            back, condition = (flat.resolve(ref)[0] for ref in flat.inputs[row][1:])
            found[row] = Head(back, flat.frame[row][-1], condition, 1 << (first + len(found)))
    return found


def _loop_around(flat: FlatGraph, closed: Closure, start: int) -> int:
    """Return the loop of version 1 whose body a row lies in: that of the first switch above, loops inside apart."""
    pending, seen = [(start, 0)], set()
    while pending:
        row, depth = pending.pop()
        if row in seen or depth < 0:
            continue
        seen.add(row)
        loop = loop_of(flat, closed, row) if flat.type[row] in SWITCHES and not depth else None
        if loop is not None:
            return loop
        depth += (flat.type[row] in EXITS) - (flat.type[row] in ENTERS)
        pending.extend((other, depth) for other in closed.waits[row])
    return start


def loop_of(flat: FlatGraph, closed: Closure, switch: int) -> int | None:
    """Return the loop of a switch: the row that decides whether it goes on."""
    inputs = flat.inputs[switch]
    decides = flat.resolve(inputs[1])[0] if len(inputs) > 1 else -1
    return decides if decides in closed.waits and flat.type[decides] == "LoopCond" else None


def counting_loops(flat: FlatGraph, closed: Closure, heads: Mapping[int, Head]) -> dict[int, int]:
    """Return loop -> a loop whose iterations it counts, from zero on: it turns if that one did.

    So does the gradient of a loop of version 2, whose condition compares its counter with that of the loop.
    """

    def made(ref: Ref) -> int:
        """Return the row that a tensor comes from, whatever hands it on; OUTSIDE if it is fed."""
        feeds = closed.fed_reached
        while (ref := flat.resolve(ref, feeds)) not in feeds:
            if kind(ref[0]) != "Identity":
                return ref[0]
            ref = flat.inputs[ref[0]][0]
        return OUTSIDE

    def kind(row: int) -> str:
        return "" if row == OUTSIDE else flat.type[row]

    def starts_at_zero(row: int) -> bool:
        return row in heads and kind(row) == LOOP_VAR and flat.numbers.get(made(flat.inputs[row][0])) == 0

    def turns(row: int) -> bool:
        """Tell whether a loop variable is the number of iterations, or of some multiple."""
        back = made(flat.inputs[row][1])
        if kind(back) not in {"Add", "AddV2"}:
            return False
        added = [made(ref) for ref in flat.inputs[back]]
        return row in added and any(flat.numbers.get(other, 0) > 0 for other in added)

    found: dict[int, int] = {}
    for row, head in heads.items():
        if kind(row) != LOOP_VAR or head.loop in found:
            continue
        decides = made(flat.inputs[row][2])
        if kind(decides) != "Less":
            continue
        counter, limit = (made(ref) for ref in flat.inputs[decides])
        if not starts_at_zero(counter) or heads[counter].loop != head.loop or kind(limit) != LOOP_VAR:
            continue
        if limit in heads and made(flat.inputs[limit][1]) != limit:
            continue  # it changes
        counted = made(flat.inputs[limit][0])
        if starts_at_zero(counted) and heads[counted].loop != head.loop and turns(counted):
            found[head.loop] = heads[counted].loop
    return found
