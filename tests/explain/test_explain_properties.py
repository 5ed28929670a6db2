"""The engine against the plainest form of its rule, on random graphs and logs."""

from __future__ import annotations

import random
from itertools import combinations
from typing import TYPE_CHECKING

from explain_reference import Reference, closure_of, extensions, seen_in, waits_of
from explain_worlds import World, random_world
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from cachelab.explain.closure import Signature, closure
from cachelab.explain.plan import LAST, Plan

if TYPE_CHECKING:
    from cachelab.explain.flat import FlatGraph

LIGHT = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
SEEDS = st.integers(0, 2**32)


def signature(rng: random.Random, flat: FlatGraph) -> Signature:
    """Return a random signature: placeholders are fed most of the time, other tensors now and then."""
    rows = range(len(flat.name))
    feeds = {(row, 0) for row in rows if flat.type[row] == "Placeholder" and rng.random() < 0.8}
    feeds |= {(row, rng.randrange(2)) for row in rows if rng.random() < 0.1}
    fetches = tuple((rng.choice(rows), rng.randrange(2)) for _ in range(rng.randint(1, 2)))
    targets = tuple(row for row in rows if rng.random() < 0.1)
    return Signature(fetches, targets, frozenset(feeds))


@LIGHT
@given(SEEDS)
def test_closure_is_what_recursion_finds_and_comes_in_order(seed):
    rng = random.Random(seed)
    flat = random_world(rng, rng.randint(1, 9)).flat
    asked = signature(rng, flat)
    found = closure(flat, asked)
    expected = closure_of(flat, asked.fetches, asked.targets, asked.feeds)
    assert set(found.order) == expected
    assert len(found.order) == len(expected)
    place = {row: at for at, row in enumerate(found.order)}
    for row in expected:
        assert set(found.waits[row]) == waits_of(flat, row, asked.feeds)
        assert all(place[other] < place[row] for other in found.waits[row])
    fed = {ref for row in expected for ref in flat.inputs[row] if ref in asked.feeds}
    gates = {(other, 0) for row in expected for other in flat.control[row] if flat.type[other] == "Placeholder"}
    fed |= gates & asked.feeds
    assert found.fed_reached == fed | (set(asked.fetches) & asked.feeds)


@LIGHT
@given(SEEDS)
def test_reads_see_what_every_possible_order_shows(seed):
    rng = random.Random(seed)
    world = random_world(rng, rng.randint(2, 6), draws=False)
    flat, asked = world.flat, signature(rng, world.flat)
    plan = world.plan(asked.fetches, asked.feeds, asked.targets)
    rows = set(plan.closure.order)
    orders = list(extensions(flat, rows, asked.feeds))
    assert orders
    sights: dict[tuple[int, tuple[int, ...]], list[list[int | None]]] = {}
    for row in rows:
        for cell in flat.reads.get(row, ()):
            state = plan.state(row, cell, None)
            seen = [seen_in(flat, order, row, cell) for order in orders]
            moves = {
                writer
                for writer in plan.writers.get(cell, ())
                if writer != row and len({order.index(writer) < order.index(row) for order in orders}) == 2
            }
            if moves:  # before it in one order, after it in another
                assert state.unique
                assert state.race in moves
                continue
            assert not state.unique
            assert set(seen) == (set(state.after) if state.after else {None})
            sights.setdefault((cell, state.after), []).append(seen)
    for group in sights.values():  # equal states: the same sight in every single order
        assert all(seen == group[0] for seen in group)


@LIGHT
@given(SEEDS)
def test_the_end_of_a_call_sees_the_last_writes(seed):
    rng = random.Random(seed)
    world = random_world(rng, rng.randint(2, 6), draws=False)
    flat, asked = world.flat, signature(rng, world.flat)
    plan = world.plan(asked.fetches, asked.feeds, asked.targets)
    orders = list(extensions(flat, set(plan.closure.order), asked.feeds))
    for cell, writers in plan.writers.items():
        last = {max((order.index(writer), writer) for writer in writers)[1] for order in orders}
        assert set(plan.state(LAST, cell, None).after) == last


@LIGHT
@given(SEEDS)
def test_race_findings_are_the_pairs_that_change_places(seed):
    rng = random.Random(seed)
    world = random_world(rng, rng.randint(2, 6), draws=False)
    flat, asked = world.flat, signature(rng, world.flat)
    plan = world.plan(asked.fetches, asked.feeds, asked.targets)
    orders = list(extensions(flat, set(plan.closure.order), asked.feeds))
    racing = set()
    for row in plan.closure.order:
        for cell in flat.reads.get(row, ()):
            pure_read = cell not in flat.writes.get(row, ())
            for writer in plan.writers.get(cell, ()):
                both = {order.index(writer) < order.index(row) for order in orders}
                if pure_read and writer != row and len(both) == 2:
                    racing.add((cell, row))
    assert {(race.cell, race.reader) for race in plan.races() if not race.both} == racing
    rivals = {
        (cell, frozenset((one, other)))
        for cell, writers in plan.writers.items()
        for one, other in combinations(writers, 2)
        if flat.cells[cell].kind == "variable" and len({order.index(one) < order.index(other) for order in orders}) == 2
    }
    assert {(race.cell, frozenset(race[1:3])) for race in plan.races() if race.both} == rivals


