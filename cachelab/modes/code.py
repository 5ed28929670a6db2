"""Plain TensorFlow code that does by hand what a mode does; on the user's own session, call by call.

The code takes ``sess``, the session with its variables as they were before the first call, and ``feeds``, a list
with the ``feed_dict`` of each call by tensor name. It leaves in ``results`` what each call gave.
"""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Any

from cachelab.i18n import translate as _
from cachelab.modes.script import PLAIN

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from cachelab.material import CallMaterial
    from cachelab.modes.cuts import CallPlan
    from cachelab.modes.keeping import Keeping
    from cachelab.modes.script import Script

HEAD = "results = {}"

BETWEEN = '''\
def between(cuts, fetches):
    """The ops that `fetches` need and that depend on `cuts`."""
    below, stack = set(), [op for cut in cuts for op in graph.get_tensor_by_name(cut).consumers()]
    while stack:
        op = stack.pop()
        if op not in below:
            below.add(op)
            stack += [user for tensor in op.outputs for user in tensor.consumers()] + list(op._control_outputs)
    above, stack = set(), [getattr(item, "op", item) for item in map(graph.as_graph_element, fetches)]
    while stack:
        op = stack.pop()
        if op not in above:
            above.add(op)
            stack += [tensor.op for tensor in op.inputs if tensor.name not in cuts] + op.control_inputs
    loops = {loop(op) for op in below & above} - {None}  # whole, or not at all
    return [op for op in graph.get_operations() if op in below & above or loop(op) in loops]


def loop(op):
    """The outermost TF1 loop around an op."""
    found, context = None, op._get_control_flow_context()
    while context is not None:
        found, context = context if context.IsWhileContext() else found, context.outer_context
    return found


def rebuild(cuts, fetches):
    """Build the ops between `cuts` and `fetches` once more, on other tensors: `cuts` maps name -> tensor."""
    ops = between(cuts, fetches)
    names, part, outside = {op.name for op in ops}, tf1.GraphDef(), {}
    for op in ops:
        node = part.node.add()
        node.CopyFrom(op.node_def)
        node.attr.pop("_class", None)
        if "frame_name" in node.attr:
            node.attr["frame_name"].s += b"/rebuilt"
        for tensor in op.inputs:
            if tensor.op.name not in names:
                outside[tensor.name] = tensor
        for other in op.control_inputs:
            if other.name not in names:
                with tf.control_dependencies([other]):
                    outside["^" + other.name] = tf.constant(0)
    outside.update({cut: tensor for cut, tensor in cuts.items() if any(cut == t.name for op in ops for t in op.inputs)})
    inner = [item for item in fetches if item.split(":")[0] in names]
    built = tf1.import_graph_def(part, input_map=outside, return_elements=inner, name="rebuilt") if ops else []
    built = dict(zip(inner, built))
    return [cuts[item] if item in cuts else built.get(item, graph.as_graph_element(item)) for item in fetches]
'''

VARIABLE = '''\
def variable(cut):
    """A variable of any shape for a tensor: a function that makes the op which fills it, and its value."""
    dtype = graph.get_tensor_by_name(cut).dtype
    handle = tf.raw_ops.VarHandleOp(dtype=dtype, shape=tf.TensorShape(None), shared_name="kept/" + cut)
    fill = lambda value: tf.raw_ops.AssignVariableOp(resource=handle, value=tf.raw_ops.DeepCopy(x=value))
    return fill, tf.raw_ops.ReadVariableOp(resource=handle, dtype=dtype)
'''

IMPORTS = "import tensorflow as tf\n\ntf1, graph = tf.compat.v1, sess.graph\n"


def of(mode: Any) -> str:
    """Return the code of a mode, or why there is none."""
    sessions = len({call.session for call in mode.script.calls})
    if sessions == 1:
        return str(mode.code())
    text = _("# These calls are of {count} sessions, and plain code knows one: record each by itself to get it.")
    return text.format(count=sessions) + "\n"


def spans(calls: Iterable[int]) -> str:
    """Return a Python expression for call numbers: ``range(1, 6)``, or a list."""
    numbers = list(calls)
    if len(numbers) > 2 and numbers == list(range(numbers[0], numbers[-1] + 1)):  # noqa: PLR2004 - a list reads better
        return f"range({numbers[0]}, {numbers[-1] + 1})"
    return repr(numbers)


def names(items: Iterable[str]) -> str:
    """Return names as the items of a Python list."""
    return ", ".join(f'"{item}"' for item in items)


def feed_dict(feeds: Sequence[str], more: Sequence[str] = ()) -> str:
    """Return a feed dict that takes ``feeds`` from the call's own; ``more`` are further items."""
    return "{" + ", ".join([*(f'"{name}": feeds[k]["{name}"]' for name in feeds), *more]) + "}"


