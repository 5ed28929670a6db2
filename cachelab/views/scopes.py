"""The tree of name scopes over the ops of a graph that a picture shows, folded so that it stays readable.

Collapsing by name scope alone is not enough for large graphs (one scope can hold thousands of ops), so long rows of
children are grouped: ops of one type that went the same way in every call become a series (``Identity ×196``),
of many sibling scopes of one shape the first is kept and the others become one (``block1 … block11 ×11``), and what
still is too much becomes ``… 120 more ops``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator, Sequence

_ENOUGH = 0.04
_MANY = 4
_NUMBERS = re.compile(r"\d+")
_SUFFIX = re.compile(r"_\d+$")


@dataclass
class Node:
    """A scope, an op, a series of ops or a group of scopes, with the graph ``rows`` below it, in graph order.

    ``shown`` are the children that an open scope shows, grouped (see :func:`unfold`); empty if it is closed.
    """

    kind: str
    name: str
    path: str
    rows: list[int] = field(default_factory=list)
    children: list[Node] = field(default_factory=list)
    times: int = 1
    shown: list[Node] = field(default_factory=list)

    @property
    def label(self) -> str:
        """The name, with ``×n`` where it stands for several."""
        return f"{self.name} ×{self.times}" if self.times > 1 else self.name

    def leaves(self) -> Iterator[Node]:
        """Yield what is visible below this node, open scopes left out."""
        for child in self.shown:
            if child.shown:
                yield from child.leaves()
            else:
                yield child


def tree(names: Sequence[str], rows: Sequence[int]) -> Node:
    """Return the scopes of ``rows``; a scope with a single child scope is joined with it (``a/b``)."""
    root = Node("scope", "", "")
    scopes: dict[str, Node] = {"": root}

    def scope_of(path: str) -> Node:
        missing = []
        while path not in scopes:
            missing.append(path)
            path = path.rpartition("/")[0]
        node = scopes[path]
        for below in reversed(missing):
            child = scopes[below] = Node("scope", below.rpartition("/")[2], below)
            node.children.append(child)
            node = child
        return node

    for row in rows:
        path, _slash, name = names[row].rpartition("/")
        scope_of(path).children.append(Node("op", name or names[row], names[row], [row]))
    _gather(root)
    return root


def _gather(node: Node) -> None:
    """Fill in the rows below each scope, in graph order, and join scopes that hold nothing but one scope."""
    stack = [(node, False)]
    while stack:
        current, ready = stack.pop()
        if current.kind == "op":
            continue
        if not ready:
            stack.append((current, True))
            stack.extend((child, False) for child in current.children)
            continue
        current.rows = sorted(row for child in current.children for row in child.rows)
        for i, child in enumerate(current.children):
            if child.kind == "scope" and len(child.children) == 1:
                only = child.children[0]
                only.name = f"{child.name}/{only.name}"
                current.children[i] = only
        current.children.sort(key=lambda child: child.rows[0])


def fold(
    node: Node,
    cap: int,
    *,
    type_of: Callable[[int], str],
    way_of: Callable[[int], Hashable],
    weight: Callable[[Node], float],
) -> list[Node]:
    """Return the children of ``node``, grouped so that about ``cap`` remain.

    Parameters
    ----------
    node
        A scope.
    cap
        Number of children wanted at most.
    type_of
        Row -> op type.
    way_of
        Row -> what happened to the op in every call; only ops that went the same way share a series.
    weight
        Node -> how much it matters; what matters least is left out first.
    """
    children = _alike(node.children, type_of, way_of)
    if len(children) > cap:
        children = _group(children, type_of, way_of)
    if len(children) > cap:
        kept = set(map(id, sorted(children, key=weight, reverse=True)[: cap - 1]))
        rest = [child for child in children if id(child) not in kept]
        rows = sorted(row for child in rest for row in child.rows)
        more = Node("more", f"… {len(rows)} more ops", f"{node.path}/…", rows)
        children = [*(child for child in children if id(child) in kept), more]
    return children


def unfold(
    root: Node,
    most: int,
    cap: int,
    *,
    type_of: Callable[[int], str],
    way_of: Callable[[int], Hashable],
    weight: Callable[[Node], float],
    share: float,
    deeper: float = 1.0,
) -> None:
    """Open the scopes that matter, the weightiest and least deep first, until about ``most`` nodes are visible.

    A scope matters if it has at least ``share`` of the weight of the whole, ``deeper`` times as much with each level
    (up to :data:`_ENOUGH`). Fills in :attr:`Node.shown`.
    """
    whole = weight(root)

    def opened(node: Node, limit: int, depth: int) -> list[tuple[float, int, Node]]:
        node.shown = fold(
            node, limit, type_of=type_of, way_of=way_of, weight=lambda n: weight(n) or 1e-15 * len(n.rows)
        )
        floor = max(whole * min(share * deeper**depth, max(share, _ENOUGH)), 1e-300)
        heavy = ((weight(child), depth + 1, child) for child in node.shown if child.children)
        return [found for found in heavy if found[0] >= floor]

    closed = opened(root, most, 0)
    budget = most - len(root.shown)
    while closed:
        closed.sort(key=lambda found: found[0] / 2 ** found[1])
        _weight, depth, node = closed.pop()
        if min(cap, len(node.children)) - 1 <= budget:
            closed += opened(node, cap, depth)
            budget -= len(node.shown) - 1


def _shape(child: Node, type_of: Callable[[int], str], way_of: Callable[[int], Hashable]) -> Hashable:
    """Return what alike children have in common: pattern of the name, op types, ways."""
    if child.kind == "op":
        return ("op", type_of(child.rows[0]), way_of(child.rows[0]))
    pattern = _NUMBERS.sub("#", child.name)
    return (child.kind, pattern, frozenset(map(type_of, child.rows)), frozenset(map(way_of, child.rows)))


def _alike(children: list[Node], type_of: Callable[[int], str], way_of: Callable[[int], Hashable]) -> list[Node]:
    """Keep the first of many sibling scopes of one shape and put the others together: one tells for all."""
    scopes = [child for child in children if child.kind == "scope" and child.children]
    if len(scopes) < _MANY:
        return children
    groups: dict[Hashable, list[Node]] = {}
    for child in scopes:
        groups.setdefault(_shape(child, type_of, way_of), []).append(child)
    joined = {id(members[1]): _joined(members[1:], type_of) for members in groups.values() if len(members) >= _MANY}
    left_out = {id(child) for members in groups.values() if len(members) >= _MANY for child in members[2:]}
    return [joined.get(id(child), child) for child in children if id(child) not in left_out]


def _group(children: Sequence[Node], type_of: Callable[[int], str], way_of: Callable[[int], Hashable]) -> list[Node]:
    """Put ops of one type and way, and scopes of one shape, together; the group stands where its first member did."""
    groups: dict[Hashable, list[Node]] = {}
    for child in children:
        key = _shape(child, type_of, way_of) if child.kind in {"op", "scope"} else id(child)
        groups.setdefault(key, []).append(child)
    return [_joined(members, type_of) if len(members) > 1 else members[0] for members in groups.values()]


def _joined(members: Sequence[Node], type_of: Callable[[int], str]) -> Node:
    """Return one node for several: a series of ops, or a group of scopes."""
    rows = sorted(row for member in members for row in member.rows)
    first, last = members[0], members[-1]
    if first.kind != "op":
        return Node("group", f"{first.name} … {last.name}", first.path, rows, [], len(members))
    stems = {_SUFFIX.sub("", member.name) for member in members}
    name = stems.pop() if len(stems) == 1 else type_of(first.rows[0])
    return Node("series", name, first.path, rows, [], len(members))
