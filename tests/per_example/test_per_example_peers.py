"""The results of CacheLab against JAX and Opacus on three models, in float64; skipped where these are not installed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "benchmarks"))
from per_example_models import MODELS, TASKS  # noqa: E402
from per_example_worker import Worker  # noqa: E402

SHARED = [("JAX vmap", "jax"), ("JAX by hand", "jax"), ("torch.func", "torch"), ("Opacus hooks", "torch")]
OTHERS = [*SHARED, ("Opacus ghost", "torch")]


def peers():
    """Return the interpreter that has the peers: CACHELAB_PEERS, what `make bench-peers` made, or this one."""
    made = ROOT / ".venv-peers" / "bin" / "python"
    for python in (os.environ.get("CACHELAB_PEERS"), made if made.exists() else None, sys.executable):
        command = [str(python), "-c", "import jax, opacus"]
        if python and subprocess.run(command, check=False, capture_output=True).returncode == 0:
            return str(python)
    return None


@pytest.fixture(scope="module")
def workers():
    python = peers()
    if python is None:
        pytest.skip("JAX and Opacus are not installed: make bench-peers, or name an interpreter in CACHELAB_PEERS")
    commands = {"tf": sys.executable, "jax": python, "torch": python}
    made = {name: Worker(name, path, PER_EXAMPLE_DTYPE="float64") for name, path in commands.items()}
    yield made
    for worker in made.values():
        worker.close()


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("model", MODELS)
def test_results_equal_those_of_jax_and_opacus(workers, tmp_path, model, task):
    order = {"model": model, "m": 5, "task": task}

    def result(framework, name):
        path = tmp_path / f"{name}.npz"
        workers[framework].ask(**order, name=name, save=str(path))
        return np.load(path)

    ours = result("tf", "auto")
    compared = [(name, framework) for name, framework in OTHERS if name in workers[framework].ask(**order)]
    assert {"JAX vmap", "Opacus hooks"} <= {name for name, _framework in compared}
    for name, framework in compared:
        theirs = result(framework, name)
        # Opacus itself clips by max_norm / (norm + 1e-6).
        tolerance = 1e-5 if (name, task) == ("Opacus ghost", "clipped") else 1e-8
        assert set(theirs) == set(ours)
        for key, value in theirs.items():
            scale = tolerance * np.abs(value).max()
            np.testing.assert_allclose(ours[key], value, rtol=tolerance, atol=scale, err_msg=name)
