"""The persistent record as HTML: says what the record says, escapes everything, stays small and readable."""

import re
from html.parser import HTMLParser

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from views_builder import HOSTILE, Builder, encoder, hostile, large, loop, statuses

from cachelab.model import Finding, ModeResult
from cachelab.views import html, svg
from cachelab.views.matrix import Matrix
from cachelab.views.picture import picked, picture
from cachelab.views.slots import slots
from cachelab.views.tally import Tally

VOID = {"meta", "br", "img", "hr", "input", "link"}


class Page(HTMLParser):
    """Parses strictly enough to find unbalanced tags; collects elements, texts and table rows."""

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.attributes, self.texts, self.rows = [], [], [], [], []
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in VOID:
            self.open.append(tag)
        if tag == "tr":
            self.rows.append([])
        if tag in {"td", "th"}:
            self.rows[-1].append("")

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if "style" not in self.open:
            self.texts.append(data)
            if {"td", "th"} & set(self.open):
                self.rows[-1][-1] += data

    @property
    def text(self):
        return " ".join(" ".join(self.texts).split())

    def row(self, start):
        return next(row for row in self.rows if row and row[0].strip() == start)


def test_headline_sentence_and_figures():
    text = Page(html.fragment(encoder().record())).text
    assert "79 % of the op time repeated earlier work." in text
    assert (
        "enc/MatMul , enc/BiasAdd and enc/Tanh ran in all 6 calls, although x , enc/W and enc/b stayed the same."
        in text
    )
    assert "277 ms of 350 ms op time redundant" in text
    assert "21 of 100 op executions recomputed" in text


def test_counts_of_the_headline_are_those_of_the_summary():
    record = encoder().record()
    total, summary = Tally(record).total, record.summary()
    assert (total.ran, total.recomputed, total.bookkeeping) == (
        summary["executed"], summary["recomputed"], summary["bookkeeping"],
    )  # fmt: skip
    assert total.share == pytest.approx(summary["redundant_share_of_op_seconds"])
    assert total.redundant_seconds == pytest.approx(summary["op_seconds"]["recomputed"])


def test_matrix_has_the_letter_of_every_op_and_call():
    page = Page(html.fragment(encoder().record()))
    assert page.row("MatMul")[1:7] == ["C", "R", "R", "R", "R", "R"]
    assert page.row("L2Loss_1")[1:7] == ["C", "C", "C", "C", "C", "R"]
    assert page.row("▸ gradients 5")[1:7] == ["C", "C", "C", "C", "P", "P"]
    assert page.row("▸ gradients 5")[-1] == "–"


def test_unchanged_sources_are_one_bar():
    markup = html.fragment(encoder().record())
    assert re.search(r'title="feed: x">x</td><td class="c v" colspan="6"><span class="ver" title="9f3c">9f3c<', markup)
    row = re.search(r'title="variable: head/W, head/b">.*?</tr>', markup).group()
    assert re.findall(r'title="(v\d)"', row) == ["v0", "v1", "v2", "v3", "v4"]
    assert 'colspan="2"><span class="ver" title="v4"' in row


def test_calls_table_numbers_from_zero():
    page = Page(html.fragment(encoder().record()))
    assert page.row("0")[1:4] == ["[loss/AddN, train_op]", "19", "–"]
    assert page.row("5")[1:4] == ["loss/AddN", "12", "5"]


def test_causes_and_findings_are_told():
    page = Page(html.fragment(encoder().record()))
    assert ["R", "not_kept", "21", "276.6 ms", "equal inputs, but values live for one call only"] in page.rows
    assert "y:0 was fed in call 5, but no fetch needs it. unneeded_feed, call 5" in page.text
    assert ["enc/MatMul", "cell 2, line 4", "209.2 ms"] in page.rows


