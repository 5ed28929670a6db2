"""Forty random programs, the same ones each time: every mode and every live session gives what a plain run gives.

``python tests/fuzz/modes_run.py --n 2000 --seed S`` runs others.
"""

from __future__ import annotations

from collections import Counter

import pytest
from fuzz_attempt import attempt
from fuzz_modes_checks import LIVE, Outcome, check, everything_is_worth_keeping
from fuzz_modes_programs import generate

from cachelab.model import MODES

PROGRAMS = 40
FIRST = 9_000
ONCE_WRONG = (20_198, 21_127, 21_304, 31_313, 31_477, 32_472)
"""Programs that showed a fault: a feed that is missed only when it is left out; a vectorised run that fails; races with
writes in a loop or in one of two branches that another write hid; a killed session has to close."""


@pytest.mark.timeout(1800)  # about a minute on a quiet machine
def test_modes_give_what_plain_runs_give():
    faults, counts = [], Counter()
    with everything_is_worth_keeping():
        for seed in (*range(FIRST, FIRST + PROGRAMS), *ONCE_WRONG):
            program = generate(seed)
            outcome = attempt(program, check, Outcome())
            counts += outcome.counts
            if outcome.faults:
                told = "; ".join(f"{fault.kind}: {fault.text}" for fault in outcome.faults)
                faults.append(f"{told}\n{program.listing()}")
    assert not faults, "\n\n".join(faults)
    # The programs must be such that the checks had something to bite on.
    assert counts["compared"] > PROGRAMS * 0.6
    assert counts["values compared"] > 2_000
    for mode in MODES:
        assert counts[f"{mode} applied"] > PROGRAMS * 0.2, mode
    for mode in LIVE:
        assert counts[f"live {mode} hits"] > PROGRAMS, mode
