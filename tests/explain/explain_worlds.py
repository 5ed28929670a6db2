"""Small graphs and logs made by hand or at random, for tests of the rule without TensorFlow."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from cachelab.explain.closure import Signature
from cachelab.explain.flat import Cell, FlatGraph, Ref
from cachelab.explain.history import History, Judged
from cachelab.explain.log import LoggedCall, Outcome
from cachelab.explain.partial import derived, failed
from cachelab.explain.plan import Plan, make_plan
from cachelab.explain.verdicts import Verdicts

if TYPE_CHECKING:
    import random
    from collections.abc import Iterable, Mapping, Sequence

    from cachelab.model import Columns


@dataclass
class World:
    """A flat graph under construction, its plans and a log of calls on it."""

    flat: FlatGraph = field(default_factory=lambda: FlatGraph(0))
    calls: list[LoggedCall] = field(default_factory=list)
    plans: dict[Any, Plan] = field(default_factory=dict)
    moment: int = 0
    handles: int = 0

    # --- the graph -------------------------------------------------------------------------------------------------

    def cell(self, name: str, *, kind: str = "variable", local: bool = False) -> int:
        """Add a place that keeps a value."""
        self.flat.cells.append(Cell(kind, name, f"{kind}/{name}", local=local))
        return len(self.flat.cells) - 1

    def op(
        self,
        name: str,
        kind: str = "Op",
        inputs: Sequence[int | Ref] = (),
        control: Sequence[int] = (),
        *,
        reads: Sequence[int] = (),
        writes: Sequence[int] = (),
        aliases: Sequence[int] = (),
        draws: str = "",
        shown: bool = True,
        effect: bool | None = None,
    ) -> int:
        """Add an op; ``inputs`` are rows (their first output) or references."""
        flat = self.flat
        row = flat.row(name, kind, shown=shown)
        flat.inputs[row] = tuple((item, 0) if isinstance(item, int) else item for item in inputs)
        flat.control[row] = tuple(control)
        for table, cells in ((flat.reads, reads), (flat.writes, writes), (flat.aliases, aliases)):
            if cells:
                table[row] = tuple(cells)
        if draws:
            flat.draws[row] = draws
        outlives = any(not flat.cells[cell].local for cell in writes)
        if effect if effect is not None else (outlives or draws in {"random", "iterator", "opaque"}):
            flat.effects.add(row)
        return row

    def hub(
        self, name: str, kind: str, outputs: Sequence[int | Ref], body: Sequence[int], members: Sequence[int]
    ) -> int:
        """Add a call op whose outputs stand for those of its body."""
        row = self.op(name, kind)
        self.flat.outputs[row] = tuple((item, 0) if isinstance(item, int) else item for item in outputs)
        self.flat.body[row], self.flat.members[row] = tuple(body), tuple(members)
        return row

    # --- calls -----------------------------------------------------------------------------------------------------

    def plan(self, fetches: Iterable[int | Ref], feeds: Iterable[int | Ref] = (), targets: Iterable[int] = ()) -> Plan:
        """Return the plan of a signature."""
        signature = Signature(
            tuple((item, 0) if isinstance(item, int) else item for item in fetches),
            tuple(targets),
            frozenset((item, 0) if isinstance(item, int) else item for item in feeds),
        )
        if signature not in self.plans:
            self.plans[signature] = make_plan(len(self.plans), self.flat, signature)
        return self.plans[signature]

    def call(
        self,
        fetches: Iterable[int | Ref] = (),
        feeds: Mapping[int | Ref, str] | None = None,
        *,
        targets: Iterable[int] = (),
        session: int = 0,
        error: str | None = None,
        ran: Iterable[int] | None = None,
        began: int | None = None,
        ended: int | None = None,
        culprit: int | None = None,
        config: int = 0,
        shared: bool = False,
    ) -> LoggedCall:
        """Add a call that follows the others, or one with its own begin and end."""
        given = {(key, 0) if isinstance(key, int) else key: value for key, value in (feeds or {}).items()}
        plan = self.plan(fetches, given, targets)
        if error is not None:
            outcome = failed(plan, culprit)
        elif ran is not None:
            kept = frozenset(ran)
            outcome = Outcome(kept, {row: ("t", -1) for row in plan.shown if row not in kept}, "m", complete=True)
        else:
            outcome = derived(plan)
        if began is None:
            began, self.moment = self.moment, self.moment + 2
            ended = began + 1
        assert ended is not None
        call = LoggedCall(
            index=len(self.calls), kind="run", plan=plan, session=session, scope=f"session {session}", config=config,
            thread=0, feeds=given, began=began, ended=ended, start=float(began), seconds=1.0, line=-1, outcome=outcome,
            failed=error, shared=shared, trace="light",
            fetches=tuple(self.flat.tensor_name(ref) for ref in plan.signature.fetches),
            fed=tuple(self.flat.tensor_name(ref) for ref in given),
        )  # fmt: skip
        self.calls.append(call)
        return call

    # --- verdicts --------------------------------------------------------------------------------------------------

    def judge(self) -> Verdict:
        """Judge the log."""
        return Verdict(self)

    def parts(self) -> Any:
        """Return what a record is built from, with stand-ins for what TensorFlow would tell."""
        place = SimpleNamespace(
            flat=self.flat,
            line_of=lambda row, lines: -1,
            growth=lambda lines: [],
            twins=SimpleNamespace(numbers=lambda closed: {row: row for row in closed.order}),
        )
        return SimpleNamespace(
            calls=self.calls, graphs={0: place}, events=[], lines=None, unreadable=[], tensorflow="", optimizers=False
        )


class Verdict:
    """What the engine says of a log: status, witness and causes by call and op name."""

    def __init__(self, world: World) -> None:
        self.world = world
        table = {row: row for row in range(len(world.flat.name))}
        history, judged = History(), []
        self.judged: list[Judged | None] = judged
        self.verdicts = Verdicts(history, judged, {0: table})
        self.number: dict[int, int] = {}

        def settle(found: Judged) -> None:
            self.number[found.call.index] = self.verdicts.of(found)

        history.judge(world.calls, judged, settle)

    def columns(self, call: int) -> Columns:
        """Return the columns of a call."""
        return self.verdicts.columns[self.number[call]]

    def of(self, call: int, row: int) -> tuple[str, int | None]:
        """Return (status letter, call number of the witness) of an op."""
        columns = self.columns(call)
        at = columns.op.index(row)
        back = columns.witness[at]
        return columns.status[at], None if back is None else call - back

    def status(self, call: int, row: int) -> str:
        """Return the status letter of an op."""
        return self.of(call, row)[0]

    def causes(self, call: int, row: int) -> list[str]:
        """Return the kinds of causes of an op, root cause first."""
        columns = self.columns(call)
        return [self.verdicts.causes[c].kind for c in columns.cause[columns.op.index(row)]]


def random_world(rng: random.Random, size: int, *, draws: bool = True, aliases: bool = False) -> World:
    """Return a random graph without cycles: placeholders, pure ops with two outputs, reads, writes, draws."""
    world = World()
    cells = [world.cell(f"v{i}") for i in range(rng.randint(1, 2))]
    for row in range(size):
        before = list(range(row))
        inputs = [(rng.choice(before), rng.randrange(2)) for _ in range(rng.randint(0, 2))] if before else []
        control = rng.sample(before, min(len(before), rng.choice((0, 0, 1, 2))))
        kind = rng.choice(("placeholder", "pure", "pure", "read", "write", "update", "draw"))
        cell = (rng.choice(cells),)
        if kind == "placeholder" or not before:
            world.op(f"x{row}", "Placeholder")
        elif kind == "read":
            world.op(f"r{row}", "Read", inputs, control, reads=cell)
        elif kind == "write":
            world.op(f"w{row}", "Write", inputs, control, reads=cell, writes=cell)
        elif kind == "update" and aliases:
            world.op(f"u{row}", "RefAssign", inputs, control, reads=cell, writes=cell, aliases=cell)
        elif kind == "draw" and draws:
            world.op(f"d{row}", "Draw", inputs, control, draws="random")
        else:
            world.op(f"p{row}", "Pure", inputs, control)
    return world
