"""Why an op ran, or did not, in one call: one sentence with the root cause first, then the ops that carry it."""

from __future__ import annotations

import difflib
from collections import deque
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from cachelab.errors import NameNotFoundError, OptionError
from cachelab.i18n import translate as _
from cachelab.views import words
from cachelab.views.sources import Sources, phrases, unchanged

if TYPE_CHECKING:
    from collections.abc import Iterable

    from cachelab.model import Call, Cause, OpExecution, Record, Source

_MOST_CANDIDATES = 3000
_NAMED = 4
_MOST_ROWS = 50_000


@dataclass(frozen=True)
class Reason:
    """Why an op has its status in one call.

    ``text`` is one sentence, root cause first. ``causes`` are all causes, root first. ``chain`` names the source
    that entered, then the ops that carry it down to the op asked for. ``status`` and ``evidence`` are those of the
    op in ``call``; ``status`` is ``""`` where the call did not need it.
    """

    op: str
    call: int
    status: str
    evidence: str
    text: str
    causes: tuple[Cause, ...] = ()
    chain: tuple[str, ...] = ()

    def __str__(self) -> str:
        lines = [self.text]
        if len(self.chain) > 1:
            lines.append("  " + " → ".join(self.chain))
        lines += [f"  {_('also')}: {cause.text}" for cause in self.causes[1:] if cause.text]
        return "\n".join(lines)

    def __repr__(self) -> str:
        return str(self)


def why(record: Record, name: str, call: int | None = None) -> Reason:
    """Return why an op ran or did not run in a call.

    Parameters
    ----------
    record
        The recording.
    name
        An op (``enc/Tanh``) or one of its tensors (``enc/Tanh:0``).
    call
        Number of the call, negative from the end; by default the last call that lists the op.

    Returns
    -------
    Reason
        One sentence, the causes, and the chain of ops.

    Raises
    ------
    NameNotFoundError
        If no graph of the recording has such an op; the message names close matches.
    OptionError
        If there is no such call.
    """
    graphs = _graphs_with(record, name)
    index = _call(record, graphs, name, call)
    entry = record.entry(index)
    if entry.graph not in graphs:
        text = _("`{op}` took no part in call {n}: it is in another graph.").format(op=_op(name), n=index)
        return Reason(_op(name), index, "", "derived", text)
    op = graphs[entry.graph]
    row = record.graphs[entry.graph].index[op]
    columns = record.columns[entry.columns]
    if row not in columns.op:
        text = _("`{op}` took no part in call {n}: no fetch of this call needs it.")
        if entry.trace in {"missing", "off"} or {op, name, f"{op}:0"} & set(entry.fetches):
            text = _("Whether `{op}` took part in call {n} is not known: there is no trace of it.")
        return Reason(op, index, "", "derived", text.format(op=op, n=index))
    found = next(execution for execution in record.executions(index) if execution.name == op)
    text, chain = _Explained(record, entry, found, row).told()
    return Reason(op, index, found.status, found.evidence, text, found.causes, chain)


def _op(name: str) -> str:
    """Return the op of a tensor name, or the op name as it is."""
    op, colon, number = name.removeprefix("^").rpartition(":")
    return op if colon and number.isdecimal() else name


def _graphs_with(record: Record, name: str) -> dict[int, str]:
    """Return graph -> op name for the graphs that have the op."""
    found = {}
    for number, graph in enumerate(record.graphs):
        for candidate in (name, _op(name)):
            if candidate in graph.index:
                found[number] = candidate
                break
    if found:
        return found
    close = close_names(_op(name), (op for graph in record.graphs for op in graph.name))
    asked = _("No tensor or op `{name}` in {recording}.").format(
        name=name, recording=record.name or _("this recording")
    )
    suffix = name[len(_op(name)) :] if name.startswith(_op(name)) else ""
    meant = _(" or ").join(f"`{op}{suffix}`" for op in close)
    todo = _("Did you mean {names}?").format(names=meant) if close else ""
    if not any(graph.name for graph in record.graphs):
        todo = _("This recording lists no ops at all; record with trace='auto'.")
    raise NameNotFoundError(asked, todo or _("`recording.calls[0].ops` lists the ops of call 0."))


