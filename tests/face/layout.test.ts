import assert from "node:assert/strict";
import { test } from "node:test";

import type { App } from "../../labext/src/shared/app.ts";
import { arrange, buildTree, type Tree } from "../../labext/src/shared/hierarchy.ts";
import { type Item, Layout, type Picture } from "../../labext/src/shared/layout.ts";
import { aside } from "../../labext/src/shared/opening.ts";
import { all, graphOf, type Op, randomOps } from "./helpers.ts";

function draw(ops: readonly Op[], open: (tree: Tree, picture: Picture) => string[] = () => []): { picture: Picture; layout: Layout; tree: Tree; opened: Set<string> } {
  const graph = graphOf(ops);
  const tree = buildTree(graph, all(graph), new Set());
  const layout = new Layout(tree, new Set());
  const opened = new Set<string>();
  let picture = layout.draw(opened);
  for (let round = 0; round < 3; round++) {
    for (const id of open(tree, picture)) opened.add(id);
    picture = layout.draw(opened);
  }
  return { picture, layout, tree, opened };
}

const inside = (a: Item, b: Item): boolean => a.x >= b.x - 0.5 && a.y >= b.y - 0.5 && a.x + a.w <= b.x + b.w + 0.5 && a.y + a.h <= b.y + b.h + 0.5;
const overlap = (a: Item, b: Item): boolean => a.x < b.x + b.w - 0.5 && b.x < a.x + a.w - 0.5 && a.y < b.y + b.h - 0.5 && b.y < a.y + a.h - 0.5;
const scopes = (_: Tree, picture: Picture): string[] => picture.items.filter((item) => item.group.kind !== "op").map((item) => item.group.id);

for (const [n, seed] of [[15, 1], [60, 2], [60, 3], [300, 4], [1500, 5]]) {
  test(`boxes do not overlap and lie in their scope (${n} ops, seed ${seed})`, () => {
    const { picture } = draw(randomOps(n, seed), scopes);
    const byId = new Map(picture.items.map((item) => [item.group.id, item]));
    for (const a of picture.items) {
      const parent = a.group.parent?.id ? byId.get(a.group.parent.id) : undefined;
      if (parent) assert.ok(inside(a, parent), `${a.group.id} in ${parent.group.id}`);
      assert.ok(a.x >= 0 && a.y >= -1 && a.x + a.w <= picture.w + 0.5 && a.y + a.h <= picture.h + 0.5, a.group.id);
      for (const b of picture.items) if (a !== b && a.group.parent === b.group.parent) assert.ok(!overlap(a, b), `${a.group.id} and ${b.group.id}`);
    }
  });

  test(`every edge between visible boxes can be followed (${n} ops, seed ${seed})`, () => {
    const { picture, tree } = draw(randomOps(n, seed), (_, now) => scopes(_, now).filter((_id, i) => i % 2 === 0));
    const holder = new Map<number, Item>();
    for (const item of picture.items) if (!item.open) for (const row of item.group.rows) holder.set(row, item);
    const drawn = new Set<string>();
    for (const { pairs } of picture.segments) for (let i = 0; i < pairs.length; i += 2) drawn.add(`${pairs[i]}>${pairs[i + 1]}`);
    for (let row = 0; row < tree.graph.size; row++)
      for (const from of tree.graph.from(row)) {
        if (tree.docked[from] || tree.docked[row]) continue;
        const [a, b] = [holder.get(from), holder.get(row)];
        assert.equal(drawn.has(`${from}>${row}`), a !== b, `${tree.graph.name[from]} -> ${tree.graph.name[row]}`);
      }
  });
}

/** Points on a path, a few pixels apart. */
function walk(d: string): [number, number][] {
  const points: [number, number][] = [];
  let at: [number, number] = [0, 0];
  for (const [, kind, rest] of d.matchAll(/([MLC])([^MLC]+)/g)) {
    const n = (rest.match(/-?[\d.]+/g) ?? []).map(Number);
    const [from, to] = [at, [n[n.length - 2], n[n.length - 1]] as [number, number]];
    const steps = kind === "M" ? 0 : Math.ceil(Math.hypot(to[0] - from[0], to[1] - from[1]) / 3) + 6;
    const bezier = (t: number, k: number): number => (1 - t) ** 3 * from[k] + 3 * (1 - t) ** 2 * t * n[k] + 3 * (1 - t) * t * t * n[2 + k] + t ** 3 * to[k];
    const line = (t: number, k: number): number => from[k] + (to[k] - from[k]) * t;
    for (let i = 0; i <= steps; i++) points.push(kind === "C" ? [bezier(i / steps, 0), bezier(i / steps, 1)] : [line(steps ? i / steps : 1, 0), line(steps ? i / steps : 1, 1)]);
    at = to;
  }
  return points;
}

