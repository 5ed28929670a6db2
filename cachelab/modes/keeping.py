"""What ``variable``, ``feed``, ``handle`` and ``memo`` share: a schedule of cuts, and calls served from kept values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from cachelab.i18n import translate as _
from cachelab.modes.arrays import idle
from cachelab.modes.cuts import Schedule, default_cuts, named_cuts, op_of, saving, why_nothing
from cachelab.modes.protocol import Mode

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from cachelab.material import CallMaterial
    from cachelab.modes.cuts import CallPlan
    from cachelab.modes.runner import Runner
    from cachelab.modes.script import Script


MOST_NAMED = 4
"""Cuts named in one sentence."""


def _way(call: CallMaterial, plan: CallPlan) -> tuple[Any, ...]:
    """Return what decides which graph TensorFlow makes for a call of a plan."""
    return call.session, call.fetches, call.targets, tuple(call.feeds), plan.serve, plan.keep


class Worth(NamedTuple):
    """Seconds that keeping a cut saves for each byte, seconds in all, and bytes that it takes."""

    density: float
    saved: float
    bytes: int


class Keeping(Mode):
    """A mode that keeps cut tensors between calls; subclasses say how they are held."""

    slots: int | None = 1

    def __init__(self, script: Script, cuts: Sequence[str] | None = None, memory_budget: int | None = None) -> None:
        super().__init__(script, cuts, memory_budget)
        self._spared: dict[Any, bool] = {}

    def applies(self) -> str | None:
        """Return why nothing can be kept, ``None`` if something can."""
        cuts = default_cuts(self.script) if self.cuts is None else named_cuts(self.script, self.cuts)
        chosen = cuts if self.budget is None else self.choose(cuts, self.budget)
        if any(cuts.values()) and not any(chosen.values()):
            return _("What could be kept does not fit the memory budget of {budget:,} bytes: {sizes}.").format(
                budget=self.budget, sizes=self._sizes_of(cuts)
            )
        self.schedule = Schedule(self.script, chosen, self.slots, self.veto)
        if self.schedule.hits:
            return None
        return why_nothing(self.script, self.schedule, self.cuts)

    @property
    def budget(self) -> int | None:
        """Bytes that may be held, ``None`` for any number."""
        return self.memory_budget

    def worth_it(self, worth: Worth) -> bool:  # noqa: ARG002 - for subclasses
        """Tell whether a cut is worth keeping at all."""
        return True

    def choose(self, cuts: dict[int, tuple[str, ...]], budget: int) -> dict[int, tuple[str, ...]]:
        """Return the cuts that save most time a byte, as many as fit in the budget; named ones all or none."""
        if self.cuts is not None:
            needed = sum(self._worth(graph, tensor).bytes for graph, tensors in cuts.items() for tensor in tensors)
            return cuts if needed <= budget else {}
        ranked = sorted(
            ((self._worth(graph, tensor), graph, tensor) for graph, tensors in cuts.items() for tensor in tensors),
            reverse=True,
        )
        worthy = [one for one in ranked if self.worth_it(one[0])]
        chosen: dict[int, tuple[str, ...]] = {}
        for worth, graph, tensor in worthy or ranked:  # what is asked for is tried, though it may not pay
            if worth.bytes <= budget:
                budget -= worth.bytes
                chosen[graph] = (*chosen.get(graph, ()), tensor)
        return chosen

    def _worth(self, graph: int, tensor: str) -> Worth:
        """Return what a cut saves over the recording, and takes: all its distinct values, or the largest of them."""
        saved, sizes = 0.0, {}
        for call in self.script.calls:
            token = self.script.same_as(op_of(tensor), call.index)
            if token is None or self.script.record.entry(call.index).graph != graph:
                continue
            if token in sizes:
                saved += saving(self.script, call, tensor)
            else:
                at = self.script.position(op_of(tensor), call.index)
                sizes[token] = self.script.columns(call.index).bytes[at] if at is not None else 0
        size = sum(sizes.values()) if self.slots is None else max(sizes.values(), default=0)
        return Worth(saved / max(size, 1), saved, size)

    def _sizes_of(self, cuts: dict[int, tuple[str, ...]]) -> str:
        sizes = [(tensor, self._worth(graph, tensor).bytes) for graph, tensors in cuts.items() for tensor in tensors]
        return ", ".join(f"`{tensor}` {size:,}" for tensor, size in sorted(sizes, key=lambda one: one[1])[:MOST_NAMED])

    def veto(self, call: CallMaterial, chosen: tuple[str, ...], needed: frozenset[str]) -> dict[str, str]:  # noqa: ARG002
        """Return the mode's own objections to serving cuts in a call: cut -> reason."""
        return {}

    def issue(self, runner: Runner) -> None:
        """Issue all calls, those with a plan served from kept values."""
        for call in self.script.calls:
            plan = self.schedule.plans.get(call.index)
            if plan is None:
                runner.as_recorded(call)
            else:
                runner.checkpoint(call.index)
                self.serve(runner, call, plan)

    def serve(self, runner: Runner, call: CallMaterial, plan: CallPlan) -> None:
        """Issue one call of the schedule."""
        raise NotImplementedError

    def feed_of(
        self, runner: Runner, call: CallMaterial, names: Iterable[str], idling: Collection[str] = ()
    ) -> dict[Any, Any]:
        """Return the feed dict of the named ones of a call's own feeds, with stand-ins for those that nothing takes."""
        values = self.script.feed_values(call, runner.results)
        fed = {name: idle(values[name]) if name in idling else values[name] for name in names}
        return runner.feed(call.session, fed)

    def still_fed(self, call: CallMaterial, plan: CallPlan) -> tuple[str, ...]:
        """Return which of its own feeds a call needs when kept values are fed too.

        All of them where graph optimisation was seen, or could not be seen yet, to ask for more than it should.
        """
        spared = self._spared.get(_way(call, plan)) or not self._spare(call, plan)
        return plan.feeds if spared else tuple(call.feeds)

    def _spare(self, call: CallMaterial, plan: CallPlan) -> frozenset[str]:
        """Return the feeds of a call that kept values make unnecessary, but for what graph optimisation may do."""
        return frozenset(call.feeds).difference(plan.feeds) if self.script.facts(call).optimized else frozenset()

    def run_fed(
        self, runner: Runner, call: CallMaterial, plan: CallPlan, fetches: Sequence[Any], served: dict[Any, Any],
        extra: tuple[str, ...],
    ) -> Any:  # fmt: skip
        """Run a call that is fed kept values.

        TensorFlow optimises each set of feeds by itself. So the feeds that are seen to be of no use are still fed,
        with stand-ins; only a traced run tells whether they can be left out, as people would by hand.

        Parameters
        ----------
        runner, call, plan
            Where, what and how.
        fetches
            Tensors and ops of the private graph.
        served
            Tensor -> kept value.
        extra
            Names of tensors fetched in addition to the call's own.
        """
        way, spare = _way(call, plan), self._spare(call, plan)
        if runner.trace or not spare:
            own = self.still_fed(call, plan)
            names = ((*call.fetches, *extra), call.targets, (*own, *plan.serve))
            feed = {**self.feed_of(runner, call, own), **served}
            return runner.run(call.session, fetches, feed, (call.index,), names=names)
        idle_feeds = runner.sessions.idle_feeds
        feed = {**self.feed_of(runner, call, call.feeds, spare if idle_feeds.get(way) else ()), **served}
        if way in idle_feeds:
            return runner.run(call.session, fetches, feed, (call.index,))
        values, used = runner.run_watched(call.session, fetches, feed, spare)
        idle_feeds[way] = not used
        self._spared[way] = not used and self._spared.get(way, True)
        if used:
            self._note(plan.serve, used)
        return values

    def retreat(self) -> bool:
        """Feed everything, where optimisation asked for a feed that it had no use for when it was there."""
        if not any(self._spared.values()):
            return False
        self._spared = dict.fromkeys(self._spared, False)
        self.notes.append(_("Graph optimisation asks for feeds that kept values make unnecessary: all are fed."))
        return True

    def _note(self, served: Sequence[str], used: Sequence[str]) -> None:
        text = _("Graph optimisation looks through what is fed for {tensors}: {feeds} is computed with all the same.")
        note = text.format(tensors=", ".join(map("`{}`".format, served)), feeds=", ".join(map("`{}`".format, used)))
        if note not in self.notes:
            self.notes.append(note)

    def served(self, call: int) -> Iterable[str]:
        """Return the ops whose kept value served a call."""
        plan = self.schedule.plans.get(call)
        return () if plan is None else {op_of(tensor) for tensor in plan.serve}

    def needed(self, call: int) -> frozenset[str]:
        """Return the ops that a call may still run."""
        plan = self.schedule.plans.get(call)
        return super().needed(call) if plan is None else plan.needed

    def fed(self, call: int) -> Iterable[str]:
        """Return the tensors of its own that a call is still fed."""
        plan = self.schedule.plans.get(call)
        return super().fed(call) if plan is None else self.still_fed(self.script.calls[call], plan)

    @property
    def kept(self) -> tuple[str, ...]:
        """The cut tensors that are served at least once."""
        return tuple(dict.fromkeys(tensor for plan in self.schedule.plans.values() for tensor in plan.serve))

    def options(self) -> dict[str, Any]:
        """Return the cuts, the hits, and what was refused."""
        return {"cuts": self.kept, "hits": self.schedule.hits, "refused": dict(self.schedule.refused)}
