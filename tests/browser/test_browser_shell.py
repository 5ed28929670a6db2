"""The extension around the notebooks: commands, menus, settings, status bar, mode switch, what outlives a reload."""

from __future__ import annotations

import json
import re

import pytest
from lab_page import RECORDING, command, load, mode_shown, show_panel, switch, wait_equal, wait_true

pytestmark = pytest.mark.browser

MODES = ["off", "run", "memo", "feed", "variable", "handle", "partial_run", "joint", "per_example"]
TELL = "%cachelab mode"


def status(book):
    return book.page.locator(".cachelab-Status button")


def test_commands_are_in_menu_context_menu_and_palette(open_notebook, lab_with_extension, artifacts):
    book = open_notebook(lab_with_extension, "menus.ipynb", RECORDING)
    load(book)
    page = book.page
    page.locator(".jp-MenuBar-anchor, .lm-MenuBar-item").get_by_text("CacheLab", exact=True).click()
    page.locator(".lm-Menu").get_by_text("Mode of the Next Cells").hover()
    modes = page.locator(".lm-Menu").nth(1)
    modes.get_by_text("per-example").wait_for()
    page.screenshot(path=artifacts / "shell-menu.png")
    modes.get_by_text("feed", exact=True).click()
    mode_shown(book, "feed")
    first = page.locator(".jp-Cell .cm-content").first
    first.click(button="right")
    page.locator(".lm-Menu").get_by_text("CacheLab", exact=True).click()
    entry = page.locator(".lm-Menu").nth(1).get_by_text("Record This Cell")
    entry.wait_for()
    page.screenshot(path=artifacts / "shell-context.png")
    entry.click()
    assert first.inner_text().splitlines()[:2] == ["%%cachelab", "import face_samples"]
    command(book, "cachelab:record-cell")
    assert first.inner_text().splitlines()[0] == "import face_samples"
    book.run(0)
    command(book, "apputils:activate-command-palette")
    page.keyboard.type("CacheLab")
    page.locator(".lm-CommandPalette-item").get_by_text("Open the Explorer of the Last Recording").wait_for()
    texts = page.locator(".lm-CommandPalette-itemLabel").all_inner_texts()
    page.screenshot(path=artifacts / "shell-palette.png")
    shown = [text.rpartition(": ")[2] for text in texts if text.startswith("Mode of the Next Cells")]
    assert sorted(shown) == sorted(mode.replace("per_example", "per-example") for mode in MODES)
    page.locator(".lm-CommandPalette-item").get_by_text("Mode of the Next Cells: joint").click()
    mode_shown(book, "joint")
    assert book.errors == []


def test_every_mode_of_the_switch_reaches_the_kernel_and_off_ends_recording(open_notebook, lab_with_extension):
    recording = "print(get_ipython().find_line_magic('cachelab').__self__.cells.automatic)"
    book = open_notebook(lab_with_extension, "modes.ipynb", TELL, recording)
    load(book)
    offered = switch(book).locator("option").evaluate_all("all => all.map((one) => one.value)")
    assert offered == MODES
    groups = (
        switch(book)
        .locator("optgroup")
        .evaluate_all("all => all.map((one) => [one.label, [...one.children].map((option) => option.textContent)])")
    )
    assert dict(groups)["live"] == ["run", "memo", "feed"]
    assert dict(groups)["replay after the cell"] == ["partial_run", "joint", "per-example"]
    for mode in MODES[1:]:
        switch(book).select_option(mode)
        mode_shown(book, mode)
        assert book.text(0).splitlines()[0] == f"Recorded cells execute in mode {mode}."
    assert book.text(1) == "True"
    switch(book).select_option("off")
    mode_shown(book, "off")
    assert book.text(1) == "False"


