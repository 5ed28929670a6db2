"""Builds the record of a replay: the recording's graph, recoloured by what ran in the mode."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from cachelab.model import BOOKKEEPING, Columns, Record

if TYPE_CHECKING:
    from collections.abc import Iterable

    from cachelab.modes.protocol import Mode
    from cachelab.modes.runner import Node, Ran
    from cachelab.modes.script import Script


class Recolor:
    """Turns what a mode's traced replay executed into columns of a record.

    An op counts as executed only if a node of its name and type ran. It is ``recomputed`` if the verdicts of the
    recording say that it computed the same in an earlier call *of the mode in which it ran too*; ``reused`` if its
    kept value was served; ``pruned`` if the mode did not need it.

    Parameters
    ----------
    script, mode
        What was replayed, and how.
    ran
        Every run of TensorFlow in the traced replay; empty where nothing could be traced.
    """

    def __init__(self, script: Script, mode: Mode, ran: Iterable[Ran]) -> None:
        self.script = script
        self.mode = mode
        self.counts = {"executed": 0, "recomputed": 0, "reused": 0}
        self._by_call = self._attribute(list(ran))
        self._seen: dict[Any, int] = {}

    def _attribute(self, ran: list[Ran]) -> dict[int, dict[str, list[Node]]]:
        """Return call -> op -> its executions; what a shared run executed goes to the first call that needs it."""
        found: dict[int, dict[str, list[Node]]] = {}
        for run in ran:
            for node in run.nodes or ():
                name = run.names.get(node.name, node.name)
                owner = next((c for c in run.calls if name in self.mode.needed(c)), run.calls[0])
                found.setdefault(owner, {}).setdefault(name, []).append(node)
            for call in run.calls:
                found.setdefault(call, {})
        return found

    def record(self) -> Record:
        """Return the record of the replay; the graphs, lines and sources are the recording's."""
        original = self.script.record
        columns: dict[Columns, int] = {}
        calls = []
        for call in self.script.calls:
            entry = original.entry(call.index)
            made = self._columns(call.index)
            number = columns.setdefault(made, len(columns))
            calls.append(
                dataclasses.replace(
                    entry, index=call.index, repeat=1, columns=number,
                    trace="full" if call.index in self._by_call else "missing",
                )  # fmt: skip
            )
        return dataclasses.replace(
            original,
            name=f"{original.name} ({self.mode.name})",
            columns=tuple(columns),
            calls=tuple(calls),
            findings=(),
            modes=(),
            options={**original.options, "mode": self.mode.name, **self.mode.options()},
        )

    def _columns(self, call: int) -> Columns:
        old = self.script.columns(call)
        graph = self.script.record.graphs[self.script.record.entry(call).graph]
        measured = self._by_call.get(call)
        needed, served = self.mode.needed(call), set(self.mode.served(call))
        shared = self._shared(call)
        status, evidence, seconds, count, witness, cause = [], [], [], [], [], []
        for at, row in enumerate(old.op):
            name = graph.name[row]
            nodes = (measured or {}).get(name, ())
            edge = name in shared and self._on_edge(name, call, shared)
            letter, sure = self._letter(
                name, graph.type[row], old.status[at], nodes, (needed, served | {name} if edge else served, shared)
            )
            if measured is None and letter in "cr" and sure == "m":
                sure = "d"
            back = None
            if letter == "c":
                token = self._key(name, call)
                if token in self._seen:
                    letter, back = "r", call - self._seen[token]
                self._seen.setdefault(token, call)
            self._tally(letter, graph.type[row], max(len(nodes), 1))
            status.append(letter)
            evidence.append(sure)
            seconds.append(sum(node.seconds for node in nodes))
            count.append(len(nodes))
            witness.append(back)
            cause.append(old.cause[at] if letter in "cr" else ())
        return Columns(
            old.op, "".join(status), "".join(evidence), tuple(seconds), old.bytes, tuple(count), tuple(witness),
            tuple(cause), old.into, old.shape, (), old.device,
        )  # fmt: skip

    def _key(self, name: str, call: int) -> Any:
        token = self.script.same_as(name, call)
        return (name, call) if token is None else token

    def _tally(self, letter: str, kind: str, times: int) -> None:
        if kind in BOOKKEEPING:
            return
        if letter in "cr":
            self.counts["executed"] += times
            self.counts["recomputed"] += times if letter == "r" else 0
        elif letter == "s":
            self.counts["reused"] += 1

    def _shared(self, call: int) -> set[str]:
        """Return the ops that ran for an earlier call of the same run and whose value this call used as well."""
        earlier = [other for other in self.mode.together(call) if other < call]
        return {name for other in earlier for name in self._by_call.get(other, self.mode.needed(other))}

    def _letter(
        self, name: str, kind: str, old: str, nodes: Iterable[Node], sets: tuple[frozenset[str], set[str], set[str]]
    ) -> tuple[str, str]:
        """Return status and evidence of one op."""
        needed, served, shared = sets
        if any(node.type == kind for node in nodes):
            return "c", "m"
        if name in served:
            return "s", "m"
        if name not in needed or name in shared:
            return ("p", "m") if old != "t" else ("t", "d")
        if old in "cr":
            return ("x", "d") if self._by_call else ("c", "d")
        return old, "d"

    def _on_edge(self, name: str, call: int, shared: set[str]) -> bool:
        """Whether an op that ran for an earlier call is fetched, or has a consumer that runs only now."""
        if any(fetch.rpartition(":")[0] == name for fetch in self.script.calls[call].fetches):
            return True
        for private in self.script.place.graphs.values():
            op = private.facts.ops.get(name)
            if op is not None:
                users = [user.name for output in op.outputs for user in output.consumers()]
                return any(user not in shared and user in self.mode.needed(call) for user in users)
        return False
