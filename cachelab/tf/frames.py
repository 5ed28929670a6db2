"""Under which names the ops of function bodies run: a call that is not inlined runs a graph of its own.

In that graph the names begin anew, without the name of the call, while calls inside it may be inlined in turn.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cachelab.explain.plan import Plan

CALLS = frozenset({"PartitionedCall", "StatefulPartitionedCall"})


class Frames(NamedTuple):
    """The ops that run in graphs of their own.

    ``names``: name in such a graph -> rows that may have it. ``prefix``: row -> what its full name has before that.
    """

    names: Mapping[str, tuple[int, ...]]
    prefix: Mapping[int, str]


def frames(plan: Plan, called: frozenset[str], inlined: frozenset[str]) -> Frames:
    """Return the graphs of the calls of a plan.

    Parameters
    ----------
    plan
        The plan.
    called
        Names under which call ops were seen to execute.
    inlined
        Names of those that left a ``NoOp`` where they were inlined. A name can be in both, for an outer and an inner
        call; then the outermost is the one that executed.
    """
    flat = plan.flat
    hub_of = {member: hub for hub in plan.closure.order for member in flat.members.get(hub, ())}
    prefix: dict[int, str] = {}
    names: dict[str, list[int]] = {}
    claimed: dict[str, int] = {}
    for row in sorted(hub_of, key=lambda row: _depth(row, hub_of)):
        hub = hub_of[row]
        outer = prefix.get(hub, "")
        name = flat.name[hub][len(outer) :]
        own = flat.type[hub] in CALLS and name in called
        if own and name in inlined:
            depth = _depth(hub, hub_of)
            own = claimed.setdefault(name, depth) == depth
        inner = f"{flat.name[hub]}/" if own else outer
        if inner:
            prefix[row] = inner
    for known, row in flat.index.items():  # an op that a function renamed is known under both names
        if row in prefix and row in plan.closure.data:
            names.setdefault(known[len(prefix[row]) :], []).append(row)
    return Frames({name: tuple(rows) for name, rows in names.items()}, prefix)


def _depth(row: int, hub_of: Mapping[int, int]) -> int:
    depth = 0
    while row in hub_of:
        row, depth = hub_of[row], depth + 1
    return depth
