"""Builds the record of a replay: the recording's graph, recoloured by what ran in the mode."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from cachelab.model import BOOKKEEPING, Columns, Record
from cachelab.modes.traces import Execution, Ran

if TYPE_CHECKING:
    from collections.abc import Iterable

    from cachelab.modes.protocol import Mode
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
        self._fed: set[str] = set()
        self._group: dict[int, set[str]] = {}
        self._lead: bool | None = None

    def _attribute(self, ran: list[Ran]) -> dict[int, Ran]:
        """Return call -> what became of its ops; what a shared run executed goes to the first call that needs it."""
        found: dict[int, Ran] = {}
        for run in ran:
            if not (run.executed or run.fates):  # it failed: nothing is known
                continue
            for call in run.calls:
                found.setdefault(call, Ran((call,))).fates.update(run.fates)
            for name, execution in run.executed.items():
                owner = next((c for c in run.calls if name in self.mode.needed(c)), run.calls[0])
                known = found[owner].executed
                before = known.get(name, Execution(0.0, 0, 0))
                known[name] = Execution(*(one + other for one, other in zip(before, execution, strict=True)))
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
                    entry,
                    index=call.index,
                    repeat=1,
                    columns=number,
                    trace="full" if call.index in self._by_call else "missing",
                )
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
        ran = self._by_call.get(call)
        needed, served = self.mode.needed(call), set(self.mode.served(call))
        shared = self._shared(call)
        self._fed = {tensor.rpartition(":")[0] for tensor in self.mode.fed(call)}
        vectorized = self.mode.vectorizes(call)
        self._lead = call == self.mode.together(call)[0] if vectorized else None
        lists: dict[str, list[Any]] = {
            n: [] for n in ("status", "evidence", "seconds", "count", "witness", "cause", "into")
        }
        for at, row in enumerate(old.op):
            name = graph.name[row]
            execution = ran.executed.get(name) if ran is not None else None
            if name in shared and self._on_edge(name, call, shared):
                served.add(name)
            letter, sure, into = self._letter(name, old.status[at], execution, ran, (needed, served, shared))
            back = None
            if letter == "c":
                token = self._key(name, call)
                if token in self._seen:
                    letter, back = "r", call - self._seen[token]
                self._seen.setdefault(token, call)
            self._tally(letter, graph.type[row], 1 if execution is None else execution.count)
            lists["status"].append(letter)
            lists["evidence"].append(sure)
            lists["seconds"].append(0.0 if execution is None else execution.seconds)
            lists["count"].append(0 if execution is None else execution.count)
            lists["witness"].append(back)
            lists["cause"].append(old.cause[at] if letter in "cr" else ())
            lists["into"].append(graph.index.get(into, -1) if into else -1)
        return Columns(
            old.op, "".join(lists["status"]), "".join(lists["evidence"]), tuple(lists["seconds"]), old.bytes,
            tuple(lists["count"]), tuple(lists["witness"]), tuple(lists["cause"]), tuple(lists["into"]), old.shape, (),
            old.device,
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
        """Return the ops that ran for an earlier call of the same run and that this call would have needed too.

        Calls are asked for in order, so that a long group costs no more than its calls.
        """
        first = self.mode.together(call)[0]
        needed = self.mode.needed(call)
        earlier = self._group.setdefault(first, set())
        shared = earlier & needed if first != call else set()
        ran = self._by_call.get(call)
        earlier.update(needed if ran is None else ran.executed)
        return shared

    def _letter(
        self,
        name: str,
        old: str,
        execution: Execution | None,
        ran: Ran | None,
        sets: tuple[frozenset[str], set[str], set[str]],
    ) -> tuple[str, str, str]:
        """Return status, evidence, and the op that it went into, of one op."""
        needed, served, shared = sets
        if execution is not None:
            return "c", "m", ""
        sure = "d" if ran is None else "m"
        if old == "d":
            return ("d" if name in self._fed else "p"), sure, ""
        if self._lead is not None and name in needed and old in "cr":  # one vectorised run under other names
            return ("c" if self._lead else "m"), "d", ""
        if name in served:
            return "s", sure, ""
        if name not in needed or name in shared:
            return ("t" if old == "t" else "p"), sure, ""
        if ran is None:
            return ("c", "d", "") if old in "cr" else (old, "d", "")
        letter, into = ran.fates.get(name, ("x" if old in "cr" else old, ""))
        return letter, ("m" if name in ran.fates and letter != "x" else "d"), into

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
