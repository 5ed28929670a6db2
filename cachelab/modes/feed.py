"""Mode ``feed``: keep a tensor's value in the client and feed it; adds no op to any graph."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from cachelab.modes import code
from cachelab.modes.arrays import aligned, own, size_of
from cachelab.modes.keeping import Keeping

if TYPE_CHECKING:
    from cachelab.material import CallMaterial
    from cachelab.modes.cuts import CallPlan
    from cachelab.modes.runner import Runner


class Feed(Keeping):
    """Feed the kept value of a cut: its ancestors need not run.

    A 64-byte-aligned array is fed without a copy.
    """

    name: ClassVar[str] = "feed"

    def reset(self) -> None:
        """Drop the kept values."""
        self.values: dict[Any, dict[Any, Any]] = {}
        self._held = 0

    def serve(self, runner: Runner, call: CallMaterial, plan: CallPlan) -> None:
        """Issue one call: feed what is kept, fetch what is to be kept."""
        kept = {tensor: self._get(call, tensor) for tensor in plan.serve}
        if kept and not call.targets and all(name in kept for name in call.fetches):
            runner.keep(call, {name: own(kept[name]) for name in call.fetches})
            return
        served = dict(zip(runner.tensors(call.session, plan.serve), kept.values(), strict=True))
        extra = tuple(name for name in plan.keep if name not in call.fetches)
        fetches = [
            *runner.tensors(call.session, call.fetches),
            *runner.targets(call.session, call.targets),
            *runner.tensors(call.session, extra),
        ]
        values = self.run_fed(runner, call, plan, fetches, served, extra)
        found = dict(zip(call.fetches, values, strict=False))
        # What is fed and fetched comes back as it was fed: a scalar string as an array, no more as ``bytes``.
        found.update((name, own(kept[name])) for name in call.fetches if name in kept)
        more = dict(zip(extra, values[len(fetches) - len(extra) :], strict=True))
        for tensor in plan.keep:
            self._put(call, tensor, found[tensor] if tensor in found else more[tensor], shared=tensor in found)
        runner.keep(call, found)

    def _get(self, call: CallMaterial, tensor: str) -> Any:
        token = self.script.same_as(tensor.rpartition(":")[0], call.index)
        return self.values[call.session, tensor][token]

    def _put(self, call: CallMaterial, tensor: str, value: Any, *, shared: bool) -> None:
        """Keep a value; a copy where the caller has the same array, or TensorFlow may write its buffer."""
        token = self.script.same_as(tensor.rpartition(":")[0], call.index)
        slot = self.values.setdefault((call.session, tensor), {})
        if self.slots is not None and len(slot) >= self.slots:
            self._held -= sum(map(size_of, slot.values()))
            slot.clear()
        slot[token] = aligned(own(value) if shared or self.script.has_references else value)
        self._held += size_of(value)
        self.bytes_held = max(self.bytes_held, self._held)

    def code(self) -> str:
        """Return code that fetches the cuts once and feeds them from then on."""
        return code.feed(self)
