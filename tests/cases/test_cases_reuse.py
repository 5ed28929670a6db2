"""Cases on work done again on the same values, and on work that only looks so. Numbers are those of the scripts."""

from __future__ import annotations

import re

FIRST = ("first", "")


def test_case_01_encoder_is_redundant_while_only_the_head_is_trained(seen):
    case = seen("01")
    encoder = ["enc/MatMul", "enc/Tanh"]
    plain, cached, trained = (1, 2, 3), (6, 7, 8), (10, 11, 12)
    case.new(1, encoder, FIRST)
    for call in plain[1:]:
        case.redundant(call, encoder, witness=call - 1)
        case.new(call, ["mul_1", "Sum"], ("feed", "pairs:0"), ("variable", "u"))
    # By hand: one run fills a variable, the steps read that, and the encoder is not executed at all.
    assert case.status(5, "enc/Tanh") == "computed"
    for call in cached:
        assert not {*encoder, "x"} & case.calls[call].keys()
    # The step trains the encoder too: its weights changed, so it has to run.
    for call in trained[1:]:
        case.new(call, encoder, ("variable", "W"))
        (cause,) = case.calls[call]["enc/Tanh"].causes
        assert cause.call == call - 1
        assert cause.text == f"`GradientDescent_2` wrote `W` in call {call - 1}"


def test_case_03_a_side_variable_is_refreshed_only_where_its_op_runs(seen):
    case = seen("03")
    for first, write, read in ((0, "Assign", "Variable_3:0"), (14, "AssignVariableOp", None)):  # ref, then resource
        ops = {k - first: case.ran(k) & {"sq", "mul", "diff", "loss", write} for k in range(first, first + 14)}
        assert {k for k, ran in ops.items() if ran} == {3, 7, 10, 12}  # reading variables executes only the reads
        assert ops[3] == ops[12] == {"sq", "mul", "diff", write, "loss"}
        case.redundant(first + 7, ["sq", "mul"], witness=first + 3)  # unchanged state
        case.redundant(first + 10, ["sq"], witness=first + 7)
        case.new(first + 10, ["mul"], ("variable", "Variable_2"))  # the counter changed
        case.new(first + 12, ["diff", "loss"], ("variable", "Variable_2"))
        case.redundant(first + 12, ["sq"], witness=first + 10)
        # The docstring holds `mul` of this run to be new against run 3, which it is; run 10 had just computed it.
        case.redundant(first + 12, ["mul"], witness=first + 10)
        case.new(first + 12, [write], ("effect", "Variable_3"))
        if read is not None:
            reads = case.of(read)
            assert reads == [1, 4, 6, 11, 13]
        versions = [case.labels(first + k)["Variable_3"] for k in (1, 4, 6, 11, 13)]
        assert versions[1] == versions[2] == versions[3]  # diff_var keeps 3, which is right after the increment
        assert len({versions[0], versions[1], versions[4]}) == 3


def test_case_04_runs_with_other_feeds_are_not_redundant(seen):
    case = seen("04")
    loop = case.of("gradients/AddN:0")
    assert len(loop) == 9
    for call in loop[1:]:
        case.new(call, ["Square", "Sin", "gradients/AddN"], ("feed", "Placeholder:0"))
    at_once = case.of("gradients_1/AddN:0", "loop_body/gradients/AddN/pfor/AddN:0")
    assert len(at_once) == 1
    assert all(op.status != "recomputed" for op in case.calls[at_once[0]].values() if not op.bookkeeping)


def test_case_05_shared_trunk_runs_in_both_runs_but_once_in_a_list_fetch(seen):
    case = seen("05")
    trunk, tail = ["dense/MatMul", "dense/Relu"], ["Mean_1"]
    case.new(1, [*trunk, "ArgMax", "Mean"], FIRST)
    case.redundant(2, trunk, witness=1)
    case.new(2, tail, FIRST)
    assert case.status(2, "ArgMax") is None
    assert [case.calls[3][op].count for op in (*trunk, *tail)] == [1, 1, 1]  # within the list fetch each ran once
    assert case.record.entry(3).needs[0] == ("Placeholder:0", "Placeholder_1:0")
    # partial_run: what the first piece made is served to the second.
    assert case.of("Mean_1:0", kind="partial_run") == [6]
    assert case.status(6, "Mean_1") == "reused"
    assert not case.ran(6)


def test_case_15_equal_ops_built_twice_are_merged_within_one_run_only_and_random_ones_never(seen):
    case = seen("15")
    products = ("k1/mm", "k2/mm")
    assert ("built_twice", products) in [(f.kind, f.ops) for f in case.record.findings]
    assert {case.status(0, op) for op in products} == {"computed"}  # optimisers off: both execute
    assert [case.status(2, op) for op in products] == ["computed", "merged"]  # default: one does
    assert case.calls[2]["k2/mm"].into == "k1/mm"
    assert case.causes(2, "k1/mm") == [("new_session", "")]  # the second session optimises differently
    # exp(-x) ends as one kernel of the optimiser's own: executed, with the negation fused into it.
    assert [case.status(2, op) for op in ("Neg", "k1/exp")] == ["fused", "computed"]
    assert case.calls[2]["Neg"].into == "k1/exp"
    for call in (1, 3):
        for op in ("n1/RandomStandardNormal", "n2/RandomStandardNormal"):
            case.new(call, [op], ("random", op))
    assert not any("RandomStandardNormal" in op for f in case.findings("built_twice") for op in f.ops)