def close_names(name: str, names: Iterable[str], limit: int = 3) -> list[str]:
    """Return up to ``limit`` names close to ``name``: same last part first, then close in spelling."""
    leaf = name.rpartition("/")[2].lower()
    every = list(dict.fromkeys(names))
    same = [other for other in every if other.rpartition("/")[2].lower() == leaf or name.lower() == other.lower()]
    near = every
    if len(every) > _MOST_CANDIDATES:
        near = [other for other in every if leaf[:3] and leaf[:3] in other.lower()][:_MOST_CANDIDATES]
    for cutoff in (0.85, 0.6):
        close = difflib.get_close_matches(name, [*same[:_MOST_CANDIDATES], *near], limit, cutoff)
        if close:
            break
    return list(dict.fromkeys([*close, *same]))[:limit]


def _call(record: Record, graphs: dict[int, str], name: str, call: int | None) -> int:
    total = record.call_count
    if call is None:
        for entry in reversed(record.calls):
            op = graphs.get(entry.graph)
            if op is not None and record.graphs[entry.graph].index[op] in record.columns[entry.columns].op:
                return entry.index + entry.repeat - 1
        call = -1
    index = call + total if call < 0 else call
    if not 0 <= index < total:
        have = _("it has calls 0 to {last}").format(last=total - 1) if total else _("it has no calls")
        raise OptionError(
            _("There is no call {n} in this recording to ask about `{name}`: {have}.").format(
                n=call, name=name, have=have
            ),
            _("Calls are numbered from 0; -1 is the last one.") if total else _("Record a cell with run calls first."),
        )
    return index


