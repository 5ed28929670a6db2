"""Mode ``joint``: one run with the fetches of several calls."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from cachelab.modes import code
from cachelab.modes.grouping import Grouped

if TYPE_CHECKING:
    from cachelab.modes.runner import Runner


class Joint(Grouped):
    """Fetch what adjacent calls fetch in a single run: what they share runs once."""

    name: ClassVar[str] = "joint"

    def issue(self, runner: Runner) -> None:
        """Issue one run a group."""
        for group in self.groups:
            if len(group) == 1:
                runner.as_recorded(group[0])
                continue
            first = group[0]
            runner.checkpoint(first.index)
            names = tuple(dict.fromkeys(name for call in group for name in call.fetches))
            targets = tuple(dict.fromkeys(name for call in group for name in call.targets))
            values = {}
            for call in group:
                values.update(self.script.feed_values(call, runner.results))
            fetches = [*runner.tensors(first.session, names), *runner.targets(first.session, targets)]
            results = runner.run(
                first.session, fetches, runner.feed(first.session, values), tuple(call.index for call in group),
                names=(names, targets, tuple(values)),
            )  # fmt: skip
            found = dict(zip(names, results, strict=False))
            for call in group:
                runner.keep(call, {name: found[name] for name in call.fetches})

    def code(self) -> str:
        """Return code that asks for all fetches at once."""
        return code.joint(self)
