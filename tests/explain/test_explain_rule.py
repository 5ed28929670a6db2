"""The rule on small logs made by hand: who is redundant, who is the witness, and why not."""

from __future__ import annotations

from explain_worlds import World

from cachelab.explain.build import build_record
from cachelab.explain.partial import HandleSteps
from cachelab.explain.plan import LAST, Plan
from cachelab.explain.variant import Slot


def slots(plan: Plan, row: int) -> set[Slot]:
    """Return the sources of an op."""
    variant = plan.variant(None)
    return {variant.slots[slot] for slot in variant.classes[variant.class_of[row]]}


def chain() -> tuple[World, int, int, int]:
    """Return x -> h -> y."""
    world = World()
    x = world.op("x", "Placeholder")
    h = world.op("h", "Tanh", [x])
    y = world.op("y", "Mul", [h])
    return world, x, h, y


def test_equal_feeds_are_redundant_and_other_feeds_are_not():
    world, x, h, _ = chain()
    for value in "aab":
        world.call([h], {x: value})
    verdict = world.judge()
    assert [verdict.of(call, h) for call in range(3)] == [("c", None), ("r", 0), ("c", None)]
    assert verdict.causes(0, h) == ["first"]
    assert verdict.causes(1, h) == ["not_kept"]
    assert verdict.causes(2, h) == ["feed"]


def test_sources_seen_before_are_not_enough_the_op_itself_must_have_run():
    world, x, h, y = chain()
    world.call([h], {x: "a"})
    world.call([y], {x: "a"})
    verdict = world.judge()
    assert verdict.of(1, h) == ("r", 0)
    assert verdict.of(1, y) == ("c", None)
    assert verdict.causes(1, y) == ["first"]


def test_a_b_a_has_its_witness_two_calls_back():
    world, x, h, _ = chain()
    for value in "aba":
        world.call([h], {x: value})
    assert world.judge().of(2, h) == ("r", 0)


def test_the_latest_witness_is_named():
    world, x, h, _ = chain()
    for value in "aaba":
        world.call([h], {x: value})
    assert world.judge().of(3, h) == ("r", 1)


def test_a_fed_intermediate_stops_the_walk():
    world, x, h, y = chain()
    world.call([y], {x: "a", h: "1"})
    world.call([y], {x: "b", h: "1"})
    world.call([y], {x: "b", h: "2"})
    verdict = world.judge()
    assert verdict.of(1, y) == ("r", 0)  # x plays no part
    assert verdict.status(1, h) == "d"
    assert verdict.of(2, y) == ("c", None)
    assert verdict.causes(2, y) == ["feed"]


def test_feeding_an_intermediate_is_not_computing_it():
    world, x, h, y = chain()
    world.call([h], {h: "1"})
    world.call([h], {x: "a"})
    world.call([y], {x: "a"})
    verdict = world.judge()
    assert verdict.of(1, h) == ("c", None)
    assert verdict.of(2, h) == ("r", 1)


def test_one_output_fed_leaves_the_op_to_run_for_the_other():
    world = World()
    x = world.op("x", "Placeholder")
    split = world.op("split", "Split", [x])
    left = world.op("left", "Tanh", [(split, 0)])
    right = world.op("right", "Tanh", [(split, 1)])
    both = world.op("both", "Add", [left, right])
    for value, part in (("a", "1"), ("a", "2"), ("b", "2")):
        world.call([both], {x: value, (split, 0): part})
    verdict = world.judge()
    assert [verdict.status(call, split) for call in range(3)] == ["c", "r", "c"]
    assert [verdict.status(call, left) for call in range(3)] == ["c", "c", "r"]
    assert [verdict.status(call, right) for call in range(3)] == ["c", "r", "c"]
    assert [verdict.status(call, both) for call in range(3)] == ["c", "c", "c"]


def test_a_control_edge_orders_but_does_not_change_a_value():
    world = World()
    x, z = world.op("x", "Placeholder"), world.op("z", "Placeholder")
    other = world.op("other", "Tanh", [z])
    y = world.op("y", "Tanh", [x], [other])
    world.call([y], {x: "a", z: "1"})
    world.call([y], {x: "a", z: "2"})
    verdict = world.judge()
    assert verdict.of(1, y) == ("r", 0)
    assert verdict.status(1, other) == "c"