def test_case_17_a_second_run_samples_again_unless_the_sample_is_fed(seen):
    # It prints a set, whose order depends on the order in which the trace lists what ran.
    case = seen("17", lambda text: re.sub(r"\[.*?\]", lambda found: str(sorted(found[0][1:-1].split(", "))), text))
    sampler = "sampler/Multinomial"
    case.redundant(1, ["logits"], witness=0)
    case.new(1, [sampler], ("random", sampler))
    for call in (2, 6):  # feeding the ids cuts the sampler
        assert case.status(call, sampler) == "fed"
        assert case.status(call, "logits") == "recomputed"
        assert case.causes(call, "Sum") == [("feed", f"{sampler}:0")]
    (travelled,) = [f for f in case.findings("value_through_python") if f.call == 2]
    assert travelled.ops == (f"{sampler}:0", f"{sampler}:0")
    # One draw for both pieces of the partial run.
    assert case.status(4, sampler) == "computed"
    assert sampler not in case.ran(5)


def test_case_42_a_chain_of_20000_ops_shares_its_first_half(seen):
    def without_seconds(text: str) -> str:  # the script prints how long its calls took
        return re.sub(r"\d+\.\d+(?=,|$| s$|\n| s\n)", "...", re.sub(r"secs .*", "secs", text))

    case = seen("42", without_seconds)
    half, whole = case.of("AddV2_9999:0"), case.of("AddV2_19999:0")
    assert [len(case.ran(k)) for k in (half[0], whole[0])] == [10_000, 20_000]
    again = [name for name, op in case.calls[whole[0]].items() if op.status == "recomputed"]
    assert again == ["AddV2", *(f"AddV2_{i}" for i in range(1, 10_000))]
    assert {case.witness(whole[0], op) for op in again} == {half[0]}
    case.new(whole[0], ["AddV2_10000", "AddV2_19999"], FIRST)
    assert {op.status for name, op in case.calls[whole[1]].items() if name != "Placeholder"} == {"recomputed"}


def test_case_43_copies_of_a_model_share_neither_state_nor_identity(seen):
    case = seen("43")
    calls = [k for k in range(case.record.call_count) if case.record.entry(k).fetches[0].startswith("Sum")]
    assert len(calls) == 100
    for call in calls:
        assert {op.status for op in case.calls[call].values() if not op.bookkeeping} <= {"computed", "fed"}
    for call in (calls[1], calls[50], calls[99]):
        case.new(call, [op for op in case.ran(call) if op.startswith(("mm", "Tanh"))], FIRST)
    effects = [[c for op in case.calls[k].values() for c in op.causes if c.kind == "effect"] for k in range(0, 200, 2)]
    written = [{cause.source for cause in causes if cause.source} for causes in effects]
    assert all(len(names) == 10 for names in written)
    assert len(set.union(*written)) == 1000  # no two copies share a variable
    assert not case.findings("built_twice")  # each copy has weights of its own
    grown = case.findings("graph_grew")
    assert grown[0].call == 2
    assert "79 more" in grown[-1].text


def test_case_44_constants_fold_away_by_default_and_a_fed_one_wins(seen):
    case = seen("44")
    for op in ("stacked", "concat", "total"):
        assert case.status(0, op) == "computed"  # optimisers off
        assert case.statuses(op, (1, 2)) == ["folded", "folded"]  # default: not executed at all
    assert case.status(3, "stacked") == "fed"
    case.new(3, ["concat", "total"], ("feed", "stacked:0"))
    assert case.record.environment["optimizers"] is True


def test_case_65_single_example_runs_have_other_feeds(seen):
    case = seen("65")
    loop = case.of("gradients/Conv2D_grad/Conv2DBackpropFilter:0", "gradients/AddN:0")
    assert len(loop) == 4
    for call in loop:
        case.new(call, ["Conv2D", "MatMul"], ("feed", "Placeholder:0"))
        case.redundant(call, ["L2Loss", "mul"], witness=call - 1)  # the penalty depends on the weights alone


def test_case_75_one_execution_a_tensor_however_it_is_fetched(seen):
    case = seen("75")
    fetched = case.record.entry(1)
    assert fetched.fetches[:2] == ("y:0", "v/Read/ReadVariableOp:0")
    assert {"SparseTensor/indices:0", "SparseTensor/values:0", "SparseTensor/dense_shape:0"} < set(fetched.fetches)
    assert fetched.fetches[-2:] == ("y", "AssignAddVariableOp")
    assert fetched.feeds == ("x:0",)
    assert case.calls[1]["y"].count == 1
    # eval, a callable with a feed twice, op.run and a callable without feed: all are recorded.
    later = [case.record.entry(k).fetches for k in range(2, case.record.call_count)]
    assert later == [("y:0",), ("y:0",), ("AssignAddVariableOp",), ("Identity:0",), ("y:0",)]
    case.new(3, ["y"], ("feed", "x:0"))
    case.new(6, ["y"], ("variable", "v"))  # same feed as call 3, but `op.run()` wrote v (by adding zero)
