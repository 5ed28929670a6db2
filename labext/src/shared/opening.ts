/** What is shown at the start: a call with redundant work, and the scopes with it open, as long as they can be read. */

import type { App } from "./app.ts";
import { arrange, type Group, type Tree } from "./hierarchy.ts";
import type { Execution } from "./recording.ts";
import { PRUNED, RECOMPUTED, REUSED } from "./statuses.ts";

const ROOM = 34;

/** The call to begin with: the first that repeated work; without any the second, which could have. */
export function firstShown(run: Execution): number {
  const found = run.calls.findIndex((_, entry) => run.totals(entry).counts[RECOMPUTED] > 0);
  return found >= 0 ? found : Math.min(1, run.calls.length - 1);
}

/** So many boxes of what the first shown call does not need, initialisers mostly, would hide what it does. */
const CROWD = 6;
const known = new WeakMap<Tree, ReadonlySet<Group>>();

/** Boxes of the top level that stand aside, below the others: a crowd of them of which the first shown call needs none. */
export function aside(app: App): ReadonlySet<Group> {
  const tree = app.tree();
  let found = known.get(tree);
  if (!found) {
    const status = app.statuses();
    const all = tree.root.children.filter((child) => child.rows.every((row) => status[row] === PRUNED));
    known.set(tree, (found = new Set(all.length < CROWD || all.length === tree.root.children.length ? [] : all)));
  }
  return found;
}

/** Ids of the groups to open: those with the most redundant time first, small ones only. */
export function initiallyOpen(app: App): ReadonlySet<string> {
  const { root } = app.tree();
  const execution = app.recording.run;
  const { bookkeeping, size } = app.graph();
  const weight = new Float64Array(size);
  let redundant = false;
  const seen = new Set<number>();
  for (const [e, call] of execution.calls.entries()) {
    if (call.graph !== app.state.graph || seen.has(call.columns) || seen.size >= 40) continue;
    seen.add(call.columns);
    const status = execution.status(e);
    const { op, seconds } = execution.columns(e);
    for (let i = 0; i < op.length; i++) {
      const hit = status[op[i]] === RECOMPUTED || status[op[i]] === REUSED;
      if (!hit || bookkeeping[op[i]]) continue;
      redundant = true;
      weight[op[i]] += seconds[i] + 1e-9;
    }
  }
  const open = new Set<string>();
  let shown = root.children.length - aside(app).size;
  const heap: Group[] = root.children.filter((child) => child.kind !== "op");
  const worth = (group: Group): number => group.rows.reduce((sum, row) => sum + weight[row], 0);
  const whole = redundant ? weight.reduce((sum, one) => sum + one, 0) : 0;
  const value = new Map(heap.map((group) => [group, worth(group)]));
  while (heap.length) {
    heap.sort((a, b) => (value.get(b) as number) - (value.get(a) as number));
    const group = heap.shift() as Group;
    // A small share of the redundant work is no reason to open; without redundancy a graph of few ops is shown whole.
    if ((value.get(group) as number) <= 0.04 * whole && (redundant || root.rows.length > ROOM)) break;
    if (group.rows.length > 5000) continue;
    arrange(app.tree(), group);
    if (shown + group.children.length > ROOM) continue;
    open.add(group.id);
    shown += group.children.length;
    for (const child of group.children)
      if (child.kind !== "op") {
        heap.push(child);
        value.set(child, worth(child));
      }
  }
  return open;
}
