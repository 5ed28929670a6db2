"""The JupyterLab extension: mode switch, side panel, explorer tabs, renderer of saved records, in a real JupyterLab."""

from __future__ import annotations

import json

import face_samples
import pytest
from lab_page import RECORDING, command, load, mode_shown, show_panel, switch

from cachelab.store import to_json
from cachelab.views.mime import MIME_TYPE

pytestmark = pytest.mark.browser


def recordings(panel):
    return panel.get_by_role("region", name="Recordings").locator("tbody tr")


def test_switch_sets_how_the_next_cells_execute(open_notebook, lab_with_extension):
    book = open_notebook(lab_with_extension, "switch.ipynb", "%cachelab mode", "%cachelab on", "%unload_ext cachelab")
    book.page.locator('.cachelab-Switch select[title="CacheLab is not loaded in this kernel."]').wait_for()
    assert switch(book).is_disabled()
    load(book)
    assert switch(book).input_value() == "off"
    switch(book).select_option("memo")
    assert book.text(0).splitlines()[0] == "Recorded cells execute in mode memo."
    assert switch(book).input_value() == "memo"
    switch(book).select_option("off")
    book.run(0)
    assert switch(book).input_value() == "off"
    book.run(1)
    mode_shown(book, "memo")
    book.run(2)
    book.page.locator(".cachelab-Switch select:visible[disabled]").wait_for()


def test_panel_lists_recordings_follows_restart_and_reload_and_opens_the_explorer(
    open_notebook, lab_with_extension, artifacts, violations
):
    book = open_notebook(lab_with_extension, "panel.ipynb", RECORDING)
    load(book)
    panel = show_panel(book)
    panel.get_by_text("No recordings yet").wait_for()
    book.run(0)
    row = recordings(panel)
    row.wait_for()
    summary = face_samples.record().summary()
    share = f"{round(100 * summary['redundant_share_of_op_seconds'])} %"
    assert row.locator("td").all_inner_texts() == ["[1]", "6", share, "278 ms"]
    assert "is fed 6 times with equal content" in panel.inner_text()
    panel.get_by_role("button", name="Open explorer").click()
    explorer = book.page.locator(".cachelab-Tab .cachelab-explorer .xp")
    explorer.wait_for()
    assert explorer.locator('svg.graph [data-id="enc/Tanh"] .lt').text_content() == "R"
    # A recording of a file has no values to run again: the kernel says so where the button was pressed.
    explorer.locator('[data-mode="feed"], [data-key="more"]').first.focus()
    explorer.locator('[data-mode="variable"]').click()
    assert violations(book.page, ".cachelab-Panel") == []
    book.page.screenshot(path=artifacts / "labext-panel.png")
    book.reload()
    recordings(show_panel(book)).wait_for()
    book.restart()
    show_panel(book).get_by_text("CacheLab is not loaded in this kernel.").wait_for()
    assert switch(book).is_disabled()


def test_two_notebooks_keep_their_own_kernels(open_notebook, lab_with_extension):
    first = open_notebook(lab_with_extension, "one.ipynb", RECORDING)
    load(first)
    first.run(0)
    second = open_notebook(lab_with_extension, "two.ipynb", "1")
    load(second)
    show_panel(second).get_by_text("No recordings yet").wait_for()
    switch(second).select_option("feed")
    assert recordings(show_panel(first)).count() == 1
    assert switch(first).input_value() == "off"


def saved_notebook(html):
    evil = "<img src=x onerror=\"document.title='broken'\">"
    data = to_json(face_samples.record())
    data["name"] = evil
    data["graphs"][0]["name"][11] = evil
    output = {"output_type": "display_data", "metadata": {}, "data": {MIME_TYPE: data, "text/plain": "record"}}
    if html:
        output["data"]["text/html"] = html
    cell = {"cell_type": "code", "id": "a", "metadata": {}, "source": "1", "execution_count": 1, "outputs": [output]}
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    return json.dumps({"cells": [cell], "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5})


def test_saved_record_is_an_explorer_in_an_untrusted_notebook(open_notebook, lab_with_extension, artifacts):
    book = open_notebook(lab_with_extension, "start.ipynb", "1")
    html = "<script>document.title='broken'</script><b>saved</b>"
    (lab_with_extension.work / "saved.ipynb").write_text(saved_notebook(html))
    command(book, "docmanager:open", path="saved.ipynb")
    explorer = book.page.locator(".cachelab-Record .cachelab-explorer .xp")
    explorer.wait_for()
    assert "saved, no kernel" in explorer.locator(".tb").inner_text()
    variable = explorer.locator('[data-mode="variable"]')
    assert "83 ms, 4.3× as fast" in variable.inner_text()
    assert variable.get_attribute("aria-disabled") == "true"
    assert "broken" not in book.page.title()
    assert explorer.locator("img").count() == 0
    assert book.page.locator(".cachelab-Record b", has_text="saved").count() == 0
    book.page.screenshot(path=artifacts / "labext-untrusted.png")


def test_saved_record_shows_as_saved_in_a_trusted_notebook_and_opens_on_demand(open_notebook, lab_with_extension):
    source = f"""\
from IPython.display import display
import face_samples
from cachelab.store import to_json
data = {{"{MIME_TYPE}": to_json(face_samples.record()), "text/html": "<b>as saved</b>", "text/plain": "t"}}
display(data, raw=True)"""
    book = open_notebook(lab_with_extension, "trusted.ipynb", source)
    book.run(0)
    record = book.page.locator(".cachelab-Record")
    record.locator("b", has_text="as saved").wait_for()
    assert record.locator(".cachelab-explorer").count() == 0
    record.get_by_role("button", name="Explore this record").click()
    record.locator(".cachelab-explorer .xp").wait_for()
    record.get_by_role("button", name="Explore this record").click()
    assert record.locator(".cachelab-explorer .xp").is_hidden()


def test_recorded_cell_carries_a_badge_that_goes_stale_when_it_is_edited(open_notebook, lab_with_extension, artifacts):
    book = open_notebook(lab_with_extension, "badge.ipynb", "1 + 1", RECORDING)
    load(book)
    book.run(0)
    assert book.page.locator(".cachelab-Badge").count() == 0
    book.run(1)
    badge = book.page.locator(".jp-Cell >> nth=1").locator(".cachelab-Badge")
    badge.get_by_text("80 % of op time recomputed, 278 ms of 349 ms").wait_for()
    assert book.page.locator(".cachelab-Badge").count() == 1
    # A cell that is not the active one clips what leaves its box.
    inner, outer = badge.bounding_box(), book.page.locator(".jp-Cell >> nth=1").bounding_box()
    assert inner["y"] >= outer["y"]
    code = book.page.locator(".jp-Cell >> nth=1").locator(".jp-InputArea-editor").bounding_box()
    assert inner["y"] + inner["height"] <= code["y"]
    book.js("book.activeCellIndex = 0;")
    command(book, "notebook:insert-cell-above")
    moved = book.page.locator(".jp-Cell >> nth=2").locator(".cachelab-Badge")
    moved.wait_for()
    book.js("book.widgets[2].model.sharedModel.setSource('2');")
    moved.get_by_text("edited since: 80 %").wait_for()
    book.page.screenshot(path=artifacts / "labext-badge.png")
    moved.click()
    book.page.locator(".cachelab-Tab .cachelab-explorer .xp").wait_for()
