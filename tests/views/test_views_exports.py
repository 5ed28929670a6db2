"""DOT, plots, files by ending, the MIME bundle, and diffs."""

import csv
import io
import json
import re
import subprocess
import sys
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import graphviz
import pytest
from matplotlib.figure import Figure
from views_builder import Builder, encoder, hostile, large, loop, statuses

from cachelab import store
from cachelab.errors import CacheLabError, OptionError
from cachelab.model import Finding
from cachelab.views import html, mime, page, plots, trace
from cachelab.views.diff import diff
from cachelab.views.dot import digraph
from cachelab.views.export import export

ROOT = Path(__file__).parents[2]


def test_views_need_no_tensorflow_and_no_pyplot():
    code = (
        "import sys; sys.path[:0] = ['tests/views']\n"
        "from views_builder import encoder\n"
        "from cachelab.views import diff, dot, export, mime, plots, text, why\n"
        "r = encoder().record()\n"
        "mime.mimebundle(r); plots.plot_matrix(r); plots.plot_timeline(r); dot.digraph(r); diff.diff(r, r)\n"
        "why.why(r, 'enc/Tanh')\n"
        "print(sorted({'tensorflow', 'matplotlib.pyplot', 'IPython'} & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_digraph_is_whole_when_small():
    graph = digraph(encoder().record(), call=2)
    assert isinstance(graph, graphviz.Digraph)
    assert graph.source.count("subgraph cluster_") == 6
    assert '[label="Tanh\nrecomputed, 9.1 ms" color="#c94f00"' in graph.source
    assert 'label="idx\nfeed"' in graph.source
    assert 'label="≠"' in graph.source


def test_digraph_is_collapsed_when_large():
    source = digraph(large()).source
    assert len(source) < 10_000
    assert "block1 … block19 ×19" in source


def test_digraph_quotes_hostile_names():
    source = digraph(hostile().record(), call=1).source
    assert "a\\\"b'c&d" in source
    assert "\n<script>" not in source


def test_digraph_of_nothing_and_of_a_missing_call():
    assert "Nothing was recorded." in digraph(Builder().record()).source
    with pytest.raises(IndexError):
        digraph(encoder().record(), call=6)


def test_timeline_draws_the_ops_of_a_call():
    ax = plots.plot_timeline(encoder().record(), call=1)
    assert [label.get_text() for label in ax.get_yticklabels()][:3] == ["enc/MatMul", "enc/BiasAdd", "enc/Tanh"]
    assert ax.get_xlabel() == "ms (starts not measured: one after the other)"
    widths = sorted((patch.get_width() for patch in ax.patches), reverse=True)
    assert widths[:3] == pytest.approx([42.1, 9.2, 4.3])
    assert ax._repr_png_().startswith(b"\x89PNG")
    assert ax.figure._repr_png_().startswith(b"\x89PNG")


def test_timeline_uses_measured_starts():
    b = encoder()
    b.columns = [replace(c, start=tuple(0.001 * i for i in range(len(c.op)))) for c in b.columns]
    ax = plots.plot_timeline(b.record(), call=1)
    assert ax.get_xlabel() == "ms"
    table, columns = b.record().graphs[0], b.columns[b.calls[1].columns]
    at = columns.op.index(table.index["enc/MatMul"])
    assert min(patch.get_x() for patch in ax.patches) == pytest.approx(at)


def test_plots_draw_on_the_users_axes():
    figure = Figure()
    ax = figure.add_subplot()
    assert plots.plot_matrix(encoder().record(), ax) is ax
    assert [text.get_text() for text in ax.texts][:6] == ["C", "R", "R", "R", "R", "R"]
    assert plots.plot_timeline(encoder().record(), 2, ax=figure.add_subplot()) is not ax


def test_plots_of_odd_records():
    assert "Nothing was recorded." in plots.plot_timeline(Builder().record()).get_title(loc="left")
    plots.plot_matrix(Builder().record())._repr_png_()
    plots.plot_matrix(hostile().record())._repr_png_()
    plots.plot_timeline(hostile().record())._repr_png_()
    plots.plot_matrix(statuses().record())._repr_png_()
    with pytest.raises(OptionError, match="no call 6"):
        plots.plot_timeline(encoder().record(), call=6)


@pytest.mark.parametrize("ending", [".html", ".json", ".svg", ".dot", ".csv", ".trace.json", ".txt"])
@pytest.mark.parametrize("make", [encoder, statuses, hostile, Builder, loop])
def test_every_ending_writes_a_file(make, ending, tmp_path):
    record = make().record()
    export(record, tmp_path / f"out{ending}")
    assert (tmp_path / f"out{ending}").stat().st_size > 50


def test_csv_has_a_row_per_entry_and_op(tmp_path):
    record = loop(1000).record()
    export(record, tmp_path / "out.CSV")
    rows = list(csv.DictReader(io.StringIO((tmp_path / "out.CSV").read_text())))
    assert [(row["call"], row["repeat"], row["op"], row["status"]) for row in rows] == [
        ("0", "1", "x", "fed"), ("0", "1", "h", "computed"), ("0", "1", "y", "computed"),
        ("1", "999", "x", "fed"), ("1", "999", "h", "recomputed"), ("1", "999", "y", "computed"),
    ]  # fmt: skip
    assert rows[4]["witness"] == "0"
    assert (rows[1]["file"], rows[1]["line"]) == ("cell 2", "3")


def test_json_export_is_loaded_again(tmp_path):
    export(encoder().record(), tmp_path / "out.json")
    assert store.load(tmp_path / "out.json").summary()["recomputed"] == 21


def test_trace_events_open_in_perfetto():
    b = encoder()
    b.columns = [replace(c, start=tuple(0.0005 * i for i in range(len(c.op)))) for c in b.columns]
    data = json.loads(trace.trace_events(b.record()))
    slices = [event for event in data["traceEvents"] if event["ph"] == "X"]
    assert sum(event["name"] == "enc/MatMul" for event in slices) == 6
    first = next(event for event in slices if event["name"] == "enc/MatMul")
    assert first["dur"] == pytest.approx(42.1e3 * 1.05)
    assert first["args"]["status"] == "computed"
    lanes = {}
    for event in slices:
        lanes.setdefault((event["pid"], event["tid"]), []).append((event["ts"], event["ts"] + event["dur"]))
    for spans in lanes.values():
        spans.sort()
        assert all(before[1] <= after[0] + 0.01 for before, after in pairwise(spans))
    named = {event["tid"] for event in data["traceEvents"] if event["name"] == "thread_name"}
    assert {event["tid"] for event in slices} <= named


def test_unknown_ending_and_unwritable_path(tmp_path):
    with pytest.raises(OptionError, match=r"out\.pdf names no form.*\.trace\.json, \.html"):
        export(encoder().record(), tmp_path / "out.pdf")
    with pytest.raises(CacheLabError, match="can't be written"):
        export(encoder().record(), tmp_path / "no" / "out.html")


def test_mimebundle_has_all_forms():
    bundle = mime.mimebundle(encoder().record())
    assert set(bundle) == {mime.MIME_TYPE, "text/html", "text/plain"}
    assert store.from_json(json.loads(json.dumps(bundle[mime.MIME_TYPE]))).call_count == 6
    assert bundle["text/html"].startswith('<section class="cachelab-record"')
    assert "21 recomputed" in bundle["text/plain"]


def test_diff_tells_what_changed():
    before = encoder()
    after = encoder()
    after.name = "with a cache"
    first, columns = after.columns[0], after.columns
    after.columns = [first] + [replace(c, status=c.status.replace("r", "s")) for c in columns[1:]]
    after.findings = [Finding("stale", ("enc/Tanh",), 2, "`enc/Tanh` is stale")]
    after.op("cache", "Tanh")
    after.call(["cache:0"], [], {"cache": ("c", 1e-3)})
    found = diff(before.record(), after.record())
    assert found.redundant_seconds == pytest.approx(-0.27661, rel=1e-3)
    assert found.headline == "Redundant op time went from 277 ms to 0 ms (21 to 0 recomputed op executions)."
    change = next(change for change in found.changes if change.name == "enc/Tanh")
    assert (change.before, change.after) == ({"c": 1, "r": 5}, {"c": 1, "s": 5})
    assert found.changes[0].name == "enc/MatMul"
    assert (found.new, found.gone) == (("cache",), ())
    assert [f.kind for f in found.findings_gone] == ["unneeded_feed", "value_through_python"]
    assert [f.kind for f in found.findings_new] == ["stale"]
    assert "enc/Tanh: 5 recomputed, 1 computed → 5 reused, 1 computed, 46 ms → 0 ms" in found.text
    assert "redundant share" in found.html


def test_diff_of_equal_and_hostile_records():
    record = hostile().record()
    found = diff(record, record)
    assert (found.changes, found.new, found.gone, found.redundant_seconds) == ((), (), (), 0)
    assert "<img" not in found.html
    assert diff(Builder().record(), Builder().record()).headline == "Neither recording has redundant op time."


def test_page_shows_its_record_to_readers_without_script():
    record = hostile().record()
    text = page.page(record)
    static = text[: text.index("<script")]
    assert html.fragment(record) in static
    assert "<script" not in static
    assert '<details id="record" open>' in static
    assert re.findall(r"<script[^>]*>", text) == [
        '<script type="application/json" id="catalogue">', '<script type="text/plain" id="recording">',
        '<script type="text/plain" id="bundle">', '<script type="module">',
    ]  # fmt: skip
    assert not re.findall(r'(?:src|href)="', text)
    assert len(page.page(large())) < 1_000_000
