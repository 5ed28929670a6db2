"""What became of each op of a closure in the optimised graph: executed, merged, folded, fused, pruned, untaken."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from cachelab.explain.log import Outcome
from cachelab.explain.variant import MERGES
from cachelab.tf.effects import BELIEVED
from cachelab.tf.nodes import fed_tensor, original

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cachelab.explain.plan import Plan
    from cachelab.tf.frames import Frames
    from cachelab.tf.nodes import Node
    from cachelab.tf.twins import Twins

SEARCH = 400
"""Ops looked at when an input of an optimised node is traced back to an input of the user's op."""


class Fates:
    """Compares the optimised graph of one signature with the user's.

    Parameters
    ----------
    plan, twins
        The plan of the calls; the numbering of ops that compute the same.
    graph
        Node name -> node of the optimised graph (or of what ran, if the whole graph is not known).
    rewritten
        Names of ops that a node of another name takes the place of.
    inner
        The ops that run in graphs of their own, of which ``graph`` holds only what ran.
    complete
        Whether ``graph`` is the whole optimised graph.
    """

    def __init__(
        self,
        plan: Plan,
        twins: Twins,
        graph: Mapping[str, Node],
        rewritten: frozenset[str],
        inner: Frames,
        *,
        complete: bool,
    ) -> None:
        self._inner = inner
        self._rewritten = rewritten
        self.plan = plan
        self._twins = twins
        self._graph = graph
        self._supposed: set[int] = set()
        self._complete = complete

    @cached_property
    def _numbers(self) -> dict[int, int]:
        return self._twins.numbers(self.plan.closure)

    @cached_property
    def _constant(self) -> frozenset[int]:
        """Rows whose value depends on nothing that can change."""
        variant = self.plan.variant(None)
        return frozenset(row for row, number in variant.class_of.items() if not variant.classes[number])

    @cached_property
    def _consumers(self) -> dict[int, list[int]]:
        found: dict[int, list[int]] = {}
        for row, refs in self.plan.closure.data.items():
            for ref in refs:
                found.setdefault(ref[0], []).append(row)
        return found

    @cached_property
    def _hub_of(self) -> dict[int, int]:
        """Row of a branch -> hub of its conditional."""
        branches = self.plan.flat.branches
        hubs = [hub for hub in self.plan.closure.order if hub in branches]
        return {row: hub for hub in hubs for body in branches[hub] for row in body}

    # --- is a node of that name the user's op? ---------------------------------------------------------------------

    def is_op(self, row: int, node: Node) -> bool:
        """Tell whether an optimised node under the name of an op still computes that op.

        It does if one of its inputs that are no constants comes from where the op's own inputs come from, or if
        the op had no such input to begin with. ``m = Const()`` under the name of a product of a feed does not.
        """
        flat = self.plan.flat
        own = flat.type[row]
        if node.type == "Const" and own != "Const":
            return False
        prefix = self._inner.prefix.get(row, "")
        built = [flat.name[ref[0]] for ref in flat.inputs[row] if ref[0] >= 0]
        if node.type == own and built == [prefix + _producer(name) for name in node.inputs]:
            return True
        given = [prefix + name for name in map(_producer, node.inputs) if self._type(prefix + name) != "Const"]
        changing = [ref for ref in self.plan.closure.data[row] if ref[0] not in self._constant]
        fed = self.plan.closure.fed.get(row, ())
        if not changing and not fed:
            return node.type == own or not given
        return any(self._belongs(row, name) for name in given)

    def _type(self, name: str) -> str:
        node = self._graph.get(name)
        return node.type if node is not None else ""

    def _belongs(self, row: int, name: str) -> bool:
        """Tell whether the optimised node ``name`` stands for an input of ``row``, or was made by the optimiser."""
        if name.startswith("_arg_"):
            return fed_tensor(name) in map(self.plan.flat.tensor_name, self.plan.signature.feeds)
        other = self.plan.flat.index.get(original(name))
        if other is None or other not in self.plan.closure.data:
            return True  # a node that the optimiser or the lowering of control flow made
        # A call that was not inlined is named by the runtime; in the flat graph its outputs are those of its body.
        feeds = self.plan.signature.feeds
        outputs = (self.plan.flat.resolve(ref, feeds)[0] for ref in self.plan.flat.outputs.get(other, ()))
        producers = {other, *outputs}
        numbers = {self._numbers.get(producer) for producer in producers} - {None}
        seen = {row}
        pending = [row]
        while pending and len(seen) < SEARCH:
            for ref in self.plan.closure.data[pending.pop(0)]:
                if ref[0] in producers or self._numbers.get(ref[0]) in numbers:
                    return True
                if ref[0] not in seen:
                    seen.add(ref[0])
                    pending.append(ref[0])
        return False

    # --- all ops of the closure ------------------------------------------------------------------------------------

    def outcome(self, ran: set[int], executed: set[str]) -> Outcome:
        """Return the fate of every op, given the rows that ran and the names of all nodes that did."""
        plan, flat = self.plan, self.plan.flat
        fates: dict[int, tuple[str, int]] = {}
        evidence: dict[int, str] = {}
        for row in plan.shown:
            if row in plan.fed_only:
                fates[row] = ("d", -1)
        self._hubs(ran, fates)
        by_number: dict[int, int] = {}
        for row in ran:
            by_number.setdefault(self._numbers.get(row, -1 - row), row)
        absent = [row for row in plan.shown if row not in ran and row not in fates]
        missing = set(absent)
        for row in absent:
            letter, into = self._absent(row, ran, missing, by_number, executed)
            fates[row] = (letter, into)
            known = self._complete and row not in self._inner.prefix
            if (letter in "mufkp" and not known) or (letter == "t" and row in self._supposed):
                evidence[row] = "d"
            if letter == "x":
                evidence[row] = "a"
        self._inherit(fates, ran)
        return Outcome(
            ran=frozenset(row for row in ran if flat.shown[row]),
            fates=fates,
            default="m",
            evidence=evidence,
            complete=True,
        )

    def _hubs(self, ran: set[int], fates: dict[int, tuple[str, int]]) -> None:
        """Count a call op as executed if any op of its body was; the body of a compiled call is fused into it."""
        flat = self.plan.flat
        for row in reversed(self.plan.closure.order):
            if row in flat.outputs and row not in ran and any(member in ran for member in flat.members[row]):
                ran.add(row)
            if row in ran and row in flat.outputs and not any(member in ran for member in flat.members[row]):
                compiled = not self._inlined(row)
                for member in flat.members[row]:
                    if compiled and member in self.plan.closure.data:
                        fates[member] = ("u", row)

    def _inlined(self, hub: int) -> bool:
        """Tell whether the body of a call is part of the optimised graph, so that absent ops were optimised away."""
        node = self._graph.get(self.plan.flat.name[hub])
        return node is None or node.type != self.plan.flat.type[hub]

    def _absent(
        self, row: int, ran: set[int], missing: set[int], by_number: dict[int, int], executed: set[str]
    ) -> tuple[str, int]:
        plan, flat = self.plan, self.plan.flat
        name = flat.name[row]
        node = self._graph.get(name)
        if (row, 0) in plan.signature.feeds and flat.type[row].startswith("Placeholder"):
            return "d", -1
        if plan.conditional and self._untaken(row, ran, node, executed):
            return "t", -1
        if node is not None and node.type == "Const":
            return "k", -1
        if self._foldable(row):
            return "k", -1
        twin = by_number.get(self._numbers.get(row, -1))
        if twin is not None and twin != row:
            return "m", twin
        into = self._absorbed(row, ran, missing)
        if into is not None:
            return "u", into
        if node is not None or (row in flat.effects and not self._complete):
            return "x", -1
        return "p", -1

    def _foldable(self, row: int) -> bool:
        """Tell whether the optimiser could work out an op once and for all, if it is gone."""
        flat = self.plan.flat
        return row in self._frozen or (row in self._constant and row not in flat.effects)

    @cached_property
    def _frozen(self) -> frozenset[int]:
        """Rows whose value depends on nothing but ops that the optimiser believes to be constant, and runs itself."""
        flat, variant = self.plan.flat, self.plan.variant(None)
        believed = {
            number
            for number, slots in enumerate(variant.classes)
            if slots
            and all(
                variant.slots[slot].kind == "draw" and flat.type[variant.slots[slot].of] in BELIEVED for slot in slots
            )
        }
        rows = (row for row, number in variant.class_of.items() if number in believed)
        return frozenset(row for row in rows if flat.type[row] in BELIEVED or row not in flat.effects)

    def _untaken(self, row: int, ran: set[int], node: Node | None, executed: set[str]) -> bool:
        """Tell whether an absent op lies in a branch that was not taken (and was not merely optimised away).

        Where nothing in the trace shows it, the row is noted in ``_supposed``: it may be optimised away after all.
        """
        plan, flat = self.plan, self.plan.flat
        hub = self._hub_of.get(row)
        if hub is not None:
            bodies = flat.branches[hub]
            own = next(body for body in bodies if row in body)
            if own & ran:
                return False
            if node is None and row in self.plan.loops:  # in a loop several branches may be taken in turn
                self._supposed.add(row)
            return (
                any(other & ran for other in bodies if other is not own)
                or self._passed_on(hub, row, executed)
                or (hub not in ran and self._untaken(hub, ran, self._graph.get(flat.name[hub]), executed))
            )
        frames = flat.frame.get(row, ())
        if frames and frames[-1] in flat.members and flat.name[row].startswith(f"{flat.name[frames[-1]]}/body/"):
            body = [m for m in flat.members[frames[-1]] if flat.name[m].startswith(f"{flat.name[frames[-1]]}/body/")]
            return not any(member in ran for member in body)
        if row not in plan.dead and not frames:
            return False
        if node is not None:
            return flat.name[row] not in executed
        self._supposed.add(row)
        return not any(other in ran and flat.type[other] not in MERGES for other in self._consumers.get(row, ()))

    def _passed_on(self, hub: int, row: int, executed: set[str]) -> bool:
        """Tell whether another branch than that of ``row`` was taken: one without ops only passes its inputs on.

        The runtime does so in nodes of its own, such as ``Func/cond/else/_1/input/_16``.
        """
        name = f"{self.plan.flat.name[hub]}/"
        own = self.plan.flat.name[row][len(name) :].partition("/")[0]
        taken = {known.rsplit("/", 2)[0] for known in executed if known.startswith(f"Func/{name}")}
        labels = {known[len("Func/") + len(name) :] for known in taken}
        return any(label and "/" not in label and label != own for label in labels)

    def _absorbed(self, row: int, ran: set[int], missing: set[int]) -> int | None:
        """Return the executed kernel that an absent op became part of, following its absent consumers."""
        seen = {row}
        pending = [row]
        while pending and len(seen) < SEARCH:
            for consumer in self._consumers.get(pending.pop(0), ()):
                if consumer in seen:
                    continue
                seen.add(consumer)
                if consumer in ran:
                    if self._took_in_others(consumer):
                        return consumer
                elif consumer in missing:
                    pending.append(consumer)
        for ref in self.plan.closure.data.get(row, ()):  # such as Square(Sub) that became SquaredDifference
            if ref[0] in ran and self._took_in_others(ref[0]):
                return ref[0]
        return None

    def _took_in_others(self, row: int) -> bool:
        """Tell whether the kernel of an op does more than the op: it has another type, or replaces several ops."""
        name, own = self.plan.flat.name[row], self.plan.flat.type[row]
        node = self._graph.get(name)
        return node is not None and (name in self._rewritten or node.type not in {own, "Identity", "IdentityN"})

    def _inherit(self, fates: dict[int, tuple[str, int]], ran: set[int]) -> None:
        """Lead an op that went into another one to where that one went in turn."""
        for row, (letter, into) in fates.items():
            target, steps = into, 0
            while target >= 0 and target not in ran and target in fates and steps < SEARCH:
                target, steps = fates[target][1], steps + 1
            if target != into and target >= 0:
                fates[row] = (letter, target)


def _producer(name: str) -> str:
    return name.partition(":")[0]
