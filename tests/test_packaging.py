"""The wheel, built in isolation and installed in a fresh environment; the editable install that make does."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
EXTENSION = "share/jupyter/labextensions/cachelab"

pytestmark = pytest.mark.timeout(900)


def run(*command, folder=None):
    env = {name: text for name, text in os.environ.items() if not name.startswith(("PYTHON", "JUPYTER", "VIRTUAL_"))}
    done = subprocess.run(
        [*map(str, command)], capture_output=True, text=True, cwd=folder, env=env, timeout=800, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def lab_extensions(python):
    """What ``jupyter labextension list`` says, without its colours."""
    return re.sub(r"\x1b\[[0-9;]*m", "", run(python, "-m", "jupyterlab.labextensions", "list"))


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """A wheel as ``pip install .`` makes it: in an environment of its own, with PyPI's node."""
    folder = tmp_path_factory.mktemp("wheel")
    run(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", folder, ROOT)
    return next(folder.glob("cachelab-*.whl"))


@pytest.fixture(scope="module")
def fresh(wheel, tmp_path_factory):
    """The Python of a fresh environment with the wheel, and of what it requires what the checks below need."""
    home = tmp_path_factory.mktemp("fresh") / "env"
    run(sys.executable, "-m", "venv", home)
    python = home / ("Scripts" if os.name == "nt" else "bin") / "python"
    run(python, "-m", "pip", "install", "--quiet", "--no-deps", wheel)
    run(python, "-m", "pip", "install", "--quiet", "jupyterlab>=4", "numpy")
    return python


def test_the_wheel_holds_the_package_and_the_extension_and_nothing_of_the_tree(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    inside = {name.partition(".data/data/")[2] for name in names if ".data/data/" in name}
    assert f"{EXTENSION}/package.json" in inside
    assert any(re.fullmatch(rf"{EXTENSION}/static/remoteEntry\.\w+\.js", name) for name in inside)
    assert len([name for name in inside if "/remoteEntry" in name]) == 1, "a stale build was packed as well"
    assert "cachelab/static/widget.js" in names
    tops = {name.split("/")[0] for name in names}
    assert {top for top in tops if not top.startswith("cachelab-")} == {"cachelab"}
    assert not [name for name in names if name.startswith("cachelab/labextension") or "node_modules" in name]
    assert sum(one.file_size for one in zipfile.ZipFile(wheel).filelist) < 5_000_000


def test_a_fresh_environment_shows_the_extension_enabled(fresh):
    listed = lab_extensions(fresh)
    assert re.search(r"cachelab v\S+ enabled OK \(python, cachelab\)", listed), listed


def test_a_fresh_environment_loads_cachelab_without_tensorflow(fresh, tmp_path):
    code = """\
import sys
from IPython.core.interactiveshell import InteractiveShell
import cachelab
shell = InteractiveShell.instance()
shell.run_line_magic("load_ext", "cachelab")
assert "tensorflow" not in sys.modules
print(cachelab.__file__)
shell.run_line_magic("cachelab", "mode memo")
"""
    said = run(fresh, "-c", code, folder=tmp_path)
    assert str(fresh.parents[1]) in said, "the checkout was imported"
    assert "memo" in said


def test_a_fresh_environment_opens_a_copy_of_the_notebooks_and_keeps_what_became_of_it(fresh, tmp_path):
    command = [fresh.parent / "cachelab", "lab", "--version"]
    run(*command, folder=tmp_path)
    copied = tmp_path / "cachelab-notebooks"
    assert {path.name for path in copied.iterdir()} == {path.name for path in (ROOT / "notebooks").glob("*.ipynb")}
    start = copied / "00_start_here.ipynb"
    assert start.read_bytes() == (ROOT / "notebooks" / start.name).read_bytes()
    start.write_text("mine")
    run(*command, folder=tmp_path)
    assert start.read_text() == "mine"


@pytest.mark.skipif(Path(sys.prefix) != ROOT / ".venv", reason="not the environment that make sets up")
def test_the_environment_of_make_shows_the_extension_enabled_and_up_to_date():
    listed = lab_extensions(sys.executable)
    assert re.search(r"cachelab v\S+ enabled OK \(python, cachelab\)", listed), listed
    installed, built = Path(sys.prefix) / EXTENSION, ROOT / "cachelab" / "labextension"
    assert (installed / "package.json").read_text() == (built / "package.json").read_text()
