"""Cases on ``partial_run``: it runs ahead, it draws once, it may overlap other calls, and handles stay open."""

from __future__ import annotations

FIRST = ("first", "")


def test_case_02_two_runs_draw_twice_and_a_partial_run_once(seen):
    case = seen("02")
    python, noise, step = "s1", "noise/RandomStandardNormal", "IteratorGetNext"
    # Two runs: the Python function is opaque and runs in both, and so do the draw and the iterator's step.
    for op, kind, (one, two) in ((python, "opaque", (0, 1)), (noise, "random", (5, 6)), (step, "iterator", (10, 11))):
        for call in (one, two):
            case.new(call, [op], (kind, op))
    case.new(6, ["noise/mul", "mul"], ("random", noise))
    case.new(11, ["add_1"], ("iterator", step))
    case.redundant(11, ["mul_2"], witness=10)  # 0 * x does not depend on the iterator
    # Partial runs: one execution each, wherever its inputs are there first.
    executed = {op: [k for k in range(15) if op in case.ran(k) and "partial" in case.record.entry(k).kind]
                for op in (python, noise, step)}  # fmt: skip
    assert executed == {python: [3], noise: [7], step: [12]}
    for call, op in ((4, "add"), (9, "mul_1"), (14, "mul_3")):
        assert not case.ran(call)
        assert case.status(call, op) == "reused"


def test_case_08_a_set_up_runs_all_that_waits_for_no_feed(seen):
    case = seen("08")
    bump, python = "AssignAddVariableOp", "PyFunc"
    for setup in (1, 7):
        assert case.record.entry(setup).kind == "partial_run_setup"
        case.new(setup, [bump], ("effect", "v"))
        case.new(setup, [python], ("opaque", python))
        assert "add" in case.ran(setup)  # not asked for yet
        assert case.evidence(setup, bump) == "derived"  # TensorFlow gives no trace of a partial run
    assert case.ran(3) & {"mul", bump, python, "add"} == {"mul"}
    assert case.status(5, "add") == "reused"  # the value from before v := 100
    assert not case.ran(5)
    overlaps = case.findings("overlap")
    assert {f.ops for f in overlaps} == {("v",)}
    assert {f.call for f in overlaps} >= {2, 8}  # reads of v while a handle that writes it was open
    (left,) = case.findings("unfinished_handle")
    assert left.call == 7


def test_case_09_a_handle_keeps_the_weights_that_it_read_at_its_set_up(seen):
    case = seen("09")
    case.new(1, ["add"], FIRST)
    case.new(3, ["mul"], FIRST)
    (read,) = [op for op in case.calls[3] if case.calls[3][op].type == "ReadVariableOp"]
    assert case.status(3, read) == "computed"  # looks like a repeat of run 1, but v was written in between
    for call, op in ((5, "add"), (8, "mul")):
        assert case.status(call, op) == "computed"
        assert case.causes(call, op) == [("overlap", "v")]
    assert case.status(6, "add") == "reused"
    case.new(7, ["AssignAddVariableOp"], ("effect", "v"))
    assert {f.call for f in case.findings("overlap")} >= {5, 8}
    assert not case.findings("unfinished_handle")


def test_case_10_refusals_run_nothing_and_leave_handles_open(seen):
    case = seen("10", tries=20)  # a missing feed may be noticed after the value that does not need it was delivered
    refusals = {
        3: "already been fed",
        8: "already been fetched",
        13: "Must run 'setup'",
        17: "can't be computed",
        25: "was not specified",
        29: "was not specified",
        33: "'c'",
    }
    for call, text in refusals.items():
        assert text in case.record.entry(call).failed
        assert not case.ran(call)
    assert [k for k in range(35) if case.record.entry(k).failed and k not in refusals] == [30, 34]
    for call in (30, 34):  # the session was killed: every later run is cancelled
        assert case.record.entry(call).failed == "Run call was cancelled"
        assert case.status(call, "add") == "unknown"
    for call in (9, 14, 18, 21, 26):  # after the harmless refusals plain runs go on, on values seen before
        assert case.status(call, "add") == "recomputed"
    (left,) = case.findings("unfinished_handle")
    assert left.text.startswith("7 partial run(s)")  # all but the one that was finished


def test_case_11_an_interactive_session_fails_at_the_second_feed(seen):
    case = seen("11")
    assert [case.record.entry(k).failed is None for k in range(5)] == [True, True, True, True, False]
    assert case.ran(1) & {"add", "mul"} == {"add"}
    assert case.ran(2) & {"add", "mul"} == {"mul"}
    assert case.status(2, "add") == "reused"
    assert "not found" in case.record.entry(4).failed
    assert not case.ran(4)
    assert len({case.record.entry(k).session for k in range(5)}) == 2


def test_case_13_open_handles_are_counted_with_what_they_hold(seen):
    case = seen("13")
    setups = [k for k in range(case.record.call_count) if case.record.entry(k).kind == "partial_run_setup"]
    assert len(setups) == 50
    first_pieces = case.of("add:0", kind="partial_run")
    assert len(first_pieces) == 50
    for call in first_pieces:
        assert case.status(call, "add") == "computed"  # each handle has an x of its own
        assert "mul" not in case.calls[call]
    (finished,) = case.of("mul:0", kind="partial_run")
    assert case.status(finished, "add") == "reused"
    assert case.status(finished, "mul") == "computed"
    (left,) = case.findings("unfinished_handle")
    assert left.text.startswith("49 partial run(s)")
    assert left.call == setups[0]
    # A fresh run is unaffected. Handle 1 fed the same x, but it is still open: no completed call is a witness.
    (fresh,) = case.of("add:0")
    assert case.status(fresh, "add") == "computed"
