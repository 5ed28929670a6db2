"""What to keep, what that saves and holds, and what not to keep and why.

The choice is a minimum cut. Every redundant op is either saved or runs again, which costs its op time. A saved op
whose value an op that runs still needs has to be held, which costs a feed a call, and its bytes at a price. The
price of a byte is raised until the held bytes fit the budget (Lagrange relaxation of the knapsack).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import networkx as nx

from cachelab.i18n import plural
from cachelab.i18n import translate as _
from cachelab.model import BOOKKEEPING
from cachelab.modes.comparison import bytes_text, seconds_text
from cachelab.modes.spared import ancestry, covered, spared

if TYPE_CHECKING:
    from collections.abc import Iterable

    from cachelab.model import ModeResult, Record

FEED_SECONDS = 10e-6
"""What keeping and serving one tensor costs in a call, Python included."""
CHEAP_SECONDS_A_MB = 200e-6
"""An op that computes a megabyte faster than this is not worth holding: reading it costs as much."""
MOST_OPS = 4_000
"""Ops that the minimum cut looks at: the most expensive ones."""
REFUSALS = 5


@dataclass(frozen=True)
class Advice:
    """One piece of advice on a tensor.

    Attributes
    ----------
    cut
        The tensor, such as ``enc/Tanh:0``; an op's name where keeping is impossible.
    keep
        Whether to keep it.
    saved_seconds
        Op time (a sum over ops, not wall time) that keeping all advised cuts saves, estimated; each op is counted
        for one cut only.
    bytes
        Bytes held.
    reason
        Why, or why not, as a sentence.
    code
        Plain TensorFlow code that keeps all advised cuts by hand.
    measured_seconds
        Wall seconds that a replay with kept values saved, ``None`` before there was one.
    """

    cut: str
    keep: bool
    saved_seconds: float
    bytes: int
    reason: str
    code: str = field(default="", repr=False)
    measured_seconds: float | None = None

    def __str__(self) -> str:
        """Return the reason, with prediction and measurement side by side where both are known."""
        if self.measured_seconds is None:
            return self.reason
        return _("{reason} A replay measured {seconds} of wall time saved by all kept tensors.").format(
            reason=self.reason, seconds=seconds_text(self.measured_seconds)
        )


@dataclass
class _Op:
    """What the recording says of one op: seconds and calls in which its work was redundant, bytes, consumers."""

    row: int
    seconds: float = 0.0
    hits: int = 0
    bytes: int = 0
    needed_by: set[int] = field(default_factory=set)
    forced: bool = False


def advise(
    record: Record, *, memory_budget: int | None = None, unholdable: Any = None, code: Any = None
) -> list[Advice]:
    """Return what to keep, best first, then what not to keep and why.

    Parameters
    ----------
    record
        The recording.
    memory_budget
        Bytes that may be held, ``None`` for no limit.
    unholdable
        Function (graph number, tensor) -> why the tensor can't be kept, ``""`` if it can.
    code
        Function (tensors) -> code that keeps them by hand.
    """
    chosen: dict[tuple[int, int], _Op] = {}
    ops: dict[int, dict[int, _Op]] = {}
    left = memory_budget
    for graph in range(len(record.graphs)):
        ops[graph] = _redundant(record, graph)
        if ops[graph]:
            kept = _choose(record, graph, ops[graph], left, unholdable)
            left = None if left is None else left - sum(ops[graph][row].bytes for row in kept)
            chosen.update({(graph, row): ops[graph][row] for row in kept})
    saved = _shares(record, ops, chosen)
    tensors = [_tensor(record, graph, row) for graph, row in chosen]
    text = code(tensors) if code is not None and tensors else ""
    measured = _measured(record.modes)
    found = [
        Advice(
            _tensor(record, *key),
            keep=True,
            saved_seconds=saved[key],
            bytes=op.bytes,
            reason=_keep_text(record, key, saved[key], op),
            code=text,
            measured_seconds=measured,
        )
        for key, op in chosen.items()
    ]
    found.sort(key=lambda advice: -advice.saved_seconds)
    return [*found, *_not_worth(record, ops, chosen, unholdable), *_impossible(record, ops)]


def _redundant(record: Record, graph: int) -> dict[int, _Op]:
    """Return row -> :class:`_Op` of the ops whose work was redundant in some call."""
    table = record.graphs[graph]
    found: dict[int, _Op] = {}
    for entry in record.calls:
        if entry.graph != graph:
            continue
        columns = record.columns[entry.columns]
        letters = dict(zip(columns.op, columns.status, strict=True))
        fetched = {table.index.get(name.rpartition(":")[0]) for name in entry.fetches}
        for at, row in enumerate(columns.op):
            if columns.status[at] != "r" or table.type[row] in BOOKKEEPING:
                continue
            op = found.setdefault(row, _Op(row))
            op.seconds += columns.seconds[at] * entry.repeat
            op.hits += entry.repeat
            op.bytes = max(op.bytes, columns.bytes[at])
            op.forced = op.forced or row in fetched
            op.needed_by.update(_users(table, row, letters))
            op.forced = op.forced or any(letters[user] == "c" for user in _users(table, row, letters))
    keep = sorted(found.values(), key=lambda op: -op.seconds)[:MOST_OPS]
    return {op.row: op for op in keep}


def _users(table: Any, row: int, letters: dict[int, str]) -> set[int]:
    """Return the ops of a call that take an op's value, looking through ops that only pass it on."""
    found: set[int] = set()
    stack, seen = [row], {row}
    while stack:
        for user in table.consumers[stack.pop()]:
            if user in seen or letters.get(user, "p") not in "crmu":
                continue
            seen.add(user)
            if table.type[user] in BOOKKEEPING:
                stack.append(user)
            else:
                found.add(user)
    return found


