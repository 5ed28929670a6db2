"""The explorer as a page of its own: no kernel, no network; every control by mouse and by keyboard."""

from __future__ import annotations

import csv
import io
import json
import re
import xml.etree.ElementTree as ET
from dataclasses import replace
from types import SimpleNamespace

import face_samples
import pytest

from cachelab.model import BOOKKEEPING
from cachelab.store import loads
from cachelab.views.page import page as page_of

pytestmark = pytest.mark.browser

VARIABLE = SimpleNamespace(
    record=face_samples.record("variable", modes=False),
    result=next(mode for mode in face_samples.record().modes if mode.mode == "variable"),
)


class Explorer:
    """What a person sees and does, by role and name."""

    def __init__(self, page):
        self.page = page
        self.root = page.locator(".cachelab-explorer .xp")

    def node(self, name):
        return self.root.locator(f'svg.graph [data-id="{name}"]')

    def letter(self, name):
        return self.node(name).locator(".lt").text_content()

    def button(self, name):
        return self.root.get_by_role("button", name=name, exact=True)

    def mode(self, name):
        return self.root.get_by_role("radio", name=re.compile(f"^{re.escape(name)}"))

    def tab(self, name):
        self.root.get_by_role("tab", name=name).click()

    def focused(self):
        return self.page.evaluate(
            "() => { const e = document.querySelector('.cachelab-explorer').shadowRoot.activeElement;"
            " return e && (e.dataset.id ?? e.dataset.key ?? e.dataset.tab ?? e.className); }"
        )

    def live(self):
        self.page.wait_for_timeout(120)
        return self.root.locator(".vh[aria-live]").inner_text()


@pytest.fixture
def open_page(chromium, tmp_path):
    contexts = []

    def opener(record=None, replays=(VARIABLE,), dark=False, width=1200, height=1100):
        path = tmp_path / f"explorer{len(contexts)}.html"
        path.write_text(page_of(record or face_samples.record(), replays), encoding="utf-8")
        context = chromium.new_context(
            viewport={"width": width, "height": height}, color_scheme="dark" if dark else "light", offline=True,
            accept_downloads=True, reduced_motion="reduce" if dark else "no-preference",
        )  # fmt: skip
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(30_000)
        explorer = Explorer(page)
        explorer.errors = []
        explorer.requests = []
        page.on("pageerror", lambda error: explorer.errors.append(str(error)))
        page.on("request", lambda one: explorer.requests.append(one.url))
        page.goto(path.as_uri())
        explorer.root.wait_for()
        return explorer

    yield opener
    for context in contexts:
        context.close()


@pytest.fixture
def explorer(open_page):
    opened = open_page()
    yield opened
    assert not opened.errors
    assert all(url.startswith(("file:", "data:", "blob:")) for url in opened.requests)


def expected_letters(call, mode="run"):
    letters = {"computed": "C", "recomputed": "R", "reused": "S", "fed": "F", "pruned": "P"}
    record = face_samples.record(mode)
    return {one.name: letters[one.status] for one in record.executions(call) if one.type not in BOOKKEEPING}


def test_statuses_of_the_graph_are_those_of_the_record(explorer):
    for call in (1, 5):
        explorer.root.locator(f'.stp [data-entry="{call}"]').click()
        expected = expected_letters(call)
        for name in ("enc/MatMul", "enc/BiasAdd", "enc/Tanh"):
            assert explorer.letter(name) == expected[name], (call, name)
    assert explorer.node("gradients").get_attribute("aria-label").startswith("scope gradients, 5 pruned")


def test_mode_recolours_in_place_and_only_colours_move(explorer):
    def places():
        names = ("enc/MatMul", "enc/Tanh", "pairs", "gradients")
        return [
            (
                explorer.node(name).get_attribute("transform"),
                explorer.root.locator("svg.graph > g").get_attribute("transform"),
            )
            for name in names
        ]

    at = places()
    explorer.mode("variable").click()
    assert explorer.mode("variable").get_attribute("aria-checked") == "true"
    assert explorer.letter("enc/Tanh") == "S"
    assert explorer.letter("enc/MatMul") == "P"
    assert places() == at
    assert "85 ops ran" in explorer.live()
    explorer.button("Next call").click()
    assert places() == at


