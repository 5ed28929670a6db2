import assert from "node:assert/strict";
import { test } from "node:test";

import { find, matches, scopesOf } from "../../labext/src/shared/search.ts";
import { brief, together } from "../../labext/src/shared/sources.ts";
import { plainColour } from "../../labext/src/shared/snapshot.ts";
import { bytes, count, ops, plural, setCatalogue, setTranslator, shorten, t, time, timeColumn } from "../../labext/src/shared/strings.ts";
import { pack } from "../../labext/src/shared/timeline.ts";
import { settled } from "../../labext/src/shared/view.ts";
import { unpack } from "../../labext/src/shared/unpack.ts";

test("times and sizes carry their unit: µs below 1 ms", () => {
  assert.deepEqual([0, 2.4e-7, 0.00031, 0.0043, 0.0562, 1.25].map(time), ["0 ms", "1 µs", "310 µs", "4.3 ms", "56 ms", "1.25 s"]);
  assert.deepEqual([0.00001, 0.0562].map(timeColumn(0.0562)), ["<0.1 ms", "56.2 ms"]);
  assert.deepEqual([0.001, 19.0089].map(timeColumn(19.0089)), ["<0.01 s", "19.01 s"]);
  assert.deepEqual([4, 65536, 16777216].map(bytes), ["4 B", "65.5 kB", "16.8 MB"]);
  assert.deepEqual([9999, 55122].map(count), ["9999", "55\u202f122"]);
});

test("long names are cut in their middle, visibly", () => {
  assert.equal(shorten("short", 10), "short");
  const cut = shorten("a/very/long/name/of/an/op", 12);
  assert.equal(cut.length, 12);
  assert.match(cut, /^a\/ve….*op$/);
});

test("a translation is used where there is one, names of JavaScript are no messages", () => {
  setCatalogue({ "{n} call": "{n} Aufruf" });
  assert.equal(plural("{n} call", "{n} calls", 1), "1 Aufruf");
  assert.equal(plural("{n} call", "{n} calls", 2), "2 calls");
  assert.equal(t("constructor"), "constructor");
  setTranslator((message) => (message === "Call {call} kept the value." ? "Aufruf {call} behielt den Wert." : message));
  assert.equal(t("Call {call} kept the value.", { call: 3 }), "Aufruf 3 behielt den Wert.");
  assert.equal(t("Predict"), "Predict");
  setCatalogue({});
});

test("search ranks the op of that name before longer ones", () => {
  const names = ["loss/Mean_1", "loss/Mean", "Mean/axis"];
  assert.deepEqual(find(names, ["Mean", "Mean", "Const"], "mean").map((row) => names[row])[0], "loss/Mean");
  assert.deepEqual(find(names, ["Mean", "Mean", "Const"], "const mean"), [2]);
  assert.deepEqual(find(names, ["Mean", "Mean", "Const"], "  "), []);
});

test("search finds scopes by their own name, before ops that agree as well", () => {
  const names = ["gradients/loss/Mean", "gradients/loss/Mul", "loss/Mean", "loss/gradients_of", "x"];
  const types = names.map(() => "Add");
  const scopes = scopesOf(names, names.keys());
  assert.deepEqual([...scopes].map(([scope, { ops }]) => [scope, ops]), [["gradients", 2], ["gradients/loss", 2], ["loss", 2]]);
  const said = (query: string): string[] => matches(names, types, scopes, query).map(({ scope, row }) => scope ?? `op ${names[row]}`);
  assert.deepEqual(said("gradients").slice(0, 2), ["gradients", "op gradients/loss/Mul"]);
  assert.deepEqual(said("loss").slice(0, 2), ["loss", "gradients/loss"]);
  assert.deepEqual(said("mean"), ["op loss/Mean", "op gradients/loss/Mean"]);
  assert.deepEqual(said("gradients loss"), ["gradients/loss", "op gradients/loss/Mul", "op gradients/loss/Mean", "op loss/gradients_of"]);
  assert.deepEqual(said(""), []);
});

test("numbers of ops say how many more are bookkeeping", () => {
  assert.equal(ops(1, 0), "1 op");
  assert.equal(ops(12, 3), "12 ops and 3 of bookkeeping");
});

test("versions are cut to what a cell holds, and a number is not taken for another", () => {
  assert.deepEqual(["v0", "v12", "v100", "41d9"].map(brief), ["v0", "v12", "…00", "41d"]);
});

test("a picture goes wholly into the window, or leaves no room of it empty", () => {
  assert.deepEqual([settled(-50, 100, 300), settled(20, 100, 300), settled(250, 100, 300)], [0, 20, 200]);
  assert.deepEqual([settled(-900, 500, 300), settled(-100, 500, 300), settled(90, 500, 300)], [-224, -100, 24]);
});

test("sources of one line share their scope", () => {
  assert.equal(together(["enc/W", "enc/b"]), "enc/W, b");
  assert.equal(together(["a", "b", "c", "d"]), "a +3");
});

test("bars of the timeline that overlap get lanes of their own", () => {
  const bars = [[0, 5], [1, 2], [3, 1], [6, 1]].map(([start, seconds]) => ({ row: 0, start, seconds, lane: -1 }));
  assert.equal(pack(bars), 2);
  for (const a of bars) for (const b of bars) if (a !== b && a.lane === b.lane) assert.ok(a.start + a.seconds <= b.start || b.start + b.seconds <= a.start);
});

test("colours are written so that other programs read them", () => {
  assert.equal(plainColour("color(srgb 1 0.5 0 / 0.25)"), "rgba(255,128,0,0.250)");
  assert.equal(plainColour("rgb(1, 2, 3)"), "rgb(1, 2, 3)");
});

test("packed lists of a later version are refused, not misread", () => {
  assert.throws(() => unpack({ zip: [] }), /unknown form/);
});
