"""The pruned graph of a call: what its fetches need, ordered so that every op comes after what it waits for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from cachelab.explain.flat import VIRTUAL

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from cachelab.explain.flat import FlatGraph, Ref

PLACEHOLDERS = frozenset({"Placeholder", "PlaceholderV2"})


@dataclass(frozen=True, slots=True)
class Signature:
    """What decides a call's pruned graph: fetched tensors, target ops and fed tensors of one graph."""

    fetches: tuple[Ref, ...]
    targets: tuple[int, ...]
    feeds: frozenset[Ref]


@dataclass(frozen=True, slots=True)
class Closure:
    """Rows that a call needs.

    ``order`` has every row after the rows that it waits for; the rows of a cycle (a loop) stand together and are
    listed in ``cycles``. ``data`` and ``waits`` give for each row the resolved data inputs that are not fed, and
    all rows that it waits for. ``fed`` gives the fed tensors among its data inputs, ``gates`` those that it waits for
    by a control edge. ``aliases`` is that of the graph, without what a feed cuts off from the variable.
    """

    order: tuple[int, ...]
    cycles: tuple[tuple[int, ...], ...]
    data: dict[int, tuple[Ref, ...]]
    waits: dict[int, tuple[int, ...]]
    fed: dict[int, tuple[Ref, ...]]
    gates: dict[int, tuple[Ref, ...]]
    fed_reached: frozenset[Ref]
    aliases: dict[int, tuple[int, ...]]


def closure(flat: FlatGraph, signature: Signature) -> Closure:
    """Return the closure of a signature.

    The walk follows data and control inputs and stops at fed *tensors*: an op with one output fed is still
    needed if another of its outputs, or a control edge from it, is. A control edge from a placeholder asks for its
    feed, as TensorFlow does: without it a run fails, and a piece of a partial run waits in vain.

    Notes
    -----
    The walk keeps its own stack: chains of 20,000 ops are deeper than Python's recursion limit.
    """
    data: dict[int, tuple[Ref, ...]] = {}
    waits: dict[int, tuple[int, ...]] = {}
    fed: dict[int, tuple[Ref, ...]] = {}
    gates: dict[int, tuple[Ref, ...]] = {}
    reached: set[Ref] = set()
    feeds = signature.feeds
    pending = [ref[0] for ref in signature.fetches if ref not in feeds]
    pending += signature.targets
    while pending:
        row = pending.pop()
        if row in data or row < 0:
            continue
        kept, stopped, hubs = _followed(flat, flat.inputs[row], feeds)
        rows = [ref[0] for ref in kept]
        gating = tuple((r, 0) for r in flat.control[row] if flat.type[r] in PLACEHOLDERS and (r, 0) in feeds)
        rows.extend(r for r in flat.control[row] if (r, 0) not in gating)
        rows.extend(flat.body.get(row, ()))
        targets = (flat.resolve(ref, feeds) for ref in flat.outputs.get(row, ()))
        rows.extend(ref[0] for ref in targets if ref not in feeds)
        data[row], waits[row] = tuple(kept), tuple(dict.fromkeys(r for r in rows if r >= 0))
        if stopped:
            fed[row] = tuple(stopped)
            reached.update(stopped)
        if gating:
            gates[row] = gating
            reached.update(gating)
        pending.extend(waits[row])
        pending.extend(hubs)
    reached.update(ref for ref in signature.fetches if ref in feeds)
    order, cycles = _ordered(data, waits)
    aliases = _aliases(flat, order, data, frozenset(reached))
    return Closure(order, cycles, data, waits, fed, gates, frozenset(reached), aliases)


def _aliases(
    flat: FlatGraph, order: tuple[int, ...], data: dict[int, tuple[Ref, ...]], reached: frozenset[Ref]
) -> dict[int, tuple[int, ...]]:
    """Return the rows whose outputs share the buffer of a ref variable: what comes of a fed value shares none."""
    if not any(ref[0] in flat.aliases for ref in reached):
        return flat.aliases
    found: dict[int, tuple[int, ...]] = {}
    for row in order:
        shared = flat.aliases.get(row, ())
        if shared and flat.inputs[row] and not flat.writes.get(row):  # passed on from its inputs, which may be fed
            makers = [flat.resolve(ref)[0] for ref in data[row]]
            virtual = any(flat.type[maker] in VIRTUAL for maker in makers)  # as a whole, whatever it selects
            if not virtual and all(maker in found for maker in makers):  # those of a loop are not, at first
                passed = {cell for maker in makers for cell in found[maker]}
                shared = tuple(cell for cell in shared if cell in passed)
        found[row] = shared
    return {row: shared for row, shared in found.items() if shared}


