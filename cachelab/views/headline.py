"""What a record says first: headline, sentence, counts; and the wording of calls and causes."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import numpy as np

from cachelab.i18n import plural
from cachelab.i18n import translate as _
from cachelab.views import words
from cachelab.views.sources import Sources, phrases, short, unchanged
from cachelab.views.tally import Tally

if TYPE_CHECKING:
    from cachelab.model import Call, Record
    from cachelab.views.slots import Slot
    from cachelab.views.tally import CauseSum

_MUCH = 0.5
_BOTH = 2
_LONG = 20
_LONGEST = 60

NOTHING = "Nothing was recorded: no run call was made."
NOTHING_TODO = "Call `Session.run`, `Tensor.eval`, a callable or a concrete function while the recording is open."

_CAUSES = {
    "first": "no earlier call ran these ops",
    "not_kept": "equal inputs, but values live for one call only",
    "feed": "other content was fed",
    "variable": "a variable was written",
    "effect": "the effect has to happen in each call",
    "random": "new numbers are drawn in each call",
    "iterator": "the iterator moved on",
    "opaque": "runs code that CacheLab can't see into",
    "file": "reads a file that may have changed",
    "race": "a write and a read have no order",
    "overlap": "another call overlapped and may write a source",
    "new_session": "ran in another session",
    "graph": "the graph was different",
    "": "no cause is recorded",
}


def headline(record: Record, tally: Tally | None = None) -> str:
    """Return one sentence that says how much of the op time repeated earlier work."""
    tally = tally or Tally(record)
    total = tally.total
    if not record.calls:
        return _(NOTHING)
    if total.recomputed and not total.op_seconds:
        return plural(
            "{n} op execution repeated earlier work.", "{n} op executions repeated earlier work.", total.recomputed
        )
    if total.recomputed:
        return _("{share} of the op time repeated earlier work.").format(share=words.share(total.share))
    if not total.ran and not total.bookkeeping:
        return _failed(record) or _("No op of these calls is known to have run.")
    alone = record.call_count == 1
    return _("One call, and no earlier one to compare with.") if alone else _("No op ran twice on equal inputs.")


def counts(record: Record, tally: Tally | None = None) -> str:
    """Return the counts in one line, such as ``2 run calls, 14 ops executed, 6 recomputed: 83 % ...``."""
    tally = tally or Tally(record)
    if not record.calls:
        return f"{_(NOTHING)} {_(NOTHING_TODO)}"
    total = tally.total
    kinds = {call.kind for call in record.calls}
    many = record.call_count
    calls = plural("{n} run call", "{n} run calls", many) if kinds == {"run"} else plural("{n} call", "{n} calls", many)
    executed = plural("{n} op executed", "{n} ops executed", total.ran)
    said = _("{calls}, {executed}, {n} recomputed").format(calls=calls, executed=executed, n=total.recomputed)
    if not total.op_seconds:
        return said
    return _("{said}: {share} of the summed op time was redundant").format(said=said, share=words.share(total.share))


def sentence(record: Record, tally: Tally) -> str:
    """Return the sentence below the headline; names stand in backticks."""
    if not record.calls:
        return _(NOTHING_TODO)
    said = [_failed(record), _heaviest(record, tally)]
    return " ".join(part for part in said if part)


def _failed(record: Record) -> str:
    failed = [call for call in record.calls if call.failed is not None]
    if not failed:
        return ""
    lost = [index for call in failed for index in range(call.index, call.index + min(call.repeat, 1000))]
    complete = record.call_count - sum(call.repeat for call in failed)
    first = failed[0]
    reason = words.first_line(first.failed or "", 120)
    if len(lost) == 1:
        said = _("Call {n} failed ({reason})").format(n=first.index, reason=reason)
    else:
        said = _("Calls {n} failed (the first: {reason})").format(n=words.runs(lost), reason=reason)
    if not complete:
        return said + "."
    return f"{said}; " + plural("{n} other call is complete.", "{n} other calls are complete.", complete)


def _heaviest(record: Record, tally: Tally) -> str:
    """Return what the redundant ops that weigh most have in common."""
    if not tally.total.recomputed:
        return ""
    graph = int(np.argmax([seconds.sum() + again.sum() * 1e-12 for seconds, again in
                           zip(tally.redundant_seconds, tally.recomputed, strict=True)]))  # fmt: skip
    again = tally.recomputed[graph]
    weight = np.where(tally.counted[graph] & (again > 0), tally.redundant_seconds[graph] + 1e-15, 0.0)
    order = [int(row) for row in np.argsort(-weight, kind="stable")[:3] if weight[row] >= 0.05 * weight.max() > 0]
    if not order:
        return ""
    top = order[0]
    alike = sorted(row for row in order if again[row] == again[top] and tally.ran[graph][row] == tally.ran[graph][top])
    table = record.graphs[graph]
    names = words.listing([f"`{words.shorten(table.name[row], _LONGEST)}`" for row in alike])
    ran, repeated = int(tally.ran[graph][top]), int(again[top])
    held = words.listing(phrases(record, _held(record, tally, graph, alike)), limit=6)
    if repeated == ran - 1:
        said = _("{names} ran in {n} calls")
        if ran == record.call_count:
            said = _("{names} ran in all {n} calls") if ran > _BOTH else _("{names} ran in both calls")
        said += _(", although {held} stayed the same.") if held else _(", on equal inputs.")
    else:
        said = _("{names} ran in {n} calls, {repeated} of them on")
        said += _(" values of {held} that were seen before.") if held else _(" inputs that were seen before.")
    said = said.format(names=names, n=ran, repeated=repeated, held=held)
    total = tally.op_seconds[graph][top]
    if len(alike) == 1 and tally.total.op_seconds and total >= _MUCH * tally.total.op_seconds:
        said += " " + _("`{name}` alone is {share} of the op time.").format(
            name=table.name[top], share=words.share(total / tally.total.op_seconds)
        )
    return said


def _held(record: Record, tally: Tally, graph: int, alike: list[int]) -> list[int]:
    """Return the sources of ``alike`` that held the same whenever the first of these was recomputed as before."""
    again = [call for call in record.calls if call.graph == graph and _letter(tally, call, alike[0]) == "r"]
    found = Sources(record, again[0]).of(alike)
    for call in again:
        columns = record.columns[call.columns]
        back = columns.witness[columns.op.index(alike[0])]
        if back is not None:
            found = unchanged(record, found, call, record.entry(call.index - back))
    return found


def _letter(tally: Tally, call: Call, row: int) -> str:
    table = tally.table(call)
    at = table.at.get(row)
    return "" if at is None else table.columns.status[at]


def origin(record: Record, tally: Tally) -> list[str]:
    """Return the facts of the line above the headline: calls, graphs, ops, tracing, graph optimiser."""
    calls = plural("{n} call", "{n} calls", record.call_count)
    used = [graph for graph, listed in enumerate(tally.listed) if listed.any()]
    graphs = plural("{n} graph", "{n} graphs", len(used))
    ops = plural("{n} op", "{n} ops", int(sum((tally.listed[g] & tally.counted[g]).sum() for g in used)))
    facts = [f"{calls}, {graphs}, {ops}"]
    traces = _traces(record)
    if traces:
        wording = {
            "full": _("traced in full"),
            "light": _("derived from the graph"),
            "off": _("not traced"),
            "missing": _("trace missing"),
        }
        several = len(traces) > 1
        said = ((wording.get(trace, trace), number) for trace, number in sorted(traces.items()))
        facts.append(", ".join(f"{number:,} {text}" if several else text for text, number in said))
    if "optimizers" in record.environment:
        facts.append(_("Grappler on") if record.environment["optimizers"] else _("Grappler off"))
    return facts


def _traces(record: Record) -> Counter[str]:
    found: Counter[str] = Counter()
    for call in record.calls:
        found[call.trace] += call.repeat
    return found


def time_note(record: Record, tally: Tally) -> str:
    """Return what the op times are: sums, without bookkeeping, and in which calls they are not measured."""
    said = _("op times are sums, not wall time; placeholders and reads are not counted")
    ran = [call for call in record.calls if tally.table(call).figures.ran]
    guessed = sum(call.repeat for call in ran if estimated(call))
    if not ran or not guessed:
        return said
    if not tally.total.op_seconds:
        return _("op times were not measured; placeholders and reads are not counted")
    return _("{said}; in {n} of {all} calls (≈) they are estimated from traced ones").format(
        said=said, n=guessed, all=sum(call.repeat for call in ran)
    )


def estimated(call: Call) -> bool:
    """Return whether the op times of a call come from other calls, as it was not traced in full."""
    return call.trace != "full"


def fetch_names(call: Call, limit: int = 60) -> str:
    """Return the fetches as in code: ``loss``, or ``[loss, train_op]``."""
    names = [name.removesuffix(":0") for name in call.fetches]
    if not names:
        return call.kind if call.kind != "run" else "[]"
    whole = names[0] if len(names) == 1 else f"[{', '.join(names)}]"
    if len(whole) <= limit:
        return whole
    last = [name.rpartition("/")[2] or name for name in names]
    whole = f"[{', '.join(last)}]" if len(last) > 1 else f"…/{last[0]}"
    return words.shorten(whole, limit)


def cause_text(record: Record, found: CauseSum) -> str:
    """Return what one kind of cause is about, with the sources that matter most in backticks."""
    general = _(_CAUSES.get(found.kind, found.kind))
    if found.kind in {"first", "not_kept", ""}:
        return general
    kinds = {source.name: source for source in record.sources}
    named: dict[str, int] = {}
    may = False
    for row, count in found.rows.most_common(50):
        cause = record.causes[row]
        may = may or cause.may
        if cause.source:
            source = kinds.get(cause.source)
            name = short(source) if source else cause.source
            named[name] = named.get(name, 0) + count
    if not named:
        return general
    shown = [f"`{words.shorten(name, 30)}`" for name in named]
    limit = 2 if max(map(len, shown)) > _LONG else 3
    return f"{words.listing(shown, limit)}: {general}" + (_(" (may)") if may else "")


def slot_label(slot: Slot) -> str:
    """Return ``…`` for calls that are left out, their numbers otherwise."""
    return "…" if slot.omitted else slot.label
