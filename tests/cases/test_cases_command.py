"""The command itself, in a process of its own: ``python -m cachelab run script.py``."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from cachelab import store


@pytest.mark.parametrize("number", ["03", "05", "13"])
def test_cases_run_under_the_command_as_they_do_in_a_fork(cases, seen, tmp_path, number):
    (script,) = cases.glob(f"{number}_*.py")
    in_fork = seen(number)
    saved = tmp_path / "command.json"
    done = subprocess.run(
        [sys.executable, "-m", "cachelab", "run", "--json", str(saved), str(script)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"},
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == (tmp_path / "plain.out").read_text()
    assert "cachelab" not in done.stderr.replace(str(script.parent), "")  # quiet in pipes, and no trace of itself
    record = store.load(saved)
    assert record.call_count == in_fork.record.call_count
    for call in range(record.call_count):
        ops = [(op.name, op.status, op.evidence, op.witness, op.causes) for op in record.executions(call)]
        again = [(op.name, op.status, op.evidence, op.witness, op.causes) for op in in_fork.record.executions(call)]
        assert ops == again
