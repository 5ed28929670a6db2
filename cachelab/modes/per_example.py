"""Mode ``per_example``: N calls with one example each as one vectorised run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import tensorflow as tf

from cachelab.errors import NotApplicableError
from cachelab.explain.closure import PLACEHOLDERS
from cachelab.i18n import translate as _
from cachelab.modes import code
from cachelab.modes.grouping import initialises, looked_through, telling
from cachelab.modes.protocol import Mode
from cachelab.modes.runner import gist
from cachelab.modes.script import PLAIN

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cachelab.material import CallMaterial
    from cachelab.modes.runner import Runner


RAGGED = frozenset({"Where", "Unique", "UniqueV2", "UniqueWithCounts", "UniqueWithCountsV2", "DynamicPartition"})
"""Types whose results have a size that depends on values."""


class PerExample(Mode):
    """Stack the feeds of calls that differ in nothing else, and run the graph once for all (``pfor``)."""

    name: ClassVar[str] = "per_example"

    def applies(self) -> str | None:
        """Return why no two calls can become one vectorised run, ``None`` if some can."""
        self.groups: list[list[CallMaterial]] = []
        self.reasons: list[tuple[bool, str]] = []
        open_groups: dict[Any, list[CallMaterial]] = {}
        for call in self.script.calls:
            effects = self.script.effects(call)
            reason = self._unfit(call)
            key = (call.session, call.fetches, tuple(call.feeds), self._shapes(call))
            group = None if reason else open_groups.get(key)
            if group is None:
                group = [call]
                self.groups.append(group)
                self.reasons += [(initialises(self.script, call), reason)] if reason else []
            else:
                group.append(call)
            if reason is None:
                open_groups[key] = group
            self._close(open_groups, call, effects.writes | effects.streams)
        self._group_of = {call.index: group for group in self.groups for call in group}
        self._indices = {group[0].index: tuple(call.index for call in group) for group in self.groups}
        self.stacked = {group[0].index: self._differing(group) for group in self.groups if len(group) > 1}
        if any(self.stacked.values()):
            return None
        if self.stacked:
            return _("The calls are fed equal values: there is nothing to vectorise.")
        return telling(self.reasons) or _("No two calls have the same fetches and shapes of feeds.")

    def _close(self, groups: dict[Any, list[CallMaterial]], call: CallMaterial, written: frozenset[str]) -> None:
        """Close the groups that read what a call may have written: later calls see other values."""
        for key, group in list(groups.items()):
            effects = self.script.effects(group[0])
            shared = written & (effects.reads | effects.streams)
            if shared:
                text = _("Call {call} writes `{variable}` between the examples.")
                self.reasons.append((False, text.format(call=call.index, variable=min(shared))))
                del groups[key]

    def _unfit(self, call: CallMaterial) -> str | None:
        """Return why a call can't be part of a vectorised run, ``None`` if it can."""
        if call.kind not in PLAIN:
            return _("Call {call} is a `{kind}`.").format(call=call.index, kind=call.kind)
        if call.failed:
            return _("Call {call} failed.").format(call=call.index)
        effects = self.script.effects(call)
        if effects.writes:
            return _("Call {call} writes `{variable}`.").format(call=call.index, variable=min(effects.writes))
        if effects.random:
            return _("`{op}` draws random numbers; one vectorised draw is not the N draws of N calls.").format(
                op=min(effects.random)
            )
        if effects.restless:
            return _("`{op}` gives another value in each call.").format(op=min(effects.restless))
        ragged = sorted(name for name in self.script.closure(call) if self._ragged(call, name))
        if ragged:
            return _("`{op}` gives as many rows as its values say, so that N of its results can't be stacked.").format(
                op=ragged[0]
            )
        if call.targets:
            return _("`{op}` is an operation and gives no value per example.").format(op=call.targets[0])
        if not call.feeds:
            return _("Call {call} is fed nothing.").format(call=call.index)
        hidden = self.script.facts(call).looked_through(call.feeds)
        if hidden:
            return looked_through(call, hidden)
        links = [link for link, _fetch in call.linked.values()]
        return (
            _("Call {call} is fed from a result of call {link}.").format(call=call.index, link=links[0])
            if links
            else None
        )

    def _ragged(self, call: CallMaterial, name: str) -> bool:
        op = self.script.facts(call).ops.get(name)
        return op is not None and op.type in RAGGED

    def _shapes(self, call: CallMaterial) -> Any:
        values = (self.script.material.values.get(digest) for digest in call.feeds.values())
        return tuple((np.shape(value), getattr(value, "dtype", None)) for value in values)

    def _differing(self, group: Sequence[CallMaterial]) -> list[str]:
        first = group[0]
        found = {name for name in first.feeds if any(call.feeds[name] != first.feeds[name] for call in group)}
        if not found:
            return []
        # What is fed in the place of a computed tensor stays fed, be it with the same value in every call.
        ops = self.script.facts(first).ops
        return [n for n in first.feeds if n in found or ops[n.rpartition(":")[0]].type not in PLACEHOLDERS]

    def together(self, call: int) -> Sequence[int]:
        """Return the calls that one vectorised run serves."""
        if not self.vectorizes(call):
            return (call,)
        return self._indices[self._group_of[call][0].index]

    def vectorizes(self, call: int) -> bool:
        """Whether a call is part of a vectorised run."""
        return self._group_of[call][0].index in self._of_group

    def prepare(self) -> None:
        """Vectorise the subgraph of every group in the private graph.

        Raises
        ------
        NotApplicableError
            If the subgraph can't be vectorised, with the reason.
        """
        from cachelab.tf.per_example.subgraph import vectorize_calls

        self._vectorized: dict[Any, Any] = {}
        self._of_group: dict[int, Any] = {}
        problem: NotApplicableError | None = None
        for group in self.groups:
            first = group[0]
            feeds = self.stacked.get(first.index)
            if not feeds:
                continue
            key = (first.session, first.fetches, tuple(feeds), tuple(first.feeds))
            if key not in self._vectorized:
                try:
                    graph = self.script.graph(first).graph
                    with graph.as_default():
                        self._vectorized[key] = vectorize_calls(graph, list(first.fetches), list(feeds))
                except NotApplicableError as error:
                    problem, self._vectorized[key] = error, None
            if self._vectorized[key] is not None:
                self._of_group[first.index] = self._vectorized[key]
        if problem is not None and not self._of_group:
            raise problem

    def issue(self, runner: Runner) -> None:
        """Issue one vectorised run a group, at the place of its first call."""
        done: set[int] = set()
        for call in self.script.calls:
            vectorized = self._of_group.get(call.index)
            if vectorized is not None:
                runner.checkpoint(call.index)
                self._issue(runner, self._group_of[call.index], vectorized)
                done.update(member.index for member in self._group_of[call.index])
            elif call.index not in done:
                runner.as_recorded(call)

    def _issue(self, runner: Runner, group: Sequence[CallMaterial], vectorized: Any) -> None:
        first, values = group[0], self.script.material.values
        feed = {
            placeholder: np.stack([np.asarray(values.get(call.feeds[name])) for call in group])
            for name, placeholder in vectorized.inputs.items()
        }
        # The originals of the stacked feeds too: a control input may still wait for them.
        feed.update(runner.feed(first.session, {name: values.get(digest) for name, digest in first.feeds.items()}))
        calls = tuple(call.index for call in group)
        try:
            results = runner.run(first.session, list(vectorized.outputs), feed, calls)
        except tf.errors.OpError as error:  # each call by itself did not fail
            raise NotApplicableError(
                _("TensorFlow vectorises these calls, but the vectorised run fails: {error}").format(error=gist(error)),
                _("Replay these calls one by one, in mode `run`."),
            ) from error
        for at, call in enumerate(group):
            runner.keep(call, {name: result[at] for name, result in zip(call.fetches, results, strict=True)})

    def options(self) -> dict[str, Any]:
        """Return the groups of calls that became one run."""
        return {"groups": [[call.index for call in self._group_of[first]] for first in self._of_group]}

    def code(self) -> str:
        """Return code that stacks the examples and maps the subgraph over them."""
        return code.per_example(self)
