"""A record as the assertions on the cases ask for it: statuses by op and call, causes, witnesses, findings."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from cachelab.model import Finding, OpExecution, Record

EXECUTED = frozenset({"computed", "recomputed"})

NEVER_AGAIN = (
    "Assign", "AssignAdd", "AssignVariableOp", "AssignAddVariableOp", "ResourceApply", "ResourceScatter", "Random",
    "Multinomial", "IteratorGetNext", "MakeIterator", "PyFunc", "QueueEnqueue", "QueueDequeue", "GetSessionHandle",
)  # fmt: skip
"""Beginnings of op types that write, draw or run foreign code: a second execution is never redundant."""


class Seen:
    """What was recorded of a case."""

    def __init__(self, record: Record) -> None:
        self.record = record
        self.probed: dict[str, Any] = {}

    @cached_property
    def calls(self) -> list[dict[str, OpExecution]]:
        """For each call its ops by name."""
        return [{op.name: op for op in self.record.executions(k)} for k in range(self.record.call_count)]

    def of(self, *fetches: str, kind: str = "run") -> list[int]:
        """Return the calls of ``kind`` with exactly these fetches and targets."""
        kept = range(self.record.call_count)
        return [k for k in kept if (e := self.record.entry(k)).kind == kind and e.fetches == fetches]

    def status(self, call: int, op: str) -> str | None:
        """Return what became of an op in a call, ``None`` if the call did not need it."""
        found = self.calls[call].get(op)
        return None if found is None else found.status

    def statuses(self, op: str, calls: Iterable[int]) -> list[str | None]:
        """Return what became of an op in each of the calls."""
        return [self.status(call, op) for call in calls]

    def ran(self, call: int) -> set[str]:
        """Return the names of all ops that executed in a call."""
        return {name for name, op in self.calls[call].items() if op.status in EXECUTED}

    def witness(self, call: int, op: str) -> int | None:
        """Return the call in which an op had run on the same values."""
        return self.calls[call][op].witness

    def causes(self, call: int, op: str) -> list[tuple[str, str]]:
        """Return kinds and sources of an op's causes, root cause first."""
        return [(cause.kind, cause.source) for cause in self.calls[call][op].causes]

    def evidence(self, call: int, op: str) -> str:
        """Return how the status of an op is known."""
        return self.calls[call][op].evidence

    def redundant(self, call: int, ops: Sequence[str], witness: int) -> None:
        """Assert that ops ran again on the same values as in call ``witness``, only because nothing kept them."""
        for op in ops:
            found = self.calls[call][op]
            assert (found.status, found.witness) == ("recomputed", witness), found
            assert [(cause.kind, cause.call) for cause in found.causes] == [("not_kept", witness)], found

    def new(self, call: int, ops: Sequence[str], *causes: tuple[str, str]) -> None:
        """Assert that ops were computed, and had to be, for exactly these causes (kind, source)."""
        for op in ops:
            found = self.calls[call][op]
            assert (found.status, found.witness) == ("computed", None), found
            assert self.causes(call, op) == list(causes), found

    def labels(self, call: int) -> dict[str, str]:
        """Return the label of the version of each feed and variable of a call."""
        return {self.record.sources[source].name: label for source, label in self.record.entry(call).versions}

    def findings(self, kind: str) -> list[Finding]:
        """Return the findings of a kind."""
        return [finding for finding in self.record.findings if finding.kind == kind]

    def sound(self) -> None:
        """Assert what holds of any record: witnesses ran earlier, effects are never redundant, nothing went missing."""
        for k, ops in enumerate(self.calls):
            for op in ops.values():
                if op.status == "recomputed":
                    assert op.witness is not None, op
                    assert op.witness < k, op
                    assert self.status(op.witness, op.name) in EXECUTED, op
                    assert self.record.entry(op.witness).failed is None, op
                    assert not op.type.startswith(NEVER_AGAIN), op
                else:
                    assert op.witness is None, op
                assert op.causes or op.status not in EXECUTED, op
        assert not self.findings("contradiction")
        assert not self.findings("trace_missing")
