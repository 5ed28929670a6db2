"""What a line cost, against a count over every single op execution."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from dataclasses import replace

import pytest
import views_builder as builder

from cachelab.views.call_rows import call_rows
from cachelab.views.line_marks import line_marks, made_here, told


def count_ops(record):
    """Return place -> figures of the ops made there: call by call, op by op, as the model hands them out."""
    found = defaultdict(lambda: {"calls": 0, "again": 0, "partly": 0, "seconds": 0.0, "redundant": 0.0, "guessed": 0})
    ops, ops_again, letters = defaultdict(set), defaultdict(set), defaultdict(Counter)
    for index in range(record.call_count):
        by_place = defaultdict(list)
        graph = record.entry(index).graph
        for one in record.executions(index):
            if one.line is not None and not one.bookkeeping:
                place = (one.line.file, one.line.number, one.line.text)
                by_place[place].append(one)
                ops[place].add((graph, one.name))
                letters[place][one.status] += 1
                if one.status == "recomputed":
                    ops_again[place].add((graph, one.name))
        for place, ones in by_place.items():
            ran = [one for one in ones if one.executed]
            again = [one for one in ran if one.status == "recomputed"]
            figures = found[place]
            if ran:
                figures["calls"] += 1
                figures["guessed"] += record.entry(index).trace != "full"
                figures["again"] += len(again) == len(ran)
                figures["partly"] += 0 < len(again) < len(ran)
                figures["seconds"] += sum(one.seconds for one in ran)
                figures["redundant"] += sum(one.seconds for one in again)
    return {
        place: {**figures, "ops": len(ops[place]), "ops again": len(ops_again[place]), "letters": dict(letters[place])}
        for place, figures in found.items()
    }


def count_runs(record):
    """Return place -> figures of the calls issued there."""
    found = defaultdict(Counter)
    for index in range(record.call_count):
        entry = record.entry(index)
        if entry.line < 0:
            continue
        line = record.lines[entry.line]
        sums = found[line.file, line.number, line.text]
        ran = [one for one in record.executions(index) if one.executed and not one.bookkeeping]
        again = [one for one in ran if one.status == "recomputed"]
        sums["calls"] += 1
        sums["failed"] += entry.failed is not None
        sums["ran"] += sum(max(one.count, 1) for one in ran)
        sums["recomputed"] += sum(max(one.count, 1) for one in again)
        sums["seconds"] += sum(one.seconds for one in ran)
        sums["redundant"] += sum(one.seconds for one in again)
        sums["wall"] += entry.seconds
    return found


def random_record(seed):
    """A record of random statuses, lines that several ops share, repeats, partial traces and failures."""
    rng = random.Random(seed)
    b = builder.Builder(f"random {seed}")
    kinds = ["MatMul", "Tanh", "Const", "ReadVariableOp"]
    for k in range(14):
        b.op(f"op{k}", rng.choice(kinds), *([f"op{rng.randrange(k)}"] if k else []))
    b.ops = [(*op[:4], rng.choice([-1, 0, 1, 2, 3, 4])) for op in b.ops]
    # Lines 1 and 4 are one place: two files under one name.
    b.lines = [builder.Line("cell 2", n, f"line {n}") for n in (1, 2, 3, 9)] + [builder.Line("cell 2", 2, "line 2")]
    causes = [b.cause("first", text="no earlier call ran it"), b.cause("not_kept", "", 1, "as in call {call}")]
    for _call in range(rng.randrange(1, 9)):
        states = {}
        for k in rng.sample(range(14), rng.randrange(1, 14)):
            letter = rng.choice("ccrrsmkptx")
            why = [causes[letter == "r"]] if letter in "cr" and rng.random() < 0.8 else []
            states[f"op{k}"] = (letter, rng.random() * 1e-2 if letter in "cr" else 0.0, 4, None, why)
        b.call(
            ["op1:0"], [], states, seconds=rng.random(), repeat=rng.choice([1, 1, 1, 3, 40]),
            line=rng.choice([-1, 0, 1, 4]), trace=rng.choice(["full", "full", "light"]),
            failed=rng.choice([None, None, "Boom"]),
        )  # fmt: skip
    return b.record()


RECORDS = {
    "encoder": lambda: builder.encoder().record(),
    "statuses": lambda: builder.statuses().record(),
    "loop": lambda: builder.loop(60).record(),
    "loop, entries": lambda: builder.loop(60, entries=True).record(),
    "hostile": lambda: builder.hostile().record(),
    **{f"random {seed}": (lambda seed=seed: random_record(seed)) for seed in range(40)},
}


@pytest.mark.parametrize("name", RECORDS)
def test_sums_of_ops_by_line_are_those_of_a_count_of_every_execution(name):
    record = RECORDS[name]()
    wanted = count_ops(record)
    found = {(m.file, m.number, m.text): m.ops for m in line_marks(record) if m.ops is not None}
    assert set(found) == set(wanted)
    names = builder_letters()
    for place, sums in found.items():
        expected = wanted[place]
        assert (sums.calls, sums.again, sums.partly) == (expected["calls"], expected["again"], expected["partly"])
        assert (sums.ops, sums.ops_again, sums.estimated_calls) == (
            expected["ops"], expected["ops again"], expected["guessed"],
        )  # fmt: skip
        assert sums.seconds == pytest.approx(expected["seconds"])
        assert sums.redundant_seconds == pytest.approx(expected["redundant"])
        assert {names[letter]: n for letter, n in sums.letters.items()} == expected["letters"]
        executed = expected["letters"].get("computed", 0) + expected["letters"].get("recomputed", 0)
        assert sum(why.ran for why in sums.whys.values()) == executed
        assert sum(why.seconds for why in sums.whys.values()) == pytest.approx(expected["seconds"])


def builder_letters():
    from cachelab.model import STATUSES

    return STATUSES


@pytest.mark.parametrize("name", RECORDS)
def test_sums_of_calls_by_line_are_those_of_a_count_of_every_call(name):
    record = RECORDS[name]()
    wanted = count_runs(record)
    found = {(m.file, m.number, m.text): m.runs for m in line_marks(record) if m.runs is not None}
    assert set(found) == set(wanted)
    for place, sums in found.items():
        expected = wanted[place]
        for figure in ("calls", "failed", "ran", "recomputed"):
            assert getattr(sums, figure) == expected[figure], figure
        assert sums.seconds == pytest.approx(expected["seconds"])
        assert sums.redundant_seconds == pytest.approx(expected["redundant"])
        assert sums.wall_seconds == pytest.approx(expected["wall"])


def at_line(record, number):
    return next(mark for mark in line_marks(record) if mark.number == number)


def test_a_mark_says_times_causes_and_calls():
    record = builder.encoder().record()
    assert told(at_line(record, 6)) == [
        "6 × 9.2 ms of op time, 5 of 6 recomputed (1 op made here)",
        "`enc/Tanh` recomputed in call 3: ran on the same inputs in call 2; a value lives for one call only.",
        "`enc/Tanh` computed in call 0: no earlier call ran this op.",
    ]
    assert told(at_line(record, 7))[0] == "6 × 311 µs of op time, none recomputed (1 op made here)"
    calls = tuple(replace(call, line=0) for call in record.calls)
    runs = at_line(replace(record, calls=calls), 1)
    assert runs.letter == "r"
    summary = record.summary()
    share = round(100 * summary["redundant_share_of_op_seconds"])
    assert told(runs)[-1].startswith(f"6 calls from here: {share} % of ")


def test_a_mark_of_ops_that_never_ran_says_what_became_of_them():
    b = builder.Builder()
    b.op("a", "Tanh", line=3)
    b.call(["a:0"], [], {"a": ("k",)})
    (mark,) = line_marks(b.record())
    assert mark.letter == "k"
    assert told(mark) == ["1 op made here, run in no call (K folded: constant before the run)"]


def test_the_letter_is_the_status_that_matters_most():
    record = builder.statuses().record()
    letters = {
        mark.text.split("/")[-1].split(" ")[0]: mark.letter for mark in line_marks(record) if mark.ops is not None
    }
    assert letters["again"] == "r"
    assert letters["served"] == "s"
    assert letters["conv"] == "c"


def test_cells_count_the_ops_made_in_them():
    marks = line_marks(builder.encoder().record())
    assert made_here(marks) == (19, 5)


def test_rows_of_calls_hold_the_figures_of_each_call():
    record = builder.encoder().record()
    rows = call_rows(record)
    assert [row["label"] for row in rows] == list("012345")
    for row in rows:
        ran = [one for one in record.executions(row["first"]) if one.executed and not one.bookkeeping]
        assert row["seconds"] == pytest.approx(sum(one.seconds for one in ran))
        assert row["redundant"] == pytest.approx(sum(one.seconds for one in ran if one.status == "recomputed"))


def test_rows_of_long_loops_are_few_and_say_what_they_leave_out():
    rows = call_rows(builder.loop(10_000).record())
    assert [(row["label"], row["calls"]) for row in rows] == [("0", 1), ("1–9999", 9999)]
    assert len(call_rows(builder.large(vary=True, calls=40, rows=50))) == 12