def test_comparison_shows_the_figures_of_the_replay(explorer):
    row = explorer.root.locator(".cmp tbody tr").nth(1).inner_text().split()
    assert row[:5] == ["variable", "6", "85", "6", "5"]
    text = " ".join(row)
    assert "83 ms" in text
    assert "4.3×" in text
    assert "16.8 MB" in text
    assert "equal" in text
    assert "48 ms" in text


def test_disabled_modes_take_focus_and_say_why(explorer):
    button = explorer.mode("partial_run")
    assert button.get_attribute("aria-disabled") == "true"
    explorer.mode("run").focus()
    explorer.page.keyboard.press("ArrowRight")
    assert explorer.focused() == "mode-partial_run"
    assert "idx has 6 values" in explorer.live()
    explorer.page.keyboard.press("Enter")
    assert explorer.mode("run").get_attribute("aria-checked") == "true"
    assert "idx has 6 values" in explorer.root.locator(".note").inner_text()
    explorer.page.keyboard.press("ArrowRight")
    assert explorer.mode("variable").get_attribute("aria-checked") == "true"


def test_scopes_open_and_close_by_mouse_and_keyboard(explorer):
    assert explorer.node("loss/xent").count() == 0
    explorer.node("loss").click()
    assert explorer.node("loss/xent").count() == 1
    explorer.node("loss").press("Enter")
    assert explorer.node("loss/xent").count() == 0
    assert explorer.focused() == "loss"


def test_whatever_opens_or_closes_the_graph_stays_in_view_and_the_legend_off_everything(explorer):
    def clear():
        frame = explorer.root.locator(".gp").bounding_box()
        legend = explorer.root.locator(".lg").bounding_box()
        corner = "corner" in explorer.root.locator(".lg").get_attribute("class").split()
        top = explorer.root.locator(".step").bounding_box()["y"]
        assert legend["y"] + legend["height"] <= top + 1
        for node in explorer.root.locator("svg.graph [data-id] .body").all():
            box = node.bounding_box()
            assert box["x"] >= frame["x"] - 5
            assert box["y"] >= frame["y"] - 5
            assert box["y"] + box["height"] <= frame["y"] + frame["height"] + 5
            apart = (
                box["x"] + box["width"] <= legend["x"] or legend["x"] + legend["width"] <= box["x"]
                or box["y"] + box["height"] <= legend["y"] or legend["y"] + legend["height"] <= box["y"]
            )  # fmt: skip
            assert apart or not corner

    for scope in ("loss", "gradients", "head"):
        explorer.node(scope).press("Enter")
    explorer.node("enc/Tanh").press("Enter")
    for _ in range(2):
        explorer.button("Close all").click()
        clear()
        explorer.button("Fit the graph").click(timeout=5_000)
    explorer.node("gradients").click()
    explorer.node("gradients").press("Enter")
    clear()


def test_bars_of_a_mode_show_as_saved_only_what_did_not_run(explorer):
    def parts(call):
        return explorer.root.locator(f'.stp [data-entry="{call}"] .bar i').evaluate_all(
            "all => all.map(e => e.className)"
        )

    assert parts(0) == ["C"]
    explorer.mode("variable").click()
    assert parts(0) == ["C"]
    assert parts(2) == ["R", "C", "S"]
    explorer.root.locator('.stp [data-entry="2"]').click()
    assert "op time" in explorer.root.locator(".figs").inner_text()
    # Nobody replayed the calls as they were: the recorded times, cold and traced, are no match for those of a replay.
    assert "run " not in explorer.root.locator(".figs").inner_text()
    assert "357 ms replayed, 356 ms as recorded" in explorer.mode("run").inner_text()
    explorer.node("enc/Tanh").click()
    assert "in run" not in explorer.root.locator(".ins").inner_text()


def test_arrows_follow_edges(explorer):
    explorer.node("enc/MatMul").focus()
    seen = []
    for _ in range(4):
        explorer.page.keyboard.press("ArrowRight")
        seen.append(explorer.focused())
    assert seen == ["enc/BiasAdd", "enc/Tanh", "pairs", "head"]
    explorer.page.keyboard.press("ArrowLeft")
    assert explorer.focused() == "pairs"