def plain(call: CallMaterial) -> list[str]:
    """Return the lines that issue a call as it was recorded."""
    if call.kind not in PLAIN:
        return [f"# call {call.index} is a {call.kind}: as it was"]
    if call.failed is not None:
        return [f"# call {call.index} failed with {call.failed_type}: as it was"]
    return [f"results[k] = sess.run([{names((*call.fetches, *call.targets))}], {feed_dict(tuple(call.feeds))})"]


def loops(script: Script, body: Callable[[CallMaterial], list[str]]) -> str:
    """Return one loop for every stretch of calls with the same body; ``body`` gives lines that use ``k``."""
    lines = [HEAD]
    for text, calls in groupby(script.calls, body):
        lines.append(f"for k in {spans(call.index for call in calls)}:")
        code_lines = text if any(not line.startswith("#") for line in text) else [*text, "pass"]
        lines += [f"    {line}" for line in code_lines]
    return "\n".join(lines) + "\n"


def run(script: Script) -> str:
    """Code of mode ``run``."""
    return loops(script, plain)


def feed(mode: Keeping) -> str:
    """Code of modes ``feed`` and ``memo``."""
    numbers: dict[Any, int] = {}

    def kept(call: CallMaterial, tensor: str) -> str:
        if mode.slots is not None:
            return f'kept["{tensor}"]'
        token = (tensor, mode.script.same_as(tensor.rpartition(":")[0], call.index))
        number = numbers.setdefault(token, sum(1 for other in numbers if other[0] == tensor))
        return f'kept["{tensor}", {number}]'

    def body(call: CallMaterial) -> list[str]:
        plan = mode.schedule.plans.get(call.index)
        return plain(call) if plan is None else _fed(call, plan, kept, mode.still_fed(call, plan))

    return loops(mode.script, body).replace(HEAD, "results, kept = {}, {}", 1)


memo = feed


def _fed(
    call: CallMaterial, plan: CallPlan, kept: Callable[[CallMaterial, str], str], own: tuple[str, ...]
) -> list[str]:
    if plan.serve and not call.targets and all(name in plan.serve for name in call.fetches):
        return [f"results[k] = [{', '.join(kept(call, name) for name in call.fetches)}]"]
    lines = []
    if plan.serve:
        lines.append("# " + _("what lies behind {tensors} does not run").format(tensors=", ".join(plan.serve)))
    more = [f'"{name}": {kept(call, name)}' for name in plan.serve]
    extra = [name for name in plan.keep if name not in call.fetches]
    into = ", ".join(["*results[k]" if extra else "results[k]", *(kept(call, name) for name in extra)])
    wanted = names((*call.fetches, *call.targets, *extra))
    lines.append(f"{into} = sess.run([{wanted}], {feed_dict(own, more)})")
    lines += [
        f"{kept(call, name)} = results[k][{call.fetches.index(name)}]" for name in plan.keep if name in call.fetches
    ]
    return lines


def _cuts(mode: Keeping) -> list[str]:
    """Return the tensors that some call keeps or is served."""
    plans = mode.schedule.plans.values()
    return list(dict.fromkeys(name for plan in plans for name in (*plan.keep, *plan.serve)))


def handle(mode: Keeping) -> str:
    """Code of mode ``handle``."""

    def body(call: CallMaterial) -> list[str]:
        plan = mode.schedule.plans.get(call.index)
        if plan is None:
            return plain(call)
        more = [f'"{name}": kept["{name}"]' for name in plan.serve]
        wanted = [f'value["{name}"]' if name in plan.serve else f'"{name}"' for name in (*call.fetches, *call.targets)]
        into = ", ".join(["*results[k]" if plan.keep else "results[k]", *(f'kept["{n}"]' for n in plan.keep)])
        keep = [f'handle["{name}"]' for name in plan.keep]
        own = mode.still_fed(call, plan)
        return [f"{into} = sess.run([{', '.join([*wanted, *keep])}], {feed_dict(own, more)})"]

    make = (
        f"{IMPORTS}with graph.as_default():\n"
        f"    cuts = {{name: graph.get_tensor_by_name(name) for name in [{names(_cuts(mode))}]}}\n"
        "    handle = {name: tf1.get_session_handle(cut) for name, cut in cuts.items()}\n"
        "    value = {name: tf.identity(cut) for name, cut in cuts.items()}\n"
    )
    return make + loops(mode.script, body).replace(HEAD, "results, kept = {}, {}", 1)


def variable(mode: Keeping) -> str:
    """Code of mode ``variable``."""
    built: dict[Any, str] = {}
    makers: list[str] = []

    def body(call: CallMaterial) -> list[str]:
        plan = mode.schedule.plans.get(call.index)
        if plan is None:
            return plain(call)
        wanted = (*call.fetches, *call.targets)
        key = (wanted, plan.serve, plan.keep)
        if key not in built:
            way = built[key] = f"way_{len(built)}"
            cuts = ", ".join(f'"{name}": read["{name}"]' for name in plan.serve)
            makers.append(f"    {way} = rebuild({{{cuts}}}, [{names((*wanted, *plan.keep))}])")
            makers.extend(
                f'    {way}[{len(wanted) + at}] = fill["{name}"](graph.as_graph_element({way}[{len(wanted) + at}]))'
                for at, name in enumerate(plan.keep)
            )
        return [f"results[k] = sess.run({built[key]}, {feed_dict(plan.feeds)})"]

    calls = loops(mode.script, body)
    make = ["with graph.as_default():", "    fill, read = {}, {}", f"    for cut in [{names(_cuts(mode))}]:",
            "        fill[cut], read[cut] = variable(cut)", *makers]  # fmt: skip
    return "\n\n".join([IMPORTS, BETWEEN, VARIABLE, "\n".join(make) + "\n" + calls])


