"""Mode ``handle``: session handles, which keep a tensor inside the runtime."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import tensorflow as tf

from cachelab.modes import code
from cachelab.modes.arrays import size_of
from cachelab.modes.keeping import Keeping

if TYPE_CHECKING:
    from cachelab.material import CallMaterial
    from cachelab.modes.cuts import CallPlan
    from cachelab.modes.runner import Runner


class Handle(Keeping):
    """Keep a cut as a session handle and feed the handle."""

    name: ClassVar[str] = "handle"

    def prepare(self) -> None:
        """Add, to the private graph, the ops that make and read handles."""
        self._makers: dict[tuple[int, str], tuple[Any, Any]] = {}
        for graph_id, tensors in self.schedule.cuts.items():
            if graph_id not in self.script.place.graphs:
                continue
            private = self.script.place.graphs[graph_id]
            for name in set(tensors) & set(self.kept):
                with private.graph.as_default(), tf.name_scope("cachelab_handle"):
                    value = private.tensor(name)
                    self._makers[graph_id, name] = (tf.compat.v1.get_session_handle(value), tf.identity(value))

    def reset(self) -> None:
        """Drop the handles."""
        self.values: dict[tuple[int, str], Any] = {}
        self._sizes: dict[tuple[int, str], int] = {}

    def serve(self, runner: Runner, call: CallMaterial, plan: CallPlan) -> None:
        """Issue one call: feed the handles that are kept, make those that are to be kept."""
        graph_id = self.script.material.sessions[call.session].graph
        tensors = runner.tensors(call.session, plan.serve)
        served = {t: self.values[call.session, name] for name, t in zip(plan.serve, tensors, strict=True)}
        keep = tuple(name for name in plan.keep if (graph_id, name) in self._makers)
        results = [
            self._makers[graph_id, name][1] if name in plan.serve else tensor
            for name, tensor in zip(call.fetches, runner.tensors(call.session, call.fetches), strict=True)
        ]
        fetches = [
            *results,
            *runner.targets(call.session, call.targets),
            *(self._makers[graph_id, name][0] for name in keep),
        ]
        values = self.run_fed(runner, call, plan, fetches, served, keep)
        for name, value in zip(keep, values[len(fetches) - len(keep) :], strict=True):
            self.values[call.session, name] = value
        runner.keep(call, dict(zip(call.fetches, values, strict=False)))
        if keep and runner.trace:  # not where time is measured
            self.measure(runner)

    def measure(self, _runner: Runner) -> None:
        """Measure the bytes that the handles keep now, by reading them."""
        self.bytes_held = max(self.bytes_held, sum(size_of(handle.eval()) for handle in self.values.values()))

    def code(self) -> str:
        """Return code that keeps the cuts as session handles."""
        return code.handle(self)
