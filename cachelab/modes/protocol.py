"""What a mode is: does it apply and why not, prepare, issue the calls, what it holds, the code by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from cachelab.modes.bench import Bench
    from cachelab.modes.runner import Runner
    from cachelab.modes.script import Script
    from cachelab.modes.traces import Ran


class Mode:
    """A way to execute a recording; one subclass a mode.

    Parameters
    ----------
    script
        The calls, their closures and verdicts.
    cuts
        Names of the tensors to keep, ``None`` for the frontier; modes without cuts ignore it.
    memory_budget
        Bytes that the mode may hold, ``None`` for no limit.

    Attributes
    ----------
    name
        As in ``cachelab.model.MODES``.
    notes
        What is worth telling about this replay, as sentences.
    bytes_held
        Most bytes that the mode kept between calls, measured while issuing.
    """

    name: ClassVar[str] = ""

    def __init__(self, script: Script, cuts: Sequence[str] | None = None, memory_budget: int | None = None) -> None:
        self.script = script
        self.cuts = cuts
        self.memory_budget = memory_budget
        self.notes: list[str] = []
        self.bytes_held = 0

    def applies(self) -> str | None:
        """Return why the mode can't be used truthfully on this recording, ``None`` if it can."""
        return None

    def prepare(self) -> None:
        """Build what the mode needs in the private graph; paid once."""

    def reset(self) -> None:
        """Drop what is kept, so that the calls can be issued from the start."""

    def issue(self, runner: Runner) -> None:
        """Issue all calls, in order."""
        raise NotImplementedError

    def traced(self, bench: Bench) -> list[Ran] | None:  # noqa: ARG002 - for subclasses
        """Return what ran in a replay of this mode, where a trace of its runs can't tell; else ``None``."""
        return None

    def retreat(self) -> bool:
        """Give up savings that a traced run failed with; return whether there is anything to give up."""
        return False

    def measure(self, runner: Runner) -> None:
        """Measure the bytes held after the calls were issued, where that was not known on the way."""

    def code(self) -> str:
        """Return plain TensorFlow code that does the same by hand."""
        raise NotImplementedError

    # -- what the recoloured graph shows -------------------------------------------------------------------------

    def served(self, call: int) -> Iterable[str]:  # noqa: ARG002 - for subclasses
        """Return the ops whose kept value served a call."""
        return ()

    def needed(self, call: int) -> frozenset[str]:
        """Return the ops that a call may still run in this mode."""
        return self.script.closure(self.script.calls[call])

    def fed(self, call: int) -> Iterable[str]:
        """Return the tensors of its own that a call is still fed."""
        return self.script.calls[call].feeds

    def vectorizes(self, call: int) -> bool:  # noqa: ARG002 - for subclasses
        """Whether a call is part of a vectorised run, which runs ops of other names."""
        return False

    def together(self, call: int) -> Sequence[int]:
        """Return the calls that one run serves with this one, in order; itself alone by default."""
        return (call,)

    def differences(self, call: int, fetch: str) -> str:  # noqa: ARG002 - for subclasses
        """Return why a result may rightly differ from ``run``, ``""`` where the graph gives no reason."""
        return ""

    def options(self) -> dict[str, Any]:
        """Return what a view may want to know of the mode, such as its cuts."""
        return {}
