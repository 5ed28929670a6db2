/** Sums over the ops of a group in a call, made once for all calls that share their columns. */

import type { Graph } from "./graph.ts";
import { type Group, mix } from "./hierarchy.ts";
import type { Execution } from "./recording.ts";
import type { Recording } from "./recording.ts";
import { executed, FED, PRUNED, RECOMPUTED, REUSED } from "./statuses.ts";

export interface Sums {
  /** Ops by status, see `mix`. */
  counts: number[];
  /** Op seconds, bookkeeping left out as everywhere (but a single op is told as it is). */
  total: number;
  redundant: number;
}

const rows = new WeakMap<Group, ArrayLike<number>>();

/** Rows of a group that count: bookkeeping is left out unless there is nothing else. */
export function counted(group: Group, { bookkeeping }: Graph): ArrayLike<number> {
  let found = rows.get(group);
  if (!found) {
    const some = group.rows.filter((row) => !bookkeeping[row]);
    rows.set(group, (found = some.length ? some : group.rows));
  }
  return found;
}

const least = new WeakMap<Execution, Map<number, Float64Array>>();

/** The shortest time that each op of a graph took in a call: what no cold or disturbed call has made longer. */
function shortest(execution: Execution, graph: number, size: number): Float64Array {
  let known = least.get(execution);
  if (!known) least.set(execution, (known = new Map<number, Float64Array>()));
  let found = known.get(graph);
  if (found) return found;
  known.set(graph, (found = new Float64Array(size).fill(Infinity)));
  const seen = new Set<number>();
  execution.calls.forEach((call, entry) => {
    if (call.graph !== graph || seen.has(call.columns)) return;
    seen.add(call.columns);
    const { op, status, seconds } = execution.columns(entry);
    for (let i = 0; i < op.length; i++) if (executed(status[i])) found[op[i]] = Math.min(found[op[i]], seconds[i]);
  });
  return found;
}

/**
 * Op seconds that a mode spared in a call, at least: of the ops that ran in it and were served, fed or not needed in the mode. The
 * difference of two timings would call it saved as well that a replay is warm and the recorded call was cold.
 */
export function spared(recording: Recording, execution: Execution, entry: number): number {
  const base = recording.again ?? recording.run;
  const call = execution.calls[entry];
  const before = base.entry(call.index);
  if (execution === recording.run || before < 0 || base.calls[before].graph !== call.graph) return 0;
  const { bookkeeping } = execution.graph(entry);
  const [now, then] = [execution.status(entry), base.status(before)];
  const { op } = base.columns(before);
  const seconds = shortest(base, call.graph, execution.graph(entry).size);
  let sum = 0;
  for (let i = 0; i < op.length; i++) {
    const status = now[op[i]];
    if (!bookkeeping[op[i]] && executed(then[op[i]]) && (status === REUSED || status === FED || status === PRUNED)) sum += seconds[op[i]];
  }
  return sum;
}

export class SumCache {
  private readonly known = new WeakMap<Group, Map<string, Sums>>();

  of(group: Group, execution: Execution, entry: number, graph: Graph): Sums {
    const key = `${execution.serial}|${execution.calls[entry].columns}`;
    let sums = this.known.get(group);
    if (!sums) this.known.set(group, (sums = new Map<string, Sums>()));
    let found = sums.get(key);
    if (!found) {
      const status = execution.status(entry);
      const seconds = execution.seconds(entry);
      found = { counts: mix(group, status, graph.bookkeeping), total: 0, redundant: 0 };
      const { rows } = group;
      for (let i = 0; i < rows.length; i++) {
        const row = rows[i];
        if (!executed(status[row]) || (graph.bookkeeping[row] && group.kind !== "op")) continue;
        found.total += seconds(row);
        if (status[row] === RECOMPUTED && !graph.bookkeeping[row]) found.redundant += seconds(row);
      }
      sums.set(key, found);
    }
    return found;
  }
}
