"""Whether two executions agree, and if not, whether the graph gives a reason."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from cachelab.i18n import translate as _
from cachelab.modes.runner import Failure
from cachelab.tf.values import digest

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cachelab.material import CallMaterial
    from cachelab.model import Finding
    from cachelab.modes.protocol import Mode
    from cachelab.modes.script import Script

ORDER = ("equal", "close", "differs")
TOLERANCE = {"float16": 2e-3, "bfloat16": 2e-2, "float32": 2e-5, "float64": 1e-11, "complex64": 2e-5}
"""Largest difference that counts as ``close``, relative to the largest magnitude in the array (at least 1)."""


@dataclass(frozen=True)
class Equality:
    """How one value of a mode compares: ``equal`` (bitwise), ``close`` or ``differs``.

    ``difference`` is the largest absolute difference; ``reason`` says why it is not ``equal``; ``defect`` tells
    that the graph gives no reason: then CacheLab has a defect. ``excused`` differences come from random ops
    without a seed, which draw other numbers in every session, or from races, which leave the value open.
    """

    kind: str
    difference: float = 0.0
    reason: str = ""
    defect: bool = False
    excused: bool = False


def _unordered(finding: Finding) -> str:
    """Return a short reason for a difference that a race or an overlap allows."""
    names = " and ".join(f"`{name}`" for name in finding.ops)
    return _("{names} are not ordered, so that either value is right").format(names=names)


class Digest(str):
    """Stands for a recorded value that was too large to keep."""

    __slots__ = ()


def same(ours: Any, theirs: Any) -> Equality:
    """Compare two fetched values.

    Parameters
    ----------
    ours, theirs
        Arrays, scalars, or ``bytes``; NaN equals NaN.

    Returns
    -------
    Equality
        Without a reason.
    """
    if isinstance(theirs, Digest):
        if digest(ours) == theirs:
            return Equality("equal")
        return Equality("close", float("nan"), _("the recorded value was not kept; its digest is another"))
    if (ours is None) != (theirs is None):
        return Equality("differs", float("inf"))
    if ours is None:
        return Equality("equal")
    a, b = np.asarray(ours), np.asarray(theirs)
    if a.dtype != b.dtype or a.shape != b.shape:
        return Equality("differs", float("inf"))
    if a.dtype == object or a.dtype.kind in "SU":
        return Equality("equal") if a.tolist() == b.tolist() else Equality("differs", float("inf"))
    return Equality("equal") if a.tobytes() == b.tobytes() else _apart(a, b)


def _apart(a: Any, b: Any) -> Equality:
    """Compare two arrays of one dtype and shape that are not bitwise equal."""
    if a.dtype.kind in "biu":
        return Equality("differs", float(np.max(np.abs(a.astype(np.float64) - b.astype(np.float64)))))
    wide = np.complex128 if a.dtype.kind == "c" else np.float64
    x, y = a.astype(wide), b.astype(wide)
    if not np.array_equal(np.isnan(x), np.isnan(y)) or not np.array_equal(np.isinf(x), np.isinf(y)):
        return Equality("differs", float("inf"))
    finite = np.isfinite(x)
    difference = float(np.max(np.abs(x - y)[finite], initial=0.0))
    scale = max(1.0, float(np.max(np.abs(x)[finite], initial=0.0)))
    limit = TOLERANCE.get(a.dtype.name, 1e-11) * scale
    infinite = np.isinf(x)
    close = difference <= limit and np.array_equal(x[infinite], y[infinite])
    return Equality("close" if close else "differs", difference if close or difference else float("inf"))


def worst(equalities: Mapping[Any, Equality]) -> str:
    """Return the worst kind of several."""
    return max((one.kind for one in equalities.values()), key=ORDER.index, default="equal")


class Judge:
    """Compares what a mode gave with what the replayed ``run`` gave.

    Parameters
    ----------
    script
        The calls.
    mode
        The mode, which may know why a result rightly differs.
    close_reason
        Why results may be ``close`` only.
    """

    def __init__(self, script: Script, mode: Mode | None, close_reason: str) -> None:
        self.script = script
        self.mode = mode
        self.close_reason = close_reason
        self._explained: dict[int, str] = {}
        self._excused: set[int] = set()
        self._reached: dict[int, frozenset[int]] = {}

    def results(self, ours: Mapping[int, Any], theirs: Mapping[int, Any]) -> dict[tuple[int, str], Equality]:
        """Compare every fetch of every call: (call, fetch) -> equality; a failed call has the fetch ``""``."""
        self._open_writes()
        found: dict[tuple[int, str], Equality] = {}
        for call in self.script.calls:
            one, other = ours.get(call.index), theirs.get(call.index)
            if isinstance(one, Failure) or isinstance(other, Failure) or one is None or other is None:
                found[call.index, ""] = self._failures(call.index, one, other)
                continue
            for fetch in call.fetches:
                if self._without_value(call, fetch):
                    continue
                found[call.index, fetch] = self._explain(call.index, fetch, same(one.get(fetch), other.get(fetch)))
        return found

    def _without_value(self, call: CallMaterial, fetch: str) -> bool:
        """Whether what is fetched is a handle: its bytes name a place in memory, which two runs never share."""
        return self.script.graph(call).tensor(fetch).dtype.base_dtype.name in {"resource", "variant"}

    def _failures(self, call: int, one: Any, other: Any) -> Equality:
        if isinstance(one, Failure) and isinstance(other, Failure):
            if one.type == other.type:
                return Equality("equal")
            return self._explain(call, "", Equality("differs", float("inf"), f"{one.type} / {other.type}"))
        failure = one if isinstance(one, Failure) else other
        text = failure.text.splitlines()[0] if isinstance(failure, Failure) and failure.text else _("no result")
        known = self._reason(call, "")
        return Equality("differs", float("inf"), known or text, defect=not known)

    def variables(
        self, ours: Mapping[tuple[int, str], Any], theirs: Mapping[tuple[int, str], Any]
    ) -> dict[tuple[int, str], Equality]:
        """Compare the final values of variables: (session, variable) -> equality."""
        found = {}
        for key in ours:
            one = same(ours[key], theirs.get(key))
            if one.kind == "close":
                one = Equality("close", one.difference, self.close_reason)
            elif one.kind == "differs":
                reason = self._written_by_explained(key)
                one = Equality("differs", one.difference, reason, defect=not reason)
            found[key] = one
        return found

    def _written_by_explained(self, key: tuple[int, str]) -> str:
        for call in self.script.calls:
            if call.session != key[0] or key[1] not in self.script.effects(call).writes:
                continue
            rivals = self.script.facts(call).rivals(call.fetches, call.targets, call.feeds, key[1])
            if rivals:
                names = " and ".join(f"`{name}`" for name in rivals)
                return _("{names} write it in call {call} and nothing orders them").format(names=names, call=call.index)
            reason = self._explained.get(call.index) or self._reason(call.index, "")
            if reason:
                return reason
        return ""

    def _explain(self, call: int, fetch: str, one: Equality) -> Equality:
        if one.kind == "equal":
            return one
        if one.kind == "close":
            return Equality("close", one.difference, self.close_reason)
        reason = self._reason(call, fetch)
        return Equality("differs", one.difference, reason, not reason, excused=call in self._excused)

    def _reason(self, call: int, fetch: str) -> str:
        if self.mode is not None:
            reason = (self.mode.differences(call, fetch) if fetch else "") or self._looped(
                call, self._behind(call, fetch)
            )
        else:
            reason = self._unseeded(call, fetch)
            if reason:
                self._excused.add(call)
        reason = reason or self._race(call, fetch) or self._follows(call) or self._opaque(call, fetch)
        if reason:
            self._explained.setdefault(call, reason)
        return reason

    def _behind(self, call: int, fetch: str) -> frozenset[str]:
        """Return the ops that a fetch needs, or all of the call without one."""
        material = self.script.calls[call]
        fetches = (fetch,) if fetch else material.fetches
        return self.script.facts(material).closure(fetches, () if fetch else material.targets, material.feeds)

    def _unseeded(self, call: int, fetch: str) -> str:
        """Return the random op that makes a recorded result another one in every session."""
        closure = self._behind(call, fetch)
        found = closure & self.script.graph(self.script.calls[call]).unseeded
        if found:
            return _("`{op}` has no seed and draws other numbers in every session").format(op=min(found))
        return self._looped(call, closure)

    def _looped(self, call: int, closure: frozenset[str]) -> str:
        """Return the random op whose draws iterations of a loop share out in an open order."""
        looped = closure & self.script.facts(self.script.calls[call]).drawing_in_loops()
        if looped:
            text = _("`{op}` draws in a loop, whose iterations may run side by side: which draws first is open")
            return text.format(op=min(looped))
        return ""

    def _opaque(self, call: int, fetch: str) -> str:
        """Return the op of unknown effect that a result depends on."""
        material = self.script.calls[call]
        facts = self.script.facts(material)
        closure = facts.closure((fetch,) if fetch else material.fetches, (), material.feeds)
        found = facts.effects(closure).opaque
        return _("`{op}` need not give the same value twice").format(op=min(found)) if found else ""

    def _open_writes(self) -> None:
        """Explain, before results are compared, what calls bring about that leave open what they write.

        Nothing that such a call fetches need differ: what it wrote comes to light in later calls only.
        """
        for call in self.script.calls:
            if not self.script.effects(call).changed:
                continue
            reason = self._race(call.index, "")
            if not reason and self.mode is None and (reason := self._unseeded(call.index, "")):
                self._excused.add(call.index)
            if reason:
                self._explained[call.index] = reason

    def _race(self, call: int, fetch: str) -> str:
        """Return the race or overlap in the recording that leaves a result open."""
        closure, every = self._behind(call, fetch), self.script.closure(self.script.calls[call])
        for finding in self.script.record.findings:
            here = finding.kind == "overlap" and finding.call == call
            if here or (finding.kind == "race" and every.issuperset(finding.ops) and closure & set(finding.ops)):
                self._excused.add(call)
                return _unordered(finding)
        return ""

    def _follows(self, call: int) -> str:
        """Return the earlier, explained difference that reaches this call through a variable or a linked feed."""
        for earlier, reason in self._explained.items():
            if earlier < call and call in self._reached_from(earlier):
                if earlier in self._excused:
                    self._excused.add(call)
                return _("follows from call {call}: {reason}").format(call=earlier, reason=reason)
        return ""

    def _reached_from(self, source: int) -> frozenset[int]:
        """Return the calls that what a call wrote or fetched reaches, by way of others too."""
        found = self._reached.get(source)
        if found is None:
            reached = {source}
            session = self.script.calls[source].session
            changed = {(session, name) for name in self.script.effects(self.script.calls[source]).changed}
            for call in self.script.calls[source + 1 :]:
                effects = self.script.effects(call)
                linked = any(link[0] in reached for link in call.linked.values())
                if linked or any((call.session, name) in changed for name in effects.touched):
                    reached.add(call.index)
                    changed.update((call.session, name) for name in effects.changed)
            found = self._reached[source] = frozenset(reached)
        return found