def test_search_opens_the_way_to_an_op(explorer):
    explorer.page.keyboard.press("Tab")
    explorer.root.locator(".find").press("Escape")
    explorer.page.keyboard.press("/")
    explorer.page.keyboard.type("l2loss_1 grad")
    assert explorer.root.get_by_role("option").count() == 1
    explorer.page.keyboard.press("Enter")
    assert explorer.node("gradients/L2Loss_1_grad").get_attribute("aria-pressed") == "true"
    assert "gradients/L2Loss_1_grad" in explorer.root.locator(".ins .hd").inner_text()
    explorer.root.locator(".find").fill("no such op")
    assert "No op or scope of this name" in explorer.root.locator(".found").inner_text()


def test_search_finds_scopes_first(explorer):
    explorer.root.locator(".find").fill("gradients")
    first = explorer.root.get_by_role("option").first
    assert first.inner_text().split() == ["gradients", "scope,", "5", "ops"]
    explorer.root.locator(".find").press("Enter")
    assert explorer.node("gradients").get_attribute("aria-pressed") == "true"
    assert explorer.root.locator(".ins .hd").inner_text().split() == ["gradients", "5", "ops"]


def test_inspector_gives_cause_chain_and_place(explorer):
    explorer.node("enc/Tanh").click()
    text = explorer.root.locator(".ins").inner_text()
    assert "Ran again on equal inputs." in text
    assert "of call 0" in text
    assert "cell 2, line 3" in text
    assert "h = tf.tanh(a)" in text
    assert "float32 [8192, 512], 16.8 MB" in text
    chain = explorer.root.locator(".chain").inner_text()
    assert re.search(r"x\s+9f3c\s+= call 0", chain)
    explorer.root.locator('.stp [data-entry="2"]').click()
    assert "of call 1" in explorer.root.locator(".ins .say").inner_text()


def test_trace_dims_what_does_not_lead_to_the_op(explorer):
    explorer.node("head").click()
    explorer.node("head/MatMul").click()
    explorer.button("Sources").click()
    dim = [name for name in ("enc/Tanh", "pairs", "head/MatMul", "head/BiasAdd", "loss", "gradients")
           if "dim" in explorer.node(name).get_attribute("class").split()]  # fmt: skip
    assert dim == ["head/BiasAdd", "loss", "gradients"]
    explorer.page.keyboard.press("Escape")
    assert explorer.root.locator(".n.dim").count() == 0


def test_legend_counts_and_dims(explorer):
    expected = [letter for name, letter in expected_letters(1).items()]
    recomputed = explorer.root.locator('[data-key="legend-R"]')
    assert recomputed.inner_text().split()[-1] == str(expected.count("R"))
    recomputed.click()
    assert recomputed.get_attribute("aria-pressed") == "false"
    assert "dim" in explorer.node("enc/MatMul").get_attribute("class").split()
    assert explorer.node("enc/MatMul").is_visible()


def test_steps_go_by_keys_and_play(explorer):
    explorer.root.locator('.stp [aria-current="step"]').focus()
    explorer.page.keyboard.press("End")
    assert "Call 5 of 0–5" in explorer.root.locator(".say").first.inner_text()
    explorer.page.keyboard.press("Home")
    assert "Call 0 of 0–5" in explorer.root.locator(".say").first.inner_text()
    explorer.button("Play").click()
    explorer.root.get_by_text("Call 2 of 0–5").wait_for()
    explorer.button("Pause").click()


def test_matrix_is_a_grid_with_sources_first(explorer):
    rows = explorer.root.locator(".mx tbody tr")
    assert [rows.nth(i).locator("th").inner_text() for i in range(4)] == ["x", "enc/W, b", "idx, y", "head/W, b"]
    cell = explorer.root.locator('[data-group="enc/MatMul"][data-e="3"]')
    assert cell.inner_text() == "R"
    explorer.root.locator('[data-group="enc"][data-e="1"]').focus()
    for key in ("ArrowDown", "ArrowRight", "ArrowRight", "Enter"):
        explorer.page.keyboard.press(key)
    assert explorer.root.locator(".stp [aria-current]").inner_text().strip() == "3"
    assert "enc/MatMul" in explorer.root.locator(".ins .hd").inner_text()
    totals = explorer.root.locator('tr:has([data-group="enc/MatMul"]) td.r').all_inner_texts()
    assert totals == [f"{6 * 42.1:.1f} ms", f"{5 * 42.1:.1f} ms"]


