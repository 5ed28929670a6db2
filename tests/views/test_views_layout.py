"""The layered layout: edges run forward, boxes don't overlap; the scope tree loses no op."""

from hypothesis import given, settings
from hypothesis import strategies as st

from cachelab.views.layout import Box, layered
from cachelab.views.scopes import tree, unfold

graphs = st.integers(1, 12).flatmap(
    lambda n: st.tuples(
        st.lists(st.tuples(st.integers(20, 200), st.integers(20, 90)), min_size=n, max_size=n),
        st.lists(st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)), max_size=24),
    )
)


@settings(max_examples=80, deadline=None)
@given(graphs, st.none() | st.integers(200, 600))
def test_boxes_do_not_overlap_and_edges_run_forward(graph, wrap):
    sizes, edges = graph
    boxes = [Box(key, width, height, height / 2) for key, (width, height) in enumerate(sizes)]
    layout = layered(boxes, edges, wrap=wrap)
    for a in boxes:
        assert a.x >= 0
        assert a.y >= 0
        assert a.x + a.width <= layout.width
        assert a.y + a.height <= layout.height + 1e-6
        for b in boxes[: a.key]:
            apart = a.x + a.width <= b.x or b.x + b.width <= a.x or a.y + a.height <= b.y or b.y + b.height <= a.y
            assert apart
    turned = layout.turned
    for a, b in edges:
        if a != b and (a, b) not in turned:
            assert boxes[a].layer < boxes[b].layer
    acyclic = {(a, b) for a, b in edges if a < b}
    assert layered([Box(k, 50, 30, 15) for k in range(len(sizes))], acyclic).turned == set()


def test_a_chain_lies_on_one_line():
    boxes = [Box(0, 80, 34, 17), Box(1, 80, 52, 35), Box(2, 80, 34, 17)]
    layered(boxes, [(0, 1), (1, 2)])
    assert len({box.y + box.anchor for box in boxes}) == 1
    assert [box.layer for box in boxes] == [0, 1, 2]


def test_wide_chains_go_on_in_a_band_below():
    boxes = [Box(k, 100, 30, 15) for k in range(10)]
    layout = layered(boxes, [(k, k + 1) for k in range(9)], wrap=500)
    assert layout.width <= 500
    assert len(layout.bands) == 3
    assert [box.band for box in boxes] == sorted(box.band for box in boxes)


names = st.lists(st.from_regex(r"([ab]/){0,3}[cd]_?[0-9]?", fullmatch=True), min_size=1, max_size=60, unique=True)


@settings(max_examples=50, deadline=None)
@given(names, st.integers(1, 30), st.integers(2, 8), st.data())
def test_unfolded_scopes_show_every_op_once(ops, most, cap, data):
    ways = [data.draw(st.sampled_from(["c", "r"])) for _ in ops]
    root = tree(ops, range(len(ops)))
    unfold(
        root,
        most,
        cap,
        type_of=lambda row: ops[row][-1],
        way_of=ways.__getitem__,
        weight=lambda node: float(sum(ways[row] == "r" for row in node.rows)),
        share=0.0,
    )
    visible = list(root.leaves())
    assert sorted(row for node in visible for row in node.rows) == list(range(len(ops)))
    for node in visible:
        if node.kind == "op":
            assert node.path == ops[node.rows[0]]
        if node.kind == "series":
            assert len({ways[row] for row in node.rows}) == 1


def test_series_and_same_shaped_scopes_are_grouped():
    ops = (
        [f"Identity_{k}" for k in range(196)]
        + [f"block{k}/{op}" for k in range(12) for op in ("Conv", "Relu")]
        + ["loss"]
    )
    root = tree(ops, range(len(ops)))
    unfold(
        root,
        40,
        16,
        type_of=lambda row: ops[row].rpartition("/")[2].split("_")[0],
        way_of=lambda _row: "c",
        weight=lambda _node: 0.0,
        share=0.05,
    )
    assert [node.label for node in root.shown] == ["Identity ×196", "block0", "block1 … block11 ×11", "loss"]


def test_very_deep_scopes_are_no_problem():
    ops = ["s/" * 3000 + "op", "other"]
    root = tree(ops, range(2))
    assert [node.kind for node in root.children] == ["op", "op"]
