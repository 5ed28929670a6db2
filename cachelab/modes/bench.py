"""Repeats a recording in a mode, in a private place, and proves what came of it."""

from __future__ import annotations

import statistics
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import tensorflow as tf

from cachelab.errors import NotApplicableError, OptionError
from cachelab.i18n import translate as _
from cachelab.model import MODES, ModeResult
from cachelab.modes.equality import Digest, Equality, Judge, worst
from cachelab.modes.place import Place
from cachelab.modes.recolor import Recolor
from cachelab.modes.run import Run
from cachelab.modes.runner import Clock, Failure, Runner
from cachelab.modes.script import Script, require
from cachelab.tf.hooks import unobserved

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from cachelab.model import Record
    from cachelab.modes.protocol import Mode
    from cachelab.modes.traces import Ran

TIMING_SECONDS = 3.0
"""Wall time that the timed repeats of a replay may take; at least one is made."""
TRACED_CALLS = 2_000
"""What ran is measured in a recording of at most this many calls."""
MIN_TIMEOUT_MS = 20_000


@dataclass(frozen=True)
class Replay:
    """What came of repeating a recording in a mode.

    Attributes
    ----------
    mode, applicable, reason
        The mode, whether it could be used, and if not, why.
    record
        The recording recoloured by what ran in the mode, ``None`` if it did not run.
    equality
        ``equal``, ``close``, ``differs``, ``not applicable``; ``reproduced`` for the mode ``run``.
    max_difference
        Largest absolute difference of a fetch or a final variable.
    fetches, variables
        (call, fetch) and (session, variable) -> :class:`~cachelab.modes.equality.Equality`.
    seconds, run_seconds
        Wall time of all calls in the mode and in ``run``: medians of interleaved, untraced repeats.
    setup_seconds
        What is paid once: building what the mode needs, and first runs over later ones.
    speedup
        ``run_seconds / seconds``.
    bytes_held
        What the mode keeps between calls.
    code
        Plain TensorFlow code that does the same by hand.
    notes
        What else is worth knowing, such as the surprises of ``partial_run``.
    result
        The same as a :class:`cachelab.model.ModeResult`.
    """

    mode: str
    applicable: bool
    reason: str = ""
    record: Record | None = None
    equality: str = "not applicable"
    max_difference: float = 0.0
    fetches: Mapping[tuple[int, str], Equality] = field(default_factory=dict)
    variables: Mapping[tuple[int, str], Equality] = field(default_factory=dict)
    seconds: float = 0.0
    run_seconds: float = 0.0
    setup_seconds: float = 0.0
    speedup: float = 0.0
    bytes_held: int = 0
    code: str = ""
    notes: tuple[str, ...] = ()
    result: ModeResult = field(default_factory=lambda: ModeResult("run", applicable=False))

    @property
    def recording(self) -> Any:
        """The recoloured record behind the public face, ``None`` if the mode did not run."""
        if self.record is None:
            return None
        from cachelab.recording import Recording

        return Recording(self.record)

    def __str__(self) -> str:
        """Return one line: the mode, what came of it, and why."""
        if not self.applicable:
            return f"{self.mode}: {_('not applicable')}. {self.reason}"
        return _("{mode}: {speedup:.2f} x as fast as `run`, results {equality}. {reason}").format(
            mode=self.mode, speedup=self.speedup, equality=self.equality, reason=self.reason
        ).strip()  # fmt: skip

    __repr__ = __str__


