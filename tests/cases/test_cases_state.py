"""Cases on state: variables of both kinds, optimisers, metrics, scatter, and reads that nothing orders."""

from __future__ import annotations

import re

FIRST = ("first", "")


def _without_sets(text: str) -> str:
    """Blank what a script prints of the sets of values that its races gave: which of them show up is chance."""
    return re.sub(r"\{[^{}]*\}", "{...}", text)


def test_case_23_a_loss_next_to_its_train_op_comes_before_the_step(seen):
    case = seen("23", _without_sets)
    step = "GradientDescent/update_w/ResourceApplyGradientDescent"
    together, after = case.of("Square:0", "GradientDescent"), case.of("Square:0")
    unordered = case.of("add:0", "GradientDescent")
    assert len(together) == len(after) == len(unordered) == 300
    for call in (*together[1:5], together[-1]):
        case.new(call, ["Square"], ("variable", "w"))
        assert case.calls[call]["Square"].causes[0].call == call - 1  # it sees the initialiser's write, not the step's
        case.new(call, [step], ("effect", "w"))
    for call in (after[0], after[7], after[-1]):
        case.new(call, ["Square"], ("variable", "w"))
        assert case.calls[call]["Square"].causes[0].call == call - 1  # the step's
    for call in (*unordered[1:5], unordered[-1]):  # a read of its own: either value is legal
        case.new(call, ["Read/ReadVariableOp", "add"], ("race", "w"))
    (race,) = case.findings("race")
    assert race.ops == ("Read/ReadVariableOp", step)
    assert race.call == unordered[0]


def test_case_24_a_ref_identity_sees_the_later_write_and_a_copy_does_not(seen):
    case = seen("24", _without_sets)
    ref, ref_copy, resource, copy = (list(range(first + 1, first + 100, 2)) for first in (0, 100, 200, 300))
    (race,) = case.findings("race")  # what is fetched shares the buffer with the write that follows
    assert race.ops == ("Identity", "AssignAdd")
    assert race.call == ref[0]
    for calls in (ref, ref_copy, resource, copy):
        for call in calls:
            assert not [name for name in case.ran(call) if case.status(call, name) == "recomputed" and name[:2] in "Id"]
    # The copy and the resource variable see what the session began with; the session is a new one each time.
    for call in ref_copy[1:]:
        case.new(call, ["add"], ("new_session", "Variable"))
    for calls, op in ((ref, "AssignAdd"), (ref_copy, "AssignAdd"), (copy, "AssignAddVariableOp")):
        for call in calls:
            case.new(call, [op], ("effect", "Variable"))


def test_case_26_a_metric_moves_with_each_update_and_is_redundant_without_one(seen):
    case = seen("26", _without_sets)
    value, update = "accuracy/value", ["accuracy/AssignAddVariableOp", "accuracy/AssignAddVariableOp_1"]
    total, count = ("variable", "accuracy/total"), ("variable", "accuracy/count")
    assert case.of(f"{value}:0") == [1, 3, 6]
    assert not case.calls[1].keys() & {"Placeholder", "Placeholder_1"}  # value does not depend on the feed at all
    case.new(1, [value], FIRST)
    case.new(3, [value], total, count)
    # Equal feed, yet each update changes state; only what comes before the writes is done again for nothing.
    case.new(4, update[:1], ("effect", "accuracy/total"))
    case.new(4, update[1:], ("effect", "accuracy/count"))
    case.redundant(4, ["Equal", "Cast", "accuracy/Sum"], witness=2)
    case.new(4, ["accuracy/update_op"], total, count)
    case.new(6, [value], total, count)  # between 3 and 6 there was an update
    both = case.of(f"{value}:0", "accuracy/update_op:0")
    assert len(both) == 200
    for call in both[1:4]:
        case.new(call, [value], ("race", "accuracy/total"), ("race", "accuracy/count"))
    assert {f.ops[1] for f in case.findings("race")} == set(update)


def test_case_30_reading_beside_a_write_is_a_race_and_reading_after_it_is_not(seen):
    case = seen("30", _without_sets)
    way1, together = case.of("Identity:0", "add:0"), case.of("Identity:0", "add:0", "ReadVariableOp_1:0")
    assert (len(way1), len(together)) == (4, 300)
    for call in way1:
        case.new(call, ["add"], ("variable", "st"))  # looks like a repeat of the update's own, but the state changed
        (cause,) = case.calls[call]["add"].causes
        assert cause.call == call - 1
    for call in way1[:-1]:
        case.redundant(call + 1, ["add"], witness=call)  # the next update adds one to the very same state
    for call in together[1:5]:
        case.new(call, ["Read/ReadVariableOp", "Identity"], ("race", "st"))
        case.new(call, ["add"], ("variable", "st"))  # the sum feeds the assignment, so it reads before it
        assert case.calls[call]["add"].causes[0].call == call - 1
    (race,) = case.findings("race")
    assert race.ops == ("Read/ReadVariableOp", "AssignVariableOp")


