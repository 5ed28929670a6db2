"""Recordings as JSON: the documented layout, nothing lost, small, and clear errors."""

import json
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from views_builder import Builder, encoder, hostile, large, loop, statuses

from cachelab import store
from cachelab.errors import CacheLabError, FormatError
from cachelab.model import (
    EVIDENCES,
    STATUSES,
    Call,
    CauseRow,
    Columns,
    Finding,
    GraphTable,
    Line,
    ModeResult,
    Record,
    Source,
)
from cachelab.packing import pack, pack_seconds, seconds, unpack

EXAMPLES = {
    "encoder": lambda: encoder().record(),
    "statuses": lambda: statuses().record(),
    "loop": lambda: loop(300).record(),
    "entries": lambda: loop(300, entries=True).record(),
    "hostile": lambda: hostile().record(),
    "nothing": lambda: Builder().record(),
}

names = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)


@st.composite
def records(draw):
    """Any record that the model allows, small."""
    rows = draw(st.integers(1, 6))
    lines = draw(st.lists(st.builds(Line, names, st.integers(1, 99), names), max_size=3))
    graph = GraphTable(
        id=0,
        name=tuple(f"{draw(names)}{row}" for row in range(rows)),
        type=tuple(draw(names) for _ in range(rows)),
        inputs=tuple(tuple(draw(st.lists(names.map(lambda n: f"{n}:0"), max_size=2))) for _ in range(rows)),
        control=tuple(tuple(draw(st.lists(names, max_size=2))) for _ in range(rows)),
        line=tuple(draw(st.integers(-1, len(lines) - 1)) for _ in range(rows)),
    )
    causes = draw(
        st.lists(
            st.builds(CauseRow, names, names, st.none() | st.integers(0, 3), names, st.booleans()),
            max_size=4,
            unique=True,
        )
    )
    shapes, devices = draw(st.lists(names, max_size=3)), draw(st.lists(names, max_size=2))

    def columns():
        size = draw(st.integers(0, rows))

        def each(strategy):
            return tuple(draw(strategy) for _ in range(size))

        return Columns(
            op=each(st.integers(0, rows - 1)),
            status="".join(each(st.sampled_from(list(STATUSES)))),
            evidence="".join(each(st.sampled_from(list(EVIDENCES)))),
            seconds=each(st.integers(0, 9999).map(lambda n: n / 1e6)),
            bytes=each(st.integers(0, 10**12)),
            count=each(st.integers(0, 5)),
            witness=each(st.none() | st.integers(1, 4)),
            cause=tuple(
                tuple(c) for c in each(st.lists(st.integers(0, len(causes) - 1), max_size=2) if causes else st.just([]))
            ),
            into=each(st.integers(-1, rows - 1)) if draw(st.booleans()) else (),
            shape=each(st.integers(-1, len(shapes) - 1)) if draw(st.booleans()) else (),
            start=each(st.sampled_from([-1.0, 0.0, 0.25])) if draw(st.booleans()) else (),
            device=each(st.integers(-1, len(devices) - 1)) if draw(st.booleans()) else (),
        )

    sets = [columns() for _ in range(draw(st.integers(1, 3)))]
    sources = draw(st.lists(st.builds(Source, names, names, st.just(0)), max_size=2))
    log, index = [], 0
    for _ in range(draw(st.integers(0, 4))):
        call = Call(
            index=index,
            kind=draw(st.sampled_from(["run", "callable"])),
            graph=0,
            session=draw(st.integers(0, 2)),
            thread=0,
            fetches=tuple(draw(st.lists(names, max_size=2))),
            feeds=tuple(draw(st.lists(names, max_size=2))),
            line=draw(st.integers(-1, len(lines) - 1)),
            start=draw(st.integers(0, 1000)) / 1e3,
            seconds=draw(st.integers(0, 9999)) / 1e6,
            columns=draw(st.integers(0, len(sets) - 1)),
            failed=draw(st.none() | names),
            repeat=draw(st.integers(1, 3)),
            versions=tuple((draw(st.integers(0, len(sources) - 1)), draw(names)) for _ in sources),
            needs=tuple(draw(st.lists(st.lists(names, max_size=2).map(tuple), max_size=2))),
            trace=draw(st.sampled_from(["full", "light", "off", "missing"])),
        )
        log.append(call)
        index += call.repeat
    return Record(
        name=draw(names),
        environment={"tensorflow": draw(names), "optimizers": draw(st.booleans())},
        lines=tuple(lines),
        graphs=(graph,),
        sources=tuple(sources),
        causes=tuple(causes),
        columns=tuple(sets),
        calls=tuple(log),
        findings=tuple(
            Finding(
                draw(names), tuple(draw(st.lists(names, max_size=2))), draw(st.none() | st.integers(0, 3)), draw(names)
            )
            for _ in range(draw(st.integers(0, 2)))
        ),
        modes=(ModeResult("run", applicable=True, equality="reproduced", seconds=0.5),) if draw(st.booleans()) else (),
        shapes=tuple(shapes),
        devices=tuple(devices),
        options={"trace": "auto"},
    )