class _Explained:
    """Words one execution."""

    def __init__(self, record: Record, entry: Call, op: OpExecution, row: int) -> None:
        self.record, self.entry, self.op, self.row = record, entry, op, row
        self.finder = Sources(record, entry)

    def told(self) -> tuple[str, tuple[str, ...]]:
        """Return the sentence and the chain."""
        op = self.op
        told = getattr(self, f"_{op.status}")()
        return told.format(op=op.name, n=op.call), self._chain() if op.executed else (op.name,)

    # Braces in names must survive the ``format`` above, hence ``_safe``.
    @staticmethod
    def _safe(text: str) -> str:
        return text.replace("{", "{{").replace("}", "}}")

    def _root(self, default: str = "") -> str:
        if not self.op.causes or not self.op.causes[0].text:
            return default
        cause = self.op.causes[0]
        said = cause.text.strip().rstrip(".")
        if cause.may and " may " not in f" {said} ":
            said = _("it may be that {said}").format(said=said)
        return self._safe(said)

    def _recomputed(self) -> str:
        op, held = self.op, self._held()
        kept = _("values live for one call only")
        root = op.causes[0] if op.causes else None
        if root is not None and root.kind != "not_kept":
            kept = self._root(kept)
        if op.witness is None:
            return (
                _("`{op}` was recomputed in call {n} with {held} as before: ").format(op="{op}", n="{n}", held=held)
                + kept
                + "."
            )
        said = _("`{op}` was recomputed in call {n} with {held} as in call {witness}: ")
        return said.format(op="{op}", n="{n}", held=held, witness=op.witness) + kept + "."

    def _held(self) -> str:
        """Return the sources that were the same, feeds first: ``the same feed `x` and the same variable `W```."""
        rows = self._same
        wording = {
            "feed": (_("the same feed"), _("the same feeds"), _("the same {n} feeds")),
            "variable": (_("the same variable"), _("the same variables"), _("the same {n} variables")),
        }
        parts = []
        for kind, (one, several, many) in wording.items():
            names = phrases(self.record, [row for row in rows if self.record.sources[row].kind == kind], _NAMED)
            count = sum(self.record.sources[row].kind == kind for row in rows)
            if count > _NAMED:
                parts.append(many.format(n=count))
            elif names:
                parts.append(f"{one if count == 1 else several} {words.listing(names, _NAMED)}")
        return self._safe(words.listing(parts) if parts else _("the same inputs"))

    @cached_property
    def _same(self) -> list[int]:
        """Return the sources that held the same when the op ran before."""
        found = self.finder.of([self.row])
        if self.op.witness is None:
            return found
        return unchanged(self.record, found, self.entry, self.record.entry(self.op.witness))

    def _computed(self) -> str:
        must = (
            _("`{op}` had to run in call {n}: ") if self._is_effect() else _("`{op}` had to be computed in call {n}: ")
        )
        return must + self._root(_("its inputs had not been seen before")) + "."

    def _is_effect(self) -> bool:
        return bool(self.op.causes) and self.op.causes[0].kind == "effect"

    def _reused(self) -> str:
        said = _("`{op}` was not run in call {n}: its value was served")
        return said + (_(", kept from call {w}").format(w=self.op.witness) if self.op.witness is not None else "") + "."

    def _fed(self) -> str:
        return _("`{op}` was not run in call {n}: the caller fed its value.")

    def _merged(self) -> str:
        if self.op.into is None:
            return _(
                "`{op}` was not run by itself in call {n}: TensorFlow merged it with an equal op of the same call."
            )
        into = self._safe(self.op.into)
        return _("`{op}` was not run by itself in call {n}: TensorFlow merged it into the equal op `{into}`.").format(
            op="{op}", n="{n}", into=into
        )

    def _folded(self) -> str:
        return _("`{op}` was not run in call {n}: its value is constant, and TensorFlow folded it before the run.")

    def _fused(self) -> str:
        if self.op.into is None:
            return _("`{op}` was not run by itself in call {n}: it is part of a larger kernel.")
        into = self._safe(self.op.into)
        return _("`{op}` was not run by itself in call {n}: it is part of the kernel of `{into}`.").format(
            op="{op}", n="{n}", into=into
        )

    def _pruned(self) -> str:
        table = self.record.graphs[self.entry.graph]
        columns = self.record.columns[self.entry.columns]
        status = dict(zip(columns.op, columns.status, strict=True))
        served = [row for row in table.consumers[self.row] if status.get(row) in {"s", "d"}]
        others = [row for row in table.consumers[self.row] if status.get(row, "p") not in "sdp"]
        if served and not others:
            names = self._safe(words.listing([f"`{table.name[row]}`" for row in served]))
            return _("`{op}` was not needed in call {n}: only {names} used it, and that was served.").format(
                op="{op}", n="{n}", names=names
            )
        root = self._root()
        return _("`{op}` was not needed in call {n}") + (
            f": {root}." if root else _(": TensorFlow gets what the call fetches without it.")
        )

    def _untaken(self) -> str:
        return _("`{op}` was not run in call {n}: it lies on a branch that was not taken.")

    def _not_reached(self) -> str:
        reason = words.first_line(self.entry.failed or "", 160)
        said = _("`{op}` was not reached in call {n}: the call failed before")
        return said + (f" ({self._safe(reason)})." if reason else ".")

    def _unknown(self) -> str:
        default = _("there is no trace that tells") if self.entry.trace != "full" else _("the trace does not tell")
        return _("Whether `{op}` ran in call {n} is not known: ") + self._root(default) + "."

    def _chain(self) -> tuple[str, ...]:
        """Return the shortest way from the source of the root cause (or any source) to the op."""
        wanted = self.op.causes[0].source if self.op.causes else ""
        allowed = set(self._same) if self.op.status == "recomputed" else None
        start: Source | None = None
        before = {self.row: -1}
        todo = deque([self.row])
        while todo and len(before) < _MOST_ROWS:
            row = todo.popleft()
            sources, producers = self.finder.direct(row)
            named = [self.record.sources[source] for source in sources]
            if allowed is not None:
                named = [self.record.sources[source] for source in sources if source in allowed]
            match = [source for source in named if wanted in ("", source.name)]
            if match or (wanted and self.finder.graph.name[row] == wanted):
                start = match[0] if match else None
                break
            for producer in producers:
                if producer not in before:
                    before[producer] = row
                    todo.append(producer)
        else:
            return (self.op.name,)
        names = [start.name] if start is not None else []
        while row != -1:
            if not names or self.finder.graph.name[row] != names[-1]:
                names.append(self.finder.graph.name[row])
            row = before[row]
        return tuple(names)