def test_case_51_sparse_writes_count_as_writes_of_the_whole_variable(seen):
    case = seen("51", _without_sets)
    row, scatter = "strided_slice", "ResourceScatterUpdate"
    case.new(1, [row], FIRST)
    case.new(2, [scatter], ("effect", "K"))
    case.new(3, [row], ("variable", "K"))  # fresh across runs
    assert case.calls[3][row].causes[0].call == 2
    together = case.of("ReadVariableOp:0", f"{row}:0")
    assert len(together) == 100
    for call in (*together[1:4], together[-1]):
        case.new(call, ["K/Read/ReadVariableOp", row], ("race", "K"))
    assert [f.ops for f in case.findings("race")] == [("K/Read/ReadVariableOp", scatter)]
    sliced = together[-1] + 1
    case.new(sliced, ["strided_slice_2/_assign"], ("effect", "K"))
    case.new(sliced + 1, ["K/Read/ReadVariableOp"], ("variable", "K"))
    assert case.calls[sliced + 1]["K/Read/ReadVariableOp"].causes[0].call == sliced
    case.redundant(sliced + 2, ["K/Read/ReadVariableOp"], witness=sliced + 1)


def test_case_64_a_ref_read_has_no_order_against_an_assign_that_may_replace_its_buffer(seen):
    case = seen("64", _without_sets)
    ref, resource = case.of("add:0")[:200], case.of("add:0")[200:]
    (race,) = case.findings("race")
    assert race.ops == ("Variable/read", "Assign")
    assert race.call == ref[0]
    for call in ref[1:4]:
        case.new(call, ["add"], ("race", "Variable"))
    for call in resource[1:4]:
        case.new(call, ["ReadVariableOp_1", "add"], ("variable", "Variable"))
        (cause,) = case.calls[call]["add"].causes
        assert cause.call == call  # always the value that this very call wrote
    tables = case.record.graphs
    assert tables[0].control[tables[0].index["Variable/read"]] == ()
    assert tables[1].control[tables[1].index["ReadVariableOp_1"]] == ("AssignVariableOp",)


def test_case_78_a_training_run_writes_slots_and_counters_whatever_the_loss(seen):
    case = seen("78")
    forward = ["mul", "sub", "Square", "Mean"]
    writes = {
        "Adam/update_w/ResourceApplyAdam": {"w", "w/Adam", "w/Adam_1"},
        "Adam/AssignVariableOp": {"beta1_power"},
        "Adam/AssignVariableOp_1": {"beta2_power"},
        "Adam": {"global_step"},
    }
    for loss, train in ((1, 2), (3, 4), (5, 6)):
        case.redundant(train, forward, witness=loss)  # the forward pass of the step equals the loss run before it
        for op, variables in writes.items():
            found = case.calls[train][op]
            assert found.status == "computed"
            assert [cause.kind for cause in found.causes] == ["effect"]
            assert set(re.findall(r"`([^`]+)`", found.causes[0].text)) >= variables
    for loss in (3, 5):
        case.new(loss, forward, ("variable", "w"))
    # Learning rate 0 leaves w as it is, but the run wrote it, its slots and the counters: it can't be left out.
    assert case.of("Adam") == [8]
    assert all(case.status(8, op) == "computed" for op in writes)
    before, after = (case.labels(call) for call in (7, 9))
    assert all(before[name] != after[name] for names in writes.values() for name in names)


def test_case_27_gradients_of_an_equal_batch_are_redundant_and_their_accumulation_is_not(seen):
    case = seen("27")
    gradient = ["fwd", "Square", "gradients/fwd_grad/MatMul_1"]
    for start in (1, 10):  # zero, three micro-batches (gradient, then accumulation), read, step
        case.new(start, ["acc/Assign"], ("effect", "acc"))
        for call in range(start + 2, start + 7):
            case.redundant(call, gradient, witness=call - 1)
        for call in (start + 2, start + 4, start + 6):
            case.new(call, ["AssignAddVariableOp"], ("effect", "acc"))
    case.new(11, gradient, ("variable", "w"))  # after the step the same batch has new gradients
    assert case.calls[11]["fwd"].causes[0].call == 9
