import assert from "node:assert/strict";
import { test } from "node:test";

import { why } from "../../labext/src/shared/explain.ts";
import type { RawRecording } from "../../labext/src/shared/format.ts";
import { firstShown } from "../../labext/src/shared/opening.ts";
import { Recording } from "../../labext/src/shared/recording.ts";

/** Calls over ops a, b, c; each call is its letters of status and, for `r`, the witness of every op. */
function recorded(...calls: [status: string, witness?: number][]): Recording {
  const n = 3;
  const all = <T>(value: T): T[] => new Array<T>(n).fill(value);
  return new Recording({
    format: "cachelab.recording", version: 1, environment: {}, lines: [],
    graphs: [{ id: 0, name: ["a", "b", "c"], type: all("Mul"), inputs: [[], ["a:0"], ["b:0"]], control: all([]), line: all(-1) }],
    causes: [{ kind: "first", source: "", call: null, text: "first" }, { kind: "not_kept", source: "", call: null, text: "not kept" }],
    columns: calls.map(([status, witness]) => ({
      op: [0, 1, 2], status, evidence: "mmm", seconds: [1, 2, 3], bytes: all(4), count: all(1), witness: all(witness ?? null), cause: [[0], [0, 1], []],
    })),
    calls: calls.map((_, index) => ({
      index, kind: "run", graph: 0, session: 0, thread: 0, fetches: ["c:0"], feeds: [], line: -1, start: index, seconds: 1, failed: null, columns: index,
    })),
  } as unknown as RawRecording);
}

test("a served value names the call that kept it only where no other call can have", () => {
  const { run } = recorded(["ccc"], ["css"], ["css"], ["ccs"]);
  assert.equal(run.madeBy(2, 1), 0);
  assert.equal(why(run, 2, 2), "call 0 kept the value");
  const twice = recorded(["ccc"], ["ccc"], ["ssc"]).run;
  assert.equal(twice.madeBy(2, 0), -1);
  assert.equal(recorded(["pcc"], ["scc"]).run.madeBy(1, 0), -1);
});

test("the explorer begins with the first call that repeated work", () => {
  assert.equal(firstShown(recorded(["ccc"], ["ccc"], ["rcc", 0], ["rrr", 0]).run), 2);
  assert.equal(firstShown(recorded(["ccc"], ["ccc"], ["ccc"]).run), 1);
  assert.equal(firstShown(recorded(["ccc"]).run), 0);
});

test("rows of one kind have the same status, witness and causes; others have another", () => {
  const { run } = recorded(["ccc"], ["rrc", 0]);
  const [first, second] = [run.kinds(0), run.kinds(1)];
  assert.equal(new Set([first(0), first(1), first(2)]).size, 3);
  assert.notEqual(first(0), second(0));
  const cells = [run.cell(1, 0), run.cell(1, 1), run.cell(1, 2)];
  assert.deepEqual(cells.map((cell) => cell.causes.map((cause) => cause.kind)), [["first"], ["first", "not_kept"], []]);
  assert.deepEqual(cells.map((cell) => cell.witness), [0, 0, 0]);
});

test("ops that a call does not list are pruned, wherever the others stand in its columns", () => {
  const recording = recorded(["ccc"], ["cr", 0]);
  const raw = recording.raw.columns[1] as unknown as Record<string, unknown>;
  Object.assign(raw, { op: [2, 0], seconds: [7, 8], bytes: [1, 1], count: [1, 1], evidence: "md", witness: [null, 0], cause: [[], []] });
  const { run } = new Recording(recording.raw);
  assert.deepEqual([...run.status(1)], [1, 7, 0]);
  assert.deepEqual([0, 1, 2].map(run.seconds(1)), [8, 0, 7]);
  assert.deepEqual([0, 1, 2].map((row) => run.cell(1, row).listed), [true, false, true]);
  assert.equal(run.cell(1, 0).evidence, "derived");
});