class Bench:
    """Replays one recording in several modes; the yardstick ``run`` is proved once.

    Parameters
    ----------
    recording
        Anything with ``record`` (:class:`cachelab.model.Record`) and ``material``.
    optimizers
        Whether graph optimisation stays as recorded; without it results can be compared bitwise.
    allow_side_effects
        Whether ops that act outside TensorFlow may be repeated.
    repeats
        Timed repeats at most.
    progress
        Called with (steps done, steps in all, what is done now).
    cancel
        Asked before every call; true ends the replay. A ``threading.Event`` will do.
    memory_budget
        Bytes that a mode may hold.

    Raises
    ------
    NotApplicableError
        If the recording has no values to repeat, for :meth:`replay` as for :meth:`yardstick`.
    """

    def __init__(
        self,
        recording: Any,
        *,
        optimizers: bool = True,
        allow_side_effects: bool = False,
        repeats: int = 5,
        progress: Callable[[int, int, str], None] | None = None,
        cancel: Any = None,
        memory_budget: int | None = None,
    ) -> None:
        self.record = recording.record
        self.material = require(recording.material)
        self.optimizers = optimizers
        self.allow_side_effects = allow_side_effects
        self.repeats = repeats
        self.progress = progress or (lambda _done, _total, _what: None)
        self.cancel = cancel.is_set if hasattr(cancel, "is_set") else cancel
        self.memory_budget = memory_budget
        self._proved: tuple[str, dict[Any, Equality], dict[int, Any], dict[Any, Any]] | None = None

    def script(self, mode: str = "run") -> Script:
        """Return the calls over new private graphs."""
        slowest = max((call.seconds for call in self.record.calls), default=0.0)
        timeout = max(MIN_TIMEOUT_MS, int(20_000 * slowest))
        place = Place(
            self.material, optimizers=self.optimizers, timeout_ms=timeout, pruned=mode != "partial_run"
        )
        return Script(self.record, self.material, place)

    def refusal(self, script: Script) -> str:
        """Return why the recording can't be repeated at all, ``""`` if it can."""
        if not script.calls:
            return _("The recording has no calls.")
        return script.refusal(allow_side_effects=self.allow_side_effects)

    def yardstick(self, script: Script) -> tuple[str, dict[Any, Equality], dict[int, Any], dict[Any, Any]]:
        """Repeat ``run`` once and compare it with what was recorded.

        Returns
        -------
        reason, equalities, results, variables
            Why ``run`` was not reproduced (``""`` if it was); how each fetch compares; its results by call and its
            final variables.
        """
        if self._proved is None:
            if not script.place.pruned:
                script = self.script()
            with script.place.open() as sessions:
                runner = Runner(script, sessions, cancel=self.cancel)
                mode = Run(script)
                mode.issue(runner)
                variables = sessions.variables()
            judge = Judge(script, None, _("not the same execution"))
            judge.unseeded_writes()
            equalities = judge.results(runner.results, recorded_results(script))
            self._proved = (not_reproduced(script, equalities), equalities, runner.results, variables)
        return self._proved

    def replay(self, name: str, cuts: Sequence[str] | None = None) -> Replay:
        """Repeat the recording in a mode, compare, time and trace it.

        Parameters
        ----------
        name
            One of ``cachelab.model.MODES``.
        cuts
            Tensors to keep; the frontier by default.
        """
        with unobserved():
            return self._replay(name, cuts)

    def _replay(self, name: str, cuts: Sequence[str] | None) -> Replay:
        mode_class = mode_named(name)
        steps = 5
        self.progress(0, steps, _("building a private copy"))
        script = self.script(name)
        reason = self.refusal(script)
        if reason:
            return refused(name, reason)
        mode = mode_class(script, cuts, self.memory_budget)
        reason = mode.applies() or ""
        if reason:
            return refused(name, reason)
        return Attempt(self, script, mode, steps).replay()


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
        if reason:
            notes = (_("`run` was not reproduced: {reason} No mode is proved.").format(reason=reason),)
            if mode.name != "run":
                return refused(mode.name, notes[0], equality="not applicable")
        bench.progress(2, self.steps, _("repeating `{mode}` and comparing it with `run`").format(mode=mode.name))
        fetches, finals, cold, failure = self._compare(results, variables)
        if mode.name == "run":
            fetches = equalities
        bench.progress(3, self.steps, _("timing"))
        seconds, run_seconds = self._time() if not failure else (0.0, 0.0)
        bench.progress(4, self.steps, _("tracing what runs"))
        recolor = Recolor(self.script, mode, self._trace() if not failure else ())
        record = recolor.record()
        bench.progress(5, self.steps, _("done"))
        return self._outcome(reason, fetches, finals, (cold, prepare.seconds, seconds, run_seconds), recolor, record)

    def _compare(
        self, results: Mapping[int, Any], variables: Mapping[tuple[int, str], Any]
    ) -> tuple[dict[Any, Equality], dict[Any, Equality], float, str]:
        """Issue the calls once in new sessions and compare fetches and final variables with ``run``."""
        judge = Judge(self.script, self.mode, self._close_reason())
        clock, failure = Clock(), ""
        with self.script.place.open() as sessions:
            runner = Runner(self.script, sessions, cancel=self.bench.cancel)
            self.mode.reset()
            try:
                with clock:
                    self.mode.issue(runner)
                self.mode.measure(runner)
            except (tf.errors.OpError, RuntimeError) as error:
                failure = f"{type(error).__name__}: {error}"
                missing = next((c.index for c in self.script.calls if c.index not in runner.results), 0)
                runner.results.setdefault(missing, Failure(type(error).__name__, str(error)))
            finals = judge_finals = sessions.variables() if not failure else {}
        fetches = judge.results(runner.results, results)
        return fetches, judge.variables(judge_finals, variables) if finals else {}, clock.seconds, failure

    def _close_reason(self) -> str:
        if self.mode.name == "per_example":
            return _("a vectorised run rounds in another order")
        if self.script.place.optimizers:
            return _("TensorFlow optimises each fetch and feed set by itself")
        return _("the kernels do not round in the same order every time")

    def _time(self) -> tuple[float, float]:
        """Return median wall seconds of the mode and of ``run``, untraced and interleaved."""
        ours: list[float] = []
        theirs: list[float] = []
        plain = Run(self.script)
        if self.script.repeatable:
            with self.script.place.open() as first, self.script.place.open() as second:
                pairs = ((self.mode, first, ours), (plain, second, theirs))
                for mode, sessions, _times in pairs:
                    self._pass(mode, sessions)
                while len(ours) < self.bench.repeats and (sum(ours) + sum(theirs) < TIMING_SECONDS or not ours):
                    for mode, sessions, times in pairs[:: 1 if len(ours) % 2 else -1]:
                        sessions.restore()
                        times.append(self._pass(mode, sessions))
        else:  # iterators and queues can't be rewound: new sessions every time, which includes their first runs
            while len(ours) < min(3, self.bench.repeats) and (sum(ours) + sum(theirs) < TIMING_SECONDS or not ours):
                for mode, times in ((self.mode, ours), (plain, theirs)):
                    with self.script.place.open() as sessions:
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
        with self.script.place.open() as sessions:
            runner = Runner(self.script, sessions, trace=True, cancel=self.bench.cancel)
            self.mode.reset()
            self.mode.issue(runner)
        return runner.ran

    def _outcome(
        self,
        reason: str,
        fetches: dict[Any, Equality],
        finals: dict[Any, Equality],
        times: tuple[float, float, float, float],
        recolor: Recolor,
        record: Record,
    ) -> Replay:
        cold, prepare, seconds, run_seconds = times
        mode = self.mode
        every = {**fetches, **{("variable", *key): one for key, one in finals.items()}}
        equality = worst(every)
        reasons = [verdict(mode.name, key, one) for key, one in every.items() if one.kind == equality != "equal"]
        if mode.name == "run":
            excused = next((one for one in fetches.values() if one.excused), None)
            equality = "differs" if reason or excused else "reproduced"
            reasons = [reason] if reason else [_excuse(excused)] if excused else []
        setup = prepare + max(0.0, cold - seconds)
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
            break_even=None if saving <= 0 else max(1, round(setup / (saving / len(self.script.calls)) + 0.5)),
            code=mode.code(),
        )
        return Replay(
            mode=mode.name, applicable=True, reason=result.reason, record=record, equality=equality,
            max_difference=difference, fetches=fetches, variables=finals, seconds=seconds, run_seconds=run_seconds,
            setup_seconds=setup, speedup=speedup, bytes_held=mode.bytes_held, code=result.code,
            notes=tuple(mode.notes), result=result,
        )  # fmt: skip


