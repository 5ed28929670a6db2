"""Breaks the engine on purpose, one way after the other, and tells which breaks the tests notice: ``make mutants``.

Each mutant is a copy of the package with one piece of text replaced. Tests without TensorFlow run first, all mutants
at the price of one import of pytest; what they let live is tried with TensorFlow, which is imported once: every mutant
gets a forked copy of one process that holds it ready.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import shutil
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(HERE))

from mutants import MUTANTS, Mutant  # noqa: E402

WITH_TENSORFLOW = (
    "tests/engine/test_engine_regressions.py",
    "tests/engine/test_engine_verdicts.py",
    "tests/engine/test_engine_kinds.py",
    "tests/engine/test_engine_kinds_structure.py",
    "tests/engine/test_engine_kinds_sources.py",
)
FUZZ = range(5_000, 5_040)
LIMIT = 120
"""Seconds that one stage of a mutant may take; a mutant that hangs is noticed too."""


def broken_copy(mutant: Mutant, folder: Path) -> Path:
    """Copy the package with the mutant's text in place; return the folder to import from."""
    target = folder / "cachelab"
    shutil.copytree(ROOT / "cachelab", target, ignore=shutil.ignore_patterns("__pycache__", "static"))
    path = target / mutant.file
    text = path.read_text(encoding="utf-8")
    if text.count(mutant.old) != 1:
        sys.exit(f"Mutant {mutant.name!r}: its text occurs {text.count(mutant.old)} times in {mutant.file}, not once. "
                 "The engine has changed there: mend tests/mutants/mutants.py.")  # fmt: skip
    path.write_text(text.replace(mutant.old, mutant.new), encoding="utf-8")
    return folder


def in_fork(folder: Path, job: str) -> bool:
    """Run one stage on a copy of the package in a forked process; tell whether it noticed the break."""
    child = os.fork()
    if child == 0:
        status = 70
        try:
            null = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null, 1)
            os.dup2(null, 2)
            sys.path.insert(0, str(folder))
            os.chdir(ROOT)
            status = int(STAGES[job]())
        finally:
            os._exit(status)
    deadline = time.monotonic() + LIMIT
    while time.monotonic() < deadline:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            code = os.waitstatus_to_exitcode(status)
            return code != 0
        time.sleep(0.05)
    os.kill(child, 9)
    os.waitpid(child, 0)
    return True


def _pytest(*files: str) -> int:
    import pytest

    return int(pytest.main(["-x", "-q", "-p", "no:cacheprovider", "-p", "no:warnings", "-o", "addopts=", *files]))


def _fuzz() -> int:
    sys.path.insert(0, str(ROOT / "tests/fuzz"))
    from fuzz_attempt import attempt
    from fuzz_programs import generate

    return int(any(attempt(generate(seed)).faults for seed in FUZZ))


STAGES = {
    "rule": lambda: _pytest("tests/explain/test_explain_rule.py", "tests/explain/test_explain_orders.py"),
    "property": lambda: _pytest("tests/explain/test_explain_properties.py", "tests/explain/test_explain_loops.py"),
    "engine": lambda: _pytest(*WITH_TENSORFLOW),
    "live": lambda: _pytest("tests/modes/test_modes_live_kinds.py"),
    "fuzz": _fuzz,
}


def main() -> int:
    """Try every mutant; return 1 if one survives, or if the tests fail on the unbroken package."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="mutants whose name this pattern finds")
    options = parser.parse_args()
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    chosen = [mutant for mutant in MUTANTS if re.search(options.only, mutant.name)]
    sound = Mutant("nothing is broken", "explain/plan.py", "class Plan:", "class Plan:")
    begun = time.monotonic()
    verdicts: dict[str, str] = {}
    with contextlib.ExitStack() as stack:
        folders = {
            mutant.name: broken_copy(mutant, Path(stack.enter_context(tempfile.TemporaryDirectory())))
            for mutant in (sound, *chosen)
        }
        for stage in STAGES:
            left = [name for name in folders if name not in verdicts]
            if left == [sound.name]:
                break
            _prepare(stage)
            for name in left:
                if in_fork(folders[name], stage):
                    verdicts[name] = stage
                    print(f"killed by {stage:8} {name}", flush=True)
    if sound.name in verdicts:
        print("The tests fail on the unbroken engine, so they prove nothing about the mutants.")
        return 1
    survivors = [mutant.name for mutant in chosen if mutant.name not in verdicts]
    for name in survivors:
        print(f"SURVIVED           {name}")
    print(f"{len(chosen)} mutants: {len(chosen) - len(survivors)} killed, {len(survivors)} survived; "
          f"{time.monotonic() - begun:.0f} s")  # fmt: skip
    return int(bool(survivors) or not chosen)


def _prepare(stage: str) -> None:
    """Import what the forks of a stage share, and nothing of ``cachelab``."""
    import hypothesis
    import pytest

    assert hypothesis
    assert pytest
    if stage not in {"rule", "property"}:
        import tensorflow as tf

        assert tf.compat.v1.Session


if __name__ == "__main__":
    sys.exit(main())
