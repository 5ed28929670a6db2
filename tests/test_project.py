"""The project's own promises: one version, one list of dependencies, files that the README names."""

from __future__ import annotations

import ast
import importlib
import importlib.metadata
import json
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

import cachelab
from cachelab.cli import main

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parent.parent
CONDA_NAMES = {"python-graphviz": "graphviz", "python-xxhash": "xxhash"}
CONDA_ONLY = {"python", "pip", "graphviz"}


def tracked() -> list[Path]:
    """The files of the project: those that git knows, or in an unpacked archive those that are not built."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode == 0:
        found = [ROOT / name for name in listed.stdout.split("\0") if name]
        return [path for path in found if path.is_file()]
    built = {"node_modules", "__pycache__", "labextension", "lib", "build", "dist"}
    hidden = (path for path in ROOT.rglob("*") if path.is_file())
    return [p for p in hidden if not any(part in built or part[0] == "." for part in p.relative_to(ROOT).parts)]


def requirements(lines) -> dict[str, str]:
    found = {}
    for line in lines:
        name, specifier = re.fullmatch(r"([A-Za-z0-9_.-]+)\s*(.*)", line).groups()
        found[name] = specifier
    return found


@pytest.fixture(scope="module")
def project():
    return tomllib.loads((ROOT / "pyproject.toml").read_text())


@pytest.fixture(scope="module")
def environment():
    return yaml.safe_load((ROOT / "environment.yml").read_text())["dependencies"]


def test_conda_and_pip_users_get_the_same_packages(project, environment):
    conda = requirements(line for line in environment if isinstance(line, str))
    shared = {CONDA_NAMES.get(name, name): spec for name, spec in conda.items() if name not in CONDA_ONLY}
    assert shared == requirements(project["project"]["dependencies"])
    assert conda["python"] == project["project"]["requires-python"]
    assert "graphviz" in conda, "conda users get the program dot"
    pip = next(line["pip"] for line in environment if isinstance(line, dict))
    assert pip == ["--editable ."]


def test_the_version_stands_in_one_place(project, capsys):
    assert "version" in project["project"]["dynamic"]
    assert project["tool"]["hatch"]["version"]["path"] == "cachelab/_version.py"
    with pytest.raises(SystemExit) as end:
        main(["--version"])
    assert end.value.code == 0
    assert capsys.readouterr().out == f"cachelab {cachelab.__version__}\n"
    written = [p.name for p in tracked() if p.suffix == ".py" and f'"{cachelab.__version__}"' in p.read_text()]
    assert written == ["_version.py"]
    try:
        installed = importlib.metadata.version("cachelab")
    except importlib.metadata.PackageNotFoundError:
        return  # run from a checkout
    assert installed == cachelab.__version__


def test_every_public_name_exists():
    assert {name for name in cachelab.__all__ if not hasattr(cachelab, name)} == set()
    assert set(cachelab.__all__) <= set(dir(cachelab))


def test_readme_names_only_what_exists():
    readme = (ROOT / "README.md").read_text()
    paths = set(re.findall(r"`((?:notebooks|tests|cachelab|labext|benchmarks)/[\w./-]+)`", readme))
    assert paths, "the README names the notebooks"
    assert {path for path in paths if not (ROOT / path).exists()} == set()
    makefile = (ROOT / "Makefile").read_text()
    targets = set(re.findall(r"^make (\w+)", readme, re.MULTILINE))
    assert targets >= {"lab", "test"}
    assert {target for target in targets if f"\n{target}:" not in makefile} == set()
    commands = set(re.findall(r"%cachelab (\w+)", readme))
    from cachelab.magics import CacheLabMagics

    assert {command for command in commands if not hasattr(CacheLabMagics, f"do_{command}")} == set()


def test_no_file_names_this_machine_or_a_registry():
    # Written so that this file does not contain what it looks for.
    places = ["/ro" + "ot/", "/wo" + "rk/", "/ho" + r"me/\w", r"/opt/\w", "/Us" + r"ers/\w"]
    hosts = [r"registry\.(npm|yarn)", r"pypi\.org/simple", r"https?://[^\s\"']*(artifact|nexus|mirror)"]
    wanted = re.compile("|".join(places + hosts))
    found = []
    for path in tracked():
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        found += [f"{path.relative_to(ROOT)}: {match[0]}" for match in wanted.finditer(text)]
    assert found == []


def test_notebooks_are_committed_without_outputs():
    notebooks = [path for path in tracked() if path.suffix == ".ipynb"]
    assert notebooks
    for path in notebooks:
        for cell in json.loads(path.read_text())["cells"]:
            if cell["cell_type"] == "code":
                assert cell["outputs"] == [], path.name
                assert cell["execution_count"] is None, path.name


def test_every_mutant_finds_the_text_that_it_breaks():
    space = runpy.run_path(str(ROOT / "tests" / "mutants" / "mutants.py"))
    for mutant in space["MUTANTS"]:
        text = (ROOT / "cachelab" / mutant.file).read_text(encoding="utf-8")
        assert text.count(mutant.old) == 1, mutant.name


@pytest.mark.parametrize("path", sorted((ROOT / "benchmarks").glob("*.py")), ids=lambda path: path.stem)
def test_benchmarks_import_what_there_is(path):
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "cachelab":
            module = importlib.import_module(node.module)
            for alias in node.names:
                if not hasattr(module, alias.name):
                    importlib.import_module(f"{node.module}.{alias.name}")
