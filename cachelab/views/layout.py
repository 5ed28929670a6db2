"""A small layered layout for static pictures: longest-path layers, few crossings, left to right.

Each open scope is laid out by itself and is then one box for its parent, so the cost is that of the largest scope,
not of the whole graph. Edges that close a cycle (between collapsed scopes they occur) are turned for the layering.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

GAP_X = 26
GAP_Y = 12
GAP_BAND = 26
_SWEEPS = 6


@dataclass
class Box:
    """A rectangle to place: ``x`` and ``y`` (top left, px) are filled in.

    ``anchor`` is how far below its top edges meet it; boxes that follow each other line up there.
    """

    key: int
    width: float
    height: float
    anchor: float
    x: float = 0.0
    y: float = 0.0
    layer: int = 0
    band: int = 0


@dataclass
class Layout:
    """Placed boxes and the size of the whole, in px.

    ``turned`` are the edges that run against the direction; ``bands`` the (top, bottom) of each band of layers.
    """

    boxes: dict[int, Box] = field(default_factory=dict)
    width: float = 0.0
    height: float = 0.0
    turned: set[tuple[int, int]] = field(default_factory=set)
    bands: list[tuple[float, float]] = field(default_factory=list)


def layered(boxes: Sequence[Box], edges: Iterable[tuple[int, int]], *, wrap: float | None = None) -> Layout:
    """Place ``boxes`` in layers from left to right.

    Parameters
    ----------
    boxes
        What to place, in an order that is kept where the edges leave a choice.
    edges
        Pairs of keys: from, to.
    wrap
        Width in px above which the layers go on in a new band below.

    Returns
    -------
    Layout
        The same boxes with positions, and the size of the whole.
    """
    layout = Layout({box.key: box for box in boxes})
    if not boxes:
        return layout
    order = [box.key for box in boxes]
    known = set(order)
    pairs = list(dict.fromkeys((a, b) for a, b in edges if a != b and a in known and b in known))
    forward, layout.turned = _acyclic(order, pairs)
    _layers(layout, order, forward)
    ranks = _ordered(layout, order, forward)
    _place(layout, ranks, forward, wrap)
    return layout


def _acyclic(
    order: Sequence[int], pairs: Sequence[tuple[int, int]]
) -> tuple[list[tuple[int, int]], set[tuple[int, int]]]:
    """Turn the edges that close a cycle, found by a depth-first walk in the given order."""
    after: dict[int, list[int]] = defaultdict(list)
    for a, b in pairs:
        after[a].append(b)
    state: dict[int, int] = {}
    back: set[tuple[int, int]] = set()
    for start in order:
        if start in state:
            continue
        state[start] = 1
        stack = [(start, iter(after[start]))]
        while stack:
            node, rest = stack[-1]
            for follower in rest:
                if follower not in state:
                    state[follower] = 1
                    stack.append((follower, iter(after[follower])))
                    break
                if state[follower] == 1:
                    back.add((node, follower))
            else:
                state[node] = 2
                stack.pop()
    return [(b, a) if (a, b) in back else (a, b) for a, b in pairs], back


def _layers(layout: Layout, order: Sequence[int], forward: Sequence[tuple[int, int]]) -> None:
    """Longest path from the start; what has no predecessor moves right, next to its first consumer."""
    after: dict[int, list[int]] = defaultdict(list)
    missing = dict.fromkeys(order, 0)
    for a, b in set(forward):
        after[a].append(b)
        missing[b] += 1
    starts = {key for key in order if not missing[key]}
    ready = [key for key in order if not missing[key]]
    boxes = layout.boxes
    for node in ready:
        for follower in after[node]:
            boxes[follower].layer = max(boxes[follower].layer, boxes[node].layer + 1)
            missing[follower] -= 1
            if not missing[follower]:
                ready.append(follower)
    for node in starts:
        if after[node]:
            boxes[node].layer = max(0, min(boxes[follower].layer for follower in after[node]) - 1)


def _ordered(layout: Layout, order: Sequence[int], forward: Sequence[tuple[int, int]]) -> list[list[int]]:
    """Return the keys of each layer, ordered by the mean place of their neighbours (barycentre sweeps)."""
    ranks: list[list[int]] = [[] for _ in range(1 + max(box.layer for box in layout.boxes.values()))]
    for key in order:
        ranks[layout.boxes[key].layer].append(key)
    before: dict[int, list[int]] = defaultdict(list)
    after: dict[int, list[int]] = defaultdict(list)
    for a, b in forward:
        before[b].append(a)
        after[a].append(b)
    place = {key: i / max(1, len(rank)) for rank in ranks for i, key in enumerate(rank)}
    for sweep in range(_SWEEPS):
        near = before if sweep % 2 == 0 else after
        for rank in ranks if sweep % 2 == 0 else reversed(ranks):
            mean = {
                key: sum(place[other] for other in near[key]) / len(near[key]) if near[key] else place[key]
                for key in rank
            }
            rank.sort(key=mean.__getitem__)
            for i, key in enumerate(rank):
                place[key] = (i + 0.5) / len(rank)
    return ranks


def _place(layout: Layout, ranks: list[list[int]], forward: Sequence[tuple[int, int]], wrap: float | None) -> None:
    boxes = layout.boxes
    bands: list[list[list[int]]] = [[]]
    x = 0.0
    for rank in ranks:
        width = max(boxes[key].width for key in rank)
        if wrap is not None and bands[-1] and x + width > wrap:
            bands.append([])
            x = 0.0
        bands[-1].append(rank)
        for key in rank:
            boxes[key].x = x
        x += width + GAP_X
    top = 0.0
    for number, band in enumerate(bands):
        bottom = _stack(layout, band, forward, top)
        for key in (key for rank in band for key in rank):
            boxes[key].band = number
        layout.bands.append((top, bottom))
        top = bottom + GAP_BAND
    layout.width = max(box.x + box.width for box in boxes.values())
    layout.height = layout.bands[-1][1]


def _stack(layout: Layout, band: list[list[int]], forward: Sequence[tuple[int, int]], top: float) -> float:
    """Place the layers of one band one below the other near their predecessors; return the bottom."""
    boxes = layout.boxes
    members = {key for rank in band for key in rank}
    before: dict[int, list[int]] = defaultdict(list)
    for a, b in forward:
        if a in members and b in members:
            before[b].append(a)
    for rank in band:
        y = -1e9
        for key in rank:
            box = boxes[key]
            lines = sorted(boxes[other].y + boxes[other].anchor for other in before[key])
            wanted = (lines[(len(lines) - 1) // 2] if lines else 0.0) - box.anchor
            box.y = max(y, wanted)
            y = box.y + box.height + GAP_Y
    shift = top - min(boxes[key].y for key in members)
    for key in members:
        boxes[key].y += shift
    return max(boxes[key].y + boxes[key].height for key in members)