def test_table_says_all_that_the_graph_says(explorer):
    explorer.tab("Table")
    rows = explorer.root.locator(".ops tbody tr")
    record = face_samples.record()
    table = {}
    for i in range(rows.count()):
        cells = rows.nth(i).locator("th, td").all_inner_texts()
        table[cells[0]] = cells
    listed = {one.name: one for one in record.executions(1)}
    assert set(table) == set(listed)
    for name, one in listed.items():
        assert table[name][3] == one.status
        assert table[name][7] == one.evidence
        assert table[name][8] == ", ".join(record.graphs[0].inputs[record.graphs[0].index[name]])
    explorer.root.get_by_label("Filter the table").fill("recomputed")
    assert rows.count() == 4
    explorer.root.get_by_role("button", name="time").click()
    assert rows.nth(0).locator("th").inner_text() == "enc/MatMul"


def test_long_names_leave_room_in_the_table(open_page):
    record = face_samples.record()
    graph = record.graphs[0]
    long = "a_scope_with_a_long_name/" * 6
    names = tuple(long + name for name in graph.name)
    inputs = tuple(tuple(long + one for one in row) for row in graph.inputs)
    explorer = open_page(replace(record, graphs=(replace(graph, name=names, inputs=inputs),)), ())
    explorer.tab("Table")
    room = explorer.root.locator("#tab").bounding_box()
    row = explorer.root.locator(".ops tbody tr").filter(has_text="MatMul").nth(1)
    assert "…" in row.locator("th").inner_text()
    assert row.locator("th button").get_attribute("title").startswith(long)
    for cell in (row.locator("td").nth(2), row.locator("td").nth(3), row.locator("td.wrap")):
        assert cell.bounding_box()["x"] + cell.bounding_box()["width"] <= room["x"] + room["width"]


def test_a_fetch_of_another_call_can_be_read(open_page):
    explorer = open_page(dark=True)
    explorer.root.locator('.stp [data-entry="5"]').click()
    chip = explorer.root.locator(".chip.fetched.off").first
    assert chip.locator("title").text_content() == "fetched in another call"
    opacity, fill = chip.locator("text").evaluate(
        "e => [getComputedStyle(e.parentNode).opacity, getComputedStyle(e).fill]"
    )
    assert (opacity, fill) == ("1", "rgb(163, 173, 186)")


def test_timeline_and_code(explorer):
    explorer.tab("Timeline")
    bars = explorer.root.locator("svg.timeline [data-row]")
    assert bars.count() == 19
    assert bars.nth(0).get_attribute("aria-label") == "enc/MatMul, recomputed, 42 ms"
    explorer.mode("variable").click()
    assert explorer.root.locator("svg.timeline [data-row]").count() == 16
    explorer.tab("Code")
    assert "kept = tf.compat.v1.get_variable" in explorer.root.locator("pre").inner_text()


def test_predict_then_reveal_scores_and_explains(explorer):
    explorer.button("Predict").click()
    assert explorer.letter("enc/MatMul") == "?"
    assert explorer.root.locator(".cmp").is_hidden()
    explorer.node("enc/MatMul").click()
    for scope in ("pairs", "head", "gradients", "train/update_head"):
        explorer.node(scope).press("Enter")
    explorer.button("Reveal").click()
    text = explorer.root.locator(".pred").inner_text()
    # Marked: MatMul, pairs 2, head 2, gradients 5, train 2; missed: BiasAdd, Tanh and the 5 ops of loss.
    assert "12 of 19 right in call 1" in text
    assert "enc/Tanh" in text
    assert "ran, you expected it not to. Ran again on equal inputs." in text
    assert explorer.letter("enc/Tanh") == "R"
    explorer.button("End").click()
    assert explorer.root.locator(".pred").is_hidden()