def _choose(record: Record, graph: int, ops: dict[int, _Op], budget: int | None, unholdable: Any) -> set[int]:
    """Return the rows to hold: the minimum cut at the lowest price of a byte that fits the budget."""
    holdable = {
        row: not (unholdable is not None and unholdable(graph, f"{record.graphs[graph].name[row]}:0")) for row in ops
    }
    kept = _cut(ops, holdable, 0.0)
    if budget is None or sum(ops[row].bytes for row in kept) <= budget:
        return kept
    wanted, kept = kept, set()
    low, high = 0.0, max(op.seconds for op in ops.values()) + 1e-9
    for _step in range(24):
        price = (low + high) / 2
        trial = _cut(ops, holdable, price)
        if sum(ops[row].bytes for row in trial) <= budget:
            kept, high = trial, price
        else:
            low = price
    # What the relaxation left free is filled up; with few large tensors, the dearest ones alone may be better.
    trials = [_filled(kept, wanted, ops, budget), _filled(set(), wanted, ops, budget)]
    return max(trials, key=lambda rows: sum(ops[r].seconds for r in covered(record, graph, rows) if r in ops))


def _filled(kept: set[int], wanted: set[int], ops: dict[int, _Op], budget: int) -> set[int]:
    """Return ``kept`` with as many of ``wanted`` as fit the budget, the dearest first."""
    found = set(kept)
    for row in sorted(wanted - kept, key=lambda row: -ops[row].seconds):
        if ops[row].bytes + sum(ops[other].bytes for other in found) <= budget:
            found.add(row)
    return found


def _cut(ops: dict[int, _Op], holdable: dict[int, bool], price: float) -> set[int]:
    """Return the rows on the saved side of the minimum cut that an op on the other side needs."""
    flow = nx.DiGraph()
    flow.add_nodes_from(("saved", "runs"))
    for row, op in ops.items():
        flow.add_edge("saved", row, capacity=op.seconds)
        if holdable[row]:
            hold = op.hits * FEED_SECONDS + op.bytes * max(price, CHEAP_SECONDS_A_MB * 1e-6 * min(op.hits, 1))
            flow.add_edge(row, (row, "held"), capacity=hold)
        else:
            flow.add_edge(row, (row, "held"))  # no capacity: infinite
        users = [user for user in op.needed_by if user in ops]
        for user in users:
            flow.add_edge((row, "held"), user)
        if op.forced or len(users) < len(op.needed_by):
            flow.add_edge((row, "held"), "runs")
    _value, (saved, _runs) = nx.minimum_cut(flow, "saved", "runs")
    return {row for row in ops if row in saved and (row, "held") not in saved}


def _shares(
    record: Record, ops: dict[int, dict[int, _Op]], chosen: dict[tuple[int, int], _Op]
) -> dict[tuple[int, int], float]:
    """Return the op time that each kept tensor saves: of ops that run no more, each counted for the first cut above."""
    found = dict.fromkeys(chosen, 0.0)
    for graph in ops:
        above = {row: ancestry(record, graph, row) for number, row in chosen if number == graph}
        order = sorted(above, key=lambda row: len(above[row]))  # what leads to another cut comes before it
        for entry, left in spared(record, graph, above):
            columns = record.columns[entry.columns]
            seconds = dict(zip(columns.op, columns.seconds, strict=True))
            for row in order:
                if row in left:
                    found[graph, row] += entry.repeat * sum(seconds[other] for other in left & above[row])
                    left.difference_update(above[row])
    return found


