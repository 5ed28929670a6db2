"""Which tensors a mode keeps, and in which call each is computed, kept or served.

A cut is *served* in a call only where the verdicts vouch that the op would compute the same value as the kept
one (:meth:`Script.same_as`), and where every effect of the call still happens without the cut's ancestors.
"""

from __future__ import annotations

import difflib
from bisect import bisect_right
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cachelab.errors import NameNotFoundError, OptionError
from cachelab.i18n import translate as _
from cachelab.model import BOOKKEEPING
from cachelab.modes.script import PLAIN

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from cachelab.material import CallMaterial
    from cachelab.modes.script import Script

WORTH_SECONDS = 50e-6
"""A default cut is dropped if serving it saves less op time than this and less than ``WORTH_SHARE`` of the best."""
WORTH_SHARE = 0.05
CONSTANT_SECONDS = 100e-6
"""Likewise a constant that takes less than this to compute: what a gradient begins with, shapes, ranges."""


@dataclass(frozen=True)
class CallPlan:
    """What a mode with cuts does in one call.

    Attributes
    ----------
    serve
        Cut tensors whose kept value is used.
    keep
        Cut tensors that this call computes and whose value is kept.
    needed
        Ops that the call may still run.
    feeds
        Fed tensors that the call still needs.
    """

    serve: tuple[str, ...]
    keep: tuple[str, ...]
    needed: frozenset[str]
    feeds: tuple[str, ...]


def op_of(tensor: str) -> str:
    """Return the name of the op that makes a tensor."""
    return tensor.rpartition(":")[0]


def frontier(script: Script, call: CallMaterial) -> tuple[str, ...]:
    """Return the outputs of redundant ops that other ops of a call, or its fetches, use.

    Tensors that can't be kept, and ops that only hold, name or pass on a value, are walked through.
    """
    facts = script.facts(call)
    found: list[str] = []
    seen: set[str] = set()
    stack = [name for name in (*call.fetches, *(f"^{target}" for target in call.targets)) if name not in call.feeds]
    while stack:
        name = stack.pop()
        if name in seen:
            continue
        seen.add(name)
        op = facts.ops.get(name[1:] if name[0] == "^" else op_of(name))
        if op is None:
            continue
        usable = name[0] != "^" and op.type not in BOOKKEEPING and script.redundant(op.name, call.index)
        if usable and not facts.unholdable(name):
            found.append(name)
            continue
        stack.extend(value.name for value in op.inputs if value.name not in call.feeds)
        stack.extend(f"^{control.name}" for control in op.control_inputs)
    return tuple(found)


def default_cuts(script: Script) -> dict[int, tuple[str, ...]]:
    """Return graph -> cut tensors: the frontier of all calls, without those that are hardly worth a feed."""
    worth: dict[tuple[int, str], float] = {}
    seen = set()
    for call in script.calls:
        entry = script.record.entry(call.index)
        key = (entry.columns, entry.graph, call.fetches, call.targets, tuple(call.feeds))
        if call.kind not in PLAIN or call.failed or key in seen:
            continue
        seen.add(key)
        for tensor in frontier(script, call):
            saved = saving(script, call, tensor)
            if saved < CONSTANT_SECONDS and constant(script, call, tensor):
                continue
            worth[entry.graph, tensor] = max(worth.get((entry.graph, tensor), 0.0), saved)
    enough = min(WORTH_SECONDS, WORTH_SHARE * max(worth.values(), default=0.0))
    found: dict[int, list[str]] = {}
    for (graph, tensor), saved in worth.items():
        if saved >= enough:
            found.setdefault(graph, []).append(tensor)
    return {graph: tuple(tensors) for graph, tensors in found.items()}


def constant(script: Script, call: CallMaterial, tensor: str) -> bool:
    """Whether a tensor depends on no feed and no variable."""
    facts = script.facts(call)
    closure = facts.closure((tensor,), (), call.feeds)
    fed = any(value.name in call.feeds for name in closure if name in facts.ops for value in facts.ops[name].inputs)
    return not fed and not facts.effects(closure).reads


def saving(script: Script, call: CallMaterial, tensor: str) -> float:
    """Return the op time in seconds of a cut and its ancestors in a call."""
    closure = script.facts(call).closure((tensor,), (), call.feeds)
    return sum(script.seconds(name, call.index) for name in closure)


