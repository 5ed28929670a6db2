"""Fresh shells with a stand-in engine."""

from __future__ import annotations

import pytest
import shell_fake_engine
from IPython.core.displaypub import CapturingDisplayPublisher
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config


class Shell:
    """A plain IPython shell in this process, as a person at its prompt sees it."""

    def __init__(self, capsys):
        config = Config()
        config.HistoryManager.enabled = False
        config.InteractiveShell.colors = "nocolor"
        InteractiveShell.clear_instance()
        self.ip = InteractiveShell.instance(config=config)
        self.ip.display_pub = CapturingDisplayPublisher()
        self.capsys = capsys
        self.ip.user_ns["run"] = shell_fake_engine.run

    def cell(self, text):
        """Run a cell; returns IPython's result, with ``out``, ``err`` and the displayed ``outputs`` added."""
        self.ip.display_pub.outputs.clear()
        self.capsys.readouterr()
        result = self.ip.run_cell(text, store_history=True)
        printed = self.capsys.readouterr()
        result.out, result.err = printed.out, printed.err
        result.outputs = [output["data"] for output in self.ip.display_pub.outputs]
        return result

    def load(self):
        self.ip.extension_manager.load_extension("cachelab")
        return self


@pytest.fixture
def engine():
    """The stand-in engine, with no hooks in place before and after."""
    undo = shell_fake_engine.install()
    yield shell_fake_engine
    left = list(shell_fake_engine.OPEN)
    undo()
    assert left == [], "hooks were left in place"


@pytest.fixture
def bare(engine, capsys):
    """A shell without CacheLab."""
    shell = Shell(capsys)
    yield shell
    shell.ip.extension_manager.unload_extension("cachelab")
    InteractiveShell.clear_instance()


@pytest.fixture
def real_shell(capsys):
    """A shell with CacheLab and its own engine."""
    shell = Shell(capsys).load()
    yield shell
    shell.ip.extension_manager.unload_extension("cachelab")
    InteractiveShell.clear_instance()


@pytest.fixture
def shell(bare):
    """A shell with CacheLab."""
    return bare.load()
