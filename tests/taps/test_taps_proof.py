"""Nothing is computed twice and training stays the same: what the executor ran with a tap and without one."""

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

HERE = Path(__file__).parent
WRITE = {"_Arg", "Const", "ReadVariableOp", "AssignAddVariableOp", "Pack", "TensorListSetItem", "AssignVariableOp"}
"""The op types of a write: its resources come as arguments, two counters, (step, stamp), two lists, one assign."""


def _steps(*, tap, optimizers):
    environment = dict(os.environ, TF_CPP_VMODULE="executor=1", TF_CPP_MIN_LOG_LEVEL="0")
    environment["PYTHONPATH"] = os.pathsep.join([str(HERE.parents[1]), environment.get("PYTHONPATH", "")])
    command = [sys.executable, str(HERE / "step_child.py"), json.dumps({"tap": tap, "optimizers": optimizers})]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.fixture(scope="module", params=[True, False], ids=["optimizers", "no_optimizers"])
def pair(request):
    return _steps(tap=False, optimizers=request.param), _steps(tap=True, optimizers=request.param)


@pytest.mark.parametrize("kind", ["sequential", "functional", "subclassed"])
def test_executed_ops_differ_by_the_write_only(pair, kind):
    without, with_tap = (Counter(op for _name, op in results[kind]["nodes"]) for results in pair)
    products = sum(count for op, count in without.items() if op.endswith("MatMul"))  # fused and renamed ones too
    assert products >= 2, "the log is empty"
    assert not without - with_tap
    added = with_tap - without
    assert set(added) <= WRITE
    assert added["AssignVariableOp"] == 1
    assert added["TensorListSetItem"] == 2
    assert added["AssignAddVariableOp"] == 2


def test_training_is_bitwise_the_same(pair):
    plain, tapped = pair
    assert {"sequential", "functional", "subclassed"} <= set(plain) == set(tapped)
    for name, without in plain.items():  # each model, with optimizers compiled by XLA too
        assert tapped[name]["losses"] == without["losses"]
        assert tapped[name]["weights"] == without["weights"]
        assert len({tuple(losses) for losses in without["losses"]}) == 3, "training did nothing"
