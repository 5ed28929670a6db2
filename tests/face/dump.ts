/** Reads a recording from standard input and prints what the explorer makes of each op in each call. */

import { parseRecording } from "../../labext/src/shared/format.ts";
import { Recording } from "../../labext/src/shared/recording.ts";
import { STATUSES } from "../../labext/src/shared/statuses.ts";

let text = "";
for await (const part of process.stdin) text += part;
const { run, raw } = new Recording(parseRecording(text));
const rows: unknown[] = [];
run.calls.forEach((call, entry) => {
  const graph = run.graph(entry);
  for (const row of run.columns(entry).op) {
    const cell = run.cell(entry, row);
    rows.push([
      call.index, graph.name[row], graph.type[row], [...graph.inputs(row)], STATUSES[cell.status].name, cell.evidence, cell.seconds, cell.bytes, cell.count,
      cell.witness, cell.causes.map((cause) => [cause.kind, cause.call, cause.text]), cell.shape, cell.device, cell.into,
    ]);
  }
});
const sums = run.all();
console.log(JSON.stringify({ rows, counts: sums.counts, seconds: sums.seconds, wall: sums.wall, calls: sums.calls, sources: raw.sources }));
