"""What a recording asks to be repeated: its calls, their feeds, closures and verdicts, ready for the modes."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

from cachelab.errors import NotApplicableError
from cachelab.i18n import translate as _
from cachelab.material import UNINITIALIZED
from cachelab.model import BOOKKEEPING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cachelab.material import CallMaterial, Material
    from cachelab.model import Columns, Record
    from cachelab.modes.graphs import Effects, Facts
    from cachelab.modes.place import Place, PrivateGraph

PLAIN = frozenset({"run", "callable"})
"""Kinds of call that one ``Session.run`` repeats."""
PARTIAL = frozenset({"partial_run", "partial_run_setup"})


class Script:
    """The calls of a recording with what the graph and the verdicts say about them.

    Parameters
    ----------
    record, material
        The two halves of a recording: verdicts, and values.
    place
        Private copies of its graphs.
    """

    def __init__(self, record: Record, material: Material, place: Place) -> None:
        self.record = record
        self.material = material
        self.place = place
        self.calls: list[CallMaterial] = material.calls
        self._classes: dict[tuple[str, int], tuple[Any, ...] | None] = {}
        self._positions: dict[int, dict[int, int]] = {}

    # -- the graph ---------------------------------------------------------------------------------------------

    def graph(self, call: CallMaterial) -> PrivateGraph:
        """Return the private graph of a call."""
        return self.place.graph_of(call.session)

    def facts(self, call: CallMaterial) -> Facts:
        """Return closures and effects of a call's graph."""
        return self.graph(call).facts

    def closure(self, call: CallMaterial) -> frozenset[str]:
        """Return the ops that a call may run."""
        return self.facts(call).closure(call.fetches, call.targets, call.feeds)

    def effects(self, call: CallMaterial) -> Effects:
        """Return what a call may read, write and draw."""
        key = (call.session, self.closure(call))
        found = self._effects.get(key)
        if found is None:
            found = self._effects[key] = self.facts(call).effects(key[1])
        return found

    @cached_property
    def _effects(self) -> dict[Any, Effects]:
        return {}

    @cached_property
    def has_references(self) -> bool:
        """Whether a variable is a ref variable: then a fetched value may be its very buffer and needs a copy."""
        return any(v.is_ref for session in self.material.sessions.values() for v in session.initial.values())

    @cached_property
    def repeatable(self) -> bool:
        """Whether a session can issue the calls twice with an equal course: nothing but variables has a state."""
        if any(call.kind in PARTIAL and call.failed for call in self.calls):
            return False  # an error in a partial run kills the session
        return not any(
            effects.iterators or effects.streams or effects.opaque
            for effects in (self.effects(call) for call in self.calls)
        )

    def feed_values(self, call: CallMaterial, results: Mapping[int, Any]) -> dict[str, Any]:
        """Return fed tensor -> value; a feed that came from an earlier fetch is what that fetch gave *now*.

        Parameters
        ----------
        call
            The call to be issued.
        results
            Call -> dict of fetched tensor -> value, of the calls issued before.
        """
        values = {}
        for name, digest in call.feeds.items():
            link = call.linked.get(name)
            earlier = results.get(link[0]) if link else None
            if link and isinstance(earlier, dict) and link[1] in earlier:
                values[name] = earlier[link[1]]
            else:
                values[name] = self.material.values.get(digest)
        return values

    # -- the verdicts ------------------------------------------------------------------------------------------

    def columns(self, call: int) -> Columns:
        """Return the verdicts of a call."""
        return self.record.columns[self.record.entry(call).columns]

    def position(self, op: str, call: int) -> int | None:
        """Return where a call's columns hold an op, ``None`` if they do not."""
        entry = self.record.entry(call)
        row = self.record.graphs[entry.graph].index.get(op)
        positions = self._positions.get(entry.columns)
        if positions is None:
            columns = self.record.columns[entry.columns]
            positions = self._positions[entry.columns] = {row: at for at, row in enumerate(columns.op)}
        return None if row is None else positions.get(row)

    def status(self, op: str, call: int) -> str:
        """Return the letter of an op's status in a call, ``p`` where it was not needed."""
        at = self.position(op, call)
        return "p" if at is None else self.columns(call).status[at]

    def seconds(self, op: str, call: int) -> float:
        """Return an op's time in a call, in seconds."""
        at = self.position(op, call)
        return 0.0 if at is None else self.columns(call).seconds[at]

    def same_as(self, op: str, call: int) -> tuple[Any, ...] | None:
        """Return a token that is equal for two calls exactly if the verdicts say that the op computed the same.

        It follows the witnesses back to the first call of the chain. A merged or fused op has the token of what it
        went into. ``None`` where the verdicts do not vouch for the op.
        """
        key = (op, call)
        if key in self._classes:
            return self._classes[key]
        chain, token = [], None
        while key not in self._classes:
            chain.append(key)
            token, back = self._step(*key)
            if back is None:
                break
            key = (op, back)
        else:
            token = self._classes[key]
        for link in chain:
            self._classes[link] = token
        return token

    def _step(self, op: str, call: int) -> tuple[tuple[Any, ...] | None, int | None]:
        at = self.position(op, call)
        if at is None:
            return None, None
        columns, entry = self.columns(call), self.record.entry(call)
        letter, witness = columns.status[at], columns.witness[at]
        if letter == "r" and witness:
            return None, call - witness
        if letter in "cr":
            return (entry.graph, op, call), None
        into = columns.into[at] if columns.into else -1
        if letter in "mu" and into >= 0:
            name = self.record.graphs[entry.graph].name[into]
            other = self.same_as(name, call) if name != op else None
            return (None if other is None else ("into", op, other)), None
        return None, None

    def redundant(self, op: str, call: int) -> bool:
        """Whether the verdicts say that an op's work in a call had been done in an earlier one."""
        token = self.same_as(op, call)
        while token is not None and token[0] == "into":
            token = token[2]
        return token is not None and token[2] != call

    @cached_property
    def any_redundant(self) -> bool:
        """Whether the verdicts find redundant work in any call, apart from ops that only hold or pass on a value."""
        return any(
            letter == "r" and self.record.graphs[entry.graph].type[row] not in BOOKKEEPING
            for entry in self.record.calls
            for row, letter in zip(
                self.record.columns[entry.columns].op, self.record.columns[entry.columns].status, strict=True
            )
        )

    # -- whether it can be repeated at all ---------------------------------------------------------------------

    def refusal(self, *, allow_side_effects: bool) -> str:
        """Return why the calls can't be issued again, ``""`` if they can."""
        targets = [s.target for s in self.material.sessions.values() if s.target]
        if len(targets) != len(set(targets)):
            return _("Several sessions share the variables of `{target}`; a local replay can't.").format(
                target=targets[0]
            )
        for call in self.calls:
            reason = self._unrepeatable(call)
            if reason:
                return reason
            outside = self.effects(call).outside
            if outside and not allow_side_effects:
                return _("`{op}` acts outside TensorFlow; set `allow_side_effects=True`.").format(op=min(outside))
        return self._lost_variable()

    def _unrepeatable(self, call: CallMaterial) -> str:
        if call.unreadable:
            return _("Call {call} can't be issued again: {reason}").format(call=call.index, reason=call.unreadable)
        if call.kind not in PLAIN | PARTIAL:
            return _("Call {call} is a `{kind}`: it has no session in which it could be repeated.").format(
                call=call.index, kind=call.kind
            )
        if call.kind == "partial_run_setup":
            return ""
        for name, digest in call.feeds.items():
            if name not in call.linked and self.material.values.get(digest) is None:
                return _("The value fed to `{feed}` in call {call} was not kept; give a larger memory budget.").format(
                    feed=name, call=call.index
                )
        return ""

    def _lost_variable(self) -> str:
        """Return which variable is read though its first value was not kept, ``""`` if there is none."""
        written: set[tuple[int, str]] = set()
        for call in self.calls:
            effects = self.effects(call)
            initial = self.material.sessions[call.session].initial
            for name in sorted(effects.reads):
                digest = initial[name].digest if name in initial else None
                if (call.session, name) in written or digest == UNINITIALIZED:
                    continue
                maybe_set_first = digest is None and name in effects.writes
                if self.material.values.get(digest) is None and not maybe_set_first:
                    return self._why_lost(call, name)
            written.update((call.session, name) for name in effects.writes)
        return ""

    def _why_lost(self, call: CallMaterial, name: str) -> str:
        target = self.material.sessions[call.session].target
        if target:
            return _("`{variable}` lives on `{target}`; its value was not saved, as others may write it there.").format(
                variable=name, target=target
            )
        return _("The value of `{variable}` before call {call} was not kept.").format(variable=name, call=call.index)


def require(material: Material | None) -> Material:
    """Return the values of a recording, or say why a recording without them can't be replayed."""
    if material is None:
        raise NotApplicableError(
            _("This recording was loaded from a file, which holds verdicts but no feeds, variables or graph."),
            _("Record again in this process to replay it."),
        )
    return material
