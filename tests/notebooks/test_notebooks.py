"""Every notebook runs from its first cell to its last, in a real kernel, and shows what it promises."""

from __future__ import annotations

import os
from pathlib import Path

import nbformat
import pytest
from addresses import at_a_file
from nbclient import NotebookClient

ROOT = Path(__file__).parent.parent.parent
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))


@pytest.mark.notebook
@pytest.mark.parametrize("path", NOTEBOOKS, ids=[path.stem for path in NOTEBOOKS])
def test_the_notebook_runs_and_shows_its_records(path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]))
    monkeypatch.setenv("TF_CPP_MIN_LOG_LEVEL", "3")
    notebook = nbformat.read(path, as_version=4)
    assert any("assert" in cell.source for cell in notebook.cells), "it asserts what it says"
    where = {"metadata": {"path": path.parent}}
    client = NotebookClient(notebook, timeout=300, kernel_name="python3", resources=where, config=at_a_file())
    client.execute()  # an error in a cell is raised here
    recorded = [
        cell for cell in notebook.cells if cell.source.startswith("%%cachelab") and "--quiet" not in cell.source
    ]
    loads = any("%load_ext cachelab" in cell.source for cell in notebook.cells)
    assert recorded or not loads, "a notebook that loads the extension shows what it records"
    for cell in recorded:
        shown = [set(output.get("data", ())) for output in cell.outputs]
        assert any({"text/html", "text/plain"} <= kinds for kinds in shown), cell.source
        printed = "".join(output.text for output in cell.outputs if output.output_type == "stream")
        assert "CacheLab could not" not in printed
