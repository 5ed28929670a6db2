"""Cases without sessions (``tf.function``, Keras, eager code): ``cachelab run`` leaves them alone and records nothing.

The truth of eight of them is asked of the parts of CacheLab that serve such code, in the script's own process and
with its own objects (see ``cases_probes.py``).
"""

from __future__ import annotations

import pytest


def probed(seen, number: str):
    """Run a case, assert that no call was recorded, and return what the probe found."""
    return quiet(seen(number, probe=f"case_{number}")).probed


def quiet(case):
    """Assert that a record has no calls; all that there is to say of such code is what was traced again."""
    assert case.record.call_count == 0
    assert {finding.kind for finding in case.record.findings} <= {"retrace"}
    return case


@pytest.mark.parametrize("number", ["57", "59", "60", "70", "72"])
def test_cases_without_sessions_are_left_alone(seen, number):
    quiet(seen(number))


def test_case_52_python_runs_at_each_trace_and_the_graph_at_each_call(seen):
    case = quiet(seen("52", probe="case_52"))
    (retrace,) = case.findings("retrace")
    assert retrace.ops == ("f",)
    assert "argument `t` is of shape [3], not of shape [2]" in retrace.text
    found = case.probed
    assert found["changes"] == [[], [["shape", "t"]]]  # two traces, the second for a new shape
    assert "write" in found["reason"]  # assign_add inside: its calls can't be memoized
    assert found["called"] == 0  # and asking does not run it


def test_case_54_equal_series_of_random_functions_are_no_reason_to_reuse(seen):
    for reason in probed(seen, "54").values():
        assert "random" in reason


def test_case_55_stateless_random_ops_are_pure_and_generators_write(seen):
    found = probed(seen, "55")
    assert found["hits"] == [1, 1]
    assert found["equal"] == [True, True]
    assert found["same when compiled"] is False  # so the memo of one must not serve the other, and did not
    assert found["generator"]


def test_case_56_a_variable_made_in_the_first_call_is_written_by_each(seen):
    case = quiet(seen("56", probe="case_56"))
    (retrace,) = case.findings("retrace")  # the first call traced twice, the third did not
    assert "the first call made a variable" in retrace.text
    found = case.probed
    assert found["values"] == [1, 2]
    assert "write" in found["reason"]
    assert found["left"] == 2


def test_case_58_a_tap_in_a_loss_keeps_the_value_from_before_the_step(seen):
    found = probed(seen, "58")
    assert found["8"] == [[8, 1], True, False]
    assert found["3"] == [[3, 1], True, False]
    assert found["predict overwrites"] is False  # predict does not run the loss


def test_case_62_dropout_is_pure_in_inference_and_writes_its_seed_in_training(seen):
    found = probed(seen, "62")
    assert found["hits"] == 1
    assert found["equal"]
    assert found["state kept"]
    assert "write" in found["training"]


def test_case_71_a_second_derivative_is_the_diagonal_and_no_sum_of_rows(seen):
    found = probed(seen, "71")
    assert found["cubic"] is True
    # Either the true diagonal, or a refusal that names what couples the entries; never the sums of rows.
    assert found["softmax"] is True or "couple" in found["softmax"] or "not proven" in found["softmax"]


def test_case_73_clipping_is_by_example(seen):
    found = probed(seen, "73")
    assert found == {"gradients": True, "norms": True, "clipped mean": True, "microbatch of 2": False}
