"""Cases on branches and loops, of both versions of control flow: what counts is what really ran."""

from __future__ import annotations

import re
from collections import Counter

FIRST = ("first", "")


def test_case_31_only_ops_built_inside_a_branch_are_conditional(seen):
    case = seen("31")
    outer = {"AssignAddVariableOp", "AssignAddVariableOp_1"}
    versions = (
        (1, "cond_1/then/AssignAddVariableOp", "cond_1/else/AssignAddVariableOp"),
        (6, "cond_1/AssignAddVariableOp", "cond_1/AssignAddVariableOp_1"),
    )
    for first, then, otherwise in versions:  # control flow version 2, then 1
        for call, taken, untaken in (
            (first, then, otherwise), (first + 1, then, otherwise), (first + 2, otherwise, then),
        ):  # fmt: skip
            assert outer | {taken} <= case.ran(call)  # both outer writes happen whatever the predicate
            assert case.status(call, untaken) == "untaken"
            assert case.evidence(call, untaken) == "measured"
        # alpha was written by both calls; delta never, as its branch was not taken: the read has no such cause.
        written = case.labels(first + 3)
        assert [written[name] for name in ("al", "be", "ga", "de")] == ["v4", "v4", "v3", "v2"]
    assert not case.findings("race")


def test_case_33_python_functions_outside_the_branches_run_for_both(seen):
    def any_order(text):
        """Sort the counters: the three functions run side by side, and the script prints who came first."""
        return re.sub(r"\{([^{}]*)\}", lambda match: "{" + ", ".join(sorted(match[1].split(", "))) + "}", text)

    case = seen("33", any_order)
    ran = {op.name: op.count for op in case.calls[0].values() if op.type == "PyFunc" and op.status == "computed"}
    assert ran == {"PyFunc": 1, "PyFunc_1": 1, "cond_1/then/PyFunc": 1}
    assert case.status(0, "cond_1/else/PyFunc") == "untaken"
    for op in ran:
        case.new(0, [op], ("opaque", op))


def test_case_34_a_loop_evaluates_what_lies_outside_once(seen):
    case = seen("34")
    outside, inside, python = (
        "outer_rnd/RandomStandardNormal", "while/body/random_normal/RandomStandardNormal", "while/body/PyFunc",
    )  # fmt: skip
    for call, trips in ((0, 4), (1, 2)):  # the trip count comes from the feed
        assert case.calls[call][outside].count == 1
        assert case.calls[call][inside].count == case.calls[call][python].count == trips
        assert case.calls[call]["while/cond/Less"].count == trips + 1
    for op, kind in ((outside, "random"), (inside, "random"), (python, "opaque")):
        case.new(1, [op], (kind, op))
    assert ("opaque", python) in case.causes(1, "while/body/concat_1")  # the loop's length hangs on Python code
    assert case.record.summary()["recomputed"] == 0  # a loop with such a body is never redundant
    assert case.record.graphs[0].index.keys() >= {"while", outside, inside}  # names of the body, under the loop's


def test_case_35_an_op_built_in_the_branch_runs_every_other_step(seen):
    case = seen("35")
    heavy, store = "cond/then/PyFunc", "cond/then/AssignVariableOp"
    for call in range(1, 7):
        if call % 2:
            case.new(call, [heavy], ("opaque", heavy))
            case.new(call, [store], ("effect", "store"))
            assert case.status(call, "cond/else/Read/ReadVariableOp") == "untaken"
        else:
            assert case.statuses(heavy, [call]) == case.statuses(store, [call]) == ["untaken"]
            # The value served on odd steps is the one that the even step before stored.
            assert case.status(call, "cond/else/Read/ReadVariableOp") == "computed"
    for call in (4, 6):
        case.new(call, ["cond/else/Read/ReadVariableOp"], ("variable", "store"))
        assert case.calls[call]["cond/else/Read/ReadVariableOp"].causes[0].call == call - 1
    assert case.record.summary()["recomputed"] == 0
    # One branch reads and the other writes: never in the same call, so nothing is undefined about it.
    assert not case.findings("race")


def test_case_40_an_iterator_in_a_loop_moves_with_each_trip(seen):
    case = seen("40")
    outside, inside = "IteratorGetNext", "while_1/body/IteratorGetNext"
    for call in (1, 2):
        assert case.calls[call][outside].count == 1
        assert case.calls[call]["while/body/add"].count == 3
    case.redundant(2, ["while/cond/Less", "while/body/add"], witness=1)  # counting to the same k
    case.new(2, [outside, "while/body/add_1"], ("iterator", outside))
    assert [case.calls[call][inside].count for call in (3, 4, 5)] == [3, 3, 1]
    for call in (4, 5):
        case.new(call, [inside], ("iterator", inside))
    case.new(4, ["while_1/body/add_1"], ("iterator", inside))
    case.new(5, ["while_1/body/add"], ("feed", "Placeholder:0"))


def test_case_69_a_vectorised_branch_of_version_1_fails_and_says_no_more_than_is_known(seen):
    case = seen("69", tries=40, wanted="does not have value")  # an error that now and then comes too late to be seen
    assert [case.record.entry(call).failed is None for call in range(4)] == [True, True, False, True]
    assert "does not have value" in case.record.entry(2).failed
    assert not case.ran(2)
    assert Counter(op.status for op in case.calls[2].values()).keys() <= {"fed", "unknown"}
    for call, untaken in ((1, "while/body/gradients/cond_grad/StatelessIf/then/gradients/mul_grad/Mul"),
                          (3, "while/gradients/cond/mul_grad/Mul")):  # fmt: skip
        assert case.status(call, untaken) == "untaken"  # the flag was False
    assert case.calls[1]["while/cond/Less"].count == case.calls[3]["while/Less"].count == 4  # three rows, one refusal