for (const [n, seed, half] of [[15, 1, 1], [60, 2, 2], [120, 3, 1], [300, 4, 2], [600, 5, 1]])
  test(`no line passes a box (${n} ops, seed ${seed}, every ${half}. scope open)`, () => {
    const { picture } = draw(randomOps(n, seed), (_, now) => scopes(_, now).filter((_id, i) => i % half === 0));
    assert.ok(picture.segments.length > 5);
    for (const { d, pairs } of picture.segments) {
      const ends = new Set(pairs);
      const foreign = picture.items.filter(({ open, group }) => !open || !group.rows.some((row) => ends.has(row)));
      const points = walk(d);
      const [xs, ys] = [points.map(([x]) => x), points.map(([, y]) => y)];
      const [x0, x1, y0, y1] = [Math.min(...xs), Math.max(...xs), Math.min(...ys), Math.max(...ys)];
      for (const box of foreign.filter((one) => one.x < x1 && one.x + one.w > x0 && one.y < y1 && one.y + one.h > y0)) {
        const under = points.find(([x, y]) => x > box.x + 1.5 && x < box.x + box.w - 1.5 && y > box.y + 1.5 && y < box.y + box.h - 1.5);
        if (under) assert.fail(`${box.group.id} at ${under}: ${d}`);
      }
    }
  });

test("lines of different ops never run on one another between rows", () => {
  for (const seed of [11, 12, 13]) {
    const { picture } = draw(randomOps(400, seed));
    const runs = new Map<string, Set<string>>();
    for (const { d, pairs } of picture.segments) {
      const box = picture.items.find(({ group }) => group.rows.includes(pairs[0]));
      const corners = [...d.matchAll(/[ML]([\d.-]+) ([\d.-]+)/g)].map(([, x, y]) => [Number(x), Number(y)]);
      for (let i = 1; i < corners.length; i++) {
        const [[x, y], [nx, ny]] = [corners[i - 1], corners[i]];
        // A long straight stretch along a channel, by its place.
        if (Math.abs(y - ny) < 0.2 && Math.abs(x - nx) > 150) for (let at = Math.ceil(Math.min(x, nx) / 40); at * 40 < Math.max(x, nx); at++) {
          const key = `${Math.round(y * 2)},${at}`;
          runs.set(key, (runs.get(key) ?? new Set<string>()).add(box?.group.id ?? ""));
        }
      }
    }
    for (const [key, ids] of runs) assert.ok(ids.size <= 1, `${key}: ${[...ids].join(" ")}`);
  }
});

test("a chain inside one open scope reaches the next box without a gap", () => {
  const { picture } = draw([["enc/a"], ["enc/b", "enc/a"], ["out", "enc/b"]], () => ["enc"]);
  const ends = (d: string): [number, number][] => {
    const numbers = (d.match(/-?[\d.]+/g) ?? []).map(Number);
    return [[numbers[0], numbers[1]], [numbers[numbers.length - 2], numbers[numbers.length - 1]]];
  };
  const line = picture.segments.filter(({ pairs }) => pairs[0] === 1 && pairs[1] === 2).map(({ d }) => ends(d));
  assert.equal(line.length, 2);
  const [first, second] = line[0][1][0] < line[1][1][0] ? line : [line[1], line[0]];
  assert.ok(Math.hypot(first[1][0] - second[0][0], first[1][1] - second[0][1]) < 1.5, JSON.stringify(line));
  const out = picture.items.find((item) => item.group.id === "out") as Item;
  assert.ok(Math.abs(second[1][0] - out.x) < 1);
});

