"""Deliberate breaks of the engine: each replaces one piece of text in one file of ``cachelab``.

``name`` says what is broken; ``file``, ``old`` and ``new`` how. ``old`` must occur exactly once, so that a mutant
whose place has moved is noticed.
"""

from __future__ import annotations

from typing import NamedTuple


class Mutant(NamedTuple):
    """One break."""

    name: str
    file: str
    old: str
    new: str


MUTANTS = (
    Mutant(
        "a feed is no source",
        "explain/variant.py",
        '                mask |= self._bit(Slot("feed", ref))\n                continue\n',
        "                continue\n",
    ),
    Mutant(
        "a variable read is no source",
        "explain/variant.py",
        "            else:\n                mask |= self._read(row, cell, own)\n",
        "",
    ),
    Mutant(
        "a random draw is no source",
        "explain/variant.py",
        '            mask |= self._bit(Slot("frozen" if row in self.frozen else "draw", row))',
        "            pass",
    ),
    Mutant(
        "a write of an earlier call is not counted",
        "explain/history.py",
        "            self._current[call.scope, place] = Version((kind, call.scope, place), value, call.index, row)\n",
        "            pass\n",
    ),
    Mutant(
        "a write within the call is not counted",
        "explain/plan.py",
        " else State(self._maximal(preceding))",
        " else State()",
    ),
    Mutant(
        "a failed call's writes are not counted",
        "explain/history.py",
        " in self._written(plan, judged.variant, ran):\n",
        " in () if call.failed else self._written(plan, judged.variant, ran):\n",
    ),
    Mutant(
        "a failed call is a witness",
        "explain/history.py",
        "        if not call.failed:\n            self._note(judged, ran)\n",
        "        self._note(judged, ran)\n",
    ),
    Mutant(
        "a stale key: versions are not looked at",
        "explain/history.py",
        "        memo = (variant.id, vector, config)\n",
        "        memo = (variant.id, (), config)\n",
    ),
    Mutant(
        "a witness by class, not by op",
        "explain/verdicts.py",
        "    return row in entry.outcome.ran and entry.variant.class_of.get(row) == entry.number",
        "    return True",
    ),
    Mutant(
        "races are ignored",
        "explain/plan.py",
        '            if place == "unordered":\n                return State(unique=True, race=writer)\n',
        "",
    ),
    Mutant(
        "writes of the same loop are ignored",
        "explain/plan.py",
        "            if (is_before and is_after) or self._same_loop(row, writer):\n",
        "            if False:\n",
    ),
    Mutant(
        "overlapping calls are ignored",
        "explain/history.py",
        "        together = overlapped.of(key)\n",
        "        together = None\n",
    ),
    Mutant(
        "a hidden call under way is ignored",
        "explain/overlaps.py",
        "        return self._places.get(place, self._hidden)",
        "        return self._places.get(place)",
    ),
    Mutant(
        "what a hidden call may have written is ignored",
        "explain/history.py",
        "                if call.opaque and not begins:",
        "                if False:",
    ),
    Mutant(
        "a write through an unknown handle is ignored",
        "explain/plan.py",
        "    _share_unknown(flat, closed, writers)\n",
        "",
    ),
    Mutant(
        "ref aliasing is ignored",
        "explain/variant.py",
        "                inherited &= ~own.get(ref[0], {}).get(cell, 0)\n",
        "                continue\n",
    ),
    Mutant(
        "an op with an effect may be recomputed",
        "explain/verdicts.py",
        "        if row not in flat.effects:\n            return row in",
        "        if True:\n            return row in",
    ),
    Mutant(
        "the walk goes on behind a fed tensor",
        "explain/closure.py",
        "        if ref in feeds:\n            stopped.append(ref)\n        else:\n            kept.append(ref)",
        "        if ref in feeds:\n            stopped.append(ref)\n        kept.append(ref)",
    ),
    Mutant(
        "a fed output stops the whole op",
        "explain/closure.py",
        "    pending = [ref[0] for ref in signature.fetches if ref not in feeds]",
        "    feeds = frozenset((row, i) for row, _ in signature.feeds for i in range(4))\n"
        "    pending = [ref[0] for ref in signature.fetches if ref not in feeds]",
    ),
    Mutant(
        "the control edge of a fed placeholder remains",
        "explain/closure.py",
        "r for r in flat.control[row] if (r, 0) not in gating",
        "r for r in flat.control[row]",
    ),
    Mutant(
        "a control edge from a placeholder asks for no feed",
        "explain/closure.py",
        "        if gating:\n",
        "        if False:\n",
    ),
    Mutant(
        "control edges are not walked",
        "explain/closure.py",
        "        rows.extend(r for r in flat.control[row] if (r, 0) not in gating)\n",
        "",
    ),
    Mutant(
        "an untaken branch counts as a source",
        "explain/variant.py",
        "        kept = [ref for ref, gone in zip(refs, out, strict=True) if not gone] or list(refs)\n",
        "        kept = list(refs)\n",
    ),
    Mutant(
        "a branch that shows no op of its own counts as taken",
        "explain/variant.py",
        "            if len(left) == 1:\n",
        "            if False:\n",
    ),
    Mutant(
        "what optimisation ran itself is drawn anew in each call",
        "explain/variant.py",
        '"frozen" if row in self.frozen else "draw"',
        '"draw"',
    ),
    Mutant(
        "what optimisation ran itself is the same in every signature",
        "explain/history.py",
        '("frozen", call.session, plan.id)',
        '("frozen", call.session)',
    ),
    Mutant(
        "a source that changed is said to be the same",
        "views/sources.py",
        '        if here.get(source, "") == there.get(source)\n',
        "        if True\n",
    ),
    Mutant(
        "a check that the result does not depend on is left out",
        "modes/live_plan.py",
        " | self._unchecked(needed, serve)\n",
        "\n",
    ),
    Mutant(
        "a write in an untaken branch counts",
        "explain/plan.py",
        "        return rows if ran is None or not self.conditional else tuple(row for row in rows if row in ran)",
        "        return rows",
    ),
    Mutant(
        "a control edge that carries a branch is no source",
        "explain/variant.py",
        "            mask |= dead.get(control, 0)",
        "            pass",
    ),
    Mutant(
        "a control edge inside a branch carries values",
        "explain/variant.py",
        "            mask |= dead.get(control, 0)",
        "            mask |= masks.get(control, 0) if control in plan.dead else 0",
    ),
    Mutant(
        "a merge waits for all its inputs",
        "explain/orders.py",
        "        for mask in masks:\n            every &= mask\n",
        "        for mask in masks:\n            every |= mask\n",
    ),
    Mutant(
        "the first iteration of a loop waits for all that the loop waits for",
        "explain/orders.py",
        "                together |= self._bit.get(member, 0)\n",
        "                together |= self._bit.get(member, 0)\n"
        "                for other in self._closed.waits[member]:\n"
        "                    together |= self._done(other, member)\n",
    ),
    Mutant(
        "what came round a loop once is done in every iteration",
        "explain/orders.py",
        "        return bool((self.once.get(head.back, 0) | self.once.get(head.condition, 0)) & head.bit)",
        "        return True",
    ),
    Mutant(
        "without a trace all of a function that is inlined runs",
        "explain/partial.py",
        "    if flat.outputs:\n",
        "    if False:\n",
    ),
    Mutant(
        "the writes of a branch are not seen behind it",
        "explain/orders.py",
        "            if all(mask & low or self._excluded(row, event, i, branches) for i, mask in enumerate(masks)):",
        "            if False:",
    ),
    Mutant(
        "sessions share their variables",
        "explain/history.py",
        "        source = (flat.cells[slot.of].kind, call.scope, key)",
        '        source = (flat.cells[slot.of].kind, "", key)',
    ),
    Mutant(
        "what leaves a class from one to the next stays in its key",
        "explain/keys.py",
        "            found[leaves] = np.negative(found[leaves])  # modulo 2**64, like the sums",
        "            found[leaves] = 0",
    ),
    Mutant(
        "what is fetched of a ref variable is what its op saw",
        "explain/variant.py",
        "            elif self.plan.later(row, cell, self.ran):",
        "            elif False:",
    ),
    Mutant(
        "a fed read is still the variable",
        "explain/closure.py",
        "    if not any(ref[0] in flat.aliases for ref in reached):",
        "    if True:",
    ),
    Mutant(
        "other settings are the same key",
        "explain/keys.py",
        "        return tuple((high, low, config) for high, low in keys.tolist())",
        "        return tuple((high, low, 0) for high, low in keys.tolist())",
    ),
    Mutant(
        "what an unknown handle reads is trusted",
        "explain/history.py",
        '        if flat.cells[slot.of].kind == "opaque":  # which one',
        "        if False:  # which one",
    ),
    Mutant(
        "a fed tensor that the optimiser looked through is ignored",
        "explain/variant.py",
        "        return {row: mask | bypassed if mask else 0 for row, mask in masks.items()} if bypassed else masks",
        "        return masks",
    ),
    Mutant(
        "a call under way is a witness",
        "explain/history.py",
        "        moments += [(call.ended, 0, i) for i, call in enumerate(calls)]",
        "        moments += [(call.began + 0.5, 0, i) for i, call in enumerate(calls)]",
    ),
    Mutant(
        "variables on a shared server are trusted",
        "explain/history.py",
        "        if call.shared:\n",
        "        if False:\n",
    ),
    Mutant(
        "an op that was folded or renamed counts as executed",
        "tf/fates.py",
        '        if node.type == "Const" and own != "Const":\n            return False\n',
        '        if node.type == "Const" and own != "Const":\n            return True\n',
    ),
    Mutant(
        "ref assigns are no writes",
        "tf/resources.py",
        "                if not reads_only and self._may_write(node.op):\n",
        "                if not reads_only and self._may_write(node.op) and not argument.ref:\n",
    ),
    Mutant(
        "a stateful op that is not listed is pure",
        "tf/effects.py",
        "    if definition.is_stateful and not known:\n",
        "    if False:\n",
    ),
    Mutant(
        "Python code is pure",
        "tf/effects.py",
        '        return Effects("opaque", effect=True, reads_only=False)\n    if op_type in OUTWARD:',
        '        return Effects("", effect=False, reads_only=False)\n    if op_type in OUTWARD:',
    ),
    Mutant(
        "feeds are told apart by shape",
        "tf/values.py",
        "        hasher.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)",
        "        pass",
    ),
    Mutant(
        "handles passed on by an op are lost",
        "tf/resources.py",
        '            if kind in {"Switch", "RefSwitch", "_SwitchN"}:\n                pending.append(inputs[0])',
        '            if kind in {"Switch", "RefSwitch", "_SwitchN"}:\n                continue',
    ),
)