def test_graph_opens_what_is_redundant():
    record = encoder().record()
    tally = Tally(record)
    entry, call = picked(record, tally)
    assert call == 1
    shown = picture(record, tally, entry)
    labels = {view.node.label: view for view in shown.leaves.values()}
    assert set(labels) == {"MatMul", "BiasAdd", "Tanh", "pairs", "head", "loss", "gradients", "train/update_head"}
    assert labels["MatMul"].letter == "r"
    held = {record.sources[row].name: same for row, same in labels["MatMul"].sources.items()}
    assert held == {"x:0": True, "enc/W": True}
    assert {record.sources[r].name: s for r, s in labels["pairs"].sources.items()} == {"idx:0": False}
    pairs = {(shown.leaves[a].node.label, shown.leaves[b].node.label) for a, b in shown.edges}
    assert {("MatMul", "BiasAdd"), ("BiasAdd", "Tanh"), ("Tanh", "pairs"), ("pairs", "head")} <= pairs
    assert ("MatMul", "Tanh") not in pairs


def test_a_version_is_compared_within_its_session():
    b = encoder()
    b.calls = [
        b.calls[0],
        *(c.__class__(**{f: getattr(c, f) for f in c.__slots__} | {"session": 1}) for c in b.calls[1:2]),
    ]
    record = b.record()
    shown = picture(record, Tally(record), 1)
    held = {record.sources[r].name: s for view in shown.leaves.values() for r, s in view.sources.items()}
    assert held["x:0"] is True
    assert held["enc/W"] is None


def test_every_status_has_its_form_and_letter():
    record = statuses().record()
    markup = html.fragment(record)
    for letter in "CRSFMKUPTNX":
        assert f'<g class="n {letter}">' in markup
        assert f'<b class="st {letter}">{letter}</b>' in markup
    assert 'class="halo"' in markup
    assert "served 4.10 kB" in markup


def test_failed_call_is_told():
    text = Page(html.fragment(statuses().record())).text
    assert "Call 1 failed (InvalidArgumentError: <b>shapes</b> must be equal); 1 other call is complete." in text


def test_nothing_recorded():
    page = Page(html.fragment(Builder().record()))
    assert "Nothing was recorded: no run call was made." in page.text
    assert "table" not in page.tags


def test_call_without_counted_ops_has_no_picture():
    b = Builder("only a constant")
    b.op("c", "Const")
    b.call(["c:0"], [], {"c": ("c",)})
    page = Page(html.fragment(b.record()))
    assert "svg" not in page.tags
    assert page.row("0")[1:4] == ["c", "0", "–"]
    assert "No op of these calls is known to have run." not in page.text
    assert "Call 0 lists nothing but placeholders, constants and reads." in svg.svg(b.record())


def test_hostile_names_stay_text():
    page = Page(html.fragment(hostile().record()))
    assert not {"script", "img", "iframe", "object", "link"} & set(page.tags)
    assert not [name for name, _value in page.attributes if name.startswith("on")]
    assert page.tags.count("style") == 1
    assert "<script>alert(1)</script>" in page.text
    assert "<script>alert(4)</script>" in page.text
    svg_page = Page(svg.svg(hostile().record()))
    assert "script" not in svg_page.tags
    assert HOSTILE[1] in " ".join(svg_page.texts)


def test_needs_no_network_and_no_script():
    markup = html.fragment(encoder().record())
    assert "<script" not in markup
    assert "url(http" not in markup
    assert "@import" not in markup
    assert not re.findall(r'(?:src|href)="', markup)


def test_styles_cannot_leak():
    style = re.search(r"<style>(.*?)</style>", html.fragment(encoder().record()), re.DOTALL).group(1)
    body = re.sub(r"@(?:media|container)[^{]*\{((?:[^{}]*\{[^{}]*\})*)\}", r"\1", style)
    selectors = [part for rule in re.findall(r"([^{}]+)\{", body) for part in re.split(r",(?![^(]*\))", rule)]
    assert len(selectors) > 80
    assert [s for s in selectors if ".cachelab-record" not in s] == []


def test_pictures_alone_bring_their_colours():
    style = re.search(r"<style>(.*?)</style>", svg.svg(statuses().record()), re.DOTALL).group(1)
    used = set(re.findall(r"var\((--cl-[A-Za-z0-9]+)", style)) | {"--k"}
    assert {name for name in used if not re.search(rf"{name}\s*:", style)} == set()
    for letter in "CRSFMKUPTNX":
        assert re.search(rf"\.cachelab-picture \.{letter}\b[^{{}}]*\{{\s*--k", style)


