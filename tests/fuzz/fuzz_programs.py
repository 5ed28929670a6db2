"""What a random program is: instructions that build a graph, and calls of it. Plain data, made without TensorFlow.

An instruction names the values it takes by number; a number whose instruction was dropped falls back to another
value. So any sublist of the instructions and calls is a program again, which makes shrinking a matter of leaving
things out.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace

SIMPLE = ("placeholder", "const", "unary", "unary", "binary", "binary", "binary", "split", "stack")
STATE = (
    "resource", "ref", "read", "read", "assign", "assign", "scatter", "sgd", "adam", "control", "control", "gradient",
    "guard", "twin", "slice", "default", "count",
)  # fmt: skip
DRAWS = ("random", "stateless", "iterator", "queue", "table", "python", "generator", "accumulator", "stage")
STRUCTURE = (
    "cond", "cond", "while", "while", "call", "array", "sparse", "string", "guard", "switch_case", "nested", "map",
)  # fmt: skip

FAMILIES = {
    "simple": (SIMPLE * 2, ()),
    "state": (SIMPLE, STATE * 2),
    "all": (SIMPLE, STATE + DRAWS + STRUCTURE),
    "structure": (SIMPLE, STATE + STRUCTURE * 2),
}


@dataclass(frozen=True)
class Instruction:
    """One step of building the graph. ``number`` names its value; ``uses`` the values it takes; ``pick`` choices."""

    number: int
    kind: str
    uses: tuple[int, ...]
    pick: tuple[int, ...]


@dataclass(frozen=True)
class CallStep:
    """One call: what it fetches (numbers of values or ops), what it feeds, where, and how.

    ``kind``: ``run``, ``callable``, ``init``, ``load``, ``partial``. ``feeds`` are choices of values for the
    placeholders, by their order; ``fed`` are (number, choice) pairs of fed intermediates.
    """

    kind: str
    session: int
    fetches: tuple[int, ...]
    feeds: tuple[int, ...]
    fed: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True)
class Program:
    """A graph, its calls, and how they are recorded."""

    seed: int
    family: str
    grappler: bool
    trace: str
    sessions: int
    instructions: tuple[Instruction, ...]
    calls: tuple[CallStep, ...]
    graph_seed: int | None = None
    notes: dict[str, object] = field(default_factory=dict, compare=False)

    def listing(self) -> str:
        """Return the program as text, to be pasted into a regression test."""
        lines = [f"seed {self.seed} family {self.family} grappler {self.grappler} trace {self.trace}"]
        lines += [f"  %{i.number} = {i.kind} {list(i.uses)} {list(i.pick)}" for i in self.instructions]
        lines += [f"  {c.kind} session {c.session} fetch {list(c.fetches)} feeds {list(c.feeds)} fed {list(c.fed)}"
                  for c in self.calls]  # fmt: skip
        return "\n".join(lines)


def generate(seed: int) -> Program:
    """Return the program of a seed."""
    rng = random.Random(seed)
    family = rng.choice(("simple", "state", "state", "all", "all", "all", "structure", "structure"))
    instructions = some_instructions(rng, *FAMILIES[family])
    sessions = rng.choice((1, 1, 1, 2))
    calls = [CallStep("init", session, (), ()) for session in range(sessions)]
    partial = rng.random() < 0.12
    kept: list[CallStep] = []
    for _ in range(rng.randint(4, 9)):
        if kept and rng.random() < 0.45:
            # The same again, or with other feeds: that is where redundancy and A-B-A come from.
            step = rng.choice(kept)
            if rng.random() < 0.5:
                step = replace(step, feeds=tuple(_feed(rng) for _ in step.feeds))
        else:
            step = some_step(rng, len(instructions), sessions, partial=partial)
        kept.append(step)
    calls += kept
    return Program(
        seed=seed,
        family=family,
        grappler=not partial and rng.random() < 0.2,
        trace=rng.choice(("full", "full", "auto", "light")),
        sessions=sessions,
        instructions=instructions,
        calls=tuple(calls),
        graph_seed=rng.choice((None, 7)),
    )


def some_instructions(
    rng: random.Random, plain: tuple[str, ...], rest: tuple[str, ...], *, most: int = 9
) -> tuple[Instruction, ...]:
    """Return random instructions of the given kinds; a placeholder and, with ``rest``, variables come first."""
    kinds = ["placeholder", *(rng.choice(("resource", "ref", "resource")) for _ in range(rng.randrange(3)) if rest)]
    kinds += rng.choices(plain, k=rng.randint(3, 7)) + (rng.choices(rest, k=rng.randint(3, most)) if rest else [])
    head, tail = kinds[:2], kinds[2:]
    rng.shuffle(tail)
    kinds = head + tail
    return tuple(
        Instruction(
            number,
            kind,
            tuple(rng.randrange(max(1, number)) for _ in range(3)),
            tuple(rng.randrange(1000) for _ in range(4)),
        )
        for number, kind in enumerate(kinds)
    )


def _feed(rng: random.Random) -> int:
    return rng.choice((0, 0, 0, 1, 1, 2, 3))


def some_step(rng: random.Random, size: int, sessions: int, *, partial: bool) -> CallStep:
    """Return a random call of a program of ``size`` instructions."""
    kinds = ("run",) * 12 + ("callable",) * 2 + ("load", "init") + (("partial",) * 3 if partial else ())
    late = [rng.randrange(size // 2, size) for _ in range(rng.randint(1, 3))]
    fetches = tuple(late) if rng.random() < 0.7 else tuple(rng.randrange(size) for _ in late)
    fed = tuple((rng.randrange(size), _feed(rng)) for _ in range(rng.choice((0, 0, 0, 0, 1, 1, 2))))
    return CallStep(rng.choice(kinds), rng.randrange(sessions), fetches, tuple(_feed(rng) for _ in range(size)), fed)
