/** Where the marks of code lines stand after the text changed, and which cell shows them. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { assign, type CellMarks, follow, isPart, type Mark, merged, scale, teller, width } from "../../labext/src/lab/marks.ts";
import { random } from "./helpers.ts";

const mark = (line: number, seconds = 0.01): Mark => ({ line, letter: "r", seconds, redundant: seconds, said: ["said"], name: "cell 1", at: [line], rerun: false });
const marks = (id: string, source: string, ...at: number[]): CellMarks => ({ id, source, shared: 0, made: at.length, again: at.length, marks: at.map((line) => mark(line)) });
const known = (...cells: CellMarks[]): Map<string, CellMarks> => new Map(cells.map((cell) => [cell.id, cell]));
const ids = (shown: Map<string, CellMarks>): Record<string, string> => Object.fromEntries([...shown].map(([id, cell]) => [id, cell.id]));

/** Length of the longest common subsequence of non-empty lines, by trying everything. */
function longest(a: readonly string[], b: readonly string[], i = 0, j = 0): number {
  if (i === a.length || j === b.length) return 0;
  const skip = Math.max(longest(a, b, i + 1, j), longest(a, b, i, j + 1));
  return a[i] && a[i] === b[j] ? Math.max(skip, 1 + longest(a, b, i + 1, j + 1)) : skip;
}

test("a line is followed by its text: in order, to an equal line, and as many lines as possible", () => {
  const next = random(5);
  for (let round = 0; round < 400; round++) {
    const some = (): string[] => Array.from({ length: 1 + Math.floor(next() * 7) }, () => ["a", "b", "c", ""][Math.floor(next() * 4)]);
    const [before, now] = [some(), some()];
    const found = [...follow(before, now)].sort(([a], [b]) => a - b);
    for (const [from, to] of found) assert.equal(before[from - 1], now[to - 1]);
    for (let k = 1; k < found.length; k++) assert.ok(found[k][1] > found[k - 1][1]);
    assert.equal(found.filter(([from]) => before[from - 1]).length, longest(before, now));
  }
});

test("inserted, deleted and indented lines do not lose the others", () => {
  const before = ["x = 1", "y = f(x)", "z = y"];
  const at = follow(before, ["# new", "x = 1", "    y = f(x)", "z = y"]);
  assert.deepEqual([at.get(1), at.get(2), at.get(3)], [2, 3, 4]);
  const less = follow(before, ["x = 1", "z = y"]);
  assert.deepEqual([less.get(1), less.get(2), less.get(3)], [1, undefined, 2]);
});

test("a cell shows its own marks wherever it stands; a new cell and a copy show none", () => {
  const all = known(marks("a", "x\ny", 1, 2));
  const cells = [{ id: "new", source: "" }, { id: "copy", source: "x\ny" }, { id: "a", source: "x\ny" }];
  assert.deepEqual(ids(assign(cells, all)), { a: "a" });
});

test("the part that was split off shows the marks of the lines that left", () => {
  const all = known(marks("a", "p = 1\nq = 2\n\nr = 3", 1, 4));
  const split = [{ id: "top", source: "p = 1\nq = 2" }, { id: "a", source: "r = 3" }];
  assert.deepEqual(ids(assign(split, all)), { top: "a", a: "a" });
  const unmarked = known(marks("a", "p = 1\nq = 2\n\nr = 3", 4));
  assert.deepEqual(ids(assign(split, unmarked)), { a: "a" });
});

test("cut and pasted, a cell keeps its marks under a new id; typed anew, a part of a text that is still there does not", () => {
  const all = known(marks("a", "p = 1\nq = 2", 1));
  assert.deepEqual(ids(assign([{ id: "b", source: "p = 1\nq = 2" }], all)), { b: "a" });
  assert.deepEqual(ids(assign([{ id: "a", source: "p = 1\nq = 2" }, { id: "b", source: "p = 1" }], all)), { a: "a" });
  assert.deepEqual(ids(assign([{ id: "b", source: "p = 1\nother" }], all)), {});
});

test("lost lines are shown once", () => {
  const all = known(marks("a", "p = 1\nq = 2", 1));
  assert.deepEqual(ids(assign([{ id: "b", source: "p = 1" }, { id: "c", source: "p = 1" }], all)), { b: "a" });
});

test("a cell that ran before the kernel knew ids is found by number and text", () => {
  const all = known(marks("?3", "p = 1", 1));
  assert.deepEqual(ids(assign([{ id: "x", source: "p = 1", number: 2 }, { id: "y", source: "p = 1", number: 3 }], all)), { y: "?3" });
  assert.deepEqual(ids(assign([{ id: "y", source: "p = 2", number: 3 }], all)), {});
});

test("parts are whole lines in order", () => {
  assert.ok(isPart("\n b\nc\n", "a\nb\n c\nd"));
  assert.ok(!isPart("b\nd", "a\nb\nc\nd"));
  assert.ok(!isPart("", "a"));
  assert.ok(!isPart("  \n ", "a\n\nb"));
});

test("messages add, replace and remove; what did not change stays the same object", () => {
  const [a, b] = [marks("a", "x", 1), marks("b", "y", 1)];
  const first = merged(new Map(), { all: true, cells: [a, b], gone: [], left_out: 0 });
  const other = marks("b", "z", 1);
  const second = merged(first, { all: false, cells: [other], gone: [], left_out: 0 });
  assert.equal(second.get("a"), a);
  assert.equal(second.get("b"), other);
  assert.deepEqual([...merged(second, { all: false, cells: [], gone: ["a"], left_out: 0 }).keys()], ["b"]);
  assert.deepEqual([...merged(second, { all: true, cells: [], gone: [], left_out: 0 }).keys()], []);
});

test("bars share one scale, and the shortest can be seen", () => {
  const cells = [{ ...marks("a", "x"), marks: [mark(1, 0.4), mark(2, 0.1)] }, marks("b", "y", 1)];
  assert.equal(scale(cells), 0.4);
  assert.equal(width(0.4, 0.4), 44);
  assert.equal(width(0.1, 0.4), 22);
  assert.equal(width(1e-9, 0.4), 4);
  assert.equal(width(0, 0.4), 0);
  assert.equal(width(0, 0), 0);
});

test("a badge names the recording that recomputed most of the ops made in its cell", () => {
  const told = (name: string, letter: string, redundant: number): Mark => ({ ...mark(1), name, letter, redundant });
  assert.equal(teller([told("a", "c", 0), told("b", "r", 1), told("c", "r", 2), told("d", "r", 2)]).name, "c");
  assert.equal(teller([told("a", "c", 0), told("b", "s", 0)]).name, "a");
});
