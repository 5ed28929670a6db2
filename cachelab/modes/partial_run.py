"""Mode ``partial_run``: one handle serves adjacent calls, and what they share stays in its executor.

TensorFlow marks ``partial_run`` deprecated; the notes name what does the same today.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import tensorflow as tf

from cachelab.explain.closure import PLACEHOLDERS
from cachelab.i18n import translate as _
from cachelab.model import BOOKKEEPING
from cachelab.modes import code
from cachelab.modes.cuts import op_of
from cachelab.modes.grouping import Grouped

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cachelab.material import CallMaterial
    from cachelab.modes.bench import Bench
    from cachelab.modes.runner import Runner
    from cachelab.modes.traces import Ran

DEPRECATED = (
    "TensorFlow marks `partial_run` as deprecated; today one `tf.function` that returns both results, or one run "
    "with all fetches (`joint`), does the same."
)
QUIET_SECONDS = 0.02
"""A phase counts as finished once nothing was logged for this long, or for three times the longest op."""
LISTED = 4


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(f"`{name}`" for name in names[:LISTED])
    return shown if len(names) <= LISTED else _("{shown} and {n} more").format(shown=shown, n=len(names) - LISTED)


def _awaited(op: Any) -> list[Any]:
    """Return the placeholders that an op waits for by a control edge: fed, they need no op of their own."""
    return [other.outputs[0] for other in op.control_inputs if other.type in PLACEHOLDERS]


class Part:
    """What one call does under its group's handle: the tensors it asks for, and the feeds it brings."""

    def __init__(self, call: CallMaterial, fetches: tuple[str, ...], feeds: tuple[str, ...], own: list[Any]) -> None:
        self.call = call
        self.fetches = fetches
        self.feeds = feeds
        self.targets = own