def named_cuts(script: Script, names: Iterable[str]) -> dict[int, tuple[str, ...]]:
    """Return graph -> cut tensors for names that a user gave; a name alone stands for an op's only output.

    Raises
    ------
    NameNotFoundError
        If no graph has such a tensor.
    OptionError
        If the name is that of an op without a value.
    """
    found: dict[int, list[str]] = {}
    graphs = {script.record.entry(call.index).graph: script.facts(call) for call in script.calls}
    for given in names:
        hit = False
        for graph, facts in graphs.items():
            name = given if ":" in given else f"{given}:0"
            op = facts.ops.get(op_of(name))
            if op is None:
                continue
            if not op.outputs:
                example = next((cut for cuts in default_cuts(script).values() for cut in cuts), "enc/Tanh:0")
                raise OptionError(
                    _("`{name}` is an operation and has no value to keep.").format(name=given),
                    _("Name a tensor, such as `{example}`.").format(example=example),
                )
            if int(name.rpartition(":")[2] or 0) < len(op.outputs):
                found.setdefault(graph, []).append(name)
                hit = True
        if not hit:
            raise _unknown(script, given, graphs.values())
    return {graph: tuple(dict.fromkeys(tensors)) for graph, tensors in found.items()}


def _unknown(script: Script, given: str, graphs: Iterable[Any]) -> NameNotFoundError:
    known = [f"{name}:0" for facts in graphs for name, op in facts.ops.items() if op.outputs]
    close = difflib.get_close_matches(given if ":" in given else f"{given}:0", known, 1)
    return NameNotFoundError(
        _("No tensor `{name}` in recording {recording}.").format(name=given, recording=script.record.name),
        _("Did you mean `{close}`?").format(close=close[0]) if close else "",
    )


def remaining(script: Script, call: CallMaterial, served: Iterable[str]) -> frozenset[str]:
    """Return the ops that a call may still run when the given tensors need not be computed."""
    return script.facts(call).closure(call.fetches, call.targets, (*call.feeds, *sorted(served)))


def lost_effects(script: Script, call: CallMaterial, needed: frozenset[str]) -> frozenset[str]:
    """Return the ops whose effect would no longer happen, or be seen, if only ``needed`` ran."""
    return (script.effects(call).acting - needed) | script.facts(call).torn(script.closure(call), needed)