test("gradients return below, from right to left", () => {
  const ops: Op[] = [["a/x"], ["b/x", "a/x"], ["c/x", "b/x"], ["gradients/c", "c/x"], ["gradients/b", "gradients/c", "b/x"], ["train/w", "gradients/b"], ["train/v", "gradients/b"]];
  const { picture } = draw(ops);
  const at = (id: string): Item => picture.items.find((item) => item.group.id === id) as Item;
  assert.ok(at("gradients").y > at("c/x").y + at("c/x").h);
  assert.ok(at("train").x < at("gradients").x);
  assert.ok(at("a/x").x < at("b/x").x && at("b/x").x < at("c/x").x);
});

test("a long chain is broken into rows: at most three screens wide", () => {
  const ops: Op[] = Array.from({ length: 38 }, (_, i): Op => (i ? [`op${i}`, `op${i - 1}`] : ["op0"]));
  const { picture } = draw(ops);
  assert.ok(picture.w <= 3 * 1300, String(picture.w));
  assert.ok(new Set(picture.items.map((item) => Math.round(item.y))).size > 1);
});

test("opening and closing a scope gives the same picture again", () => {
  const { layout, opened, tree } = draw(randomOps(200, 8), (_, picture) => scopes(_, picture).slice(0, 2));
  const flat = (picture: Picture): string => JSON.stringify(picture.items.map(({ group, x, y }) => [group.id, x, y]));
  const before = flat(layout.draw(opened));
  const other = tree.root.children.find((child) => child.kind !== "op" && !opened.has(child.id));
  if (other) {
    layout.draw(new Set([...opened, other.id]));
    assert.equal(flat(layout.draw(opened)), before);
  }
  assert.equal(flat(new Layout(tree, new Set()).draw(opened)), before);
});

test("cycles between groups are drawn, not followed for ever", () => {
  const { picture } = draw([["a/x"], ["b/x", "a/x"], ["a/y", "b/x"], ["b/y", "a/y"]]);
  assert.deepEqual(picture.items.map((item) => item.group.id), ["a", "b"]);
  assert.equal(picture.segments.length, 2);
});

test("labels too long for a box are cut visibly and kept whole elsewhere", () => {
  const name = `${"very_long_layer_name_".repeat(4)}end`;
  const { picture } = draw([[name], ["y", name]]);
  assert.match(picture.items[0].label, /…/);
  assert.ok(picture.items[0].w >= picture.items[0].label.length * 7);
  assert.equal(picture.items[0].group.label, name);
});

test("what stands aside is drawn below everything else, and nothing else changes its place in the order", () => {
  const ops: Op[] = [["init_a"], ["init_b", "init_a"], ["x"], ["y", "x"], ["gradients/y", "y"], ["init", "^init_b"]];
  const graph = graphOf(ops);
  const tree = buildTree(graph, all(graph), new Set());
  arrange(tree, tree.root);
  const late = new Set(tree.root.children.filter((child) => child.id.startsWith("init")));
  assert.equal(late.size, 3);
  const { items } = new Layout(tree, new Set(), late).draw(new Set());
  const tops = (wanted: boolean): number[] => items.filter((item) => late.has(item.group) === wanted).map((item) => item.y);
  const bottoms = items.filter((item) => !late.has(item.group)).map((item) => item.y + item.h);
  assert.ok(Math.min(...tops(true)) >= Math.max(...bottoms));
  const plain = new Layout(tree, new Set()).draw(new Set()).items;
  assert.equal(plain.length, items.length);
});

test("only a crowd of what the first shown call does not need stands aside", () => {
  const found = (crowd: number): string[] => {
    const ops: Op[] = [["model/a"], ["model/b", "model/a"], ["loss", "model/b"], ...Array.from({ length: crowd }, (_, i): Op => [`w${"abcdefgh"[i]}_init`])];
    const graph = graphOf(ops);
    const tree = buildTree(graph, all(graph), new Set());
    arrange(tree, tree.root);
    const status = Uint8Array.from(ops, ([name]) => (name.endsWith("_init") ? 7 : 0));
    const app = { tree: () => tree, statuses: () => status } as unknown as App;
    return [...aside(app)].flatMap((group) => [...group.rows].map((row) => graph.name[row]));
  };
  assert.deepEqual(found(2), []);
  assert.deepEqual(found(8), [..."abcdefgh"].map((letter) => `w${letter}_init`));
});