def test_the_control_edge_of_a_fed_placeholder_vanishes():
    world = World()
    x, z = world.op("x", "Placeholder"), world.op("z", "Placeholder")
    y = world.op("y", "Tanh", [x], [z])
    assert z not in world.plan([y], [x, z]).closure.data
    assert z in world.plan([y], [x]).closure.data
    # Only placeholders are like that: a control edge from any other op remains though its output is fed.
    h = world.op("h", "Tanh", [x])
    k = world.op("k", "Tanh", [x], [h])
    assert h in world.plan([k], [x, h]).closure.data


def test_a_write_of_an_earlier_call_is_a_new_version():
    world = World()
    v = world.cell("v")
    x = world.op("x", "Placeholder")
    read = world.op("read", "ReadVariableOp", reads=[v])
    y = world.op("y", "Mul", [x, read])
    write = world.op("write", "AssignVariableOp", [x], reads=[v], writes=[v])
    world.call([y], {x: "a"})
    world.call([y], {x: "a"})
    world.call(targets=[write], feeds={x: "a"})
    world.call([y], {x: "a"})
    world.call([y], {x: "a"})
    verdict = world.judge()
    assert [verdict.of(call, y) for call in (0, 1, 3, 4)] == [("c", None), ("r", 0), ("c", None), ("r", 3)]
    assert verdict.causes(3, y) == ["variable"]
    assert verdict.of(2, write) == ("c", None)
    assert verdict.causes(2, write) == ["effect"]


def test_before_and_after_a_write_in_one_call():
    world = World()
    v = world.cell("v")
    first = world.op("first", "ReadVariableOp", reads=[v])
    loss = world.op("loss", "Mul", [first])
    add = world.op("add", "AssignAddVariableOp", control=[loss], reads=[v], writes=[v])
    second = world.op("second", "ReadVariableOp", control=[add], reads=[v])
    after = world.op("after", "Mul", [second])
    world.call([loss, after])
    world.call([loss])
    world.call([after])
    plan = world.plan([loss, after])
    assert plan.state(first, v, None).after == ()
    assert plan.state(second, v, None).after == (add,)
    verdict = world.judge()
    assert verdict.of(1, loss) == ("c", None)  # the write of call 0 lies between
    assert verdict.of(2, loss) == ("r", 1)
    assert verdict.of(2, after) == ("c", None)


def test_an_unordered_write_is_a_race_and_never_redundant():
    world = World()
    v = world.cell("v")
    read = world.op("read", "ReadVariableOp", reads=[v])
    add = world.op("add", "AssignAddVariableOp", reads=[v], writes=[v])
    world.call([read], targets=[add])
    world.call([read], targets=[add])
    plan = world.plan([read], targets=[add])
    assert [(race.reader, race.writer) for race in plan.races()] == [(read, add)]
    verdict = world.judge()
    assert verdict.of(1, read) == ("c", None)
    assert verdict.causes(1, read) == ["race"]


def test_ref_variables_are_seen_at_each_consumer():
    world = World()
    v = world.cell("v")
    x = world.op("x", "Placeholder")
    ref = world.op("v", "VariableV2", aliases=[v])
    alias = world.op("alias", "Identity", [ref], aliases=[v])
    early = world.op("early", "Mul", [alias, x])
    write = world.op("write", "Assign", [ref, x], [early], reads=[v], writes=[v], aliases=[v])
    late = world.op("late", "Mul", [alias, x], [write])
    plan = world.plan([early, late], [x])
    assert plan.state(early, v, None).after == ()
    assert plan.state(late, v, None).after == (write,)
    assert Slot("cell", v, ()) in slots(plan, early)
    assert Slot("cell", v, (write,)) in slots(plan, late)
    assert Slot("cell", v, ()) not in slots(plan, late)  # what ``alias`` saw when it ran counts for nothing
    world.call([early], {x: "a"})
    world.call([early, late], {x: "a"})
    world.call([early], {x: "a"})
    verdict = world.judge()
    assert verdict.of(1, early) == ("r", 0)
    assert verdict.of(1, late) == ("c", None)
    assert verdict.of(2, early) == ("c", None)  # written since, though ``alias`` came first in call 1


