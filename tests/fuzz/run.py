"""Runs random programs and tells which the record gets wrong: ``python tests/fuzz/run.py --n 2000 --seed 1``."""

from __future__ import annotations

import argparse
import faulthandler
import gc
import os
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
sys.path[:0] = [str(Path(__file__).resolve().parent), str(Path(__file__).resolve().parents[2])]

HANGS_SECONDS = 300
"""A program that takes longer hangs: the process tells where, and ends."""
SLOW_SECONDS = 30
"""A program that takes longer is told."""

if TYPE_CHECKING:
    from collections.abc import Callable


def give_up(seed: int) -> None:
    """End this process: a call into TensorFlow that hangs can't be interrupted."""
    print(f"HANG seed {seed}", flush=True)
    faulthandler.dump_traceback()
    os._exit(3)


def loop(
    text: str | None, generate: Callable[[int], Any], attempt: Callable[[Any], Any], tell: Callable[[Any], str]
) -> int:
    """Run programs as the command line says; return 1 if any of them failed. ``tell`` adds up outcomes as text."""
    from fuzz_attempt import shrink

    parser = argparse.ArgumentParser(description=text)
    parser.add_argument("--n", type=int, default=2000, help="number of programs")
    parser.add_argument("--seed", type=int, default=1, help="seed of the first program")
    parser.add_argument("--stop", type=int, default=10, help="stop after so many failing programs")
    parser.add_argument("--only", type=int, nargs="*", help="run just these seeds")
    parser.add_argument("--no-shrink", action="store_true", help="print programs as they are")
    options = parser.parse_args()
    seeds = options.only or range(options.seed, options.seed + options.n)
    figures = ""
    failing: list[int] = []
    begun = told = time.monotonic()
    done = 0
    for seed in seeds:
        program = generate(seed)
        watch = threading.Timer(HANGS_SECONDS, give_up, (seed,))
        watch.daemon = True
        watch.start()
        started = time.monotonic()
        outcome = attempt(program)
        watch.cancel()
        if time.monotonic() - started > SLOW_SECONDS:
            print(f"SLOW seed {seed}: {time.monotonic() - started:.0f} s", flush=True)
        done += 1
        figures = tell(outcome)
        if outcome.faults:
            failing.append(seed)
            kinds = {fault.kind for fault in outcome.faults}
            small = program if options.no_shrink else shrink(program, kinds, attempt)
            print(f"FAULT seed {seed}: " + "; ".join(f"{f.kind}: {f.text}" for f in outcome.faults), flush=True)
            print(small.listing())
            print("  -> " + "; ".join(f"{f.kind}: {f.text}" for f in attempt(small).faults), flush=True)
            if len(failing) >= options.stop:
                break
        if done % 50 == 0:
            gc.collect()
        if time.monotonic() - told > 15:
            told = time.monotonic()
            print(f"{done} programs, {len(failing)} failing, {told - begun:.0f} s", flush=True)
    print(f"{done} programs from seed {seeds[0]}: {len(failing)} failing {failing}; {figures}; "
          f"{time.monotonic() - begun:.0f} s")  # fmt: skip
    return bool(failing)


def main() -> int:
    """Check the records of random programs."""
    from fuzz_attempt import attempt
    from fuzz_programs import generate

    totals = dict.fromkeys(("calls", "executed", "recomputed", "checked", "expected", "failed"), 0)

    def tell(outcome: Any) -> str:
        for name in totals:
            totals[name] += getattr(outcome, name)
        return ", ".join(f"{value} {name}" for name, value in totals.items())

    return loop(__doc__, generate, attempt, tell)


if __name__ == "__main__":
    sys.exit(main())
