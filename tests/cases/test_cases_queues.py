"""Cases on state that is no variable: queues, iterators, random streams, session handles, sparse and variant values."""

from __future__ import annotations

import re

FIRST = ("first", "")


def test_case_18_a_random_tensor_is_drawn_once_a_run_and_anew_in_each(seen):
    def without_numbers(text: str) -> str:  # unseeded: no two runs of the script print the same numbers
        return re.sub(r"-?\d+\.\d+(e-\d+)?", "...", text)

    case = seen("18", without_numbers)
    draw = "x/RandomStandardNormal"
    assert case.record.entry(0).fetches == ("x:0",)  # [x] * 4 asks for one tensor
    assert case.calls[0][draw].count == 1
    for call in range(1, 5):
        case.new(call, [draw, "x/mul", "x"], ("random", draw))


def test_case_20_a_seeded_stream_advances_with_every_execution_in_its_session(seen):
    case = seen("20")
    draw = "field/RandomStandardNormal"
    for call in range(1, 11):
        case.new(call, [draw, "field"], ("random", draw))
    shifts = case.findings("stream_shift")
    assert [f.ops for f in shifts] == [(draw,)] * 4  # one a session
    assert [f.call for f in shifts] == [1, 4, 7, 10]  # the first call that sees the stream advanced
    assert case.record.entry(6).fetches == ("mul:0",)  # another fetch set draws from the same stream


def test_case_21_initialisers_draw_and_a_copied_graph_restarts_the_stream(seen):
    case = seen("21")
    first = "y/Initializer/random_normal/RandomStandardNormal"
    initialised = case.of("y/Assign")
    assert len(initialised) == 7
    for call in initialised:
        case.new(call, [first], ("random", first))
        case.new(call, ["y/Assign"], ("effect", "y"))
    # Two graphs of equal ops: neither is a witness of the other, each has a stream of its own.
    drawn = case.of("r:0")
    assert len({case.record.entry(call).graph for call in drawn}) == 2
    for call in drawn:
        case.new(call, ["random_uniform/RandomUniform"], ("random", "random_uniform/RandomUniform"))
    assert [f.call for f in case.findings("stream_shift")] == [drawn[1], drawn[3]]


def test_case_37_a_queue_is_state_outside_variables(seen):
    case = seen("37")
    for call in (1, 2):
        case.new(call, ["fifo_queue_enqueue"], ("effect", "fifo_queue"))
    for call, writer in ((3, 2), (5, 4)):  # size with no feed: another value after each step of the queue
        case.new(call, ["fifo_queue_Size"], ("iterator", "fifo_queue"))
        assert case.calls[call]["fifo_queue_Size"].causes[0].call == writer
    for call in (4, 6):
        case.new(call, ["fifo_queue_Dequeue"], ("iterator", "fifo_queue_Dequeue"))
    case.new(6, ["mul"], ("iterator", "fifo_queue_Dequeue"))
    assert case.record.summary()["recomputed"] == 0  # nothing redundant
    blocked = case.record.entry(7)
    assert "Timed out" in blocked.failed
    assert {case.status(7, op) for op in ("fifo_queue_Dequeue", "mul")} == {"unknown"}
    # The dequeue that timed out may have taken something, so what follows is not known to be equal.
    (cause,) = case.calls[8]["fifo_queue_Size"].causes
    assert (cause.kind, cause.call, cause.may) == ("iterator", 7, True)


def test_case_38_an_iterators_end_is_a_result_and_a_new_start_is_no_repeat(seen):
    def without_count(text: str) -> str:  # how many orders twelve shuffles gave is chance
        return re.sub(r"gave \d+ orders", "gave some orders", text)

    case = seen("38", without_count)
    step = "IteratorGetNext"
    case.new(0, ["MakeIterator"], ("effect", "IteratorV2"))
    case.new(1, [step], ("iterator", step))
    for call in (2, 3):
        assert "End of sequence" in case.record.entry(call).failed
        assert case.status(call, "mul") == "not_reached"
    case.redundant(4, ["TensorSliceDataset", "BatchDatasetV2"], witness=0)
    case.new(5, [step, "mul"], ("iterator", step))  # equal value, but not by state
    shuffled = case.of("MakeIterator_1")
    assert len(shuffled) == 12
    for call in shuffled[1:]:
        assert case.status(call, "ShuffleDataset") == "computed"
        case.new(call + 1, ["IteratorGetNext_1", "mul_1"], ("iterator", "IteratorGetNext_1"))


def test_case_47_composites_stand_for_three_tensors(seen):
    case = seen("47")
    indices, values, shape = "Placeholder_1:0", "Placeholder:0", "PlaceholderWithDefault:0"
    assert case.record.entry(1).feeds == (indices, values, shape)
    assert case.record.entry(1).needs == ((values,),)  # doubling needs only the values; fed parts are passed through
    case.new(1, ["mul"], FIRST)
    case.redundant(2, ["mul"], witness=1)
    case.redundant(3, ["mul"], witness=2)
    case.new(3, ["AssignVariableOp"], ("effect", "iv"))
    case.new(3, ["AssignVariableOp_1"], ("effect", "vv"))
    unneeded = {(f.call, f.ops) for f in case.findings("unneeded_feed")}
    assert unneeded == {(1, (shape, indices)), (3, (shape,))}
    slices = case.record.entry(6)
    assert len(slices.fetches) == 3  # values, indices and dense shape of an IndexedSlices
    assert slices.feeds == ("Placeholder_2:0",)
    assert case.status(9, "SparseReduceSum") == "reused"
    refused = case.record.entry(10)
    assert (refused.kind, refused.failed is not None) == ("partial_run_setup", True)
    assert not case.ran(10)
    assert not case.findings("unfinished_handle")  # a set-up that was refused leaves nothing open


def test_case_48_what_holds_variants_runs_again_though_it_cannot_be_fetched(seen):
    case = seen("48")
    chain = ["TensorArrayV2", "TensorArrayV2Write/TensorListSetItem", "mul", "TensorArrayV2Write_1/TensorListSetItem"]
    for call in (1, 2):
        assert "not convertible to numpy" in case.record.entry(call).failed
    case.new(4, [*chain[1:], "TensorArrayV2Stack/TensorListStack"], FIRST)
    case.redundant(5, chain, witness=4)
    case.new(5, ["TensorArrayV2Read/TensorListGetItem"], FIRST)
    # In a partial run the variants stay inside: what the second piece fetches is there already.
    assert case.status(8, "TensorArrayV2Read/TensorListGetItem") == "reused"
    assert not case.ran(8)


def test_case_49_a_session_handle_keeps_a_value_against_later_writes(seen):
    case = seen("49")
    assert [call for call in range(7) if "heavy" in case.calls[call]] == [1, 5]
    handle = ("feed", "Placeholder:0")
    case.new(2, ["GetSessionTensor", "add"], FIRST)
    case.new(3, ["AssignVariableOp"], ("effect", "v"))
    case.redundant(4, ["GetSessionTensor", "add"], witness=2)  # v was written, the kept value was not
    case.new(5, ["heavy"], ("variable", "v"))
    assert "handle" in case.record.entry(6).failed
    assert case.status(6, "add") == "not_reached"
    assert case.causes(6, "GetSessionTensor") == [handle]
    assert [f.call for f in case.findings("graph_grew")] == [2, 3, 5]  # get_session_tensor adds ops