def test_keyboard_alone(open_notebook, lab_with_extension):
    book = open_notebook(lab_with_extension, "keyboard.ipynb", TELL, RECORDING)
    page = book.page
    book.activate()

    def chord(key):
        page.keyboard.press("Control+Shift+Y")
        page.keyboard.press(key)

    page.locator(".cachelab-Switch button:visible").wait_for()
    chord("l")
    mode_shown(book, "off")
    chord("m")
    wait_true(page, "() => document.activeElement.matches('.cachelab-Switch select')")
    for mode in ("run", "memo"):
        page.keyboard.press("ArrowDown")
        mode_shown(book, mode)
    assert book.text(0).splitlines()[0] == "Recorded cells execute in mode memo."
    book.run(1)
    chord("p")
    page.locator(".cachelab-Panel").wait_for()
    chord("e")
    page.locator(".cachelab-Tab .cachelab-explorer .xp").wait_for()
    # Back in the notebook, in command mode; R alone would be a shortcut of nobody.
    book.activate()
    page.keyboard.press("Escape")
    chord("r")
    sources = "return book.widgets.map((one) => one.model.sharedModel.getSource());"
    wait_equal(page, lambda: [text.startswith("%%cachelab") for text in book.js(sources)], [False, True])


def test_a_reload_brings_back_mode_panel_and_explorer_and_a_restart_starts_anew(
    open_notebook, lab_with_extension, artifacts
):
    book = open_notebook(lab_with_extension, "return.ipynb", RECORDING, TELL)
    load(book)
    book.run(0)
    switch(book).select_option("variable")
    mode_shown(book, "variable")
    show_panel(book).get_by_text("recording 3").first.wait_for()
    command(book, "cachelab:open-explorer")
    book.page.locator(".cachelab-Tab .xp").wait_for()
    follow = book.page.locator(".cachelab-Follow input")
    assert follow.is_checked()
    follow.uncheck()
    book.reload('"follows":false')
    mode_shown(book, "variable")
    explorer = book.page.locator(".cachelab-Tab .cachelab-explorer .xp")
    explorer.wait_for()
    assert explorer.locator('svg.graph [data-id="enc/Tanh"] .lt').text_content() == "R"
    assert not book.page.locator(".cachelab-Follow input").is_checked()
    assert book.page.locator(".cachelab-Panel").is_visible()
    assert "recording 3" in book.page.locator(".cachelab-Panel").inner_text()
    book.page.screenshot(path=artifacts / "shell-reload.png")
    assert book.text(1).splitlines()[0] == "Recorded cells execute in mode variable."
    book.restart()
    book.page.locator('.cachelab-Switch select:visible[title="CacheLab is not loaded in this kernel."]').wait_for()
    assert status(book).inner_text() == "CacheLab: not loaded"
    load(book)
    mode_shown(book, "off")
    book.run(0)
    book.page.locator(".cachelab-Panel").get_by_text("recording 3").first.wait_for()
    # The console of the browser complains of tabs that it can't restore; nothing of this extension's may be there.
    assert [error for error in book.errors if "cachelab" in error.lower()] == []


def test_a_kernel_without_cachelab_says_so(open_notebook, lab_with_extension):
    hide = """\
import sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "cachelab":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Absent())"""
    book = open_notebook(lab_with_extension, "without.ipynb", hide, "del sys.meta_path[0]")
    book.run(0)
    book.page.locator(".cachelab-Switch button:visible").click()
    book.page.locator('.cachelab-Switch select:visible[title="CacheLab is not installed in this kernel."]').wait_for()
    assert switch(book).is_disabled()
    # As after `pip install cachelab`.
    book.run(1)
    load(book)
    assert switch(book).is_enabled()


def test_status_bar_tells_mode_and_share_and_opens_the_panel(open_notebook, lab_with_extension, artifacts):
    book = open_notebook(lab_with_extension, "status.ipynb", RECORDING)
    status(book).get_by_text("CacheLab: not loaded").wait_for()
    load(book)
    status(book).get_by_text("CacheLab: off", exact=True).wait_for()
    switch(book).select_option("per_example")
    status(book).get_by_text("CacheLab: per-example", exact=True).wait_for()
    book.run(0)
    status(book).get_by_text("CacheLab: per-example · 80 % redundant").wait_for()
    panel = book.page.locator(".cachelab-Panel")
    assert not panel.is_visible()
    book.page.screenshot(path=artifacts / "shell-status.png")
    status(book).press("Enter")
    panel.wait_for()