def needed_inside(flat: FlatGraph, signature: Signature, found: Closure) -> set[int]:
    """Return the rows of a closure that more leads to than that a hub counts as a whole.

    The runtime inlines hubs, and then removes what nothing takes, such as a loop variable that counts for itself
    alone. A hub that somebody waits for by a control edge stays whole.
    """

    def bodies(hubs: Iterable[int]) -> Iterable[int]:
        return (row for hub in hubs for row in flat.body.get(hub, ()))

    kept, _fed, hubs = _followed(flat, signature.fetches, signature.feeds)
    rows: set[int] = set()
    pending = [*(ref[0] for ref in kept), *signature.targets, *bodies(hubs)]
    while pending:
        row = pending.pop()
        if row in rows or row not in found.waits:
            continue
        rows.add(row)
        _kept, _fed, hubs = _followed(flat, flat.inputs[row], signature.feeds)
        pending.extend(found.waits[row])
        pending.extend(bodies(hubs))
    return rows


def _followed(flat: FlatGraph, refs: Iterable[Ref], feeds: frozenset[Ref]) -> tuple[list[Ref], list[Ref], list[int]]:
    """Split references into those kept (resolved) and those fed; list the hubs passed.

    A hub runs as a whole, so it belongs to the closure; but a consumer of one output of an inlined call waits for
    that output only, not for the effects of the body.
    """
    kept: list[Ref] = []
    stopped: list[Ref] = []
    hubs: list[int] = []
    for source in refs:
        ref = source
        while ref not in feeds:
            outputs = flat.outputs.get(ref[0])
            if outputs is None or ref[1] >= len(outputs):
                break
            hubs.append(ref[0])
            ref = outputs[ref[1]]
        if ref in feeds:
            stopped.append(ref)
        else:
            kept.append(ref)
    return kept, stopped, hubs


def _ordered(
    data: dict[int, tuple[Ref, ...]], waits: dict[int, tuple[int, ...]]
) -> tuple[tuple[int, ...], tuple[tuple[int, ...], ...]]:
    """Order rows after what they wait for; fall back to strongly connected components where there are cycles."""
    missing = {row: len(before) for row, before in waits.items()}
    after: dict[int, list[int]] = {row: [] for row in data}
    for row, before in waits.items():
        for other in before:
            after[other].append(row)
    ready = [row for row, count in missing.items() if not count]
    order: list[int] = []
    while ready:
        row = ready.pop()
        order.append(row)
        for other in after[row]:
            missing[other] -= 1
            if not missing[other]:
                ready.append(other)
    if len(order) == len(data):
        return tuple(order), ()
    components = strongly_connected(waits)
    cycles = tuple(c for c in components if len(c) > 1 or c[0] in waits[c[0]])
    return tuple(row for component in components for row in component), cycles


def strongly_connected(waits: dict[int, Sequence[int]] | dict[int, tuple[int, ...]]) -> list[tuple[int, ...]]:
    """Return the strongly connected components of a graph, each after those that it waits for (Tarjan 1972)."""
    number: dict[int, int] = {}
    low: dict[int, int] = {}
    on_stack: set[int] = set()
    stack: list[int] = []
    found: list[tuple[int, ...]] = []
    for root in waits:
        if root in number:
            continue
        number[root] = low[root] = len(number)
        stack.append(root)
        on_stack.add(root)
        work = [(root, iter(waits[root]))]
        while work:
            row, children = work[-1]
            for child in children:
                if child not in number:
                    number[child] = low[child] = len(number)
                    stack.append(child)
                    on_stack.add(child)
                    work.append((child, iter(waits[child])))
                    break
                if child in on_stack:
                    low[row] = min(low[row], number[child])
            else:
                work.pop()
                if work:
                    parent = work[-1][0]
                    low[parent] = min(low[parent], low[row])
                if low[row] == number[row]:
                    cut = stack.index(row) if stack[-1] != row else len(stack) - 1
                    component = tuple(stack[cut:])
                    del stack[cut:]
                    on_stack.difference_update(component)
                    found.append(component)
    return found
