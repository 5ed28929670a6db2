/** From a line of code, or a call, to what the explorer shows of it: the ops that the line made, the calls it issued. */

import type { App } from "./app.ts";
import { path, reveal } from "./hierarchy.ts";
import type { Execution } from "./recording.ts";
import { executed, RECOMPUTED } from "./statuses.ts";
import { plural, t } from "./strings.ts";

const OPENED = 12;

/** What somebody pointed at outside of the explorer: numbers of lines in the recording, or of a call. */
export interface Target {
  lines?: readonly number[];
  call?: number;
}

/** The log entry in which the rows say most: recomputed time first, then time, then ops that ran. */
function telling(execution: Execution, rows: readonly number[], graph: number): number {
  let best = -1;
  let most = [-1, -1, -1];
  const seen = new Set<number>();
  execution.calls.forEach((call, entry) => {
    if (call.graph !== graph || seen.has(call.columns)) return;
    seen.add(call.columns);
    const status = execution.status(entry);
    const seconds = execution.seconds(entry);
    const worth = [0, 0, 0];
    for (const row of rows) {
      if (status[row] === RECOMPUTED) worth[0] += seconds(row) + 1e-9;
      if (executed(status[row])) worth[1] += seconds(row) + 1e-9;
      worth[2] += execution.cell(entry, row).listed ? 1 : 0;
    }
    const first = worth.findIndex((value, i) => value !== most[i]);
    if (first < 0 || worth[first] < most[first]) return;
    most = worth;
    best = entry;
  });
  return best;
}

/** Show a call, or the ops of lines: the longest one is selected, the others are lit and all else dims. */
export function goTo(app: App, target: Target): void {
  const { run } = app.recording;
  if (target.call !== undefined) {
    const entry = run.entry(target.call);
    if (entry >= 0) app.set({ mode: "run", graph: run.calls[entry].graph, entry, traced: null });
    return;
  }
  const lines = new Set(target.lines ?? []);
  let found: { graph: number; rows: number[] } = { graph: -1, rows: [] };
  for (const graph of app.recording.graphs.values()) {
    const { shown } = app.recording.used(graph);
    const rows = [...graph.line.keys()].filter((row) => lines.has(graph.line[row]) && shown[row] && !graph.bookkeeping[row]);
    if (rows.length > found.rows.length) found = { graph: graph.id, rows };
  }
  const issued = run.calls.findIndex((call) => lines.has(call.line));
  if (!found.rows.length) {
    if (issued < 0) return app.announce(t("This line made no op of the recording."));
    const again = run.calls.findIndex((call, entry) => lines.has(call.line) && run.totals(entry).counts[RECOMPUTED] > 0);
    app.set({ mode: "run", graph: run.calls[issued].graph, entry: again < 0 ? issued : again, selected: null, traced: null });
    return app.announce(t("Call {call} is from this line.", { call: run.label(app.state.entry) }));
  }
  const entry = telling(run, found.rows, found.graph);
  app.set({ mode: "run", graph: found.graph, ...(entry < 0 ? {} : { entry }) });
  const seconds = run.seconds(app.state.entry);
  const order = [...found.rows].sort((a, b) => seconds(b) - seconds(a) || a - b);
  const open = new Set(app.state.open);
  for (const row of order.slice(0, OPENED)) {
    const leaf = reveal(app.tree(), row);
    for (const step of leaf ? path(leaf) : []) if (step !== leaf) open.add(step.id);
  }
  app.set({ open, traced: new Set(found.rows) });
  app.select(order[0]);
  app.announce(plural("{n} op of this line", "{n} ops of this line", found.rows.length));
}
