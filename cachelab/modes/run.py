"""Mode ``run``: the calls as they were recorded. The yardstick of all others."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from cachelab.modes import code
from cachelab.modes.protocol import Mode

if TYPE_CHECKING:
    from cachelab.modes.runner import Runner


class Run(Mode):
    """Issue every call as it was recorded."""

    name: ClassVar[str] = "run"

    def issue(self, runner: Runner) -> None:
        """Issue all calls, in order."""
        for call in self.script.calls:
            runner.as_recorded(call)

    def code(self) -> str:
        """Return the calls as a plain loop."""
        return code.run(self.script)
