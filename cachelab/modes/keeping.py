"""What ``variable``, ``feed``, ``handle`` and ``memo`` share: a schedule of cuts, and calls served from kept values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cachelab.modes.cuts import Schedule, default_cuts, named_cuts, op_of, why_nothing
from cachelab.modes.protocol import Mode

if TYPE_CHECKING:
    from collections.abc import Iterable

    from cachelab.material import CallMaterial
    from cachelab.modes.cuts import CallPlan
    from cachelab.modes.runner import Runner


class Keeping(Mode):
    """A mode that keeps cut tensors between calls; subclasses say how they are held."""

    slots: int | None = 1

    def applies(self) -> str | None:
        """Return why nothing can be kept, ``None`` if something can."""
        cuts = default_cuts(self.script) if self.cuts is None else named_cuts(self.script, self.cuts)
        self.schedule = Schedule(self.script, self.choose(cuts), self.slots, self.veto)
        if self.schedule.hits:
            return None
        return why_nothing(self.script, self.schedule, self.cuts)

    def choose(self, cuts: dict[int, tuple[str, ...]]) -> dict[int, tuple[str, ...]]:
        """Return the cuts that are worth their bytes; all by default."""
        return cuts

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

    def feed_of(self, runner: Runner, call: CallMaterial, plan: CallPlan) -> dict[Any, Any]:
        """Return the feed dict of what the call still needs of its own feeds."""
        values = self.script.feed_values(call, runner.results)
        return runner.feed(call.session, {name: values[name] for name in plan.feeds})

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
        return super().fed(call) if plan is None else plan.feeds

    @property
    def kept(self) -> tuple[str, ...]:
        """The cut tensors that are served at least once."""
        return tuple(dict.fromkeys(tensor for plan in self.schedule.plans.values() for tensor in plan.serve))

    def options(self) -> dict[str, Any]:
        """Return the cuts, the hits, and what was refused."""
        return {"cuts": self.kept, "hits": self.schedule.hits, "refused": dict(self.schedule.refused)}
