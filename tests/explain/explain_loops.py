"""Random loops, and what really waits for what when they turn: every op once an iteration."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from explain_worlds import World

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Iterator

    from cachelab.explain.plan import Plan

Step = tuple[int, tuple[int, ...]]
"""One execution: (row, its iterations, outermost first)."""


@dataclass
class Loops:
    """A world with loops of control flow version 1, and a variable that ops in them read."""

    rng: random.Random
    world: World = field(default_factory=World)
    frame: dict[int, tuple[int, ...]] = field(default_factory=dict)
    in_body: set[int] = field(default_factory=set)
    count: int = 0

    def __post_init__(self) -> None:
        self.variable = self.world.cell("v")

    def op(self, kind: str, inputs: list, control: tuple = (), frame: tuple = (), *, body: bool = False) -> int:
        reads = [self.variable] if kind == "Op" and self.rng.random() < 0.4 else []
        row = self.world.op(f"{kind}_{len(self.world.flat.name)}", kind, inputs, control, reads=reads)
        self.frame[row] = frame
        if body:
            self.in_body.add(row)
        return row

    def loop(self, given: list, frame: tuple[int, ...], *, body: bool, depth: int) -> list:
        """Add a loop and return its exits."""
        rng = self.rng
        self.count += 1
        inner = (*frame, self.count)
        size = rng.randint(1, 3)
        enters = [self.op("Enter", [rng.choice(given)], (), frame, body=body) for _ in range(size)]
        constant = self.op("Enter", [rng.choice(given)], (), frame, body=body)
        merges = [self.op("Merge", [enter], (), inner) for enter in enters]
        decides = self.op("Op", rng.sample(merges, rng.randint(1, size)), (), inner)
        condition = self.op("LoopCond", [decides], (), inner)
        switches = [self.op("Switch", [merge, condition], (), inner) for merge in merges]
        values: list = [(switch, 1) for switch in switches]
        for _ in range(rng.randint(1, 5)):
            taken = rng.sample(values, rng.randint(1, min(2, len(values))))
            if rng.random() < 0.3:
                taken.append(constant)
            rows = [value for value in values if isinstance(value, int)]
            control = (rng.choice(rows),) if rows and rng.random() < 0.3 else ()
            values.append(self.op("Op", taken, control, inner, body=True))
        if depth and rng.random() < 0.4:
            values += self.loop(values, inner, body=True, depth=depth - 1)
        for merge, enter in zip(merges, enters, strict=True):
            back = self.op("NextIteration", [rng.choice(values)], (), inner, body=True)
            self.world.flat.inputs[merge] = ((enter, 0), (back, 0))
        return [self.op("Exit", [(switch, 0)], (), frame, body=body) for switch in switches]


def steps(loops: Loops, plan: Plan, trips: Callable[[tuple[int, ...], tuple[int, ...]], int]) -> dict[Step, list[Step]]:
    """Return every execution of a call with those that it waits for.

    Parameters
    ----------
    loops, plan
        The graph and the plan of the call.
    trips
        (loops, iterations of all but the innermost) -> iterations that the innermost makes.
    """
    found: dict[Step, list[Step]] = {}
    for row in plan.closure.order:
        frame = loops.frame[row]
        for turn in _turns(frame, trips, body=row in loops.in_body):
            found[row, turn] = list(_waits(loops, row, turn, trips))
    return found


def _turns(
    frame: tuple[int, ...], trips: Callable[[tuple[int, ...], tuple[int, ...]], int], *, body: bool
) -> Iterator[tuple[int, ...]]:
    if not frame:
        yield ()
        return
    for outer in _turns(frame[:-1], trips, body=True):
        for turn in range(trips(frame, outer) + (not body)):
            yield (*outer, turn)


def _waits(
    loops: Loops, row: int, turn: tuple[int, ...], trips: Callable[[tuple[int, ...], tuple[int, ...]], int]
) -> Iterator[Step]:
    flat = loops.world.flat
    inputs = [ref[0] for ref in flat.inputs[row]]
    if flat.type[row] == "Merge":
        enter, back = inputs
        yield (enter, turn[:-1]) if not turn[-1] else (back, (*turn[:-1], turn[-1] - 1))
        return
    for other in (*inputs, *flat.control[row]):
        if len(loops.frame[other]) > len(turn):
            yield other, (*turn, trips(loops.frame[other], turn))
        else:
            yield other, turn[: len(loops.frame[other])]


def before(waits: dict[Step, list[Step]], step: Step) -> set[Step]:
    """Return the executions that are surely over when ``step`` happens."""
    found: set[Step] = set()
    pending = [step]
    while pending:
        for other in waits.get(pending.pop(), ()):  # nothing runs for what is fed
            if other not in found:
                found.add(other)
                pending.append(other)
    return found
