"""Random programs for the modes: besides those of the engine, ones whose calls modes can join, stack or cut."""

from __future__ import annotations

import random
from dataclasses import replace

import fuzz_programs
from fuzz_programs import DRAWS, SIMPLE, STRUCTURE, CallStep, Program, some_instructions, some_step

READS = ("resource", "ref", "read", "read", "gradient", "gradient", "twin", "default", "control", "stateless")
"""Kinds that, mostly, only read: what follows them can be joined or stacked."""
SHAPES = ("mixed", "mixed", "examples", "examples", "parts", "parts", "steps", "steps")
VALUES = 7
"""Values that a placeholder can be fed, number 3 apart: it makes assertions fail."""


def generate(seed: int) -> Program:
    """Return the program of a seed: mixed, examples (per_example), parts (partial_run) or steps (kept values)."""
    rng = random.Random(seed * 7_919 + 4)
    shape = rng.choice(SHAPES)
    if shape == "mixed":
        return replace(fuzz_programs.generate(seed), graph_seed=7)
    rest = READS + (STRUCTURE if rng.random() < 0.5 else ())
    if shape == "steps":
        rest += ("sgd", "adam", "assign", "scatter", "sgd")
    if rng.random() < 0.15:
        rest += DRAWS
    instructions = some_instructions(rng, (*SIMPLE, "placeholder"), rest, most=6)
    calls = [CallStep("init", 0, (), ())]
    for _ in range(rng.choice((1, 1, 2))):
        calls += SERIES[shape](rng, len(instructions))
        if rng.random() < 0.3:
            calls.append(some_step(rng, len(instructions), 1, partial=False))
    return Program(
        seed=seed,
        family=shape,
        grappler=rng.random() < 0.2,
        trace=rng.choice(("full", "full", "auto", "light")),
        sessions=1,
        instructions=instructions,
        calls=tuple(calls),
        graph_seed=7,
    )


def _value(rng: random.Random) -> int:
    return rng.choice([value for value in range(VALUES) if value != 3])


def _fetches(rng: random.Random, size: int) -> tuple[int, ...]:
    return tuple(rng.randrange(size // 2, size) for _ in range(rng.randint(1, 2)))


def _examples(rng: random.Random, size: int) -> list[CallStep]:
    """Return calls that differ in what they feed only."""
    fetches, fixed = _fetches(rng, size), rng.randrange(2)
    common = [_value(rng) for _ in range(size)]
    feeds = (tuple(common[:fixed] + [_value(rng) for _ in common[fixed:]]) for _ in range(rng.randint(2, 5)))
    return [CallStep("run", 0, fetches, values) for values in feeds]


def _parts(rng: random.Random, size: int) -> list[CallStep]:
    """Return calls that differ in what they fetch only."""
    feeds = tuple(_value(rng) for _ in range(size))
    fed = tuple((rng.randrange(size), _value(rng)) for _ in range(rng.choice((0, 0, 0, 1))))
    return [CallStep("run", 0, _fetches(rng, size), feeds, fed) for _ in range(rng.randint(2, 4))]


def _steps(rng: random.Random, size: int) -> list[CallStep]:
    """Return steps that are fed the same data and other batches, as training on frozen features is."""
    fetches = (*_fetches(rng, size), rng.randrange(size))
    first = _value(rng)
    return [
        CallStep("run", 0, fetches, (first, *(_value(rng) for _ in range(size - 1)))) for _ in range(rng.randint(3, 6))
    ]


SERIES = {"examples": _examples, "parts": _parts, "steps": _steps}
