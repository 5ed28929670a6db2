/** What is open at the start: scopes with redundant work, as long as the picture stays readable. */

import type { App } from "./app.ts";
import { arrange, type Group } from "./hierarchy.ts";
import { executed, RECOMPUTED, REUSED } from "./statuses.ts";

const ROOM = 34;

/** Ids of the groups to open: those with the most redundant time first, small ones only. */
export function initiallyOpen(app: App): ReadonlySet<string> {
  const { root } = app.tree();
  const execution = app.recording.run;
  const { bookkeeping, size } = app.graph();
  const weight = new Float64Array(size);
  const entries = execution.calls.map((_, e) => e).filter((e) => execution.calls[e].graph === app.state.graph);
  let redundant = false;
  for (const e of entries.slice(0, 40)) {
    const status = execution.status(e);
    const seconds = execution.seconds(e);
    for (const row of execution.columns(e).op) {
      if (bookkeeping[row] || !(executed(status[row]) || status[row] === REUSED)) continue;
      const hit = status[row] === RECOMPUTED || status[row] === REUSED;
      redundant ||= hit;
      if (hit) weight[row] += seconds(row) + 1e-9;
    }
  }
  const open = new Set<string>();
  let shown = root.children.length;
  const heap: Group[] = root.children.filter((child) => child.kind !== "op");
  const worth = (group: Group): number => group.rows.reduce((sum, row) => sum + weight[row], 0);
  const value = new Map(heap.map((group) => [group, worth(group)]));
  while (heap.length) {
    heap.sort((a, b) => (value.get(b) as number) - (value.get(a) as number));
    const group = heap.shift() as Group;
    // Without redundancy a graph of few ops is shown whole.
    if (!(value.get(group) as number) && (redundant || root.rows.length > ROOM)) break;
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