def naive_slots(plan: Plan, row: int) -> frozenset:
    """Return the sources of a row by recursion over its inputs."""
    flat, feeds = plan.flat, plan.signature.feeds
    found = set()
    for ref in flat.inputs[row]:
        found |= {("feed", ref)} if ref in feeds else naive_slots(plan, ref[0])
    if row in flat.draws:
        found.add(("draw", row))
    else:
        for cell in flat.reads.get(row, ()):
            state = plan.state(row, cell, None)
            found.add(("cell", cell, (row,) if state.unique else state.after, state.unique))
    return frozenset(found)


@LIGHT
@given(SEEDS)
def test_classes_are_the_sets_of_sources(seed):
    rng = random.Random(seed)
    world = random_world(rng, rng.randint(1, 9))
    asked = signature(rng, world.flat)
    plan = world.plan(asked.fetches, asked.feeds, asked.targets)
    variant = plan.variant(None)
    by_class: dict[int, frozenset] = {}
    for row in plan.closure.order:
        expected = naive_slots(plan, row)
        slots = [variant.slots[slot] for slot in variant.classes[variant.class_of[row]]]
        told = frozenset(
            (slot.kind, slot.of) if slot.kind in {"feed", "draw"}
            else ("cell", slot.of, slot.after, slot.kind in {"race", "unique"})
            for slot in slots
        )  # fmt: skip
        assert told == expected
        assert by_class.setdefault(variant.class_of[row], expected) == expected
    assert len(set(by_class.values())) == len(by_class)  # equal sets share one class
    listed = [row for members in variant.members for row in members]
    assert sorted(listed) == sorted(plan.shown)


def random_log(rng: random.Random, *, overlaps: bool) -> World:
    """Return a random graph with a random log of calls on it, some failed, some in another session."""
    world = random_world(rng, rng.randint(3, 9))
    patterns = [signature(rng, world.flat) for _ in range(rng.randint(1, 3))]
    moments = list(range(200))
    for number in range(rng.randint(2, 9)):
        asked = rng.choice(patterns)
        span = {}
        if overlaps:
            began = number * 4 + rng.randrange(4)
            span = {
                "began": moments[began] * 100 + number * 2,
                "ended": (began + rng.randrange(9)) * 100 + number * 2 + 1,
            }
        world.call(
            asked.fetches,
            {ref: rng.choice("ab") for ref in sorted(asked.feeds)},
            targets=asked.targets,
            session=rng.choice((0, 0, 0, 1)),
            error="boom" if rng.random() < 0.15 else None,
            config=rng.choice((0, 0, 0, 0, 1)),
            **span,
        )
    return world


def compare(world: World) -> int:
    """Hold every verdict of a log against the reference; return the number of recomputed ops."""
    reference, verdict = Reference(world), world.judge()
    recomputed = 0
    for call in world.calls:
        expected = reference.witnesses(call)
        for row in expected:
            if row in call.plan.fed_only or row not in call.outcome.ran:
                continue
            letter, witness = verdict.of(call.index, row)
            if row in world.flat.effects:
                assert letter == "c"
            elif expected[row]:
                assert letter == "r", (call.index, row, expected[row], verdict.causes(call.index, row))
                assert witness in expected[row]
                recomputed += 1
            else:
                assert letter == "c"
                assert witness is None
                assert verdict.causes(call.index, row)
    return recomputed


@LIGHT
@given(SEEDS)
def test_witnesses_in_a_row_of_calls(seed):
    compare(random_log(random.Random(seed), overlaps=False))


@LIGHT
@given(SEEDS)
def test_witnesses_where_calls_overlap(seed):
    compare(random_log(random.Random(seed), overlaps=True))


def test_the_random_logs_do_recompute():
    """The two tests above would pass if nothing was ever redundant."""
    assert sum(compare(random_log(random.Random(seed), overlaps=bool(seed % 2))) > 0 for seed in range(60)) > 20


@LIGHT
@given(st.lists(st.lists(st.integers(0, 40), min_size=0, max_size=6, unique=True), min_size=1, max_size=8))
@example([[0], [0, 1], [1], []])
def test_keys_differ_exactly_where_versions_do(groups):
    from types import SimpleNamespace

    from cachelab.explain.keys import Keys

    vector = tuple(range(100, 141))
    other = tuple(v + (500 if i == 3 else 0) for i, v in enumerate(vector))
    variant = SimpleNamespace(id=(0, 0), masks=[sum(1 << slot for slot in group) for group in groups])
    keys = Keys()
    first, again, changed = (keys.of(variant, v, 0) for v in (vector, vector, other))
    assert first == again
    for group, one, two in zip(groups, first, changed, strict=True):
        assert (one == two) == (3 not in group)
    for i, group in enumerate(groups):
        for j, more in enumerate(groups):
            assert (first[i] == first[j]) == (set(group) == set(more))
    assert all(one != two for one, two in zip(first, keys.of(variant, vector, 1), strict=True))
