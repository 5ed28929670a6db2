"""One file a mode, behind one protocol; :func:`replay`, :func:`compare` and :func:`advise`.

Importing this package imports neither TensorFlow nor networkx; calling a function of it does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cachelab.errors import CacheLabError, NotApplicableError, OptionError
from cachelab.i18n import translate as _
from cachelab.model import MODES

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from cachelab.modes.advice import Advice
    from cachelab.modes.comparison import Comparison
    from cachelab.modes.outcome import Replay

__all__ = ["advise", "compare", "replay"]


def replay(
    recording: Any,
    mode: str,
    cuts: Sequence[str] | None = None,
    *,
    optimizers: bool = True,
    allow_side_effects: bool = False,
    repeats: int = 5,
    memory_budget: int | None = None,
    progress: Callable[[int, int, str], None] | None = None,
    cancel: Any = None,
) -> Replay:
    """Execute a recording again in a mode, in a private place, and compare what comes of it.

    Parameters
    ----------
    recording
        Anything with ``record`` and ``material``, such as :class:`cachelab.recording.Recording`.
    mode
        One of ``run``, ``partial_run``, ``variable``, ``per_example``, ``joint``, ``feed``, ``handle``, ``memo``.
    cuts
        Names of the tensors to keep; the outputs of redundant ops that other ops or fetches use by default.
    optimizers
        Whether graph optimisation stays as recorded; off, results can be compared bitwise.
    allow_side_effects
        Whether ops that act outside TensorFlow (Python functions, files, prints) may be repeated.
    repeats
        Timed repeats at most; with 0 nothing is timed, and what follows from times is 0 too.
    memory_budget
        Bytes that the mode may hold.
    progress
        Called with (steps done, steps in all, what is done now).
    cancel
        A ``threading.Event``, or a function that is true once the user cancelled.

    Returns
    -------
    cachelab.modes.outcome.Replay
        Also where the mode can't be used: then ``applicable`` is false and ``reason`` says why.

    Raises
    ------
    OptionError, NameNotFoundError
        If there is no such mode or tensor.
    cachelab.modes.runner.CancelledReplayError
        If the user cancelled.
    """
    from cachelab.modes.bench import Bench
    from cachelab.modes.outcome import refused

    _check((mode,))
    try:
        bench = Bench(
            recording, optimizers=optimizers, allow_side_effects=allow_side_effects, repeats=repeats,
            progress=progress, cancel=cancel, memory_budget=memory_budget,
        )  # fmt: skip
    except NotApplicableError as error:
        return refused(mode, str(error))
    return bench.replay(mode, cuts)


def compare(recording: Any, modes: Sequence[str] | None = None, **options: Any) -> Comparison:
    """Execute a recording in several modes, all by default, and put them side by side.

    Parameters
    ----------
    recording, options
        As for :func:`replay`.
    modes
        Names of modes.

    Returns
    -------
    cachelab.modes.comparison.Comparison
        Prints as a table; modes that don't apply say why.
    """
    from cachelab.modes.bench import Bench
    from cachelab.modes.comparison import Comparison
    from cachelab.modes.outcome import refused
    from cachelab.modes.runner import CancelledReplayError

    chosen = MODES if modes is None else tuple(modes)
    _check(chosen)
    cuts = options.pop("cuts", None)
    count = recording.record.call_count
    try:
        bench = Bench(recording, **options)
    except NotApplicableError as error:
        return Comparison(tuple(refused(mode, str(error)) for mode in chosen), count)

    def attempt(mode: str) -> Replay:
        try:
            return bench.replay(mode, cuts)
        except CancelledReplayError:
            raise
        except CacheLabError as error:  # of one mode: the others go on
            return refused(mode, str(error))

    return Comparison(tuple(attempt(mode) for mode in chosen), count)


def advise(recording: Any, memory_budget: int | None = None) -> list[Advice]:
    """Return what to keep, what it saves and holds, and what not to keep and why.

    Parameters
    ----------
    recording
        Anything with ``record``; with ``material`` too, the advice has code.
    memory_budget
        Bytes that may be held, ``None`` for no limit.
    """
    from cachelab.modes import advice

    if recording.material is None:
        return advice.advise(recording.record, memory_budget=memory_budget)
    from cachelab.modes.bench import Bench
    from cachelab.modes.code import of as code_of
    from cachelab.modes.feed import Feed

    script = Bench(recording).script()

    def unholdable(graph: int, tensor: str) -> str:
        private = script.place.graphs.get(graph)
        return "" if private is None else private.facts.unholdable(tensor)

    def code(tensors: Sequence[str]) -> str:
        mode = Feed(script, tensors)
        return "" if mode.applies() else code_of(mode)

    return advice.advise(recording.record, memory_budget=memory_budget, unholdable=unholdable, code=code)


def _check(modes: Sequence[str]) -> None:
    for mode in modes:
        if mode not in MODES:
            raise OptionError(
                _("There is no mode `{mode}`.").format(mode=mode),
                _("Use one of {modes}.").format(modes=", ".join(MODES)),
            )
