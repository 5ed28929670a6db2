"""What the tests of the JupyterLab extension do in a page: load CacheLab, use the switch, look at menus and panels."""

from __future__ import annotations

import time

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


def wait_true(page, function, arg=None):
    """Wait until a function of the page returns true. Where it throws, what it looks at is not there yet."""
    page.wait_for_function(f"(arg) => {{ try {{ return ({function})(arg); }} catch {{ return false; }} }}", arg=arg)


def wait_equal(page, read, expected):
    """Wait until ``read()`` returns what is expected."""
    deadline = time.monotonic() + 60
    while (found := read()) != expected and time.monotonic() < deadline:
        page.wait_for_timeout(100)
    assert found == expected


def mode_shown(book, mode):
    """Wait until the switch shows a mode that the kernel has confirmed."""
    wait_true(
        book.page,
        "mode => { const s = [...document.querySelectorAll('.cachelab-Switch select')].find((one) => one.offsetParent);"
        " return s && !s.disabled && s.value === mode && s.title === 'How the next cells execute'; }",
        arg=mode,
    )
