"""Which adjacent calls one run, or one ``partial_run`` handle, can serve; and what that changes."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from cachelab.i18n import translate as _
from cachelab.modes.cuts import op_of
from cachelab.modes.protocol import Mode
from cachelab.modes.script import PLAIN

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cachelab.material import CallMaterial
    from cachelab.modes.script import Script


def why_apart(
    script: Script, group: Sequence[CallMaterial], members: set[int], call: CallMaterial, one_value: str
) -> str:
    """Return why ``call`` can't be served together with the calls before it, ``""`` if it can.

    ``group`` has one of each kind of call before it, ``members`` the numbers of all. ``one_value`` is the sentence
    for a placeholder that is fed several values, with ``{feed}`` and ``{n}``.

    Every placeholder has one value, every tensor is either fed or computed, and no call writes what another one
    reads or writes, nor uses the same queue or table.
    """
    first = group[0]
    if call.kind not in PLAIN or first.kind not in PLAIN:
        return _("Call {call} is a `{kind}`.").format(
            call=call.index, kind=call.kind if call.kind not in PLAIN else first.kind
        )
    if call.failed or first.failed:
        return _("Call {call} failed.").format(call=call.index if call.failed else first.index)
    if call.session != first.session:
        return _("Calls {first} and {call} run in different sessions.").format(first=first.index, call=call.index)
    for one in (call, first):
        name = script.facts(one).looked_through(one.feeds)
        if name:
            return looked_through(one, name)
    for name, (link, _fetch) in call.linked.items():
        if link in members:
            return _("Call {call} is fed `{feed}` from a result of call {link}.").format(
                call=call.index, feed=name, link=link
            )
    return _feeds_apart(script, group, call, one_value) or _effects_apart(script, group, call)


def looked_through(call: CallMaterial, tensor: str) -> str:
    """Return the sentence on a fed tensor that graph optimisation may look through."""
    return _("Call {call} is fed `{feed}`, which graph optimisation may look through.").format(
        call=call.index, feed=tensor
    )


def _feeds_apart(script: Script, group: Sequence[CallMaterial], call: CallMaterial, one_value: str) -> str:
    for earlier in group:
        for name, digest in call.feeds.items():
            if name in earlier.feeds and earlier.feeds[name] != digest:
                values = {other.feeds[name] for other in script.calls if name in other.feeds}
                return one_value.format(feed=name, n=len(values))
        for one, other in ((earlier, call), (call, earlier)):
            closure = script.closure(one)
            for name in other.feeds:
                if name not in one.feeds and op_of(name) in closure:
                    return _("`{feed}` is fed in call {other} but computed in call {one}.").format(
                        feed=name, other=other.index, one=one.index
                    )
    return ""


def _effects_apart(script: Script, group: Sequence[CallMaterial], call: CallMaterial) -> str:
    later = script.effects(call)
    for earlier in group:
        effects = script.effects(earlier)
        shared = effects.writes & (later.reads | later.writes) or later.writes & effects.reads
        if shared:
            writer = earlier if effects.writes & shared else call
            return _("`{op}` writes `{variable}` between calls {first} and {call}.").format(
                op=_writer(script, writer, min(shared)), variable=min(shared), first=earlier.index, call=call.index
            )
        steps = effects.steps | later.steps
        for cell in sorted({cell for cell, _op in effects.steps} & {cell for cell, _op in later.steps}):
            if len({op for iterator, op in steps if iterator == cell}) > 1:
                return _("Calls {first} and {call} step `{iterator}` by different ops.").format(
                    first=earlier.index, call=call.index, iterator=cell
                )
        readers = effects.emptied | later.emptied
        for array in sorted({array for array, _op in effects.emptied} & {array for array, _op in later.emptied}):
            if len({op for name, op in readers if name == array}) > 1:
                return _("Calls {first} and {call} read `{array}`, which can be read only once.").format(
                    first=earlier.index, call=call.index, array=array
                )
        streams = effects.streams & later.touched or later.streams & effects.touched
        if streams:
            return _("Calls {first} and {call} both use `{stream}`.").format(
                first=earlier.index, call=call.index, stream=min(streams)
            )
        opaque = effects.opaque & later.opaque
        if opaque:
            return _("`{op}` has to run in each of calls {first} and {call}.").format(
                op=min(opaque), first=earlier.index, call=call.index
            )
    return ""


def _writer(script: Script, call: CallMaterial, variable: str) -> str:
    """Return the target that writes a variable, or the op that does."""
    facts = script.facts(call)
    for target in call.targets:
        if variable in facts.effects(facts.closure((), (target,), call.feeds)).writes:
            return target
    return min((n for n in script.closure(call) if variable in facts.effects((n,)).writes), default=variable)


def initialises(script: Script, call: CallMaterial) -> bool:
    """Whether a call only sets variables: no wonder that it can't be joined with others."""
    return not call.fetches and not call.feeds and bool(script.effects(call).writes)


