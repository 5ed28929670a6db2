"""Which line of which cell carries a mark, and what front ends are sent."""

from __future__ import annotations

import json

import pytest

from cachelab import cell_marks as module
from cachelab.cell_marks import CellBook, Recorded, cell_marks, marks_of, place
from cachelab.material import Material, ValueStore
from cachelab.model import Call, Columns, GraphTable, Line, Record
from cachelab.panel_marks import MarksFeed
from cachelab.recording import Recording
from cachelab.session_state import recordings


def record(name, *lines, run=None, letters="cr"):
    """Two calls, one op for each line (file, number, text), recomputed in the second by default; called at ``run``."""
    places = [Line(*line) for line in (*lines, *([run] if run else []))]
    rows = tuple(range(len(lines)))
    graph = GraphTable(
        0, tuple(f"{name}/{r}" for r in rows), ("Tanh",) * len(rows), ((),) * len(rows), ((),) * len(rows), rows
    )
    sets = [
        Columns(rows, letter * len(rows), "m" * len(rows), (0.25,) * len(rows), (4,) * len(rows), (1,) * len(rows),
                (None,) * len(rows), ((),) * len(rows))
        for letter in letters
    ]  # fmt: skip
    calls = [Call(k, "run", 0, 0, 0, (), (), len(rows) if run else -1, float(k), 0.5, k) for k in range(2)]
    return Record(name, {}, tuple(places), (graph,), (), (), tuple(sets), tuple(calls))


def recorded(book, made, number=0):
    """Return a recording that ended in execution ``number``."""
    return Recorded(made.name, book.origin(number, made), marks_of(made))


def lines_of(found):
    return {cell["id"]: [(mark["line"], mark["name"]) for mark in cell["marks"]] for cell in found}


@pytest.mark.parametrize(
    ("number", "text", "source", "expected"),
    [
        (2, "b = 2", "a = 1\nb = 2", 2),
        (1, "a = 1", "\n  \na = 1", 3),
        (2, "b = 2", "\na = 1\n    b = 2", 3),
        (2, "b = 2", "a = 1\nb = 3", None),
        (1, "b = 2", "%%capture\nb = 2", 2),
        (2, "c = 3", "!ls \\\n  -l\nb = 2\nc = 3\nc = 3", 4),
        (2, "get_ipython().run_line_magic('time', 'b = 2')", "a = 1\n%time b = 2", 2),
        (1, "b = get_ipython().run_line_magic('time', 'f()')", "b = %time f()", 1),
        (1, "get_ipython().run_cell_magic('time', '', 'f()')", "a = 1", None),
        (1, "get_ipython().run_cell_magic('time', '', 'f()')", "%%capture\nf()", None),
        (1, "", "a = 1", None),
        (9, "a = 1", "", None),
    ],
)
def test_a_line_is_found_by_its_number_and_text(number, text, source, expected):
    assert place(number, text, source) == expected


def test_ops_are_marked_where_they_were_made_and_calls_where_they_were_issued():
    book = CellBook()
    book.note(1, "build", "import tf\nh = tanh(x)")
    book.note(2, "run", "%%cachelab\nrun(h)")
    found, left_out = cell_marks(
        book, [recorded(book, record("cell 2", ("cell 1", 2, "h = tanh(x)"), run=("cell 2", 2, "run(h)")), 2)]
    )
    assert left_out == 0
    assert lines_of(found) == {"run": [(2, "cell 2")], "build": [(2, "cell 2")]}
    by_id = {cell["id"]: cell for cell in found}
    assert by_id["build"]["source"] == "import tf\nh = tanh(x)"
    assert (by_id["build"]["made"], by_id["build"]["again"]) == (1, 1)
    (mark,) = by_id["build"]["marks"]
    assert (mark["letter"], mark["seconds"], mark["redundant"], mark["rerun"]) == ("r", 0.5, 0.25, False)
    assert mark["said"][0] == "2 × 250 ms of op time, 1 of 2 recomputed (1 op made here)"
    assert by_id["run"]["marks"][0]["said"] == ["2 calls from here: 50 % of 500 ms op time recomputed, 1.00 s wall"]


def test_each_line_tells_of_the_latest_recording_with_it():
    book = CellBook()
    book.note(1, "build", "a = 1\nb = 2")
    old = recorded(book, record("cell 2", ("cell 1", 1, "a = 1"), ("cell 1", 2, "b = 2")), 2)
    new = recorded(book, record("cell 3", ("cell 1", 2, "b = 2")), 3)
    found, _left = cell_marks(book, [new, old])
    assert lines_of(found) == {"build": [(1, "cell 2"), (2, "cell 3")]}


