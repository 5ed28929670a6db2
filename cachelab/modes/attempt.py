"""One replay of one mode: compared with ``run``, timed, traced."""

from __future__ import annotations

import contextlib
import math
import statistics
from typing import TYPE_CHECKING, Any

import tensorflow as tf

from cachelab.errors import CacheLabError, NotApplicableError
from cachelab.i18n import translate as _
from cachelab.model import ModeResult
from cachelab.modes import code
from cachelab.modes.equality import Judge, worst
from cachelab.modes.outcome import Replay, excuse, refused, verdict
from cachelab.modes.recolor import Recolor
from cachelab.modes.run import Run
from cachelab.modes.runner import Clock, Failure, Runner, gist

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cachelab.model import Record
    from cachelab.modes.bench import Bench
    from cachelab.modes.equality import Equality
    from cachelab.modes.place import Sessions
    from cachelab.modes.protocol import Mode
    from cachelab.modes.script import Script
    from cachelab.modes.traces import Ran

TIMING_SECONDS = 3.0
"""Wall time that the timed repeats of a replay may take; at least one is made."""
TRACED_CALLS = 2_000
"""What ran is measured in a recording of at most this many calls."""


class Attempt:
    """One replay of one mode that applies: its passes share the private place.

    Parameters
    ----------
    bench
        What to repeat, and how carefully.
    script, mode
        The calls over the private place, and the mode to be tried.
    steps
        Number of steps to report.
    """

    def __init__(self, bench: Bench, script: Script, mode: Mode, steps: int) -> None:
        self.bench = bench
        self.script = script
        self.mode = mode
        self.steps = steps

    def replay(self) -> Replay:
        """Make all passes and put the outcome together."""
        mode, bench = self.mode, self.bench
        prepare = Clock()
        try:
            with prepare:
                mode.prepare()
        except NotApplicableError as error:
            return refused(mode.name, error.found)
        bench.progress(1, self.steps, _("repeating `run` and comparing it with the recording"))
        reason, equalities, results, variables = bench.yardstick(self.script)
        if reason and mode.name != "run":
            return refused(mode.name, _("`run` was not reproduced: {reason} No mode is proved.").format(reason=reason))
        bench.progress(2, self.steps, _("repeating `{mode}` and comparing it with `run`").format(mode=mode.name))
        with self.script.place.open() as sessions:
            if mode.name == "run":
                fetches, finals, failed = equalities, {}, False
                cold = self._pass(mode, sessions)
            else:
                try:
                    fetches, finals, cold, failed = self._compare(sessions, results, variables)
                except NotApplicableError as error:  # which only a run could tell
                    return refused(mode.name, error.found)
            bench.progress(3, self.steps, _("timing"))
            untimed = failed or not bench.repeats
            seconds, run_seconds = (0.0, 0.0) if untimed else self._time(sessions)
        bench.progress(4, self.steps, _("tracing what runs"))
        recolor = Recolor(self.script, mode, () if failed else self._trace())
        record = recolor.record()
        bench.progress(5, self.steps, _("done"))
        times = (cold, prepare.seconds, seconds, run_seconds)
        return self._outcome(reason, (fetches, finals), times, (recolor, record))

    def _compare(
        self, sessions: Sessions, results: Mapping[int, Any], variables: Mapping[tuple[int, str], Any]
    ) -> tuple[dict[Any, Equality], dict[Any, Equality], float, bool]:
        """Issue the calls once in new sessions and compare fetches and final variables with ``run``."""
        judge = Judge(self.script, self.mode, self._close_reason())
        clock = Clock()
        runner = Runner(self.script, sessions, cancel=self.bench.cancel)
        self.mode.reset()
        try:
            with clock:
                self.mode.issue(runner)
            self.mode.measure(runner)
        except CacheLabError:
            raise
        except (tf.errors.OpError, RuntimeError, ValueError, TypeError, LookupError) as error:
            missing = next((c.index for c in self.script.calls if c.index not in runner.results), 0)
            runner.results.setdefault(missing, Failure(type(error).__name__, gist(error)))
            return judge.results(runner.results, results), {}, clock.seconds, True
        fetches = judge.results(runner.results, results)
        return fetches, judge.variables(sessions.variables(), variables), clock.seconds, False

    def _close_reason(self) -> str:
        if self.mode.name == "per_example":
            return _("a vectorised run rounds in another order")
        if self.script.place.optimizers:
            return _("TensorFlow optimises each fetch and feed set by itself")
        return _("the kernels do not round in the same order every time")

    def _time(self, warm: Sessions) -> tuple[float, float]:
        """Return median wall seconds of the mode and of ``run``, untraced and interleaved.

        ``warm`` are sessions in which the mode has issued the calls once.
        """
        ours: list[float] = []
        theirs: list[float] = ours if self.mode.name == "run" else []
        plain = Run(self.script)
        if not self.script.repeatable:  # what can't be rewound needs new sessions, whose first runs are slower
            while len(ours) < min(3, self.bench.repeats) and (sum(ours) + sum(theirs) < TIMING_SECONDS or not ours):
                for mode, times in ((self.mode, ours), (plain, theirs))[: 1 if theirs is ours else 2]:
                    with self.script.place.open() as sessions:
                        times.append(self._pass(mode, sessions))
            return statistics.median(ours), statistics.median(theirs)
        with contextlib.ExitStack() as stack:
            pairs = [(self.mode, warm, ours)]
            if theirs is not ours:
                sessions = stack.enter_context(self.script.place.open())
                self._pass(plain, sessions)
                pairs.append((plain, sessions, theirs))
            while len(ours) < self.bench.repeats and (sum(ours) + sum(theirs) < TIMING_SECONDS or not ours):
                for mode, sessions, times in pairs[:: 1 if len(ours) % 2 else -1]:
                    sessions.restore()
                    times.append(self._pass(mode, sessions))
        return statistics.median(ours), statistics.median(theirs)

    def _pass(self, mode: Mode, sessions: Any) -> float:
        mode.reset()
        runner, clock = Runner(self.script, sessions, cancel=self.bench.cancel), Clock()
        with clock:
            mode.issue(runner)
        return clock.seconds

    def _trace(self) -> list[Ran]:
        """Issue the calls once more, traced, and return what ran."""
        if len(self.script.calls) > TRACED_CALLS:
            return []
        traced = self.mode.traced(self.bench)
        if traced is not None:
            return traced
        try:
            return self._traced_runs()
        except tf.errors.InvalidArgumentError:
            if not self.mode.retreat():
                raise
        return self._traced_runs()

    def _traced_runs(self) -> list[Ran]:
        with self.script.place.open() as sessions:
            runner = Runner(self.script, sessions, trace=True, cancel=self.bench.cancel)
            self.mode.reset()
            self.mode.issue(runner)
        return runner.ran

    def _outcome(
        self,
        reason: str,
        compared: tuple[dict[Any, Equality], dict[Any, Equality]],
        times: tuple[float, float, float, float],
        recolored: tuple[Recolor, Record],
    ) -> Replay:
        fetches, finals = compared
        recolor, record = recolored
        cold, prepare, seconds, run_seconds = times
        mode = self.mode
        every = {**fetches, **{("variable", *key): one for key, one in finals.items()}}
        equality = worst(every)
        reasons = [verdict(mode.name, key, one) for key, one in every.items() if one.kind == equality != "equal"]
        if mode.name == "run":
            excused = next((one for one in fetches.values() if one.excused), None)
            equality = "differs" if reason or excused else "reproduced"
            reasons = [reason] if reason else [excuse(excused)] if excused else []
        setup = prepare + max(0.0, cold - seconds) if seconds else 0.0
        speedup = run_seconds / seconds if seconds else 0.0
        saving = run_seconds - seconds
        difference = max((one.difference for one in every.values()), default=0.0)
        result = ModeResult(
            mode=mode.name,
            applicable=True,
            reason=reasons[0] if reasons else "",
            equality=equality,
            max_difference=difference,
            seconds=seconds,
            setup_seconds=setup,
            speedup=speedup,
            bytes_held=mode.bytes_held,
            executed=recolor.counts["executed"],
            recomputed=recolor.counts["recomputed"],
            reused=recolor.counts["reused"],
            break_even=None if saving <= 0 else max(1, math.ceil(setup * len(self.script.calls) / saving)),
            code=code.of(mode),
        )
        return Replay(
            mode=mode.name, applicable=True, reason=result.reason, record=record, equality=equality,
            max_difference=difference, fetches=fetches, variables=finals, seconds=seconds, run_seconds=run_seconds,
            setup_seconds=setup, speedup=speedup, bytes_held=mode.bytes_held, code=result.code,
            notes=tuple(mode.notes), result=result,
        )  # fmt: skip
