"""Why an op could not be reused: the sources that differ from an earlier execution of it, in words."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from cachelab.i18n import translate as _
from cachelab.model import CauseRow

if TYPE_CHECKING:
    from collections.abc import Iterable

    from cachelab.explain.history import Entry, History, Judged, Version

RANK: Final = {kind: rank for rank, kind in enumerate(
    ("graph", "new_session", "feed", "variable", "random", "iterator", "opaque", "file", "overlap", "race", "effect")
)}  # fmt: skip

MOST = 6
"""Causes listed for one op; more are counted in the last one's text."""

Changed = tuple[int, bool]
"""A slot whose version an earlier execution did not have, and whether it had that source at all."""

MEMO = 4096
"""Classes of earlier calls whose versions are remembered."""

OF_OPS = frozenset({"draw", "frozen", "outside"})
"""Kinds of slots that stand for an op, not for a tensor or a cell."""

UNIQUE_STATES = frozenset({"race", "unique", "restless"})


class Reasons:
    """Builds causes for the classes of judged calls; calls are given relative (so many calls back)."""

    def __init__(self, history: History, judged: list[Judged | None]) -> None:
        self._history = history
        self._judged = judged
        self._moved: tuple[tuple[int, int], frozenset[int]] = ((-1, -1), frozenset())
        self._placed: tuple[int, dict[tuple[str, Any], set[Any]]] = (-1, {})
        self._versions: dict[tuple[int, tuple[int, int], int], tuple[frozenset[int], frozenset[Any]]] = {}

    def changed(self, call: Judged, number: int, entry: Entry, other: int) -> tuple[Changed, ...]:
        """Return the sources of class ``number`` that stand otherwise in that class of call ``other``.

        A version somewhere in the other call is not enough: a variable written in the middle of it had two, and an
        op saw one of these.
        """
        slots = call.variant.classes[number]
        if entry.variant is call.variant:
            moved = self.moved(call, other)
            return tuple((slot, True) for slot in slots if slot in moved)
        versions, sources = self._known(entry, other)
        return tuple(
            (slot, self._history.versions[call.vector[slot]].source in sources)
            for slot in slots
            if call.vector[slot] not in versions
        )

    def moved(self, call: Judged, other: int) -> frozenset[int]:
        """Return the slots whose versions differ from those of ``other``, a call of the same variant."""
        memo = (call.call.index, other)
        if self._moved[0] != memo:
            pairs = enumerate(zip(call.vector, self._history.vector(other), strict=True))
            self._moved = (memo, frozenset(slot for slot, (mine, theirs) in pairs if mine != theirs))
        return self._moved[1]

    def _known(self, entry: Entry, other: int) -> tuple[frozenset[int], frozenset[Any]]:
        """Return the versions that a class had in call ``other``, and their sources."""
        memo = (other, entry.variant.id, entry.number)
        known = self._versions.get(memo)
        if known is None:
            if len(self._versions) > MEMO:
                self._versions.clear()
            vector = self._history.vector(other)
            versions = frozenset(vector[slot] for slot in entry.variant.classes[entry.number])
            sources = frozenset(self._history.versions[version].source for version in versions)
            known = self._versions[memo] = (versions, sources)
        return known

    def apart(self, call: Judged, number: int, entry: Entry, other: int) -> int | None:
        """Return how many sources of a class had another version in call ``other``; ``None`` if not all were there.

        The same variable of another session is another source.
        """
        if not self.same_scope(call, other):
            return None
        if entry.variant is not call.variant:
            here = {self._history.versions[call.vector[slot]].source for slot in call.variant.classes[number]}
            if here != self._known(entry, other)[1]:
                return None
        return len(self.changed(call, number, entry, other))

    def same_scope(self, call: Judged, other: int) -> bool:
        """Tell whether call ``other`` saw the same variables: those of the same session, or of one server."""
        earlier = self._judged[other]
        return earlier is not None and earlier.call.scope == call.call.scope

    def source_name(self, call: Judged, slot: int) -> str:
        """Return the name of a source as users know it: a tensor, a variable or an op."""
        flat = call.variant.plan.flat
        kind, of, _after = call.variant.slots[slot]
        if kind == "feed":
            assert not isinstance(of, int)
            return flat.tensor_name(of)
        assert isinstance(of, int)
        return flat.name[of] if kind in OF_OPS else flat.cells[of].name

    def differing(self, call: Judged, number: int, entry: Entry, other: int) -> tuple[CauseRow, ...]:
        """Return why class ``number`` of a call differs from that of call ``other``, root cause first."""
        changed = list(self.changed(call, number, entry, other))
        if not changed:
            fed = tuple(self._fed_before(call, number, entry, other))
            return fed or (self._same_sources(call, other),)
        changed.sort(key=lambda item: RANK.get(self._kind(call, item[0]), len(RANK)))
        maybe = call.variant.maybe[number]
        causes = [self._cause(call, slot, other, known=known, may=slot in maybe) for slot, known in changed[:MOST]]
        if len(changed) > MOST:
            text = _("{text} (and {more} more)").format(text=causes[-1].text, more=len(changed) - MOST)
            causes[-1] = replace(causes[-1], text=text)
        return tuple(sorted(causes, key=lambda cause: RANK.get(cause.kind, len(RANK))))

    def _kind(self, call: Judged, slot: int) -> str:
        """Return the kind of cause that a slot will give, as far as its rank depends on it."""
        return str(self._history.versions[call.vector[slot]].source[0])

    def writer(self, call: Judged, version: Version) -> tuple[int | None, int | None, int | None]:
        """Return what names the write behind a version: calls back, row of the op, plan of the writing call."""
        if version.call is None:
            return None, version.row, None
        writer = self._judged[version.call]
        plan = None if writer is None else writer.variant.plan.id
        return call.call.index - version.call, version.row, plan

    def _fed_before(self, call: Judged, number: int, entry: Entry, other: int) -> Iterable[CauseRow]:
        """Yield a cause for each tensor that was fed to the ops of a class in call ``other`` and is not fed here."""
        here = {self._history.versions[call.vector[slot]].source for slot in call.variant.classes[number]}
        for slot in entry.variant.classes[entry.number]:
            kind, of, _after = entry.variant.slots[slot]
            if kind == "feed" and self._history.versions[self._history.vector(other)[slot]].source not in here:
                assert not isinstance(of, int)
                name = entry.variant.plan.flat.tensor_name(of)
                text = _("`{name}` was fed in call {call}, and leads to it no more").replace("{name}", name)
                yield CauseRow("feed", name, call.call.index - other, text)

    def _same_sources(self, call: Judged, other: int) -> CauseRow:
        earlier = self._judged[other]
        back = call.call.index - other
        if earlier is not None and earlier.call.config != call.call.config:
            text = _("the session has other device or optimiser settings than that of call {call}")
            return CauseRow("new_session", "", back, text)
        return CauseRow("graph", "", back, _("it came from other sources in call {call}"))

    def _cause(self, call: Judged, slot: int, other: int, *, known: bool, may: bool) -> CauseRow:
        version = self._history.versions[call.vector[slot]]
        kind, name = version.source[0], self.source_name(call, slot)
        back = None if version.call is None else call.call.index - version.call
        if kind == "feed":
            if known:
                text = _("`{name}` was fed other content than in call {call}").replace("{name}", name)
                return CauseRow("feed", name, call.call.index - other, text, may)
            text = _("`{name}` is fed, and did not lead to it in call {call}").replace("{name}", name)
            return CauseRow("feed", name, call.call.index - other, text, may)
        if call.variant.slots[slot].kind in OF_OPS:
            return self._from_op(call, slot, other, name, may=may)
        state = version.value[0] if isinstance(version.value, tuple) else None
        if state in UNIQUE_STATES:
            return self._unordered(call, slot, name, str(state), may=may)
        if state == "overlap":
            text = _("call {call} overlapped this one and may have written `{name}`").replace("{name}", name)
            return CauseRow("overlap", name, back, text, may)
        if state == "shared":
            text = _("another client of the server may have written `{name}`").format(name=name)
            return CauseRow("overlap", name, None, text, may=True)
        if self._elsewhere(version, other):
            text = _("`{name}` of this session is not the one of the session of call {call}").replace("{name}", name)
            return CauseRow("new_session", name, call.call.index - other, text, may)
        if not known and back != 0:
            text = _("it did not depend on `{name}` in call {call}").replace("{name}", name)
            return CauseRow(kind, name, call.call.index - other, text, may)
        return self._written(version, name, back, may=may)

    def _from_op(self, call: Judged, slot: int, other: int, name: str, *, may: bool) -> CauseRow:
        """Return the cause for a source that is an op."""
        source, plan = call.variant.slots[slot], call.variant.plan
        kind = str(self._history.versions[call.vector[slot]].source[0])
        if source.kind == "frozen":
            text = _("TensorFlow ran `{name}` before the run, anew for these fetches and feeds").format(name=name)
            return CauseRow(kind, name, call.call.index - other, text, may)
        if source.kind == "outside" and source.of in plan.strays:
            text = _("graph optimisation looked through a fed tensor and ran `{name}`, which the call does not need")
            return CauseRow("graph", name, 0, text.format(name=name), may)
        return CauseRow(kind, name, 0, drawn(kind).format(name=name), may)

    def _elsewhere(self, version: Version, other: int) -> bool:
        """Tell whether call ``other`` saw the variable of that name in another session."""
        kind, place, identity = version.source
        there = self._places(other).get((kind, identity))
        return bool(there) and place not in (there or ())

    def _places(self, other: int) -> dict[tuple[str, Any], set[Any]]:
        """Return where the sources of a call live, by kind and identity."""
        if self._placed[0] != other:
            found: dict[tuple[str, Any], set[Any]] = {}
            for number in self._history.vector(other):
                kind, place, identity = self._history.versions[number].source
                found.setdefault((kind, identity), set()).add(place)
            self._placed = (other, found)
        return self._placed[1]

    def _unordered(self, call: Judged, slot: int, name: str, state: str, *, may: bool) -> CauseRow:
        if state == "race":
            text = _("nothing orders this read of `{name}` and a write of it in the same call").format(name=name)
            return CauseRow("race", name, 0, text, may)
        if state == "restless":
            text = _("a function of a dataset may write `{name}` at any time").format(name=name)
            return CauseRow("variable", name, None, text, may=True)
        kind = call.variant.plan.flat.cells[int(call.variant.slots[slot].of)].kind  # type: ignore[arg-type]
        return CauseRow(kind, name, 0, _("a loop of this call reads and writes `{name}`").format(name=name), may)

    def _written(self, version: Version, name: str, back: int | None, *, may: bool) -> CauseRow:
        kind = str(version.source[0])
        writer = None if version.call is None else self._judged[version.call]
        if writer is None or version.row is None:
            return CauseRow(kind, name, back, _("`{name}` has another value").format(name=name), may)
        op = label(writer, version.row)
        certain = writer.outcome.complete and not writer.call.failed
        if back == 0:
            text = _("`{op}` wrote `{name}` earlier in this call")
        elif certain:
            text = _("`{op}` wrote `{name}` in call {call}")
        else:
            text = _("`{op}` may have written `{name}` in call {call}")
        text = text.replace("{op}", op).replace("{name}", name)
        return CauseRow(kind, name, back, text, may or not certain)