def test_the_end_of_a_call_is_after_its_last_write():
    world = World()
    v = world.cell("v")
    one = world.op("one", "Assign", reads=[v], writes=[v])
    two = world.op("two", "Assign", control=[one], reads=[v], writes=[v])
    other = world.op("other", "Assign", reads=[v], writes=[v])
    assert world.plan([], targets=[two]).state(LAST, v, None).after == (two,)
    assert world.plan([], targets=[two, other]).state(LAST, v, None).after == (two, other)


def test_a_failed_call_bumps_its_variables_and_is_no_witness():
    world = World()
    v = world.cell("v")
    x = world.op("x", "Placeholder")
    read = world.op("read", "ReadVariableOp", reads=[v])
    h = world.op("h", "Tanh", [x])
    write = world.op("write", "AssignVariableOp", reads=[v], writes=[v])
    check = world.op("check", "Assert", [h], [write])
    world.call([read])
    world.call([h], {x: "b"}, targets=[check], error="boom", culprit=check)
    world.call([read])
    world.call([h], {x: "b"})
    world.call([h], {x: "b"})
    verdict = world.judge()
    assert verdict.of(2, read) == ("c", None)
    assert verdict.causes(2, read) == ["variable"]
    assert verdict.of(3, h) == ("c", None)
    assert verdict.causes(3, h) == ["first"]
    assert verdict.of(4, h) == ("r", 3)


def test_draws_are_new_each_time_and_so_is_what_comes_of_them():
    world = World()
    draw = world.op("draw", "RandomUniform", draws="random")
    y = world.op("y", "Tanh", [draw])
    file = world.op("file", "ReadFile", draws="file")
    for _ in range(2):
        world.call([y, file])
    verdict = world.judge()
    assert verdict.causes(1, draw) == ["random"]
    assert verdict.of(1, y) == ("c", None)
    assert verdict.causes(1, y) == ["random"]
    assert verdict.of(1, file) == ("c", None)
    assert verdict.causes(1, file) == ["file"]


def test_sessions_share_what_comes_of_feeds_but_no_variables():
    world = World()
    v = world.cell("v")
    x = world.op("x", "Placeholder")
    h = world.op("h", "Tanh", [x])
    read = world.op("read", "ReadVariableOp", reads=[v])
    world.call([h, read], {x: "a"}, session=0)
    world.call([h, read], {x: "a"}, session=1)
    world.call([h, read], {x: "a"}, session=0)
    verdict = world.judge()
    assert verdict.of(1, h) == ("r", 0)
    assert verdict.of(1, read) == ("c", None)
    assert verdict.causes(1, read) == ["new_session"]
    assert verdict.of(2, read) == ("r", 0)


def test_other_settings_are_another_key():
    world, x, h, _ = chain()
    world.call([h], {x: "a"}, config=0)
    world.call([h], {x: "a"}, session=1, config=1)
    world.call([h], {x: "a"}, session=1, config=1)
    verdict = world.judge()
    assert verdict.of(1, h) == ("c", None)
    assert verdict.causes(1, h) == ["new_session"]
    assert verdict.of(2, h) == ("r", 1)


def test_calls_that_overlap_a_writer_see_nobody_knows_what():
    world = World()
    v = world.cell("v")
    read = world.op("read", "ReadVariableOp", reads=[v])
    write = world.op("write", "AssignVariableOp", reads=[v], writes=[v])
    world.call([read], began=0, ended=1)
    world.call(targets=[write], began=2, ended=9)
    world.call([read], began=3, ended=4)
    world.call([read], began=5, ended=12)
    world.call([read], began=13, ended=14)
    world.call([read], began=15, ended=16)
    verdict = world.judge()
    assert [verdict.status(call, read) for call in (0, 2, 3, 4, 5)] == ["c", "c", "c", "c", "r"]
    assert verdict.causes(2, read) == ["overlap"]
    assert verdict.causes(3, read) == ["overlap"]


