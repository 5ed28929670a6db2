"""Real-life scripts: every mode applies or refuses with the right reason, and nothing of the user's changes.

The scripts are the project's cases; the whole set takes minutes and is run by hand:
``python tests/modes/modes_case_runner.py SCRIPT ...``.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
KEEPING = ("variable", "feed", "handle", "memo")
CASES = {
    "01": {
        **dict.fromkeys(KEEPING, "equal"),
        "partial_run": "`pairs:0` has 3 values; a handle takes one per placeholder.",
        "joint": "`pairs:0` has 3 values; a run takes one per placeholder.",
    },
    "03": dict.fromkeys((*KEEPING, "joint", "partial_run"), "equal"),
    "04": {"per_example": "close"},
    "05": dict.fromkeys((*KEEPING, "joint", "partial_run"), "equal"),
    "09": {"partial_run": "writes `v`", "memo": "No op is redundant: nothing to keep."},
    "17": {**dict.fromkeys(KEEPING, "equal"), "partial_run": "differs", "joint": "differs"},
    "27": dict.fromkeys(KEEPING, "equal"),
}


@pytest.fixture(scope="module")
def reports(cases):
    paths = [str(next(cases.glob(f"{number}_*.py"))) for number in CASES]
    done = subprocess.run(
        [sys.executable, str(HERE / "modes_case_runner.py"), *paths],
        capture_output=True,
        text=True,
        timeout=550,
        check=True,
    )
    return {report["case"][:2]: report for report in map(json.loads, done.stdout.splitlines())}


@pytest.mark.parametrize("number", sorted(CASES))
def test_case_under_every_mode(reports, number):
    report = reports[number]
    assert "crash" not in report, report.get("crash")
    assert report["ok"], report["error"]
    assert report["untouched"]
    assert not report["faults"]
    for mode, found in report["modes"].items():
        assert "crash" not in found, (mode, found.get("crash"))
        assert not found["defect"] if found["applicable"] else found["reason"], mode
    for mode, expected in CASES[number].items():
        found = report["modes"][mode]
        if expected in {"equal", "close", "differs"}:
            assert found["applicable"], found["reason"]
            assert found["equality"] == expected, found["reason"]
        else:
            assert not found["applicable"]
            assert expected in found["reason"]
    sampler = report["modes"]["partial_run"]["reason"]
    assert number != "17" or "`sampler/Multinomial` ran 2 times in `run`, once in `partial_run`" in sampler
