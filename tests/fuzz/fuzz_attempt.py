"""One random program: tried, and made smaller while it still fails."""

from __future__ import annotations

import traceback
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fuzz_checks import Outcome, check

if TYPE_CHECKING:
    from collections.abc import Callable

    from fuzz_programs import Program


def attempt(program: Program, checks: Callable[[Program], Any] = check, outcome: Any = None) -> Any:
    """Check a program; an exception of the engine or of the fuzzer is a fault too, told in ``outcome``."""
    try:
        return checks(program)
    except Exception as error:  # noqa: BLE001  whatever it is, it is to be reported with the seed
        outcome = Outcome() if outcome is None else outcome
        where = traceback.extract_tb(error.__traceback__)[-1]
        outcome.fault("crash", f"{type(error).__name__}: {error} ({Path(where.filename).name}:{where.lineno})")
        return outcome


def shrink(program: Program, kinds: set[str], tried: Callable[[Program], Any] = attempt, *, tries: int = 60) -> Program:
    """Leave out calls and instructions as long as a fault of the same kind remains."""

    def fails(candidate: Program) -> bool:
        return bool({fault.kind for fault in tried(candidate).faults} & kinds)

    left = tries
    for attribute in ("calls", "instructions", "calls"):
        position = len(getattr(program, attribute)) - 1
        while position >= 0 and left > 0:
            items = getattr(program, attribute)
            candidate = replace(program, **{attribute: items[:position] + items[position + 1 :]})
            left -= 1
            if candidate.calls and candidate.instructions and fails(candidate):
                program = candidate
            position -= 1
    for simpler in ({"grappler": False}, {"trace": "full"}, {"sessions": 1}):
        candidate = replace(program, **simpler)
        if fails(candidate):
            program = candidate
    return program
