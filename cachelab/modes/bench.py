"""Repeats a recording in a mode, in a private place, and proves what came of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cachelab.errors import OptionError
from cachelab.i18n import translate as _
from cachelab.model import MODES
from cachelab.modes.attempt import Attempt
from cachelab.modes.equality import Digest, Equality, Judge
from cachelab.modes.memory import too_large
from cachelab.modes.outcome import refused
from cachelab.modes.place import Place
from cachelab.modes.run import Run
from cachelab.modes.runner import Failure, Runner
from cachelab.modes.script import Script, require
from cachelab.tf.hooks import unobserved

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from cachelab.modes.outcome import Replay
    from cachelab.modes.protocol import Mode

MIN_TIMEOUT_MS = 20_000
SHORT_WAIT_MS = 5_000
"""For recordings in which a piece of a partial run waited in vain: it does so again, and has no timeout of its own."""


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
        Timed repeats at most; with 0 nothing is timed, and what follows from times is 0 too.
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
        waited = {call.index: call.kind for call in self.material.calls if call.failed_type == "DeadlineExceededError"}
        calls = ((index, self.record.entry(index)) for index in range(self.record.call_count))
        slowest = max((call.seconds for index, call in calls if index not in waited), default=0.0)
        least = SHORT_WAIT_MS if "partial_run" in waited.values() else MIN_TIMEOUT_MS
        timeout = max(least, int(20_000 * slowest))
        place = Place(self.material, optimizers=self.optimizers, timeout_ms=timeout, pruned=mode != "partial_run")
        return Script(self.record, self.material, place)

    def refusal(self, script: Script) -> str:
        """Return why the recording can't be repeated at all, ``""`` if it can."""
        if not script.calls:
            return _("The recording has no calls.")
        return script.refusal(allow_side_effects=self.allow_side_effects) or too_large(self.material)

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
        return (
            _("call {call}, `{fetch}` differs by {difference:.3g}. {reason}")
            .format(call=index, fetch=fetch, difference=one.difference, reason=one.reason)
            .strip()
        )
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