def drawn(kind: str) -> str:
    """Return the sentence for an op whose value is new with every execution."""
    return {
        "random": _("`{name}` draws new numbers in each call"),
        "iterator": _("`{name}` takes the next element in each call"),
        "file": _("`{name}` reads a file, which may have changed"),
        "effect": _("`{name}` changes what it reads"),
    }.get(kind, _("`{name}` runs code that CacheLab can't look into"))


def label(call: Judged, row: int) -> str:
    """Return the name under which users know a write: the only target op of the call, or the writing op."""
    plan = call.variant.plan
    targets = plan.signature.targets
    return plan.flat.name[targets[0] if len(targets) == 1 else row]


def effect_text(call: Judged, row: int) -> str:
    """Return why an op with an effect has to run in every call."""
    flat = call.variant.plan.flat
    name = flat.name[row]
    if row in flat.draws:
        return drawn(flat.draws[row]).format(name=name)
    if row in call.variant.plan.groups:
        return _("it waits for effects that have to happen in each call")
    written = [flat.cells[cell].name for cell in flat.writes.get(row, ())]
    if written:
        return _("writes {names}: has to happen in each call").format(names=", ".join(f"`{w}`" for w in written))
    return _("`{name}` has an effect that has to happen in each call").format(name=name)


def effect_kind(call: Judged, row: int) -> str:
    """Return the kind of cause of an op with an effect."""
    kind = call.variant.plan.flat.draws.get(row, "effect")
    return kind if kind in RANK else "effect"
