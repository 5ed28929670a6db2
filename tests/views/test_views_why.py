"""Why an op ran or did not: one sentence, root cause first, and the chain of ops."""

import pytest
from views_builder import HOSTILE, Builder, encoder, hostile, large, loop, statuses

from cachelab.errors import NameNotFoundError, OptionError
from cachelab.views.why import close_names, why


def test_recomputed_names_what_was_the_same_and_the_witness():
    reason = why(encoder().record(), "enc/Tanh:0", call=3)
    assert reason.text == (
        "`enc/Tanh` was recomputed in call 3 with the same feed `x` and the same variables `enc/W` and `enc/b` "
        "as in call 2: values live for one call only."
    )
    assert reason.chain == ("x:0", "enc/MatMul", "enc/BiasAdd", "enc/Tanh")
    assert (reason.status, reason.evidence, reason.call) == ("recomputed", "measured", 3)
    assert [cause.kind for cause in reason.causes] == ["not_kept"]


def test_computed_names_the_root_cause_and_where_it_entered():
    reason = why(encoder().record(), "head/MatMul", call=2)
    assert reason.text == "`head/MatMul` had to be computed in call 2: feed `idx:0` is new in call 2."
    assert reason.chain == ("idx:0", "pairs/Gather", "pairs/Reshape", "head/MatMul")
    reason = why(encoder().record(), "loss/L2Loss_1", call=-3)
    assert reason.text == "`loss/L2Loss_1` had to be computed in call 3: `train_op` wrote `head/W` in call 2."
    assert reason.chain == ("head/W", "loss/L2Loss_1/ReadVariableOp", "loss/L2Loss_1")


def test_effects_had_to_run():
    reason = why(encoder().record(), "train/update_head/W", call=1)
    assert reason.text.startswith("`train/update_head/W` had to run in call 1: writes `head/W`")


@pytest.mark.parametrize(
    ("op", "said"),
    [
        ("conv", "had to be computed in call 1: its inputs had not been seen before."),
        ("again", "was recomputed in call 1 with the same feed `x` as in call 0: values live for one call only."),
        ("served", "was not run in call 1: its value was served, kept from call 0."),
        ("given", "was not run in call 1: the caller fed its value."),
        ("twin", "was not run by itself in call 1: TensorFlow merged it into the equal op `net/conv`."),
        ("constant", "was not run in call 1: its value is constant, and TensorFlow folded it before the run."),
        ("bias", "was not run by itself in call 1: it is part of the kernel of `net/conv`."),
        ("spare", "was not needed in call 1: TensorFlow gets what the call fetches without it."),
        ("branch", "was not run in call 1: it lies on a branch that was not taken."),
        (
            "late",
            "was not reached in call 1: the call failed before (InvalidArgumentError: <b>shapes</b> must be equal).",
        ),
        ("dark", "ran in call 1 is not known: there is no trace that tells."),
    ],
)
def test_every_status_has_its_sentence(op, said):
    reason = why(statuses().record(), f"net/{op}", call=1)
    assert said in reason.text
    assert f"`net/{op}`" in reason.text


def test_pruned_before_a_served_value_says_so():
    b = Builder()
    b.op("a", "Tanh")
    b.op("h", "Tanh", "a")
    b.call(["h:0"], [], {"a": ("p",), "h": ("s", 0.0, 4, None)})
    assert why(b.record(), "a", 0).text == "`a` was not needed in call 0: only `h` used it, and that was served."


def test_may_causes_are_worded_as_such():
    b = Builder()
    b.op("h", "Tanh")
    cause = b.cause("variable", "W", 0, "`w_op` wrote `W` in call {call}", may=True)
    b.call(["h:0"], [], {"h": ("c", 1e-3, 4, None, [cause])})
    assert why(b.record(), "h").text == "`h` had to be computed in call 0: it may be that `w_op` wrote `W` in call 0."


def test_the_last_call_that_lists_the_op_is_the_default():
    assert why(encoder().record(), "train/update_head/b").call == 5
    b = encoder()
    b.op("extra", "Tanh")
    b.call(["extra:0"], [], {"extra": ("c", 1e-3)})
    assert why(b.record(), "enc/Tanh").call == 5


def test_op_that_a_call_did_not_need():
    b = encoder()
    b.op("extra", "Tanh")
    reason = why(b.record(), "extra", call=2)
    assert reason.text == "`extra` took no part in call 2: no fetch of this call needs it."
    assert reason.status == ""


def test_inside_a_loop_numbers_are_absolute():
    reason = why(loop().record(), "h", call=7000)
    assert reason.text == (
        "`h` was recomputed in call 7000 with the same variable `W` as in call 6999: values live for one call only."
    )


def test_unknown_names_get_close_matches():
    with pytest.raises(NameNotFoundError) as error:
        why(encoder().record(), "enc/Tan:0")
    assert str(error.value) == "No tensor or op `enc/Tan:0` in recording 3. Did you mean `enc/Tanh:0`?"
    with pytest.raises(NameNotFoundError, match=r"Did you mean `enc/Tanh`\?"):
        why(encoder().record(), "tanh")
    with pytest.raises(NameNotFoundError, match="lists the ops of call 0"):
        why(encoder().record(), "§§§§")


def test_recording_without_ops_says_so():
    with pytest.raises(NameNotFoundError, match="lists no ops at all; record with trace='auto'"):
        why(Builder().record(), "enc/Tanh")


def test_close_names_of_a_large_graph():
    names = large().graphs[0].name
    wanted = names[12_345]
    assert close_names(wanted.replace("block", "blokc"), names)[0] == wanted


def test_calls_out_of_range():
    with pytest.raises(OptionError, match=r"no call 6 .*calls 0 to 5"):
        why(encoder().record(), "enc/Tanh", call=6)
    with pytest.raises(OptionError, match=r"no call -7"):
        why(encoder().record(), "enc/Tanh", call=-7)
    b = Builder()
    b.op("a", "Tanh")
    with pytest.raises(OptionError, match="it has no calls"):
        why(b.record(), "a")


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_are_told_as_they_are(name):
    reason = why(hostile().record(), name, call=1)
    assert (
        reason.text
        == f"`{name}` was recomputed in call 1 with the same feed `<ph>` as in call 0: values live for one call only."
    )
    assert reason.chain[-1] == name


def test_chain_of_a_cyclic_graph_ends():
    b = Builder()
    b.op("a", "Merge", "b")
    b.op("b", "NextIteration", "a")
    b.call([], [], {"a": ("c",), "b": ("c",)})
    assert why(b.record(), "a").chain == ("a",)
