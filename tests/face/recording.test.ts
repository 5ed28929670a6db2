import assert from "node:assert/strict";
import { test } from "node:test";

import { why } from "../../labext/src/shared/explain.ts";
import type { RawRecording } from "../../labext/src/shared/format.ts";
import { firstShown } from "../../labext/src/shared/opening.ts";
import { Recording } from "../../labext/src/shared/recording.ts";
import { COMPUTED, painted, RECOMPUTED } from "../../labext/src/shared/statuses.ts";
import { counted, spared, SumCache } from "../../labext/src/shared/sums.ts";
import { buildTree } from "../../labext/src/shared/hierarchy.ts";
import { all, graphOf } from "./helpers.ts";

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

test("what a mode spared is the time of ops that it did not run, not the difference of a cold and a warm timing", () => {
  const recording = recorded(["ccc"], ["rrc", 0]);
  // Call 0 was cold.
  Object.assign(recording.raw.columns[0], { seconds: [50, 60, 3] });
  Object.assign(recording, new Recording(recording.raw));
  // The replay is a thousand times as fast, as it is warm: call 0 ran all the same, call 1 was served b and needed no a.
  const { raw } = recorded(["ccc"], ["psc"]);
  for (const columns of raw.columns) Object.assign(columns, { seconds: [0.001, 0.002, 0.003] });
  recording.add("variable", raw);
  const mode = recording.executions.get("variable");
  assert.ok(mode);
  assert.deepEqual([0, 1].map((e) => spared(recording, mode, e)), [0, 3]);
  assert.deepEqual([0, 1].map((e) => spared(recording, recording.run, e)), [0, 0]);
  // A replay of the calls as they were is warm as well: its times are the ones to compare with.
  const warm = recorded(["ccc"], ["rrc", 0]).raw;
  for (const columns of warm.columns) Object.assign(columns, { seconds: [0.01, 0.02, 0.03] });
  recording.add("run", warm);
  assert.equal(recording.run.seconds(0)(2), 3);
  assert.ok(Math.abs(spared(recording, mode, 1) - 0.03) < 1e-9);
});

test("calls are numbered from 0, and so is their range", () => {
  const { run } = recorded(["ccc"], ["ccc"], ["ccc"]);
  assert.deepEqual([0, 2].map((e) => run.among(e)), ["Call 0 of 0–2", "Call 2 of 0–2"]);
  assert.equal(recorded(["ccc"]).run.among(0), "Call 0");
});

test("bookkeeping is not counted and not painted as redundant, in scopes and in single ops", () => {
  assert.deepEqual([painted(RECOMPUTED, 1), painted(RECOMPUTED, 0), painted(7, 1)], [COMPUTED, RECOMPUTED, 7]);
  const graph = graphOf([["s/a"], ["s/b|Identity", "s/a"], ["t|Identity", "s/b"]]);
  const tree = buildTree(graph, all(graph), new Set());
  assert.deepEqual([...counted(tree.root, graph)], [0]);
  const { raw } = recorded(["ccc"], ["rrr", 0]);
  const recording = new Recording({ ...raw, graphs: [{ ...raw.graphs[0], type: ["Mul", "Identity", "Mul"] }] });
  const three = recording.graphs.get(0);
  assert.ok(three);
  const root = buildTree(three, all(three), new Set()).root;
  const sums = new SumCache().of(root, recording.run, 1, three);
  assert.deepEqual([sums.counts[RECOMPUTED], sums.total, sums.redundant], [2, 4, 4]);
});
