"""Orders through merges and loops: only what holds on every way that an execution may take."""

from __future__ import annotations

from explain_worlds import World


def conditional(*, read_in: str, write_in: str = "") -> tuple[World, int, dict[str, int]]:
    """Return a read before a conditional (taken in by one branch) and a write after it or in a branch."""
    world = World()
    v = world.cell("v")
    p, x = world.op("p", "Placeholder"), world.op("x", "Placeholder")
    read = world.op("read", "ReadVariableOp", reads=[v])
    switch_read = world.op("switch_read", "Switch", [read, p])
    switch_x = world.op("switch_x", "Switch", [x, p])
    inside = []
    if write_in:
        inside = [world.op("inner", "AssignAddVariableOp", [(switch_x, 1)], reads=[v], writes=[v])]
    then = world.op("then", "Tanh", [(switch_read if read_in in {"then", "both"} else switch_x, 1)], inside)
    other = world.op("other", "Neg", [(switch_read if read_in in {"else", "both"} else switch_x, 0)])
    merge = world.op("merge", "Merge", [other, then])
    write = world.op("write", "AssignVariableOp", [merge], reads=[v], writes=[v])
    late = world.op("late", "ReadVariableOp", control=[merge], reads=[v])
    rows = {"p": p, "x": x, "read": read, "merge": merge, "write": write, "late": late, "inner": (inside or [-1])[0]}
    return world, v, rows


def test_a_merge_does_not_wait_for_the_branch_not_taken():
    world, v, rows = conditional(read_in="then")
    plan = world.plan([rows["merge"]], [rows["p"], rows["x"]], [rows["write"]])
    assert plan.state(rows["read"], v, None).race == rows["write"]  # with p false, ``read`` may come late


def test_a_merge_waits_for_what_both_branches_wait_for():
    world, v, rows = conditional(read_in="both")
    plan = world.plan([rows["merge"]], [rows["p"], rows["x"]], [rows["write"]])
    assert plan.state(rows["read"], v, None).after == ()
    assert not plan.state(rows["read"], v, None).unique


def test_a_write_in_a_branch_comes_before_what_follows_the_merge():
    world, v, rows = conditional(read_in="both", write_in="then")
    plan = world.plan([rows["late"]], [rows["p"], rows["x"]])
    state = plan.state(rows["late"], v, None)
    assert (state.after, state.unique) == ((rows["inner"],), False)


def test_a_write_of_an_earlier_conditional_is_no_part_of_a_later_one():
    """One branch of the second conditional waits for the first one's write; the other doesn't: no order."""
    world = World()
    v = world.cell("v")
    p, q, x = (world.op(name, "Placeholder") for name in "pqx")
    switch = world.op("switch", "Switch", [x, p])
    write = world.op("write", "AssignAddVariableOp", [(switch, 1)], reads=[v], writes=[v])
    first = world.op("first", "Merge", [(switch, 0), world.op("then", "Identity", [(switch, 1)], [write])])
    switch_first = world.op("switch_first", "Switch", [first, q])
    switch_x = world.op("switch_x", "Switch", [x, q])
    second = world.op("second", "Merge", [(switch_x, 0), (switch_first, 1)])
    read = world.op("read", "ReadVariableOp", control=[second], reads=[v])
    plan = world.plan([read], [p, q, x])
    assert plan.state(read, v, None).race == write


def loop(*, write_after_other: bool) -> tuple[World, int, dict[str, int]]:
    """Return a loop whose body writes, and adds something read outside."""
    world = World()
    v = world.cell("v")
    x = world.op("x", "Placeholder")
    read = world.op("read", "ReadVariableOp", reads=[v])
    enter, enter_read = world.op("enter", "Enter", [x]), world.op("enter_read", "Enter", [read])
    merge = world.op("merge", "Merge", [enter])
    condition = world.op("condition", "LoopCond", [merge])
    switch = world.op("switch", "Switch", [merge, condition])
    before = [world.op("early_add", "Add", [(switch, 1), enter_read])] if write_after_other else []
    write = world.op("write", "AssignAddVariableOp", [(switch, 1)], before, reads=[v], writes=[v])
    body = world.op("body", "Add", [(switch, 1), enter_read], [write])
    following = world.op("next", "NextIteration", [body])
    world.flat.inputs[merge] = ((enter, 0), (following, 0))
    leave = world.op("exit", "Exit", [(switch, 0)])
    late = world.op("late", "ReadVariableOp", control=[leave], reads=[v])
    return world, v, {"x": x, "read": read, "write": write, "exit": leave, "late": late}


def test_what_one_part_of_a_loop_waits_for_need_not_be_done_in_its_first_iteration():
    world, v, rows = loop(write_after_other=False)
    plan = world.plan([rows["exit"]], [rows["x"]])
    assert plan.state(rows["read"], v, None).race == rows["write"]
    assert [race.reader for race in plan.races()] == [rows["read"]]


def test_what_a_write_in_a_loop_waits_for_comes_before_it():
    world, v, rows = loop(write_after_other=True)
    plan = world.plan([rows["exit"]], [rows["x"]])
    assert plan.state(rows["read"], v, None).after == ()
    assert not plan.state(rows["read"], v, None).unique


def test_what_follows_a_loop_comes_after_its_writes():
    world, v, rows = loop(write_after_other=True)
    plan = world.plan([rows["late"]], [rows["x"]])
    state = plan.state(rows["late"], v, None)
    assert (state.after, state.unique) == ((rows["write"],), False)