def _tensor(record: Record, graph: int, row: int) -> str:
    return f"{record.graphs[graph].name[row]}:0"


def _keep_text(record: Record, key: tuple[int, int], saved: float, op: _Op) -> str:
    return _("Keep `{cut}`: saves {seconds} of op time in {calls} and holds {size}.").format(
        cut=_tensor(record, *key), seconds=seconds_text(saved), calls=plural("{n} call", "{n} calls", op.hits),
        size=bytes_text(op.bytes),
    )  # fmt: skip


def _measured(modes: Iterable[ModeResult]) -> float | None:
    """Return the wall seconds that the best replay with kept values saved."""
    best = None
    for result in modes:
        if result.applicable and result.mode in {"variable", "feed", "memo", "handle"}:
            saved = result.seconds * (result.speedup - 1)
            best = saved if best is None else max(best, saved)
    return best


def _not_worth(
    record: Record, ops: dict[int, dict[int, _Op]], chosen: dict[tuple[int, int], _Op], unholdable: Any
) -> list[Advice]:
    """Return the redundant ops that still run in each call, and why they are not kept."""
    found = []
    for graph, table in ops.items():
        gone = covered(record, graph, [row for number, row in chosen if number == graph])
        for row, op in table.items():
            if row in gone:
                continue
            cut = _tensor(record, graph, row)
            name = record.graphs[graph].name[row]
            why = unholdable(graph, cut) if unholdable is not None else ""
            if why:
                reason = _("Not `{op}`: {why}.").format(op=name, why=why)
            elif op.bytes and op.seconds / op.hits < op.bytes * CHEAP_SECONDS_A_MB * 1e-6:
                reason = _("Not `{op}`: cheap to compute, {size} to hold.").format(op=name, size=bytes_text(op.bytes))
            elif op.seconds / op.hits <= FEED_SECONDS:
                reason = _("Not `{op}`: computing it takes {seconds}, serving it as long.").format(
                    op=name, seconds=seconds_text(op.seconds / op.hits)
                )
            else:
                reason = _("Not `{op}`: {size} do not fit the memory budget.").format(
                    op=name, size=bytes_text(op.bytes)
                )
            found.append(Advice(cut, keep=False, saved_seconds=op.seconds, bytes=op.bytes, reason=reason))
    found.sort(key=lambda advice: -max(advice.saved_seconds, advice.bytes * 1e-9))
    return found[:REFUSALS]


def _impossible(record: Record, redundant: dict[int, dict[int, _Op]]) -> list[Advice]:
    """Return the most expensive ops that ran again and again on new values, with the root cause."""
    totals: dict[tuple[int, int], tuple[float, int, int, int]] = {}
    for entry in record.calls:
        columns = record.columns[entry.columns]
        for at, row in enumerate(columns.op):
            bookkeeping = record.graphs[entry.graph].type[row] in BOOKKEEPING
            if columns.status[at] != "c" or bookkeeping or row in redundant[entry.graph]:
                continue
            seconds, calls, _cause, _index = totals.get((entry.graph, row), (0.0, 0, -1, 0))
            cause = columns.cause[at][0] if columns.cause[at] else -1
            totals[entry.graph, row] = (
                seconds + columns.seconds[at] * entry.repeat,
                calls + entry.repeat,
                cause,
                entry.index + entry.repeat - 1,
            )
    found, told = [], set()
    for (graph, row), (_seconds, calls, cause, index) in sorted(totals.items(), key=lambda item: -item[1][0]):
        if cause < 0 or calls < 2 or record.causes[cause].kind in {"first", "not_kept", "effect"}:  # noqa: PLR2004
            continue
        why = record.cause(cause, index)
        if (graph, why.kind, why.source) in told:
            continue
        told.add((graph, why.kind, why.source))
        name = record.graphs[graph].name[row]
        reason = _("`{op}`: {cause}: caching can never hit.").format(op=name, cause=why.text.rstrip("."))
        found.append(Advice(name, keep=False, saved_seconds=0.0, bytes=0, reason=reason))
        if len(found) == REFUSALS:
            break
    return found