def test_a_call_under_way_is_no_witness():
    world, x, h, _ = chain()
    world.call([h], {x: "a"}, began=0, ended=5)
    world.call([h], {x: "a"}, began=1, ended=3)
    world.call([h], {x: "a"}, began=4, ended=7)
    verdict = world.judge()
    assert verdict.of(1, h) == ("c", None)
    assert verdict.of(2, h) == ("r", 1)


def test_a_shared_server_leaves_variables_unknown():
    world = World()
    v = world.cell("v")
    x = world.op("x", "Placeholder")
    read = world.op("read", "ReadVariableOp", reads=[v])
    h = world.op("h", "Tanh", [x])
    for _ in range(2):
        world.call([read, h], {x: "a"}, shared=True)
    verdict = world.judge()
    assert verdict.of(1, read) == ("x", None)
    assert verdict.of(1, h) == ("r", 0)


def test_hidden_calls_may_have_written_anything():
    world = World()
    v = world.cell("v")
    x = world.op("x", "Placeholder")
    read = world.op("read", "ReadVariableOp", reads=[v])
    h = world.op("h", "Tanh", [x])
    world.call([read, h], {x: "a"})
    hidden = world.call([h], {x: "a"})
    hidden.plan, hidden.opaque = None, True
    world.call([read, h], {x: "a"})
    verdict = world.judge()
    assert verdict.of(2, read) == ("c", None)
    assert verdict.of(2, h) == ("r", 0)


def test_a_hidden_call_under_way_may_write_anything_meanwhile():
    world = World()
    v = world.cell("v")
    read = world.op("read", "ReadVariableOp", reads=[v])
    world.call([read], began=0, ended=1)
    hidden = world.call([read], began=2, ended=9)
    hidden.plan, hidden.opaque = None, True
    world.call([read], began=3, ended=4)
    world.call([read], began=10, ended=11)
    verdict = world.judge()
    assert verdict.of(2, read) == ("c", None)
    assert verdict.of(3, read) == ("c", None)


def test_a_write_through_an_unknown_handle_may_be_of_any_variable():
    world = World()
    v, unknown = world.cell("v"), world.cell("unknown resource", kind="opaque")
    known = world.op("known", "AssignVariableOp", reads=[v], writes=[v])
    read = world.op("read", "ReadVariableOp", control=[known], reads=[v])
    somewhere = world.op("somewhere", "AssignVariableOp", control=[read], reads=[unknown], writes=[unknown])
    alone = world.op("alone", "ReadVariableOp", reads=[v])
    world.call([alone])
    world.call(targets=[somewhere])
    world.call([alone])
    world.call([alone], targets=[somewhere])
    world.call([alone], targets=[somewhere])
    verdict = world.judge()
    assert verdict.of(2, alone) == ("c", None)
    assert verdict.of(4, alone) == ("c", None)
    plan = world.plan([alone], targets=[somewhere])
    assert plan.state(alone, v, None).race in {known, somewhere}
    assert plan.state(LAST, v, None).after == (somewhere,)
    assert plan.state(somewhere, unknown, None).after == (known,)


def test_what_an_unknown_handle_reads_agrees_with_nothing():
    world = World()
    unknown = world.cell("unknown resource", kind="opaque")
    somewhere = world.op("somewhere", "ReadVariableOp", reads=[unknown])
    world.call([somewhere])
    world.call([somewhere])
    assert world.judge().of(1, somewhere) == ("c", None)


def test_a_feed_that_the_runtime_took_behind_a_fed_tensor_is_a_source():
    world, x, h, y = chain()
    for value in "aab":
        world.call([y], {x: value, h: "1"})
    assert [world.judge().status(call, y) for call in range(3)] == ["c", "r", "r"]
    world.plan([y], [x, h]).bypass([(x, 0)])
    assert [world.judge().status(call, y) for call in range(3)] == ["c", "r", "c"]
    world.plan([y], [x, h]).bypass([], [h])  # an op ran that the call doesn't need
    assert [world.judge().status(call, y) for call in range(3)] == ["c", "c", "c"]
    assert world.judge().causes(1, y) == ["graph"]