def exported(explorer, item):
    explorer.root.get_by_role("button", name="Export").click()
    with explorer.page.expect_download() as waiting:
        explorer.root.get_by_role("menuitem", name=item).click()
    return waiting.value.path().read_text(encoding="utf-8"), waiting.value.suggested_filename


def test_exports_hold_what_they_say(explorer, chromium, tmp_path):
    record = face_samples.record()
    text, name = exported(explorer, "Recording (JSON)")
    assert name == "recording_3.json"
    saved = loads(text)
    for call in range(6):
        for one, wanted in zip(saved.executions(call), record.executions(call), strict=True):
            assert replace(one, seconds=0, start=0) == replace(wanted, seconds=0, start=0)
            assert one.seconds == pytest.approx(wanted.seconds, rel=1e-3)
    text, _name = exported(explorer, "Table (CSV)")
    rows = list(csv.DictReader(io.StringIO(text)))
    seen = {(row["call"], row["op"]): row["status"] for row in rows}
    assert seen == {
        (str(call.index), one.name): one.status for call in record.calls for one in record.executions(call.index)
    }
    text, _name = exported(explorer, "Graph (DOT)")
    assert text.count("->") == sum(len(inputs) for inputs in record.graphs[0].inputs)
    text, _name = exported(explorer, "Trace (Perfetto)")
    events = json.loads(text)["traceEvents"]
    ran = [event for event in events if event.get("cat")]
    assert len(ran) == sum(one.executed for call in record.calls for one in record.executions(call.index))
    text, _name = exported(explorer, "Picture (SVG)")
    picture = ET.fromstring(text)
    words = " ".join(picture.itertext())
    assert "MatMul" in words
    assert "recomputed 4" in words
    shown = {"".join(one.itertext()): one.get("fill") for one in picture.iter("{http://www.w3.org/2000/svg}text")}
    assert shown["recomputed 4"] == shown["reused 0"] != "rgb(255,255,255)"
    assert "var(" not in text
    assert "color-mix" not in text
    text, _name = exported(explorer, "Page (HTML)")
    assert len(text) < 3_000_000
    again = tmp_path / "again.html"
    again.write_text(text, encoding="utf-8")
    page = chromium.new_page()
    page.goto(again.as_uri())
    second = Explorer(page)
    second.root.wait_for()
    second.mode("variable").click()
    assert second.letter("enc/Tanh") == "S"
    page.close()


_WITH_KERNEL = """async () => {
  const bytes = (id) => Uint8Array.from(atob(document.getElementById(id).textContent), (one) => one.charCodeAt(0));
  const view = (data) => new DataView(data.buffer);
  const m = await import("data:text/javascript;base64," + document.getElementById("bundle").textContent);
  window.sent = [];
  const host = { send: (message) => window.sent.push(message) };
  window.mounted = await m.mountBytes(document.getElementById("explorer"), view(bytes("recording")), host);
  window.reply = (message, text) => m.deliver(window.mounted, message, [view(new TextEncoder().encode(text))]);
}"""


def test_front_end_without_the_bundle_gets_its_page_from_the_kernel(explorer):
    explorer.page.evaluate(_WITH_KERNEL)
    explorer.root.get_by_role("button", name="Export").click()
    explorer.root.get_by_role("menuitem", name="Page (HTML)").click()
    (asked,) = explorer.page.evaluate("window.sent")
    assert asked["type"] == "page"
    assert "as soon as it is free" in explorer.root.locator(".note").inner_text()
    with explorer.page.expect_download() as waiting:
        explorer.page.evaluate("(id) => window.reply({ type: 'page', id }, '<!doctype html>made')", asked["id"])
    assert waiting.value.path().read_text() == "<!doctype html>made"
    assert waiting.value.suggested_filename == "recording_3.html"
    assert explorer.root.locator(".note").is_hidden()


