"""Things worth knowing that are no verdict on one op: races, ops built twice, graphs that grow, and more."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cachelab.explain.plan import OF_THE_WHOLE
from cachelab.i18n import translate as _
from cachelab.model import BOOKKEEPING, Finding

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from cachelab.explain.history import History, Judged
    from cachelab.explain.log import LoggedCall, Outcome
    from cachelab.explain.plan import Plan, Race
    from cachelab.explain.verdicts import Verdicts

CHEAP = frozenset({"Shape", "ShapeN", "Size", "Rank", "BroadcastGradientArgs", "DynamicStitch"})
"""Op types so cheap that building one twice is not worth a word; gradients are full of them."""

MOST_NAMED = 6
"""Names or calls listed in one sentence."""

MOST = 20
"""Findings of one kind that are listed one by one."""


def findings(
    parts: Any, judged: Sequence[Judged | None], history: History, faults: Sequence[str], verdicts: Verdicts
) -> list[Finding]:
    """Return all findings on a log, in the order of kinds."""
    found: list[Finding] = []
    by_plan = _by_plan(parts.calls)
    plans = [(plan, calls[0]) for plan, calls in by_plan]
    for group in (
        _contradictions(parts.calls, verdicts),
        _races(by_plan),
        _overlaps(judged, history),
        _built_twice(plans, parts),
        _grown(parts),
        _streams(parts.calls),
        _through_python(parts.events),
        _unneeded(plans),
        _handles(parts),
        _missing(parts.calls, faults),
        _not_replayable(parts),
    ):
        listed = list(group)
        found.extend(listed[:MOST])
        if len(listed) > MOST:
            more = _("... and {count} more of this kind.").format(count=len(listed) - MOST)
            found.append(Finding(listed[0].kind, (), None, more))
    return found


def _by_plan(calls: Iterable[LoggedCall]) -> list[tuple[Plan, list[LoggedCall]]]:
    """Return each plan with the first call of each of its outcomes, in the order of the log."""
    found: dict[int, tuple[Plan, dict[Outcome | None, LoggedCall]]] = {}
    for call in calls:
        if call.plan is not None:
            found.setdefault(call.plan.id, (call.plan, {}))[1].setdefault(call.outcome, call)
    return [(plan, list(first.values())) for plan, first in found.values()]


def _contradictions(calls: Sequence[LoggedCall], verdicts: Verdicts) -> Iterator[Finding]:
    """Check verdicts by value, where values were kept."""
    for row, index, witness in verdicts.witnessed:
        call, earlier = calls[index], calls[witness]
        one, other = call.values.get(row), earlier.values.get(row)
        # Optimised for another fetch or feed set, a kernel may round differently.
        comparable = call.plan is earlier.plan or not (call.optimized or earlier.optimized)
        if one and other and one != other and comparable and call.plan is not None:
            name = call.plan.flat.name[row]
            text = _(
                "`{name}` was judged recomputed in call {call}, but its value differs from that of call {other}. "
                "Its kernel is not deterministic, or this is a defect of CacheLab: please export and report it."
            ).format(name=name, call=index, other=witness)
            yield Finding("contradiction", (name,), index, text)
    same: dict[tuple[int, int], list[str]] = {}
    for row, index, last in verdicts.apart:
        call, earlier = calls[index], calls[last]
        if call.plan is None or call.plan.flat.type[row] in BOOKKEEPING | OF_THE_WHOLE or not call.values.get(row):
            continue
        if call.values[row] == earlier.values.get(row):
            same.setdefault((index, last), []).append(call.plan.flat.name[row])
    for (index, last), names in same.items():
        text = _(
            "{names} gave the same value in call {call} as in call {other}, though their sources differ: equal by "
            "coincidence, which no cache may rely on."
        ).format(names=_listed(names), call=index, other=last)
        yield Finding("same_by_coincidence", tuple(names), index, text)


def _races(by_plan: Iterable[tuple[Plan, list[LoggedCall]]]) -> Iterator[Finding]:
    seen: set[tuple[int, ...]] = set()
    for plan, calls in by_plan:
        flat = plan.flat
        traced = [call for call in calls if call.outcome is not None and call.outcome.complete]
        told: set[tuple[int, int]] = set()
        for race in plan.races():
            call = next((call for call in traced or calls if _may_meet(race, call.outcome)), None)
            # Of the writes of a call that a read races with, one that may have run is enough.
            if call is None or (not race.both and (race.reader, race.cell) in told):
                continue
            if not race.both:
                told.add((race.reader, race.cell))
            key = (flat.id, race.reader, race.cell, race.writer)
            if key in seen:
                continue
            seen.add(key)
            both = _(
                "`{reader}` and `{writer}` write `{cell}` in the same call, and nothing orders the two: either may be "
                "the last. Order them with tf.control_dependencies."
            )
            one = _(
                "`{reader}` reads `{cell}` and `{writer}` writes it in the same call, and nothing orders the two: "
                "the value may be from before or after. Order them with tf.control_dependencies."
            )
            text = (both if race.both else one).format(
                reader=flat.name[race.reader], cell=flat.cells[race.cell].name, writer=flat.name[race.writer]
            )
            yield Finding("race", (flat.name[race.reader], flat.name[race.writer]), call.index, text)


def _may_meet(race: Race, outcome: Outcome | None) -> bool:
    """Tell whether neither op of a race lies on a branch that was not taken."""
    fates = {} if outcome is None else outcome.fates
    return not any(fates.get(row, ("",))[0] == "t" for row in (race.reader, race.writer))


def _overlaps(judged: Sequence[Judged | None], history: History) -> Iterator[Finding]:
    seen: set[tuple[int, int | None, str]] = set()
    shows: dict[tuple[int, int], bool] = {}
    for call in judged:
        if call is None:
            continue
        for slot, number in zip(call.variant.slots, call.vector, strict=True):
            version = history.versions[number]
            if not isinstance(version.value, tuple) or version.value[0] != "overlap" or slot.kind != "cell":
                continue
            assert isinstance(slot.of, int)
            plan, cell = call.variant.plan, slot.of
            if (plan.id, cell) not in shows:
                shows[plan.id, cell] = _shows(plan, cell)
            if not shows[plan.id, cell]:
                continue
            name = plan.flat.cells[cell].name
            key = (call.call.index, version.call, name)
            if key not in seen:
                seen.add(key)
                text = _(
                    "Call {call} read `{name}` while call {other}, which may write it, was under way: "
                    "what it saw is not known."
                ).format(call=call.call.index, name=name, other=version.call)
                yield Finding("overlap", (name,), call.call.index, text)


def _shows(plan: Plan, cell: int) -> bool:
    """Tell whether what some op sees of a cell tells of it: it gives a value on, which is not new in each call anyway.

    That queues are filled and emptied at the same time is what they are for.
    """
    flat, closed = plan.flat, plan.closure
    rows = {row for row in closed.order if cell in (*flat.reads.get(row, ()), *closed.aliases.get(row, ()))}
    rows -= flat.draws.keys()
    taken = {ref[0] for refs in closed.data.values() for ref in refs}
    taken.update(flat.resolve(ref, plan.signature.feeds)[0] for ref in plan.signature.fetches)
    return not rows.isdisjoint(taken)


def _built_twice(plans: Iterable[tuple[Plan, LoggedCall]], parts: Any) -> Iterator[Finding]:
    seen: set[tuple[int, int]] = set()
    for plan, call in plans:
        flat = plan.flat
        groups: dict[int, list[int]] = {}
        for row, number in parts.graphs[flat.id].twins.numbers(plan.closure).items():
            if flat.shown[row] and flat.type[row] not in BOOKKEEPING | CHEAP:
                groups.setdefault(number, []).append(row)
        constant = plan.variant(None)
        for rows in groups.values():
            first, *others = sorted(rows)
            ran = call.outcome
            new = [row for row in others if (flat.id, row) not in seen and _counts(ran, row)]
            if not new or not _counts(ran, first) or not constant.classes[constant.class_of[first]]:
                continue
            if any(_between(plan, first, row) for row in new):
                continue
            seen.update((flat.id, row) for row in new)
            names = [flat.name[row] for row in (first, *new)]
            text = _(
                "{names} compute the same from the same inputs: built twice. With graph optimisation on they are "
                "merged within one run, never across runs."
            ).format(names=_listed(names))
            yield Finding("built_twice", tuple(names), call.index, text)


def _counts(outcome: Outcome | None, row: int) -> bool:
    """Tell whether an op ran or was merged: one that was optimised away cost nothing twice."""
    return outcome is None or row in outcome.ran or outcome.fates.get(row, ("",))[0] == "m"


def _between(plan: Plan, first: int, other: int) -> bool:
    """Tell whether two equal ops may see different versions of a variable."""
    variant = plan.variant(None)
    return variant.class_of[first] != variant.class_of[other]


def _grown(parts: Any) -> Iterator[Finding]:
    for graph in parts.graphs.values():
        for call, before, after, name, line in graph.growth(parts.lines):
            where = _(" (first: `{name}`, {line})").format(name=name, line=line) if line else ""
            text = _(
                "Before call {call} the graph grew from version {before} to {after}{where}. Each growth makes the "
                "session take in the graph again, about 20 ms; build the graph once, before the loop."
            ).format(call=call, before=before, after=after, where=where)
            yield Finding("graph_grew", (name,) if name else (), call, text)


def _streams(calls: Iterable[LoggedCall]) -> Iterator[Finding]:
    counts: dict[tuple[int, int, int], list[int]] = {}
    plans: dict[int, Plan] = {}
    for call in calls:
        if call.plan is None or call.outcome is None:
            continue
        plans[call.graph] = call.plan
        for row in call.plan.effects & call.outcome.ran:
            if call.plan.flat.draws.get(row) == "random" and row in call.plan.flat.seeded:
                counts.setdefault((call.graph, call.session, row), []).append(call.index)
    for (graph, session, row), indices in counts.items():
        if len(indices) > 1:
            name = plans[graph].flat.name[row]
            text = _(
                "`{name}` has a fixed seed and ran in {count} calls of session {session}: its state lives in the "
                "session and every execution advances it. Leaving out one execution shifts all later values."
            ).format(name=name, count=len(indices), session=session)
            yield Finding("stream_shift", (name,), indices[1], text)


def _through_python(events: Iterable[Any]) -> Iterator[Finding]:
    seen: set[tuple[str, str]] = set()
    for event in events:
        for tensor, (call, fetched) in event.linked.items():
            if (tensor, fetched) in seen:
                continue
            seen.add((tensor, fetched))
            text = _(
                "The value fed to `{tensor}` in call {call} is what call {other} fetched as `{fetched}`: it travelled "
                "through Python. Fetch both in one run, or keep it in a variable."
            ).format(tensor=tensor, call=event.index, other=call, fetched=fetched)
            yield Finding("value_through_python", (tensor, fetched), event.index, text)


def _unneeded(plans: Iterable[tuple[Plan, LoggedCall]]) -> Iterator[Finding]:
    found: dict[tuple[int, tuple[str, ...]], list[int]] = {}
    for plan, call in plans:
        # What a kept value makes unnecessary, the user had to feed all the same.
        unneeded = [] if call.served else sorted(plan.signature.feeds - plan.closure.fed_reached)
        if unneeded:
            names = tuple(plan.flat.tensor_name(ref) for ref in unneeded)
            found.setdefault((plan.flat.id, names), []).append(call.index)
    for (_graph, names), first in found.items():
        text = _("Call {call} feeds {names}, which none of its fetches needs.").format(
            call=first[0], names=_listed(names)
        )
        if len(first) > 1:
            more = _("So does call {other}, with other fetches or feeds ({count} signatures of that kind).")
            text += " " + more.format(other=first[1], count=len(first))
        yield Finding("unneeded_feed", names, first[0], text)


def _handles(parts: Any) -> Iterator[Finding]:
    open_handles: dict[int, tuple[int, int]] = {}
    for event in parts.events:
        handle = event.handle
        if handle is None or not handle.unfinished:
            continue
        first, held = open_handles.get(handle.number, (event.index, 0))
        open_handles[handle.number] = (first, held + event.held)
    if not open_handles:
        return
    total = sum(held for _, held in open_handles.values())
    first = min(first for first, _ in open_handles.values())
    text = _(
        "{count} partial run(s) were never finished: {size:,} bytes fed or fetched, and all that they computed, stay "
        "in memory until the session closes. Fetch everything that was declared."
    ).format(count=len(open_handles), size=total)
    yield Finding("unfinished_handle", (), first, text)


def _missing(calls: Iterable[LoggedCall], faults: Sequence[str]) -> Iterator[Finding]:
    for fault in dict.fromkeys(faults):
        text = _("CacheLab could not observe something: {fault}. Your calls were not affected.").format(fault=fault)
        yield Finding("trace_missing", (), None, text)
    hidden = [call.index for call in calls if call.opaque]
    if hidden:
        text = _(
            "Call {call} runs something that was set up before the recording, so its ops are hidden ({count} call(s) "
            "of that kind). It may have written any variable."
        ).format(call=hidden[0], count=len(hidden))
        yield Finding("trace_missing", (), hidden[0], text)
    missing = [call.index for call in calls if call.trace == "missing" and call.failed is None]
    if missing:
        text = _("TensorFlow gave no trace for call {call} ({count} call(s) of that kind).").format(
            call=missing[0], count=len(missing)
        )
        yield Finding("trace_missing", (), missing[0], text)


def _not_replayable(parts: Any) -> Iterator[Finding]:
    reasons: dict[str, list[int]] = {}
    for index, reason in parts.unreadable:
        reasons.setdefault(reason, []).append(index)
    for reason, indices in reasons.items():
        text = _("Call {call} can't be replayed: {reason} ({count} call(s) of that kind).").format(
            call=indices[0], reason=reason, count=len(indices)
        )
        yield Finding("not_replayable", (), indices[0], text)


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(f"`{name}`" for name in names[:MOST_NAMED])
    more = len(names) - MOST_NAMED
    return shown if more <= 0 else _("{names} and {more} more").format(names=shown, more=more)