def verdict(mode: str, key: tuple[Any, ...], one: Equality) -> str:
    """Return a sentence on a value that is not bitwise equal."""
    where = (
        _("the final value of `{name}`").format(name=key[2])
        if key[0] == "variable"
        else _("call {call}, `{fetch}`").format(call=key[0], fetch=key[1])
    )
    if one.defect:
        return _(
            "`{mode}` differs in {where}, by {difference:.3g}, and the graph gives no reason: a defect of CacheLab. "
            "Please export and report it. {text}"
        ).format(mode=mode, where=where, difference=one.difference, text=one.reason).strip()
    return _("{where} differs by {difference:.3g}: {reason}.").format(
        where=where, difference=one.difference, reason=one.reason
    )


def _excuse(one: Equality) -> str:
    return _("Not the recorded numbers: {reason}. Other modes are compared with this replay.").format(reason=one.reason)


def refused(mode: str, reason: str, equality: str = "not applicable") -> Replay:
    """Return the outcome of a mode that can't be used, with the reason."""
    result = ModeResult(mode=mode, applicable=False, reason=reason, equality=equality)
    return Replay(mode=mode, applicable=False, reason=reason, equality=equality, result=result)


def recorded_results(script: Script) -> dict[int, Any]:
    """Return call -> dict of fetch -> recorded value (its digest where it was not kept), or a :class:`Failure`."""
    found: dict[int, Any] = {}
    for call in script.calls:
        if call.failed is not None:
            found[call.index] = Failure(call.failed_type, call.failed)
            continue
        held = script.material.values
        found[call.index] = {
            name: Digest(digest or "") if held.get(digest) is None else held.get(digest)
            for name, digest in zip(call.fetches, call.results, strict=False)
        }
    return found