def seen(record):
    """All that a reader of the record can see of its calls, executions included."""
    calls = [replace(call, columns=0) for call in record.calls]
    return calls, [list(record.executions(k)) for k in range(record.call_count)]


@pytest.mark.parametrize("packed", [False, True])
@settings(max_examples=35, deadline=None)
@given(record=records())
def test_round_trip_loses_nothing(packed, record):
    back = store.loads(store.dumps(record, packed=packed))
    assert seen(back) == seen(record)
    for part in ("name", "lines", "graphs", "sources", "findings", "modes", "shapes", "devices", "options"):
        assert getattr(back, part) == getattr(record, part)
    assert back.environment.items() >= record.environment.items()


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("example", EXAMPLES)
def test_examples_come_back(example, packed):
    record = EXAMPLES[example]()
    back = store.loads(store.dumps(record, packed=packed))
    assert back.summary()["recomputed"] == record.summary()["recomputed"]
    for index in {0, 1, record.call_count - 1} & set(range(record.call_count)):
        ours, theirs = list(back.executions(index)), list(record.executions(index))
        assert [(o.name, o.status, o.witness, o.causes, o.into) for o in ours] == [
            (o.name, o.status, o.witness, o.causes, o.into) for o in theirs
        ]
        assert [o.seconds for o in ours] == pytest.approx([o.seconds for o in theirs], rel=6e-4, abs=1e-9)


def test_layout_is_the_documented_one():
    data = json.loads(store.dumps(encoder().record()))
    assert data["format"] == "cachelab.recording"
    assert data["version"] == 1
    assert data["legend"]["status"]["r"] == "recomputed"
    graph = data["graphs"][0]
    row = graph["name"].index("enc/MatMul")
    assert graph["type"][row] == "MatMul"
    assert graph["inputs"][row] == ["x:0", "enc/MatMul/ReadVariableOp:0"]
    assert data["lines"][graph["line"][row]] == ["cell 2", 4, "enc/MatMul = ..."]
    call = data["calls"][3]
    columns = data["columns"][call["columns"]]
    at = columns["op"].index(row)
    assert (columns["status"][at], columns["evidence"][at]) == ("r", "m")
    # A witness and a cause's call are absolute in the file.
    assert columns["witness"][at] == 2
    cause = data["causes"][columns["cause"][at][0]]
    assert (cause["kind"], cause["call"], cause["may"]) == ("not_kept", 2, False)
    assert data["summary"]["recomputed"] == 21


def test_absolute_numbers_of_shared_columns_shift_with_the_call():
    data = store.to_json(loop(50).record())
    columns = data["columns"][data["calls"][1]["columns"]]
    assert columns["base"] == 1
    assert columns["witness"] == [None, 0, None]
    back = store.from_json(data)
    assert {op.name: op.witness for op in back.executions(40)} == {"x": None, "h": 39, "y": None}


def test_equal_columns_are_stored_once():
    record = loop(40, entries=True).record()
    doubled = replace(
        record,
        columns=record.columns * 2,
        calls=tuple(replace(c, columns=c.columns + 2 * (c.index % 2)) for c in record.calls),
    )
    data = store.to_json(doubled)
    assert len(data["columns"]) == 2
    assert seen(store.from_json(data)) == seen(record)


def test_55000_ops_in_20_calls_stay_small():
    record = large()
    text = store.dumps(record)
    assert len(text.encode()) < 2_000_000
    back = store.loads(text)
    assert back.graphs == record.graphs
    assert [c.status for c in back.columns] == [c.status for c in record.columns]
    assert back.columns[1].seconds == pytest.approx(record.columns[1].seconds, rel=6e-4, abs=1e-9)