def test_branches_not_taken_contribute_no_sources():
    world = World()
    p, x, z = (world.op(name, "Placeholder") for name in "pxz")
    switch_x = world.op("switch_x", "Switch", [x, p])
    switch_z = world.op("switch_z", "Switch", [z, p])
    then = world.op("then", "Tanh", [(switch_x, 1)])
    other = world.op("other", "Tanh", [(switch_z, 0)])
    merge = world.op("merge", "Merge", [other, then])
    y = world.op("y", "Mul", [merge])
    taken = {switch_x, switch_z, then, merge, y}
    for z_value in "12":
        world.call([y], {p: "true", x: "a", z: z_value}, ran=taken)
    world.call([y], {p: "true", x: "b", z: "2"}, ran=taken)
    verdict = world.judge()
    assert verdict.of(1, y) == ("r", 0)
    assert verdict.status(1, other) == "t"
    assert verdict.of(2, y) == ("c", None)


def test_branches_of_a_call_without_a_trace_contribute_all_sources():
    world = World()
    p, x, z = (world.op(name, "Placeholder") for name in "pxz")
    switch_x, switch_z = world.op("switch_x", "Switch", [x, p]), world.op("switch_z", "Switch", [z, p])
    merge = world.op("merge", "Merge", [(switch_z, 0), (switch_x, 1)])
    y = world.op("y", "Mul", [merge])
    world.call([y], {p: "true", x: "a", z: "1"})
    world.call([y], {p: "true", x: "a", z: "2"})
    verdict = world.judge()
    assert verdict.of(1, y) == ("c", None)
    columns = verdict.columns(1)
    cause = verdict.verdicts.causes[columns.cause[columns.op.index(y)][0]]
    assert (cause.kind, cause.source, cause.may) == ("feed", "z:0", True)


def test_the_predicate_is_a_source_of_what_a_branch_yields():
    world = World()
    p, x = world.op("p", "Placeholder"), world.op("x", "Placeholder")
    switch = world.op("switch", "Switch", [x, p])
    constant = world.op("constant", "Const", control=[switch])
    merge = world.op("merge", "Merge", [(switch, 0), constant])
    ran = {switch, constant, merge}
    world.call([merge], {p: "true", x: "a"}, ran=ran)
    world.call([merge], {p: "also true", x: "a"}, ran=ran)
    verdict = world.judge()
    assert verdict.of(1, merge) == ("c", None)
    assert verdict.status(1, constant) == "c"  # its control edge carries the branch


def test_a_write_in_a_branch_not_taken_is_no_write():
    world = World()
    v = world.cell("v")
    p = world.op("p", "Placeholder")
    switch = world.op("switch", "Switch", [p, p])
    write = world.op("write", "AssignVariableOp", [(switch, 1)], reads=[v], writes=[v])
    alone = world.op("alone", "ReadVariableOp", reads=[v])
    world.call([alone])
    world.call(targets=[write], feeds={p: "no"}, ran={switch})
    world.call([alone])
    world.call(targets=[write], feeds={p: "yes"}, ran={switch, write})
    world.call([alone])
    world.call(targets=[write], feeds={p: "who knows"})
    world.call([alone])
    verdict = world.judge()
    assert [verdict.of(call, alone)[0] for call in (0, 2, 4, 6)] == ["c", "r", "c", "c"]


def loop() -> tuple[World, int, dict[str, int]]:
    """Return a loop that reads and writes a variable, entered with ``x``."""
    world = World()
    v = world.cell("v")
    x = world.op("x", "Placeholder")
    enter = world.op("enter", "Enter", [x])
    merge = world.op("merge", "Merge", [enter])
    condition = world.op("condition", "LoopCond", [merge])
    switch = world.op("switch", "Switch", [merge, condition])
    read = world.op("read", "ReadVariableOp", control=[switch], reads=[v])
    body = world.op("body", "Mul", [(switch, 1), read])
    write = world.op("write", "AssignAddVariableOp", [body], reads=[v], writes=[v])
    following = world.op("next", "NextIteration", [body], [write])
    world.flat.inputs[merge] = ((enter, 0), (following, 0))
    leave = world.op("exit", "Exit", [(switch, 0)])
    return world, v, {"x": x, "exit": leave, "read": read, "write": write, "body": body}


