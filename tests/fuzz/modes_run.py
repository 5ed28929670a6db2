"""Runs random programs in every mode and live session: ``python tests/fuzz/modes_run.py --n 2000 --seed 1``."""

from __future__ import annotations

import sys
from collections import Counter
from typing import TYPE_CHECKING

from run import loop  # sets the environment and the paths

if TYPE_CHECKING:
    from fuzz_modes_checks import Outcome
    from fuzz_programs import Program


def main() -> int:
    """Compare what modes give with plain runs."""
    from fuzz_attempt import attempt
    from fuzz_modes_checks import Outcome, check, everything_is_worth_keeping, shares
    from fuzz_modes_programs import generate

    totals: Counter[str] = Counter()

    def tell(outcome: Outcome) -> str:
        totals.update(outcome.counts)
        return shares(totals)

    def tried(program: Program) -> Outcome:
        return attempt(program, check, Outcome())

    with everything_is_worth_keeping():
        return loop(__doc__, generate, tried, tell)


if __name__ == "__main__":
    sys.exit(main())
