"""What came of repeating a recording in a mode, and how it is worded."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from cachelab.i18n import translate as _
from cachelab.model import ModeResult

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cachelab.model import Record
    from cachelab.modes.equality import Equality


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


def verdict(mode: str, key: tuple[Any, ...], one: Equality) -> str:
    """Return a sentence on a value that is not bitwise equal."""
    where = (
        _("the final value of `{name}`").format(name=key[2])
        if key[0] == "variable"
        else _("call {call}, `{fetch}`").format(call=key[0], fetch=key[1])
    )
    if one.defect:
        text = _(
            "`{mode}` differs in {where}, by {difference:.3g}, and the graph gives no reason: a defect of CacheLab. "
            "Please export and report it."
        ).format(mode=mode, where=where, difference=one.difference)
        return f"{text} {one.reason}".strip()
    return _("{where} differs by {difference:.3g}: {reason}.").format(
        where=where, difference=one.difference, reason=one.reason
    )


def excuse(one: Equality) -> str:
    """Return why ``run`` need not give the recorded numbers."""
    return _("Not the recorded numbers: {reason}. Other modes are compared with this replay.").format(reason=one.reason)


def refused(mode: str, reason: str, equality: str = "not applicable") -> Replay:
    """Return the outcome of a mode that can't be used, with the reason."""
    result = ModeResult(mode=mode, applicable=False, reason=reason, equality=equality)
    return Replay(mode=mode, applicable=False, reason=reason, equality=equality, result=result)