@dataclass
class Schedule:
    """When cuts are computed, kept and served over a recording.

    Parameters
    ----------
    script
        The calls and their verdicts.
    cuts
        Graph -> cut tensors.
    slots
        Values that a cut may hold at once: 1, or ``None`` for any number.
    veto
        A mode's own objections: (call, served, needed ops) -> cut -> reason.

    Attributes
    ----------
    plans
        Call -> :class:`CallPlan`, of the calls that serve or keep something.
    refused
        Cut tensor -> why it was not served where it could have been.
    """

    script: Script
    cuts: dict[int, tuple[str, ...]]
    slots: int | None = 1
    veto: Any = None

    def __post_init__(self) -> None:
        self.plans: dict[int, CallPlan] = {}
        self.refused: dict[str, str] = {}
        self._served: dict[Any, Any] = {}
        self._uses = self._find_uses()
        held: dict[tuple[int, str], list[Any]] = {}
        for call in self.script.calls:
            if call.kind in PLAIN and not call.failed:
                self._plan(call, held)

    def _candidates(self, call: CallMaterial) -> list[tuple[str, Any]]:
        closure = self.script.closure(call)
        found: list[tuple[str, Any]] = []
        if self.script.facts(call).looked_through(call.feeds):
            return found
        for tensor in self.cuts.get(self.script.record.entry(call.index).graph, ()):
            if op_of(tensor) in closure and tensor not in call.feeds:
                token = self.script.same_as(op_of(tensor), call.index)
                if token is not None:
                    found.append((tensor, token))
        return found

    def _find_uses(self) -> dict[Any, list[int]]:
        uses: dict[Any, list[int]] = {}
        for call in self.script.calls:
            if call.kind in PLAIN and not call.failed:
                for tensor, token in self._candidates(call):
                    uses.setdefault((call.session, tensor, token), []).append(call.index)
        return uses

    def _next_use(self, session: int, tensor: str, token: Any, after: int) -> int | None:
        uses = self._uses.get((session, tensor, token), [])
        at = bisect_right(uses, after)
        return uses[at] if at < len(uses) else None

    def _plan(self, call: CallMaterial, held: dict[tuple[int, str], list[Any]]) -> None:
        candidates = self._candidates(call)
        if not candidates:
            return
        valid = tuple(t for t, token in candidates if token in held.get((call.session, t), ()))
        serve, needed = self._serve(call, valid)
        keep = []
        for tensor, token in candidates:
            if tensor in valid or op_of(tensor) not in needed:
                continue
            use = self._next_use(call.session, tensor, token, call.index)
            if use is None:
                continue
            slot = held.setdefault((call.session, tensor), [])
            if self.slots is not None and len(slot) >= self.slots and not self._evict(call, tensor, slot, use):
                continue
            slot.append(token)
            keep.append(tensor)
        if serve or keep:
            self.plans[call.index] = CallPlan(serve, tuple(keep), needed, self._feeds(call, serve))

    def _evict(self, call: CallMaterial, tensor: str, slot: list[Any], use: int) -> bool:
        """Free a slot if its value is used later than ``use``, or never again."""
        later = {token: self._next_use(call.session, tensor, token, call.index) for token in slot}
        victim = max(slot, key=lambda token: later[token] if later[token] is not None else 1 << 60)
        if later[victim] is not None and later[victim] <= use:
            return False
        slot.remove(victim)
        return True

    def _serve(self, call: CallMaterial, valid: tuple[str, ...]) -> tuple[tuple[str, ...], frozenset[str]]:
        """Return the tensors to serve, out of the valid ones, and the ops that are still needed."""
        key = (call.session, call.fetches, call.targets, tuple(call.feeds), valid)
        if key in self._served:
            return self._served[key]
        chosen = valid
        while True:
            needed = remaining(self.script, call, chosen)
            objections = self._objections(call, chosen, needed)
            if not objections:
                break
            self.refused.update(objections)
            chosen = tuple(tensor for tensor in chosen if tensor not in objections)
        used = set(self._inputs(call, needed)) | set(call.fetches)
        serve = tuple(tensor for tensor in chosen if tensor in used and op_of(tensor) not in needed)
        self._served[key] = serve, needed
        return serve, needed

    def _objections(self, call: CallMaterial, chosen: tuple[str, ...], needed: frozenset[str]) -> dict[str, str]:
        facts = self.script.facts(call)
        found = {tensor: reason for tensor in chosen if (reason := facts.unholdable(tensor))}
        for lost in sorted(lost_effects(self.script, call, needed)):
            for tensor in chosen:
                if lost in facts.closure((tensor,), (), call.feeds):
                    found[tensor] = _("keeping `{tensor}` would drop the effect of `{op}`").format(
                        tensor=tensor, op=lost
                    )
        if not found and chosen:
            found = self._unordered(call, chosen)
        if not found and self.veto is not None and chosen:
            found = self.veto(call, chosen, needed)
        return found

    def _unordered(self, call: CallMaterial, chosen: tuple[str, ...]) -> dict[str, str]:
        """Object to cuts without which reads and writes of a variable would lose their order."""
        facts, what = self.script.facts(call), (call.fetches, call.targets, tuple(call.feeds))
        variable = facts.reordered(*what, chosen)
        if not variable:
            return {}
        guilty = [tensor for tensor in chosen if facts.reordered(*what, (tensor,))] or list(chosen)
        reason = _("without its ancestors nothing orders the reads and writes of `{variable}`")
        return dict.fromkeys(guilty, reason.format(variable=variable))

    def _inputs(self, call: CallMaterial, needed: frozenset[str]) -> Iterable[str]:
        ops = self.script.facts(call).ops
        return (value.name for name in needed if name in ops for value in ops[name].inputs)

    def _feeds(self, call: CallMaterial, serve: tuple[str, ...]) -> tuple[str, ...]:
        return self.script.facts(call).feeds_needed(call.feeds, call.fetches, call.targets, serve)

    @property
    def hits(self) -> int:
        """Number of times that a kept value is served."""
        return sum(len(plan.serve) for plan in self.plans.values())


def why_nothing(script: Script, schedule: Schedule, cuts: Sequence[str] | None) -> str:
    """Return why a schedule serves nothing, in words of the graph."""
    if schedule.refused:
        tensor, reason = next(iter(schedule.refused.items()))
        return _("`{tensor}` can't be kept: {reason}.").format(tensor=tensor, reason=reason)
    if cuts is None:
        if script.any_redundant:
            return _("What is redundant costs less to compute than to keep.")
        return _("No op is redundant: nothing to keep.")
    for tensor in (name for names in schedule.cuts.values() for name in names):
        reason = next((r for call in script.calls if (r := script.facts(call).unholdable(tensor))), "")
        if reason:
            return _("`{tensor}` can't be kept: {reason}.").format(tensor=tensor, reason=reason)
        for call in reversed(script.calls):
            at = script.position(op_of(tensor), call.index)
            causes = script.columns(call.index).cause[at] if at is not None else ()
            if causes:
                cause = script.record.cause(causes[0], call.index)
                return _("`{tensor}` never had the same value twice: {cause}.").format(tensor=tensor, cause=cause.text)
    return _("No call could use a kept value of the cuts given.")