class PartialRun(Grouped):
    """Set up a handle for the fetches of adjacent calls and ask for them call by call."""

    name: ClassVar[str] = "partial_run"

    @staticmethod
    def one_value() -> str:
        """Return the sentence that says why a placeholder with several values is in the way."""
        return _("`{feed}` has {n} values; a handle takes one per placeholder.")

    def prepare(self) -> None:
        """Plan the parts of every handle, with a tensor in place of every target op."""
        self.parts: dict[int, list[Part]] = {}
        self._wrapped: dict[tuple[int, str], Any] = {}
        for group in self.groups:
            if len(group) > 1:
                self.parts[group[0].index] = self._plan(group)
        self.notes = [_(DEPRECATED), *self._surprises()]

    def _plan(self, group: Sequence[CallMaterial]) -> list[Part]:
        facts = self.script.facts(group[0])
        fetched: set[str] = set()
        wrapped: set[str] = set()
        fed: set[str] = set()
        every = {name for call in group for name in call.feeds}
        used = {
            value.name
            for call in group
            for name in self.script.closure(call)
            if name in facts.ops
            for value in (*facts.ops[name].inputs, *_awaited(facts.ops[name]))
            if value.name in every
        }
        parts = []
        for call in group:
            fetches = tuple(n for n in call.fetches if n not in fetched and n not in every)
            feeds = tuple(n for n in call.feeds if n not in fed and n in used)
            own = [self._tensor(call, name) for name in call.targets if name not in wrapped]
            fetched.update(fetches)
            fed.update(feeds)
            wrapped.update(call.targets)
            parts.append(Part(call, fetches, feeds, own))
        return parts

    def _tensor(self, call: CallMaterial, target: str) -> Any:
        """Return a tensor that is there once an op has run: a handle can't fetch an op itself."""
        graph_id = self.script.material.sessions[call.session].graph
        found = self._wrapped.get((graph_id, target))
        if found is None:
            private = self.script.graph(call)
            after = private.graph.control_dependencies([private.op(target)])
            with private.graph.as_default(), tf.device(None), tf.name_scope("cachelab_done"), after:
                found = tf.identity(tf.constant(True))
            self._wrapped[graph_id, target] = found
        return found

    def _surprises(self) -> list[str]:
        """Return what people do not expect of a handle, where it happens here."""
        found = []
        for parts in self.parts.values():
            call = parts[0].call
            facts = self.script.facts(call)
            fetches = tuple(name for part in parts for name in part.fetches)
            targets = tuple(dict.fromkeys(name for part in parts for name in part.call.targets))
            at_setup = facts.closure(fetches, targets, ())
            waits = self._waiting(at_setup, {name for part in parts for name in part.feeds}, facts)
            early = facts.effects(at_setup - waits)
            if early.random:
                found.append(
                    _("`{op}` is drawn once, at setup, and every part sees that draw.").format(op=min(early.random))
                )
            if early.reads:
                found.append(
                    _("`{variable}` is read at setup: a later write is not seen.").format(variable=min(early.reads))
                )
            if early.writes:
                found.append(
                    _("`{variable}` is written at setup, before its part is asked for.").format(
                        variable=min(early.writes)
                    )
                )
        return list(dict.fromkeys(found))

    @staticmethod
    def _waiting(closure: frozenset[str], feeds: set[str], facts: Any) -> frozenset[str]:
        """Return the ops of a closure that wait for a feed."""
        waits: set[str] = set()
        stack = [op_of(name) for name in feeds]
        while stack:
            name = stack.pop()
            if name in waits or name not in facts.ops:
                continue
            waits.add(name)
            op = facts.ops[name]
            stack.extend(user.name for output in op.outputs for user in output.consumers())
            stack.extend(user.name for user in op._control_outputs)
        return frozenset(waits) & closure

    def issue(self, runner: Runner) -> None:
        """Issue one handle a group; each is used up, so that it holds nothing afterwards."""
        for group in self.groups:
            if len(group) == 1:
                runner.as_recorded(group[0])
            else:
                self._issue(runner, self.parts[group[0].index])

    def _issue(self, runner: Runner, parts: Sequence[Part]) -> None:
        session_id = parts[0].call.session
        session = runner.sessions[session_id]
        fetches = [t for part in parts for t in (*runner.tensors(session_id, part.fetches), *part.targets)]
        feeds = [t for part in parts for t in runner.tensors(session_id, part.feeds)]
        runner.mark(parts[0].call.index, "setup")
        self._parts(runner, parts, session.partial_run_setup(fetches, feeds) if fetches else None)
        runner.mark(parts[-1].call.index, "end")

    def _parts(self, runner: Runner, parts: Sequence[Part], handle: Any) -> None:
        session_id = parts[0].call.session
        session = runner.sessions[session_id]
        known: dict[str, Any] = {}
        for part in parts:
            call = part.call
            runner.checkpoint(call.index)
            values = self.script.feed_values(call, runner.results)
            known.update(values)
            ask = [*runner.tensors(session_id, part.fetches), *part.targets]
            feed = runner.feed(session_id, {name: values[name] for name in part.feeds})
            runner.mark(call.index, "part")
            if ask:
                results = session.partial_run(handle, ask, feed)
                known.update(zip(part.fetches, results, strict=False))
            elif feed:
                session.partial_run(handle, [], feed)
            runner.keep(call, {name: known[name] for name in call.fetches})

    def traced(self, bench: Bench) -> list[Ran] | None:
        """Return what ran, from the executor's log in a child process; note what ran ahead of its call."""
        from cachelab.modes.executor_log import LogError, child

        longest = max((max(c.seconds, default=0.0) for c in bench.record.columns), default=0.0)
        job = {
            "record": bench.record,
            "material": bench.material,
            "optimizers": bench.optimizers,
            "quiet": max(QUIET_SECONDS, 3 * longest),
        }
        try:
            phases = child().trace(job, bench.cancel)
        except LogError as error:
            self.notes.append(
                _("What ran was not measured, so the statuses are derived. {why}").format(why=error.found)
            )
            return []
        self.notes.extend(self._ahead(phases))
        return [ran for _phase, ran in phases]

    def _ahead(self, phases: Sequence[tuple[str, Ran]]) -> list[str]:
        """Return, for each handle, which ops ran before the call that needs them."""
        found: dict[tuple[str, int], list[str]] = {}
        parts: dict[tuple[int, ...], int] = {}
        for phase, ran in phases:
            if len(ran.calls) < 2:  # noqa: PLR2004 - a call by itself has no parts
                continue
            if phase == "part":
                parts[ran.calls] = parts.get(ran.calls, -1) + 1
            call = ran.calls[max(parts.get(ran.calls, 0), 0)]
            for name in ran.executed:
                owner = next((c for c in ran.calls if name in self.needed(c)), None)
                if owner is not None and (phase == "setup" or owner > call):
                    found.setdefault(("setup" if phase == "setup" else str(call), owner), []).append(name)
        notes = []
        for (when, owner), names in found.items():
            work = [name for name in names if self._works(owner, name)]
            if work and when == "setup":
                notes.append(_("At setup already ran: {ops}.").format(ops=_listed(work)))
            elif work:
                notes.append(
                    _("Call {call} ran ahead, for call {owner}: {ops}.").format(
                        call=when, owner=owner, ops=_listed(work)
                    )
                )
        return list(dict.fromkeys(notes))

    def _works(self, call: int, name: str) -> bool:
        op = self.script.facts(self.script.calls[call]).ops.get(name)
        return op is not None and op.type not in BOOKKEEPING

    def code(self) -> str:
        """Return code with one handle, for those who still want it."""
        return code.partial_run(self)
