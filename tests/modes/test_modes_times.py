"""What a replay says of times, with a clock that the test moves: cost per pass, setup, speedup, break-even."""

from __future__ import annotations

from functools import partial

import pytest
from modes_programs import two_fetches
from modes_tools import record

from cachelab.modes import attempt, replay
from cachelab.modes.feed import Feed
from cachelab.modes.runner import Clock, Runner

WHOLE, SERVED = 3.0, 1.0
"""Seconds of a run, and of one that is fed the kept tensor."""


@pytest.fixture
def clock(monkeypatch):
    """Let only runs take time, and what a test makes preparation take."""
    now = [0.0]

    def takes_time(run):
        def timed(self, session, fetches, feed, *arguments, **options):
            now[0] += SERVED if any(tensor.name == "enc/Tanh:0" for tensor in feed) else WHOLE
            return run(self, session, fetches, feed, *arguments, **options)

        return timed

    for name in ("run", "run_watched"):
        monkeypatch.setattr(Runner, name, takes_time(getattr(Runner, name)))
    monkeypatch.setattr(attempt, "Clock", partial(Clock, now=lambda: now[0]))
    return now


def replayed():
    program = two_fetches()
    program.calls = [program.calls[0]] * 6
    program.optimizers = False
    return replay(record(program), "feed", repeats=1, cuts=["enc/Tanh:0"]).result


# Of 7 calls, one of which initialises, 5 are served: a pass takes 2 x 3 + 5 s instead of 21, and saves 10/7 a call.
@pytest.mark.parametrize(("setup", "calls"), [(0.0, 1), (4.0, 3), (5.0, 4), (10.0, 7), (20.0, 14), (21.0, 15)])
def test_the_break_even_is_the_first_call_by_which_what_is_saved_covers_the_setup(clock, monkeypatch, setup, calls):
    prepare = Feed.prepare

    def slow(self):
        clock[0] += setup
        prepare(self)

    monkeypatch.setattr(Feed, "prepare", slow)
    found = replayed()
    assert (found.seconds, found.setup_seconds, found.speedup) == (11.0, setup, 21 / 11)
    assert found.break_even == calls


def test_what_saves_nothing_never_breaks_even(clock, monkeypatch):
    monkeypatch.setitem(globals(), "SERVED", 30.0)
    found = replayed()
    assert found.speedup < 1
    assert found.break_even is None
