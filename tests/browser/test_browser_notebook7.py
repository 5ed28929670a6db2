"""What of the extension applies in Notebook 7: switch, commands, panel, explorer below the notebook, saved records."""

from __future__ import annotations

import pytest
from lab_page import RECORDING, command, load, mode_shown, show_panel, switch

pytestmark = pytest.mark.browser


def test_notebook_7_has_switch_menu_panel_badge_and_explorer(open_notebook, notebook7_with_extension, artifacts):
    book = open_notebook(notebook7_with_extension, "seven.ipynb", "%cachelab mode", RECORDING)
    page = book.page
    load(book)
    switch(book).select_option("joint")
    mode_shown(book, "joint")
    assert book.text(0).splitlines()[0] == "Recorded cells execute in mode joint."
    page.locator(".lm-MenuBar-item").get_by_text("CacheLab", exact=True).click()
    page.locator(".lm-Menu").get_by_text("Mode of the Next Cells").hover()
    page.locator(".lm-Menu").nth(1).get_by_text("off", exact=True).click()
    mode_shown(book, "off")
    book.run(1)
    page.locator(".cachelab-Badge").first.wait_for()
    show_panel(book).get_by_text("recording 3").first.wait_for()
    command(book, "cachelab:open-explorer")
    explorer = page.locator(".cachelab-Tab .cachelab-explorer .xp")
    explorer.wait_for()
    assert page.locator(".cachelab-Tab").bounding_box()["height"] > 400
    page.screenshot(path=artifacts / "shell-notebook7.png")
    book.reload()
    mode_shown(book, "off")
    assert book.errors == []