def test_iterations_of_a_loop_are_no_witnesses_and_its_reads_agree_with_none():
    world, v, rows = loop()
    everything = set(range(len(world.flat.name))) - {rows["x"]}
    for _ in range(2):
        world.call([rows["exit"]], {rows["x"]: "a"}, ran=everything)
    plan = world.plan([rows["exit"]], [rows["x"]])
    assert plan.closure.cycles
    assert plan.state(rows["read"], v, frozenset(everything)).unique
    verdict = world.judge()
    for name in ("read", "body", "exit"):
        assert verdict.of(0, rows[name]) == ("c", None)
        assert verdict.of(1, rows[name]) == ("c", None)


def test_a_loop_that_only_reads_is_redundant_as_a_whole():
    world, _, rows = loop()
    del world.flat.writes[rows["write"]]
    world.flat.effects.discard(rows["write"])
    everything = set(range(len(world.flat.name))) - {rows["x"]}
    for value in "aab":
        world.call([rows["exit"]], {rows["x"]: value}, ran=everything)
    verdict = world.judge()
    assert [verdict.status(call, rows["body"]) for call in range(3)] == ["c", "r", "c"]
    assert [verdict.status(call, rows["exit"]) for call in range(3)] == ["c", "r", "c"]


def test_hubs_belong_to_the_closure_and_lead_to_their_bodies():
    world = World()
    v = world.cell("v")
    x = world.op("x", "Placeholder")
    inner = world.op("call/tanh", "Tanh", [x])
    effect = world.op("call/write", "AssignVariableOp", reads=[v], writes=[v])
    hub = world.hub("call", "PartitionedCall", [inner], [effect], [inner, effect])
    y = world.op("y", "Mul", [hub])
    plan = world.plan([y], [x])
    assert {hub, inner, effect} <= plan.closure.data.keys()
    assert plan.closure.data[y] == ((inner, 0),)
    assert effect not in plan.closure.waits[y]  # y waits for the output only
    world.call([y], {x: "a"})
    world.call([y], {x: "a"})
    verdict = world.judge()
    assert verdict.of(1, y) == ("r", 0)
    assert verdict.of(1, inner) == ("r", 0)
    assert verdict.status(1, effect) == "c"


def test_a_fed_output_of_a_hub_stops_the_walk():
    world = World()
    x = world.op("x", "Placeholder")
    inner = world.op("call/tanh", "Tanh", [x])
    hub = world.hub("call", "PartitionedCall", [inner], [], [inner])
    y = world.op("y", "Mul", [hub])
    plan = world.plan([y], [x, (hub, 0)])
    assert plan.closure.data.keys() == {y}
    world.call([y], {x: "a", (hub, 0): "1"})
    world.call([y], {x: "b", (hub, 0): "1"})
    assert world.judge().of(1, y) == ("r", 0)


def pieces() -> tuple[World, int, dict[str, int]]:
    """Return a handle with two pieces: the first feeds ``x``, the second ``z``; a variable is read at set-up."""
    world = World()
    v = world.cell("v")
    x, z = world.op("x", "Placeholder"), world.op("z", "Placeholder")
    read = world.op("read", "ReadVariableOp", reads=[v])
    draw = world.op("draw", "RandomUniform", draws="random")
    early = world.op("early", "Mul", [x, read])
    late = world.op("late", "Mul", [early, z, draw])
    write = world.op("write", "AssignVariableOp", reads=[v], writes=[v])
    rows = {"x": x, "z": z, "read": read, "draw": draw, "early": early, "late": late, "write": write}
    return world, v, rows