def test_a_line_that_made_ops_tells_of_the_recording_that_recomputed_most_of_them():
    book = CellBook()
    book.note(1, "build", "a = 1\nb = 2")
    lines = (("cell 1", 1, "a = 1"), ("cell 1", 2, "b = 2"))
    book.note(2, "run", "run()")
    most = recorded(book, record("cell 2", *lines), 2)
    book.note(3, "other", "other()")
    none = recorded(book, record("cell 3", *lines, letters="cc"), 3)
    found, _left = cell_marks(book, [none, most])
    assert lines_of(found) == {"build": [(1, "cell 2"), (2, "cell 2")]}
    assert [(cell["made"], cell["again"]) for cell in found] == [(2, 2)]
    # As much in both: the latest. The cell ran again: what came before tells of other ops.
    same = recorded(book, record("cell 4", *lines), 4)
    assert lines_of(cell_marks(book, [same, none, most])[0]) == {"build": [(1, "cell 4"), (2, "cell 4")]}
    book.note(5, "build", "a = 1\nb = 2")
    fresh = recorded(book, record("cell 6", ("cell 5", 1, "a = 1"), letters="cc"), 6)
    assert lines_of(cell_marks(book, [fresh, most])[0]) == {"build": [(1, "cell 6"), (2, "cell 2")]}


def test_a_line_that_issued_calls_tells_of_the_latest_ones():
    book = CellBook()
    book.note(1, "run", "h = run(tanh(x))")
    line = ("cell 1", 1, "h = run(tanh(x))")
    most = recorded(book, record("cell 1", line, run=line), 1)
    none = recorded(book, record("other", line, run=line, letters="cc"), 1)
    assert lines_of(cell_marks(book, [none, most])[0]) == {"run": [(1, "other")]}


def test_a_cell_that_ran_again_since_says_so_and_its_new_text_wins():
    book = CellBook()
    book.note(1, "build", "a = 1")
    one = recorded(book, record("cell 2", ("cell 1", 1, "a = 1")), 2)
    book.note(2, "run", "run()")
    assert [m["rerun"] for cell in cell_marks(book, [one])[0] for m in cell["marks"]] == [False]
    book.note(3, "build", "a = 1\nb = 2")
    found, _left = cell_marks(book, [one])
    assert [(cell["source"], [m["rerun"] for m in cell["marks"]]) for cell in found] == [("a = 1", [True])]
    book.note(4, "run", "run()")
    two = recorded(book, record("cell 4", ("cell 3", 2, "b = 2")), 4)
    found, _left = cell_marks(book, [two, one])
    assert [(cell["source"], lines_of([cell])) for cell in found] == [("a = 1\nb = 2", {"build": [(2, "cell 4")]})]


def test_cells_of_equal_text_share_marks_and_say_so_but_calls_belong_to_the_cell_that_ran():
    book = CellBook()
    book.note(1, "a", "h = tanh(x)\nrun(h)")
    book.note(2, "b", "h = tanh(x)\nrun(h)")
    # IPython knows both executions by their text, under the number of the later one.
    one = recorded(book, record("cell 1", ("cell 2", 1, "h = tanh(x)"), run=("cell 2", 2, "run(h)")), 1)
    found, _left = cell_marks(book, [one])
    assert lines_of(found) == {"a": [(1, "cell 1"), (2, "cell 1")], "b": [(1, "cell 1")]}
    assert {cell["shared"] for cell in found} == {1}


def test_consoles_files_and_texts_that_do_not_agree_are_not_marked():
    book = CellBook()
    book.note(1, "", "a = 1")
    book.note(2, "cell", "b = 2")
    one = recorded(
        book,
        record("x", ("cell 1", 1, "a = 1"), ("model.py", 1, "b = 2"), ("cell 2", 1, "other"), ("cell 9", 1, "b = 2")),
    )
    assert cell_marks(book, [one]) == ([], 0)


def test_a_cell_from_before_cachelab_was_loaded_is_known_by_its_number():
    book = CellBook(lambda number: {1: "a = 1"}.get(number, ""))
    found, _left = cell_marks(book, [recorded(book, record("x", ("cell 1", 1, "a = 1"), ("cell 2", 1, "a = 1")))])
    assert lines_of(found) == {"?1": [(1, "x")]}