def test_names_are_never_markup(open_page):
    evil = "<img src=x onerror=alert(1)>"
    record = face_samples.record()
    graph = record.graphs[0]
    rename = {"enc/Tanh": f"enc/{evil}"}
    names = tuple(rename.get(name, name) for name in graph.name)
    inputs = tuple(tuple(rename.get(t[:-2], t[:-2]) + t[-2:] for t in row) for row in graph.inputs)
    causes = tuple(replace(cause, text=f"`{evil}` {cause.text} <script>alert(2)</script>") for cause in record.causes)
    explorer = open_page(
        replace(record, name=evil, graphs=(replace(graph, name=names, inputs=inputs),), causes=causes), ()
    )
    explorer.page.on("dialog", lambda dialog: explorer.errors.append(dialog.message))
    explorer.root.locator(f"svg.graph [data-id='enc/{evil}']").click()
    explorer.tab("Table")
    assert explorer.root.locator("img, script").count() == 0
    assert explorer.page.locator("img").count() == 0
    text, _name = exported(explorer, "Page (HTML)")
    assert evil not in text
    assert not explorer.errors


@pytest.mark.parametrize("dark", [False, True])
def test_axe_finds_nothing_in_any_view(open_page, violations, artifacts, dark):
    explorer = open_page(dark=dark)
    theme = "dark" if dark else "light"
    explorer.mode("variable").click()
    explorer.node("enc/Tanh").click()
    for tab in ("Matrix", "Timeline", "Code", "Table"):
        explorer.tab(tab)
        assert violations(explorer.page) == [], tab
        explorer.page.screenshot(path=artifacts / f"page-{tab.lower()}-{theme}.png", full_page=True)
    explorer.root.get_by_role("button", name=re.compile("^more")).click()
    assert violations(explorer.page) == []
    explorer.page.keyboard.press("Escape")
    explorer.button("Predict").click()
    explorer.button("Reveal").click()
    assert violations(explorer.page) == []
    explorer.page.screenshot(path=artifacts / f"page-predict-{theme}.png", full_page=True)


@pytest.mark.parametrize("width", [600, 880])
def test_narrow_windows_keep_everything_reachable(open_page, artifacts, width):
    explorer = open_page(width=width)
    explorer.node("enc/Tanh").click()
    box = explorer.root.bounding_box()
    assert box["width"] <= width
    inspector = explorer.root.locator(".ins").bounding_box()
    assert inspector["y"] > explorer.root.locator("#tab").bounding_box()["y"]
    modes = [explorer.mode(name).bounding_box() for name in ("run", "variable")]
    assert (modes[0]["y"] == modes[1]["y"]) is (width > 640)
    overflow = explorer.page.evaluate("() => document.documentElement.scrollWidth - window.innerWidth")
    assert overflow <= 0
    explorer.page.screenshot(path=artifacts / f"page-{width}.png", full_page=True)


def test_texts_come_from_the_catalogue_of_the_host(open_page, monkeypatch):
    german = {
        "Predict": "Vorhersagen", "Matrix": "Matrix der Aufrufe", "recomputed": "erneut gerechnet",
        "Call {call} of {first}–{last}": "Aufruf {call} von {first} bis {last}",
        "Ran again on equal inputs.": "Lief erneut, Eingaben gleich.",
    }  # fmt: skip
    monkeypatch.setattr("cachelab.views.page.catalogue", lambda: german)
    explorer = open_page()
    explorer.button("Vorhersagen").wait_for()
    explorer.tab("Matrix der Aufrufe")
    explorer.node("enc/Tanh").click()
    assert "Lief erneut, Eingaben gleich." in explorer.root.locator(".ins").inner_text()
    assert "Aufruf 1 von 0 bis 5" in explorer.root.locator(".say").first.inner_text()
    assert explorer.node("enc/Tanh").get_attribute("aria-label").startswith("enc/Tanh, erneut gerechnet")


@pytest.mark.parametrize("reduced", [False, True])
def test_colours_fade_only_where_motion_is_welcome(open_page, reduced):
    explorer = open_page(dark=reduced)
    seconds = explorer.node("enc/Tanh").locator(".b").evaluate("e => getComputedStyle(e).transitionDuration")
    assert (max(float(part.rstrip("s")) for part in seconds.split(", ")) > 0) is not reduced
