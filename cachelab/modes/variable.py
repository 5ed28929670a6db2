"""Mode ``variable``: cut tensors live in variables of unknown shape inside the session."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import tensorflow as tf

from cachelab.modes import code, copying
from cachelab.modes.arrays import size_of
from cachelab.modes.cuts import op_of
from cachelab.modes.keeping import Keeping

if TYPE_CHECKING:
    from cachelab.material import CallMaterial
    from cachelab.modes.cuts import CallPlan
    from cachelab.modes.runner import Runner


class Store:
    """One tensor kept in a raw resource variable: no collection entry, no initializer, any shape.

    Parameters
    ----------
    graph
        The graph to add the ops to.
    value
        The tensor to keep.
    duplicate
        Whether to store a copy, as the tensor may share its buffer with a ref variable.
    """

    def __init__(self, graph: Any, value: Any, *, duplicate: bool) -> None:
        with graph.as_default(), tf.device(None), tf.name_scope("cachelab_variable/"):
            dtype = value.dtype.base_dtype
            handle = tf.raw_ops.VarHandleOp(
                dtype=dtype, shape=tf.TensorShape(None), shared_name=f"cachelab/{graph.unique_name('kept')}"
            )
            self._handle, self._duplicate = handle, duplicate
            self.write = self.fill(graph, value)
            self.read = tf.raw_ops.ReadVariableOp(resource=handle, dtype=dtype)
            self.drop = tf.raw_ops.DestroyResourceOp(resource=handle, ignore_lookup_error=True)

    def fill(self, graph: Any, value: Any) -> Any:
        """Return an op that keeps a tensor."""
        with graph.as_default(), tf.device(None), tf.name_scope("cachelab_variable/"):
            value = tf.raw_ops.DeepCopy(x=value) if self._duplicate else tf.identity(value)
            return tf.raw_ops.AssignVariableOp(resource=self._handle, value=value)


class Variable(Keeping):
    """Keep a cut in a variable; a call whose cut is valid runs copies of the cut's consumers on it."""

    name: ClassVar[str] = "variable"

    def still_fed(self, call: CallMaterial, plan: CallPlan) -> tuple[str, ...]:  # noqa: ARG002
        """Return which of its own feeds a call is fed; nothing is fed for a cut, so that nothing is looked through."""
        return plan.feeds

    def veto(self, call: CallMaterial, chosen: tuple[str, ...], needed: frozenset[str]) -> dict[str, str]:
        """Object where the consumers of a cut can't be built a second time."""
        facts = self.script.facts(call)
        if not copying.uncopyable(facts, copying.consumers(facts, chosen, needed)):
            return {}
        found = {}
        for tensor in chosen:
            reason = copying.uncopyable(facts, copying.consumers(facts, (tensor,), needed))
            if reason:
                found[tensor] = reason
        return found

    def prepare(self) -> None:
        """Build, in the private graph, the variables and the copies of the consumers."""
        self._stores: dict[tuple[int, str], Store] = {}
        self._ways: dict[Any, tuple[list[Any], dict[str, str]]] = {}
        self._plans: dict[int, tuple[list[Any], dict[str, str]]] = {}
        for call in self.script.calls:
            plan = self.schedule.plans.get(call.index)
            if plan is None:
                continue
            key = (call.session, call.fetches, call.targets, tuple(call.feeds), plan.serve, plan.keep)
            if key not in self._ways:
                self._ways[key] = self._build(call, plan)
            self._plans[call.index] = self._ways[key]

    def _store(self, call: CallMaterial, tensor: str) -> Store:
        graph_id = self.script.material.sessions[call.session].graph
        found = self._stores.get((graph_id, tensor))
        if found is None:
            private = self.script.graph(call)
            found = self._stores[graph_id, tensor] = Store(
                private.graph, private.tensor(tensor), duplicate=self.script.has_references
            )
        return found

    def _build(self, call: CallMaterial, plan: CallPlan) -> tuple[list[Any], dict[str, str]]:
        """Return what to run for a call, and name of a copied op -> name of its original."""
        private, facts = self.script.graph(call), self.script.facts(call)
        replace = {tensor: self._store(call, tensor).read for tensor in plan.serve}
        names = copying.consumers(facts, plan.serve, plan.needed)
        prefix, copies = "", {}
        if names:
            prefix, copies = copying.copy(facts, names, replace, call.feeds, "cachelab_variable")

        def way(name: str) -> Any:
            if name in replace:
                return replace[name]
            copied = op_of(name) in names and name not in call.feeds
            return private.tensor(f"{prefix}/{name}" if copied else name)

        tensors = [way(name) for name in call.fetches]
        targets = [private.op(f"{prefix}/{name}" if name in names else name) for name in call.targets]
        stores = [self._stored(call, tensor, way) for tensor in plan.keep]
        return [*tensors, *targets, *stores], copies

    def _stored(self, call: CallMaterial, tensor: str, way: Any) -> Any:
        """Return the op that keeps a cut computed in this call, be it by its original or by a copy."""
        private, store = self.script.graph(call), self._store(call, tensor)
        source = way(tensor)
        if source is private.tensor(tensor):
            return store.write
        return store.fill(private.graph, source)

    def reset(self) -> None:
        """Forget which sessions hold what."""
        self._touched: set[tuple[int, Any]] = set()

    def serve(self, runner: Runner, call: CallMaterial, plan: CallPlan) -> None:
        """Issue one call on the copies, storing what is to be kept."""
        fetches, copies = self._plans[call.index]
        names = ((*call.fetches, *plan.keep), call.targets, (*plan.feeds, *plan.serve))
        feed = self.feed_of(runner, call, plan.feeds)
        values = runner.run(call.session, fetches, feed, (call.index,), names=names, copies=copies)
        runner.keep(call, dict(zip(call.fetches, values, strict=False)))
        if plan.keep:
            graph_id = self.script.material.sessions[call.session].graph
            self._touched.update((call.session, self._stores[graph_id, tensor]) for tensor in plan.keep)
            if runner.trace:  # not where time is measured
                self.measure(runner)

    def measure(self, runner: Runner) -> None:
        """Measure the bytes that the variables keep now, by reading them."""
        held = sum(size_of(runner.sessions[session].run(store.read)) for session, store in self._touched)
        self.bytes_held = max(self.bytes_held, held)

    def code(self) -> str:
        """Return code that stores the cuts in variables and builds their consumers on them."""
        return code.variable(self)