def handle(world: World, rows: dict[str, int], feeds: list[dict[str, str]], *, began: int, ended: int) -> list[int]:
    """Log the set-up and the pieces of a handle; return their call numbers."""
    plan = world.plan([rows["early"], rows["late"]], [rows["x"], rows["z"]])
    steps = HandleSteps(plan)
    world.handles += 1
    given: dict = {}
    numbers = []
    for piece in [{}, *feeds]:
        refs = {(rows[name], 0): value for name, value in piece.items()}
        given.update(refs)
        call = world.call(
            [rows["early"], rows["late"]], dict.fromkeys(plan.signature.feeds, "?"), began=began, ended=ended
        )
        call.feeds, call.handle, call.kind = dict(given), world.handles, "partial_run"
        call.outcome = steps.step(set(refs), set())
        numbers.append(call.index)
    return numbers


def test_a_handle_runs_at_set_up_what_waits_for_no_feed():
    world, _, rows = pieces()
    setup, first, second = handle(world, rows, [{"x": "a"}, {"z": "1"}], began=0, ended=1)
    verdict = world.judge()
    listed = {call: {world.flat.name[row] for row in verdict.columns(call).op} for call in (setup, first, second)}
    assert {"read", "draw"} <= listed[setup]
    assert "early" not in listed[setup]
    assert verdict.status(first, rows["early"]) == "c"
    assert verdict.status(first, rows["read"]) == "s"
    assert verdict.status(second, rows["late"]) == "c"
    assert verdict.status(second, rows["early"]) == "s"


def test_pieces_of_a_handle_share_one_read_and_one_draw():
    world, _, rows = pieces()
    handle(world, rows, [{"x": "a"}, {"z": "1"}], began=0, ended=3)
    calls = handle(world, rows, [{"x": "a"}, {"z": "1"}], began=4, ended=7)
    verdict = world.judge()
    assert verdict.of(calls[0], rows["read"])[0] == "r"
    assert verdict.of(calls[1], rows["early"])[0] == "r"
    assert verdict.status(calls[2], rows["late"]) == "c"  # a new draw


def test_a_write_while_a_handle_is_open_leaves_its_reads_unknown():
    world, _, rows = pieces()
    world.call([rows["read"]], began=0, ended=1)
    calls = handle(world, rows, [{"x": "a"}, {"z": "1"}], began=2, ended=9)
    world.call(targets=[rows["write"]], began=4, ended=5)
    verdict = world.judge()
    assert verdict.of(calls[0], rows["read"]) == ("c", None)
    assert verdict.causes(calls[0], rows["read"]) == ["overlap"]


def test_equal_calls_are_one_entry_however_many():
    world, x, _, y = chain()
    for number in range(10_000):
        world.call([y], {x: "ab"[number == 0]})
    record = build_record("long", world.parts(), SimpleLines(), {}, [])
    assert record.call_count == 10_000
    assert len(record.calls) <= 4
    assert len(record.columns) <= 4
    for index, witness in ((2, 1), (5_000, 4_999), (9_999, 9_998)):
        found = {op.name: op for op in record.executions(index)}
        assert (found["y"].status, found["y"].witness) == ("recomputed", witness)
    assert [op.status for op in record.executions(1) if op.name == "y"] == ["computed"]


def test_a_loop_of_training_steps_is_one_entry_with_relative_causes():
    world = World()
    v = world.cell("v")
    x = world.op("x", "Placeholder")
    read = world.op("read", "ReadVariableOp", reads=[v])
    y = world.op("y", "Mul", [x, read])
    step = world.op("step", "ResourceApplyGradientDescent", [y], reads=[v], writes=[v])
    for _ in range(500):
        world.call([y], {x: "a"}, targets=[step])
    record = build_record("training", world.parts(), SimpleLines(), {}, [])
    assert record.call_count == 500
    assert len(record.columns) <= 3
    for index in (7, 499):
        cause = next(op for op in record.executions(index) if op.name == "y").causes[0]
        assert (cause.kind, cause.source, cause.call) == ("variable", "v", index - 1)
        assert str(index - 1) in cause.text


class SimpleLines:
    """No lines of user code."""

    all = ()
