"""Two hundred random programs, the same ones each time: the record of each against what really happened.

``python tests/fuzz/run.py --n 2000 --seed S`` runs others.
"""

from __future__ import annotations

import pytest
from fuzz_attempt import attempt
from fuzz_programs import generate

PROGRAMS = 200
FIRST = 5_000


@pytest.mark.timeout(1800)  # about a minute on a quiet machine
def test_records_of_random_programs_are_true():
    faults, recomputed, checked, expected, failed = [], 0, 0, 0, 0
    for seed in range(FIRST, FIRST + PROGRAMS):
        program = generate(seed)
        outcome = attempt(program)
        recomputed, checked = recomputed + outcome.recomputed, checked + outcome.checked
        expected, failed = expected + outcome.expected, failed + outcome.failed
        if outcome.faults:
            told = "; ".join(f"{fault.kind}: {fault.text}" for fault in outcome.faults)
            faults.append(f"{told}\n{program.listing()}")
    assert not faults, "\n\n".join(faults)
    # The programs must be such that the checks had something to bite on.
    assert recomputed > 2_000
    assert checked > 1_500
    assert expected > 500
    assert failed > 5
