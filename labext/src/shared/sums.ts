/** Sums over the ops of a group in a call, made once for all calls that share their columns. */

import type { Graph } from "./graph.ts";
import { type Group, mix } from "./hierarchy.ts";
import type { Execution } from "./recording.ts";
import { executed, RECOMPUTED } from "./statuses.ts";

export interface Sums {
  /** Ops by status, see `mix`. */
  counts: number[];
  /** Op seconds, bookkeeping left out as everywhere (but a single op is told as it is). */
  total: number;
  redundant: number;
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
        if (status[row] === RECOMPUTED) found.redundant += seconds(row);
      }
      sums.set(key, found);
    }
    return found;
  }
}
