"""A real JupyterLab (and Notebook 7), driven in the system's Chromium."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from contextlib import suppress
from http.client import HTTPException
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from addresses import free_port

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "face"))
ARTIFACTS = ROOT / "artifacts"
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--force-color-profile=srgb",
]
TOKEN = "browser-tests"
PATIENCE = 120_000  # ms; what a page waits for comes much sooner, but not on a machine that does ten other things
NO_NEWS = {"fetchNews": "false", "checkForUpdates": False}


def chromium_path() -> str:
    found = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if found is None:
        pytest.skip("needs the system's Chromium")
    return found


@pytest.fixture(scope="session")
def chromium() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium_path(), args=FLAGS)
        yield browser
        browser.close()


def notebook(*cells: str) -> dict[str, Any]:
    blank = {"cell_type": "code", "metadata": {}, "outputs": [], "execution_count": None}
    return {
        "cells": [{**blank, "id": f"cell{i}", "source": text} for i, text in enumerate(cells)],
        "metadata": {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}},
        "nbformat": 4,
        "nbformat_minor": 5,
    }


class Server:
    """One Jupyter server in its own folders; notebooks are written into ``work``."""

    def __init__(self, home: Path, app: str, extension: Path | None = None) -> None:
        self.work = home / "work"
        self.app = app
        settings = home / "lab" / "user-settings" / "@jupyterlab" / "apputils-extension"
        for folder in (self.work, settings, home / "config", home / "data"):
            folder.mkdir(parents=True)
        (settings / "notification.jupyterlab-settings").write_text(json.dumps(NO_NEWS))
        if extension is not None:
            shutil.copytree(extension, home / "data" / "labextensions" / "cachelab")
        # The names of sockets in the file system are limited to some hundred characters, and kernels listen here.
        self.runtime = tempfile.TemporaryDirectory(prefix="lab")
        path = [
            str(ROOT),
            str(ROOT / "tests" / "face"),
            str(ROOT / "tests" / "browser"),
            os.environ.get("PYTHONPATH", ""),
        ]
        self.env = {
            **os.environ,
            "JUPYTER_CONFIG_DIR": str(home / "config"),
            "JUPYTER_DATA_DIR": str(home / "data"),
            "JUPYTER_PREFER_ENV_PATH": "0",  # what is built here comes before what is installed
            "JUPYTER_RUNTIME_DIR": self.runtime.name,
            "JUPYTERLAB_SETTINGS_DIR": str(home / "lab" / "user-settings"),
            "JUPYTERLAB_WORKSPACES_DIR": str(home / "lab" / "workspaces"),
            "IPYTHONDIR": str(home / "ipython"),
            "PYTHONPATH": os.pathsep.join(filter(None, path)),
            "TF_CPP_MIN_LOG_LEVEL": "3",
        }
        self.log = (home / "server.log").open("wb")
        # A second time, should another process have taken the port in between.
        if not self._starts() and not self._starts():
            raise RuntimeError(f"Jupyter did not start: {Path(self.log.name).read_text()[-2000:]}")

    def _starts(self) -> bool:
        self.port = free_port()
        command = [
            sys.executable, "-m", "jupyter", self.app, "--no-browser", f"--port={self.port}", "--allow-root",
            f"--IdentityProvider.token={TOKEN}", f"--ServerApp.root_dir={self.work}", "--expose-app-in-browser",
            "--ServerApp.port_retries=0", "--KernelManager.transport=ipc",
        ]  # fmt: skip
        self.process = subprocess.Popen(command, env=self.env, stdout=self.log, stderr=subprocess.STDOUT, cwd=self.work)
        deadline = time.monotonic() + 90
        while time.monotonic() < deadline and self.process.poll() is None:
            # Whatever else listens there says something else than Jupyter does.
            with suppress(OSError, HTTPException, ValueError):
                self._ask("")
                return True
            time.sleep(0.3)
        self.process.kill()
        return False

    def _ask(self, path: str, method: str = "GET") -> Any:
        url = f"http://127.0.0.1:{self.port}/api{path}?token={TOKEN}"
        with urllib.request.urlopen(urllib.request.Request(url, method=method), timeout=30) as reply:
            return json.loads(reply.read() or "null")

    def stop_kernels(self) -> None:
        """End the kernels of notebooks that no test uses any more: with TensorFlow each holds half a gigabyte."""
        for session in self._ask("/sessions"):
            self._ask(f"/sessions/{session['id']}", "DELETE")
        for kernel in self._ask("/kernels"):
            self._ask(f"/kernels/{kernel['id']}", "DELETE")

    def close(self) -> None:
        self.process.terminate()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
        self.log.close()
        self.runtime.cleanup()

    def write(self, name: str, *cells: str) -> str:
        (self.work / name).write_text(json.dumps(notebook(*cells)))
        tree = "notebooks" if self.app == "notebook" else "lab/tree"
        return f"http://127.0.0.1:{self.port}/{tree}/{name}?token={TOKEN}" + (
            "" if self.app == "notebook" else "&reset"
        )


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    server = Server(tmp_path_factory.mktemp("lab"), "lab")
    yield server
    server.close()


@pytest.fixture(scope="session")
def notebook7(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    server = Server(tmp_path_factory.mktemp("notebook7"), "notebook")
    yield server
    server.close()


@pytest.fixture(scope="session")
def extension() -> Path:
    """Return the folder of the built JupyterLab extension, which ``make`` keeps up to date."""
    built = ROOT / "cachelab" / "labextension" / "package.json"
    parts = [ROOT / "labext" / name for name in ("src", "style", "schema", "package.json")]
    sources = [path for part in parts for path in (part, *part.rglob("*")) if path.is_file()]
    if not built.exists() or built.stat().st_mtime < max(path.stat().st_mtime for path in sources):
        pytest.fail("The JupyterLab extension is not built from these sources: make setup, or jlpm build:lab in labext")
    return built.parent


@pytest.fixture(scope="session")
def lab_with_extension(extension: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    server = Server(tmp_path_factory.mktemp("labext"), "lab", extension)
    yield server
    server.close()


@pytest.fixture(scope="session")
def notebook7_with_extension(extension: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    server = Server(tmp_path_factory.mktemp("notebook7-labext"), "notebook", extension)
    yield server
    server.close()


# Errors of Jupyter's own: of Notebook 7 at its start, of JupyterLab where a kernel restarts before it has a subshell.
_OWN = re.compile("properties of undefined \\(reading 'schema'\\)|Canceled future for create_subshell_request")
_PANEL = (
    "[...(window.jupyterapp?.shell?.widgets('main') ?? [])]"
    ".find((one) => one.sessionContext && one.content?.widgets && one.context.path === path)"
)
_READY = f"""async (path) => {{
  const panel = {_PANEL};
  if (!panel) return false;
  await panel.context.ready; await panel.sessionContext.ready;
  const kernel = panel.sessionContext.session?.kernel;
  // A kernel answers some time after its process was started, on a busy machine much later.
  const later = new Promise((done) => setTimeout(done, 1000, null));
  return Boolean(kernel && await Promise.race([kernel.info, later]));
}}"""
_SAVED = """async ([path, texts]) => {
  const app = window.jupyterapp;
  if (app.name !== 'JupyterLab') return true;  // Notebook 7 opens what its address says
  const { values } = await app.serviceManager.workspaces.list();
  return values.some(({ data }) => {
    const [all, main] = [data, data['layout-restorer:data']?.main ?? ''].map((one) => JSON.stringify(one));
    const tabs = Object.keys(data).filter((key) => /^(notebook|cachelab-explorer):/.test(key));
    const open = tabs.includes(`notebook:${path}`) && tabs.every((tab) => main.includes(tab));
    return open && texts.every((text) => all.includes(text));
  });
}"""
_RUN = f"""async ([path, index]) => {{
  const panel = {_PANEL};
  const {{ shell }} = window.jupyterapp;
  shell.activateById(panel.id);
  while (shell.currentWidget !== panel) await new Promise((done) => setTimeout(done, 50));
  panel.content.activeCellIndex = index;
  await window.jupyterapp.commands.execute('notebook:run-cell');
  return JSON.stringify(panel.content.widgets[index].model.toJSON().outputs);
}}"""


class Notebook:
    """One open notebook: cells are run through Jupyter's own commands, which never get lost."""

    def __init__(self, page: Any, path: str) -> None:
        self.page = page
        self.path = path
        self.errors: list[str] = []
        page.on("pageerror", lambda error: self.errors.extend([] if _OWN.search(str(error)) else [str(error)]))

    def open(self, url: str) -> None:
        self.page.goto(url)
        self.wait_ready()

    def beside(self, path: str) -> Notebook:
        """Open another notebook in the same page, in front."""
        other = Notebook(self.page, path)
        self.page.evaluate("(path) => window.jupyterapp.commands.execute('docmanager:open', { path })", path)
        other.wait_ready()
        return other

    def reload(self, *texts: str) -> None:
        """Save the notebook and load the page again, once JupyterLab's saved layout has its tabs, and ``texts``."""
        self.page.evaluate("() => window.jupyterapp.commands.execute('docmanager:save')")
        deadline = time.monotonic() + 60
        while not self.page.evaluate(_SAVED, [self.path, texts]):
            assert time.monotonic() < deadline, "JupyterLab did not save its layout"
            self.page.wait_for_timeout(100)
        self.page.reload()
        self.wait_ready()

    def wait_ready(self) -> None:
        """Wait for the notebook and its kernel; the page may still reload itself meanwhile."""
        deadline = time.monotonic() + 180
        while time.monotonic() < deadline:
            if self._ready():
                return
            self.page.wait_for_timeout(300)
        raise AssertionError("the notebook did not get ready")

    def _ready(self) -> bool:
        from playwright.sync_api import Error

        with suppress(Error):
            return bool(self.page.evaluate(_READY, self.path))
        return False

    def run(self, index: int) -> list[dict[str, Any]]:
        outputs: list[dict[str, Any]] = json.loads(self.page.evaluate(_RUN, [self.path, index]))
        wrong = [one for one in outputs if one["output_type"] == "error"]
        assert not wrong, "\n".join(wrong[0]["traceback"])
        return outputs

    def start(self, index: int) -> None:
        """Run a cell without waiting for its end."""
        self.page.evaluate(f"(place) => {{ ({_RUN})(place); }}", [self.path, index])

    def js(self, code: str) -> Any:
        """Return what ``code`` returns in the page, where ``panel`` is this notebook and ``book`` its content."""
        return self.page.evaluate(
            f"(path) => {{ const panel = {_PANEL}; const book = panel.content; {code} }}", self.path
        )

    def activate(self) -> None:
        """Bring the notebook to the front and give it the keyboard."""
        self.js("window.jupyterapp.shell.activateById(panel.id);")

    def restart(self) -> None:
        """Restart the kernel."""
        self.js("return panel.sessionContext.session.kernel.restart();")

    def text(self, index: int) -> str:
        """Return what a cell printed."""
        return "".join(
            "".join(one.get("text", "")) for one in self.run(index) if one["output_type"] == "stream"
        ).strip()