def telling(reasons: Sequence[tuple[bool, str]]) -> str:
    """Return the reason that tells most, out of (whether an initialisation is to blame, reason): the commonest."""
    texts = [reason for trivial, reason in reasons if not trivial] or [reason for _trivial, reason in reasons]
    return Counter(texts).most_common(1)[0][0] if texts else ""


class Grouped(Mode):
    """A mode that serves several adjacent calls by one run; subclasses say how."""

    @staticmethod
    def one_value() -> str:
        """Return the sentence that says why a placeholder with several values is in the way."""
        return _("`{feed}` has {n} values; a run takes one per placeholder.")

    def applies(self) -> str | None:
        """Return why no two calls can be served together, ``None`` if some can."""
        self.groups: list[list[CallMaterial]] = []
        self.reasons: list[tuple[bool, str]] = []
        kinds: dict[Any, CallMaterial] = {}
        members: set[int] = set()
        for call in self.script.calls:
            reason = why_apart(self.script, list(kinds.values()), members, call, self.one_value()) if kinds else ""
            if reason:
                self.reasons.append((initialises(self.script, self.groups[-1][0]), reason))
            if reason or not kinds:
                self.groups.append([])
                kinds, members = {}, set()
            self.groups[-1].append(call)
            members.add(call.index)
            kinds.setdefault((call.fetches, call.targets, tuple(call.feeds.items())), call)
        self._indices = {group[0].index: tuple(call.index for call in group) for group in self.groups}
        self._group_of = {call.index: group for group in self.groups for call in group}
        if any(len(group) > 1 for group in self.groups):
            return None
        return telling(self.reasons) or _("There is only one call.")

    def together(self, call: int) -> Sequence[int]:
        """Return the calls that one run serves with this one."""
        return self._indices[self._group_of[call][0].index]

    def draws(self, group: Sequence[CallMaterial]) -> dict[str, int]:
        """Return random or iterator op -> number of calls of a group that would each have drawn from it."""
        counts: dict[str, int] = {}
        for call in group:
            effects = self.script.effects(call)
            for name in effects.random | effects.iterators:
                counts[name] = counts.get(name, 0) + 1
        return {name: count for name, count in counts.items() if count > 1}

    def differences(self, call: int, fetch: str) -> str:
        """Return which op drew less often than in ``run``, if the result depends on one."""
        script = self.script
        material = script.calls[call]
        closure = script.facts(material).closure((fetch,), (), material.feeds)
        for group in self.groups:
            if group[0].index > call:
                break
            for name, count in sorted(self.draws(group).items()):
                if name in closure:
                    random = any(name in script.effects(member).random for member in group)
                    kind = _("random op") if random else _("iterator op")
                    return _("{kind} `{op}` ran {count} times in `run`, once in `{mode}`").format(
                        kind=kind, op=name, count=count, mode=self.name
                    )
        return ""

    def options(self) -> dict[str, Any]:
        """Return the groups of calls."""
        return {"groups": [[call.index for call in group] for group in self.groups]}