def not_reproduced(script: Script, equalities: Mapping[tuple[int, str], Equality]) -> str:
    """Return why ``run`` did not give the recorded results again, ``""`` if it did."""
    for (index, fetch), one in equalities.items():
        if one.kind != "differs" or one.excused:
            continue
        call = script.calls[index]
        closure = script.closure(call) if not fetch else script.facts(call).closure((fetch,), (), call.feeds)
        effects = script.facts(call).effects(closure)
        stateful = sorted(effects.streams | effects.iterators | effects.random | effects.opaque)
        if stateful and not script.material.sessions[call.session].born:
            return _("`{op}` began before the recording. Record from a new session.").format(op=stateful[0])
        if one.reason and not one.defect:
            return _("call {call}: {reason}.").format(call=index, reason=one.reason)
        if effects.opaque or effects.outside:
            return _("`{op}` need not give the same value twice.").format(op=min(effects.opaque | effects.outside))
        return _("call {call}, `{fetch}` differs by {difference:.3g}. {reason}").format(
            call=index, fetch=fetch, difference=one.difference, reason=one.reason
        ).strip()
    return ""


def mode_named(name: str) -> type[Mode]:
    """Return the class of a mode.

    Raises
    ------
    OptionError
        If there is no such mode.
    """
    from cachelab.modes import feed, handle, joint, memo, partial_run, per_example, run, variable

    classes = {
        "run": run.Run, "partial_run": partial_run.PartialRun, "variable": variable.Variable,
        "per_example": per_example.PerExample, "joint": joint.Joint, "feed": feed.Feed, "handle": handle.Handle,
        "memo": memo.Memo,
    }  # fmt: skip
    if name not in classes:
        raise OptionError(
            _("There is no mode `{mode}`.").format(mode=name), _("Use one of {modes}.").format(modes=", ".join(MODES))
        )
    return classes[name]