def test_messages_are_bounded_and_say_what_is_left_out(monkeypatch):
    book = CellBook()
    texts = {k: "\n".join(f"v{i} = {k}" for i in range(400)) for k in range(1, 60)}
    for k, text in texts.items():
        book.note(k, f"id{k}", text)
    book.note(60, "huge", "a = 1" + "#" * module.MOST_SOURCE)
    lines = [(f"cell {k}", i + 1, f"v{i} = {k}") for k in texts for i in range(400)]
    found, left_out = cell_marks(
        book, [recorded(book, record("x", *lines, ("cell 60", 1, book.of("cell 60")[0].text)))]
    )
    assert len(json.dumps(found)) < module.MOST_BYTES + 2 * len(found) + 2
    assert left_out == 60 - len(found) > 0
    assert found[0]["id"] == "id59", "what ran last is kept"
    assert all(len(cell["marks"]) == module.MOST_LINES for cell in found)


def test_old_executions_are_forgotten(monkeypatch):
    monkeypatch.setattr(module, "MOST_EXECUTIONS", 3)
    book = CellBook()
    for k in range(1, 6):
        book.note(k, f"id{k}", f"a = {k}")
    assert [bool(book.of(f"cell {k}")) for k in range(1, 6)] == [False, False, True, True, True]
    assert set(book.latest) == {"id3", "id4", "id5"}


def test_code_that_runs_inside_of_a_cell_may_have_the_number_of_the_next():
    book = CellBook()
    book.note(5, "outer", "%%capture\nb = 2")
    book.note_inside(6, 5)
    one = recorded(book, record("cell 5", ("cell 6", 1, "b = 2")), 5)
    book.note(6, "next", "a = 1\nb = 2")
    assert lines_of(cell_marks(book, [one])[0]) == {"outer": [(2, "cell 5")]}
    two = recorded(book, record("cell 6", ("cell 6", 2, "b = 2")), 6)
    # Both cells have such a line under this number: which one it was can't be told any more.
    assert lines_of(cell_marks(book, [two, one])[0]) == {"outer": [(2, "cell 5")]}
    three = recorded(book, record("cell 6", ("cell 6", 1, "a = 1")), 6)
    assert lines_of(cell_marks(book, [three, one])[0]) == {"next": [(1, "cell 6")], "outer": [(2, "cell 5")]}


class Ended(Recording):
    """A recording of this session that has ended."""

    @property
    def material(self):
        return Material(ValueStore(0))


class Comm:
    def __init__(self):
        self.comm_id, self.sent = "one", []

    def send(self, message):
        self.sent.append(json.loads(json.dumps(message)))


@pytest.fixture
def feed():
    book, origins = CellBook(), {}
    recordings.open = True
    recordings.clear()
    feed = MarksFeed(book, origins)
    feed.book, feed.origins = book, origins
    yield feed
    recordings.clear()
    recordings.open = False


def test_a_front_end_gets_all_marks_once_and_then_the_cells_that_changed(feed):
    feed.book.note(1, "a", "a = 1")
    feed.book.note(2, "b", "b = 2")
    recordings.add(Ended(record=record("one", ("cell 1", 1, "a = 1"))))
    feed.origins["one"] = feed.book.origin(1, recordings.find("one").record)
    comm = Comm()
    feed.subscribe(comm)
    assert [(m["all"], lines_of(m["cells"])) for m in comm.sent] == [(True, {"a": [(1, "one")]})]
    feed.send_changes()
    assert len(comm.sent) == 1, "nothing changed"
    recordings.add(Ended(record=record("two", ("cell 2", 1, "b = 2"))))
    feed.origins["two"] = feed.book.origin(2, recordings.find("two").record)
    feed.send_changes()
    assert [(m["all"], lines_of(m["cells"]), m["gone"]) for m in comm.sent[1:]] == [(False, {"b": [(1, "two")]}, [])]
    recordings.clear()
    feed.send_changes()
    assert comm.sent[2]["gone"] == ["a", "b"]
    feed.leave(comm)
    recordings.add(Ended(record=record("three", ("cell 2", 1, "b = 2"))))
    feed.send_changes()
    assert len(comm.sent) == 3


def test_a_recording_of_a_file_marks_nothing(feed):
    feed.book.note(1, "a", "a = 1")
    recordings.add(Recording(record=record("one", ("cell 1", 1, "a = 1"))))
    comm = Comm()
    feed.subscribe(comm)
    assert comm.sent[0]["cells"] == []