@pytest.fixture
def open_notebook(chromium: Any) -> Iterator[Any]:
    pages = []
    servers = set()

    def opener(
        server: Server, name: str, *cells: str, dark: bool = False, width: int = 1500, height: int = 1300
    ) -> Notebook:
        context = chromium.new_context(
            viewport={"width": width, "height": height}, color_scheme="dark" if dark else "light", accept_downloads=True
        )
        page = context.new_page()
        pages.append(context)
        servers.add(server)
        page.set_default_timeout(PATIENCE)
        book = Notebook(page, name)
        book.open(server.write(name, *cells))
        return book

    yield opener
    for context in pages:
        context.close()
    for server in servers:
        server.stop_kernels()


@pytest.fixture(scope="session")
def axe_source() -> str:
    """Return axe-core, which finds what people with assistive technology can't use."""
    import front_node

    return (front_node.front_tools() / "axe-core" / "axe.min.js").read_text()


@pytest.fixture
def violations(axe_source: str) -> Any:
    """Return a function that lists axe's complaints about the explorer of a page."""

    def check(page: Any, selector: str = ".cachelab-explorer") -> list[str]:
        page.evaluate(axe_source)
        found = page.evaluate(
            "async (place) => (await axe.run(place, { resultTypes: ['violations'] })).violations", selector
        )
        return [f"{one['id']}: {node['target']} {node['failureSummary']}" for one in found for node in one["nodes"]]

    return check


@pytest.fixture(scope="session")
def artifacts() -> Path:
    ARTIFACTS.mkdir(exist_ok=True)
    return ARTIFACTS
