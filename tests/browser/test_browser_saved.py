"""A saved notebook as nbconvert's HTML, offline: the persistent record is there, without kernel, network or widget."""

from __future__ import annotations

import face_samples
import nbformat
import pytest
from nbconvert import HTMLExporter

from cachelab.views.mime import mimebundle

# nbconvert says that it cannot show the widget, which is what this is about.
pytestmark = [pytest.mark.browser, pytest.mark.filterwarnings("ignore:Your element with mimetype")]


@pytest.mark.parametrize("dark", [False, True])
def test_saved_notebook_shows_the_record(chromium, tmp_path, artifacts, dark):
    v4 = nbformat.v4
    outputs = [
        v4.new_output("display_data", data=mimebundle(face_samples.record())),
        # The live controls, whose script comes from a network that is not there.
        v4.new_output("display_data", data={"application/vnd.jupyter.widget-view+json": {"model_id": "gone"}}),
    ]
    book = v4.new_notebook(cells=[v4.new_code_cell("%%cachelab\nsess.run(loss)", outputs=outputs)])
    theme = "dark" if dark else "light"
    text, _resources = HTMLExporter(theme=theme).from_notebook_node(book)
    path = tmp_path / "saved.html"
    path.write_text(text, encoding="utf-8")
    context = chromium.new_context(viewport={"width": 1300, "height": 1100}, color_scheme=theme, offline=True)
    page = context.new_page()
    page.goto(path.as_uri(), wait_until="domcontentloaded")
    record = page.locator("section.cachelab-record")
    record.wait_for()
    said = record.inner_text()
    for expected in ("of the op time repeated earlier work", "enc", "MatMul", "Causes", "Calls"):
        assert expected in said
    assert record.locator("svg").first.is_visible()
    page.screenshot(path=artifacts / f"saved-{theme}.png", full_page=True)
    context.close()