@pytest.fixture
def options(lab_with_extension):
    """The file of the settings; removed afterwards."""
    file = lab_with_extension.work.parent / "lab" / "user-settings" / "cachelab" / "plugin.jupyterlab-settings"
    yield file
    file.unlink(missing_ok=True)


def test_settings_load_cachelab_and_show_less(open_notebook, lab_with_extension, options, artifacts):
    options.parent.mkdir(parents=True, exist_ok=True)
    options.write_text(json.dumps({"loadAutomatically": True, "modeAfterLoading": "memo"}))
    book = open_notebook(lab_with_extension, "settings.ipynb", RECORDING, TELL, "%unload_ext cachelab")
    mode_shown(book, "memo")
    assert book.text(1).splitlines()[0] == "Recorded cells execute in mode memo."
    book.run(0)
    badge = book.page.locator(".cachelab-Badge").first
    badge.wait_for()
    command(book, "settingeditor:open", query="CacheLab")
    editor = book.page.locator(".jp-SettingsEditor, .jp-SettingsPanel").first
    editor.wait_for()
    book.page.screenshot(path=artifacts / "shell-settings.png")
    boxes = [editor.get_by_label(re.compile(name)) for name in ("^Badges on cells", "^Status bar")]
    for box in boxes:
        box.uncheck()
    status(book).wait_for(state="hidden")
    assert options.exists()
    book.activate()
    assert badge.is_hidden()
    book.page.screenshot(path=artifacts / "shell-less.png")
    # Whoever unloads it wants it so.
    book.run(2)
    book.page.locator(".cachelab-Switch button:visible").wait_for()
    book.page.wait_for_timeout(1000)
    assert switch(book).is_disabled()
    # Loaded by hand, wherever, it begins with that mode too.
    show_panel(book).get_by_role("button", name="Load CacheLab").click()
    mode_shown(book, "memo")


FRENCH = {
    "": {"language": "fr-FR", "domain": "cachelab", "version": "1", "plural_forms": "nplurals=2; plural=(n > 1);"},
    "off": ["désactivé"],
    "Show the CacheLab Panel": ["Afficher le panneau CacheLab"],
    "CacheLab: %1": ["CacheLab : %1"],
    "Matrix": ["Matrice"],
    "{n} calls": ["{n} appels"],
}


def test_texts_of_extension_and_explorer_pass_the_translator(open_notebook, lab_with_extension):
    book = open_notebook(lab_with_extension, "french.ipynb", RECORDING)
    answer = json.dumps({"data": {"cachelab": FRENCH}, "message": ""})
    book.page.route(
        re.compile("/lab/api/translations/"),
        lambda route: route.fulfill(body=answer, content_type="application/json"),
    )
    book.reload()
    load(book)
    assert switch(book).locator('option[value="off"]').inner_text() == "désactivé"
    status(book).get_by_text("CacheLab : désactivé").wait_for()
    label = "() => window.jupyterapp.commands.label('cachelab:show-panel')"
    assert book.page.evaluate(label) == "Afficher le panneau CacheLab"
    book.run(0)
    command(book, "cachelab:open-explorer")
    explorer = book.page.locator(".cachelab-Tab .cachelab-explorer .xp")
    explorer.get_by_role("tab", name="Matrice").wait_for()
    explorer.get_by_text("recording 3, 6 appels").wait_for()


def test_dark_theme_and_assistive_technology(open_notebook, lab_with_extension, violations, artifacts):
    book = open_notebook(lab_with_extension, "dark-shell.ipynb", RECORDING)
    load(book)
    book.run(0)
    show_panel(book)
    try:
        for theme in ("Light", "Dark"):
            command(book, "apputils:change-theme", theme=f"JupyterLab {theme}")
            wanted = "true" if theme == "Light" else "false"
            book.page.locator(f'body[data-jp-theme-light="{wanted}"]').wait_for(state="attached")
            book.page.wait_for_timeout(600)
            for place in (".cachelab-Switch", ".cachelab-Status", ".cachelab-Panel"):
                assert violations(book.page, place) == [], (theme, place)
            book.page.screenshot(path=artifacts / f"shell-{theme.lower()}.png")
    finally:
        command(book, "apputils:change-theme", theme="JupyterLab Light")