def joint(mode: Any) -> str:
    """Code of mode ``joint``."""
    lines = [HEAD]
    for group in mode.groups:
        if len(group) == 1:
            lines += [f"k = {group[0].index}", *plain(group[0])]
            continue
        wanted = tuple(dict.fromkeys(name for call in group for name in call.fetches))
        targets = tuple(dict.fromkeys(name for call in group for name in call.targets))
        feeds = ", ".join(f"**feeds[{call.index}]" for call in group)
        lines.append(f"names = [{names((*wanted, *targets))}]")
        lines.append(f"values = dict(zip(names, sess.run(names, {{{feeds}}})))")
        lines += [
            f"results[{call.index}] = [{', '.join(f'values[{name!r}]' for name in (*call.fetches, *call.targets))}]"
            for call in group
        ]
    return "\n".join(lines) + "\n"


def partial_run(mode: Any) -> str:
    """Code of mode ``partial_run``."""
    lines = [HEAD]
    done: dict[str, str] = {}
    for group in mode.groups:
        if len(group) == 1:
            lines += [f"k = {group[0].index}", *plain(group[0])]
            continue
        parts = mode.parts[group[0].index]
        asked: set[str] = set()
        asks = [[f'"{name}"' for name in part.fetches] + _done(part, asked, done) for part in parts]
        feeds = names(name for part in parts for name in part.feeds)
        lines.append(f"handle = sess.partial_run_setup([{', '.join(a for ask in asks for a in ask)}], [{feeds}])")
        lines.append("known = {}")
        for part, ask in zip(parts, asks, strict=True):
            call = part.call
            lines.append(f"k = {call.index}")
            lines.append(f"known.update(feeds[{call.index}])")
            if ask or part.feeds:
                given = feed_dict(part.feeds)
                lines.append(f"values = sess.partial_run(handle, [{', '.join(ask)}], {given})")
                lines.append(f"known.update(zip([{names(part.fetches)}], values))")
            lines.append(f"results[k] = [known[name] for name in [{names(call.fetches)}]]")
    if not done:
        return "\n".join(lines) + "\n"
    wrap = [IMPORTS, "with graph.as_default():  # " + _("a handle can't fetch an op, only a tensor that waits for it")]
    for name, variable_name in done.items():
        wrap += [f'    with tf.control_dependencies([graph.get_operation_by_name("{name}")]):',
                 f"        {variable_name} = tf.constant(True)"]  # fmt: skip
    return "\n".join([*wrap, *lines]) + "\n"


def _done(part: Any, asked: set[str], done: dict[str, str]) -> list[str]:
    """Return the names of the tensors that stand for the target ops that a part is the first of a handle to need."""
    new = [name for name in part.call.targets if name not in asked]
    asked.update(new)
    return [done.setdefault(name, f"done_{len(done)}") for name in new]


def per_example(mode: Any) -> str:
    """Code of mode ``per_example``."""
    lines = [f"import numpy as np\n{IMPORTS}from tensorflow.python.ops.parallel_for import control_flow_ops", "",
             BETWEEN, "", HEAD]  # fmt: skip
    served: set[int] = set()
    for call in mode.script.calls:
        group = mode._group_of[call.index]
        stacked = mode.stacked.get(call.index)
        if call.index in mode._of_group and stacked:
            numbers = [member.index for member in group]
            served.update(numbers)
            lines += _mapped(call, numbers, stacked)
        elif call.index not in served:
            lines += [f"k = {call.index}", *plain(call)]
    return "\n".join(lines) + "\n"


def _mapped(call: CallMaterial, numbers: list[int], stacked: Sequence[str]) -> list[str]:
    return [
        f"calls = {spans(numbers)}",
        f"stack = {{name: np.stack([feeds[k][name] for k in calls]) for name in [{names(stacked)}]}}",
        "with graph.as_default():",
        "    rows = {name: tf1.placeholder(value.dtype, value.shape) for name, value in stack.items()}",
        "    at = lambda i: {name: tf.gather(row, i) for name, row in rows.items()}",
        f"    one = lambda i: rebuild(at(i), [{names(call.fetches)}])",
        "    outputs = control_flow_ops.pfor(one, len(calls))",
        f"k = {call.index}",
        "values = sess.run(outputs, {**{rows[name]: stack[name] for name in rows}, **feeds[k]})",
        "for at, k in enumerate(calls):",
        "    results[k] = [value[at] for value in values]",
    ]
