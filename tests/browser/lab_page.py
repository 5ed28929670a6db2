"""What the tests of the JupyterLab extension do in a page: load CacheLab, use the switch, look at menus and panels."""

from __future__ import annotations

RECORDING = """\
import face_samples
from cachelab.recording import Recording
from cachelab.session_state import recordings
recordings.add(Recording(record=face_samples.record()))"""


def switch(book):
    return book.page.locator(".cachelab-Switch select:visible")


def load(book):
    book.page.locator(".cachelab-Switch button:visible").click()
    book.page.locator(".cachelab-Switch select:visible:not([disabled])").wait_for()


def command(book, name, **args):
    """Execute a command of JupyterLab."""
    return book.page.evaluate("([name, args]) => window.jupyterapp.commands.execute(name, args)", [name, args])


def show_panel(book):
    command(book, "cachelab:show-panel")
    return book.page.locator(".cachelab-Panel")


def mode_shown(book, mode):
    """Wait until the switch shows a mode that the kernel has confirmed."""
    book.page.wait_for_function(
        "mode => { const s = [...document.querySelectorAll('.cachelab-Switch select')].find((one) => one.offsetParent);"
        " return s && !s.disabled && s.value === mode && s.title === 'How the next cells execute'; }",
        arg=mode,
    )