def test_dark_theme_follows_the_front_end_first():
    style = re.search(r"<style>(.*?)</style>", html.fragment(encoder().record()), re.DOTALL).group(1)
    assert '[data-jp-theme-light="false"] .cachelab-record' in style
    assert "@media (prefers-color-scheme:dark){body:not([data-jp-theme-light])" in style
    assert style.count("--cl-R:#f0843a") == 2


@pytest.mark.parametrize("entries", [False, True])
def test_long_loops_share_a_column(entries):
    record = loop(10_000, entries=entries).record()
    markup = html.fragment(record)
    assert len(markup) < 40_000
    page = Page(markup)
    assert page.row("1–9999")[1:4] == ["y", "2", "1"]
    assert page.row("h")[1:3] == ["C", "R"]
    assert "h ran in all 10000 calls, although W stayed the same." in page.text
    assert ("9999 versions: d1 … d9999" in markup) == entries


def test_changing_loops_are_cut_in_the_middle():
    b = loop(2)
    first, second = b.calls
    for k in range(2, 60):
        template = second if k % 2 else first
        b.calls.append(template.__class__(**{f: getattr(template, f) for f in template.__slots__} | {"index": k}))
    record = b.record()
    used = slots(record, 20)
    assert len(used) == 20
    assert [slot.first for slot in used[:12]] == list(range(12))
    assert [slot.omitted for slot in used] == [False] * 12 + [True] + [False] * 7
    assert (used[12].first, used[12].last) == (12, 52)
    assert "41 calls are left out" in Page(html.fragment(record)).text


def test_large_graphs_stay_small_and_readable():
    record = large()
    markup = html.fragment(record)
    assert len(markup.encode()) < 300_000
    tally = Tally(record)
    shown = picture(record, tally, picked(record, tally)[0])
    assert len(shown.leaves) <= 40
    assert sum(len(view.node.rows) for view in shown.leaves.values()) == int(tally.counted[0].sum())
    assert len(list(Matrix(record, tally).rows(0))) <= 60


def test_many_findings_are_folded():
    b = encoder()
    b.findings = [Finding("race", ("a",), None, f"finding {k}") for k in range(500)]
    markup = html.fragment(b.record())
    assert "492 more findings" in markup
    assert len(markup) < 100_000


def test_modes_are_told():
    b = encoder()
    b.modes = [
        ModeResult("run", applicable=True, equality="reproduced", seconds=0.357),
        ModeResult(
            mode="variable", applicable=True, reason="Grappler saw <another> fetch set", equality="close",
            max_difference=1.2e-7, seconds=0.083, speedup=4.3, bytes_held=16_800_000,
        ),
        ModeResult("partial_run", applicable=False, reason="`idx` has 6 values"),
    ]  # fmt: skip
    page = Page(html.fragment(b.record()))
    assert [
        "variable",
        "83 ms",
        "4.30×",
        "16.8 MB",
        "close, within 1.2e-07: Grappler saw <another> fetch set",
    ] in page.rows
    assert ["partial_run", "not applicable: idx has 6 values"] in page.rows


names = st.text("ab/<>&\"'`{}_0", min_size=1, max_size=7)


@settings(max_examples=25, deadline=None)
@given(st.lists(names, min_size=1, max_size=14, unique=True), st.data())
def test_any_graph_gives_balanced_markup_and_counts_every_op(ops, data):
    b = Builder("any")
    cause = b.cause("first")
    for i, name in enumerate(ops):
        inputs = data.draw(st.lists(st.sampled_from(ops), max_size=2))  # cycles included
        b.op(name, data.draw(st.sampled_from(["Tanh", "Identity", "Mul"])), *(f"{n}:0" for n in inputs), line=i + 1)
    for _ in range(data.draw(st.integers(1, 3))):
        listed = data.draw(st.lists(st.sampled_from(ops), unique=True))
        states = {n: (data.draw(st.sampled_from("crsdmkuptnx")), 1e-3, 8, None, [cause]) for n in listed}
        b.call([ops[0]], [], states)
    record = b.record()
    page = Page(html.fragment(record))
    total = record.summary()
    assert f"{total['recomputed']:,} of {total['executed']:,} op executions recomputed" in page.text
    Page(svg.svg(record))
