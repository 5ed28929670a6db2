"""The comm as a front end sees it, in a real ipykernel: who gets which messages, and how many."""

from __future__ import annotations

import pytest
from shell_front import connected

SETUP = "import shell_fake_engine as engine; engine.install(); run = engine.run"


@pytest.fixture
def front(tmp_path):
    with connected(tmp_path) as one:
        one.cell(SETUP, "setup")
        one.cell("%load_ext cachelab\n%config CacheLab.widget = False", "load")
        yield one


def test_recording_a_thousand_calls_takes_a_few_messages(front):
    front.open()
    front.say(type="marks")
    front.take()
    front.cell("%%cachelab --quiet\nfor _ in range(1000):\n    run()", "loop")
    kinds = [message["type"] for message in front.take()]
    assert len(kinds) < 10
    assert kinds.count("state") == 1


def test_a_long_cell_says_how_many_calls_it_made_so_far(front):
    front.open()
    front.take()
    front.cell("%%cachelab --quiet\nimport time\nfor _ in range(9):\n    run()\n    time.sleep(0.4)", "slow")
    running = [message["calls"] for message in front.take() if message["type"] == "running"]
    assert running
    assert running == sorted(set(running))
    assert 1 <= running[0] <= running[-1] <= 9
    front.cell("import time; time.sleep(1.5)", "plain")
    assert [message["type"] for message in front.take()] == ["state"]


def test_the_cell_that_ran_and_runs_again_is_known_by_its_id(front):
    front.open()
    front.cell("%%cachelab --quiet --name one\nrun()", "a")
    front.cell("1 + 1", "b")
    (row,) = front.take()[-1]["recordings"]
    assert (row["cell"], row["number"], row["rerun"]) == ("a", 3, False)
    front.cell("1 + 1", "a")
    (row,) = front.take()[-1]["recordings"]
    assert (row["cell"], row["number"], row["rerun"]) == ("a", 3, True)
    front.cell("%%cachelab --quiet --name one\nrun()", "b")
    (row,) = front.take()[-1]["recordings"]
    assert (row["cell"], row["number"], row["rerun"]) == ("b", 6, False)


def test_only_who_asks_gets_marks(front):
    front.open()
    front.cell("%%cachelab --quiet\nrun()", "a")
    assert {message["type"] for message in front.take()} == {"state"}
    front.say(type="marks")
    (message,) = front.take()
    assert message["all"] is True
    # The stand-in's ops are of line 2 of cell 1, whose text is another: nothing is marked on a guess.
    assert message["cells"] == []