def test_loop_of_10000_calls_is_one_entry():
    assert len(store.dumps(loop(10_000).record())) < 6_000


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.integers(-(10**15), 10**15), max_size=80)
    | st.lists(st.sampled_from(["a/b_1", "a/b_2", "c_03", "x/", "", "_7", "/_0", "a\n_1"]), max_size=80)
    | st.lists(st.none() | st.integers(0, 3), max_size=80)
    | st.lists(st.lists(st.integers(0, 5), max_size=3), max_size=60)
    | st.lists(names, max_size=60)
)
def test_packed_lists_come_back(values):
    assert unpack(json.loads(json.dumps(pack(values)))) == values


@settings(max_examples=100, deadline=None)
@given(st.lists(st.floats(0, 1e4), max_size=60))
def test_packed_seconds_come_back(values):
    assert unpack(json.loads(json.dumps(pack_seconds(values)))) == seconds(values)
    assert seconds(seconds(values)) == seconds(values)
    assert seconds(values) == pytest.approx(values, rel=5.1e-4, abs=0.51e-9)


def test_seconds_are_short_in_the_file():
    assert json.dumps(seconds([0.0, 1.23456789e-3, 41.87654e-6, 3e-9, 12.3456, -1.0])) == (
        "[0, 0.001235, 4.188e-05, 3e-09, 12.35, -1.0]"
    )


def test_unknown_packed_form_is_refused():
    with pytest.raises(ValueError, match="unknown form"):
        unpack({"zipped": "..."})


def test_save_and_load(tmp_path):
    record = encoder().record()
    store.save(record, tmp_path / "r.json")
    assert seen(store.load(tmp_path / "r.json"))[0] == seen(store.loads(store.dumps(record)))[0]


def test_other_formats_and_versions_get_a_clear_error(tmp_path):
    data = store.to_json(encoder().record())
    with pytest.raises(FormatError, match=r"version 99.*reads version 1"):
        store.from_json({**data, "version": 99})
    with pytest.raises(FormatError, match="format is 'other'"):
        store.from_json({**data, "format": "other"})
    with pytest.raises(FormatError, match="no recording"):
        store.loads("[1, 2]")
    with pytest.raises(FormatError, match="no JSON"):
        store.loads(store.dumps(encoder().record())[:-20])
    (tmp_path / "cut.json").write_text("{")
    with pytest.raises(FormatError, match=r"cut\.json.*no JSON"):
        store.load(tmp_path / "cut.json")
    (tmp_path / "binary.json").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(FormatError, match=r"binary\.json is no text"):
        store.load(tmp_path / "binary.json")
    with pytest.raises(FormatError, match=r"missing\.json can't be read: No such file"):
        store.load(tmp_path / "missing.json")


def broken(change):
    data = json.loads(store.dumps(encoder().record()))
    change(data)
    return data


@pytest.mark.parametrize(
    "change",
    [
        lambda d: d.pop("calls"),
        lambda d: d["columns"][0]["op"].append(0),
        lambda d: d["columns"][0]["op"].__setitem__(0, 10_000),
        lambda d: d["columns"][0].update(status="z" * len(d["columns"][0]["op"])),
        lambda d: d["columns"][0]["cause"].__setitem__(0, [999]),
        lambda d: d["columns"][0]["cause"].__setitem__(0, [-1]),
        lambda d: d["calls"][2].update(columns=77),
        lambda d: d["calls"][2].update(index=5),
        lambda d: d["calls"][2].update(graph=3),
        lambda d: d["calls"][2].update(versions=[[99, "v0"]]),
        lambda d: d["graphs"][0]["type"].pop(),
        lambda d: d["graphs"][0]["line"].__setitem__(0, 999),
        lambda d: d["columns"].__setitem__(0, None),
        lambda d: d.update(causes={"a": 1}),
        lambda d: d["calls"][0].update(repeat="many"),
        lambda d: d["graphs"][0].update(name={"runs": ["x", 10**12]}),
    ],
)
def test_broken_files_get_a_clear_error(change):
    with pytest.raises(FormatError, match="recording is broken"):
        store.from_json(broken(change))


def test_unwritable_path_gets_a_clear_error(tmp_path):
    with pytest.raises(CacheLabError, match=r"can't be written: No such file.*Name a file in a folder"):
        store.save(encoder().record(), tmp_path / "no" / "such" / "folder.json")
    with pytest.raises(CacheLabError, match="can't be written"):
        store.save(encoder().record(), tmp_path)
