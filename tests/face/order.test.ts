import assert from "node:assert/strict";
import { test } from "node:test";

import { cycleBreakers, layers, type Link, reduceCrossings, stack } from "../../labext/src/shared/order.ts";
import { random } from "./helpers.ts";

const links = (...pairs: [number, number][]): Link[] => pairs.map(([from, to]) => ({ from, to }));

test("turning the found links leaves no cycle", () => {
  const next = random(3);
  for (let round = 0; round < 30; round++) {
    const list = Array.from({ length: 40 }, () => ({ from: Math.floor(next() * 15), to: Math.floor(next() * 15) })).filter(({ from, to }) => from !== to);
    const turned = cycleBreakers(15, list);
    const straight = list.map(({ from, to }, i) => (turned.has(i) ? { from: to, to: from } : { from, to }));
    const layer = layers(15, straight);
    for (const { from, to } of straight) assert.ok(layer[from] < layer[to], `${from} ${to}`);
  }
});

test("a graph without cycles keeps all its links", () => {
  assert.equal(cycleBreakers(4, links([0, 1], [1, 2], [0, 3], [3, 2])).size, 0);
});

test("a node without predecessors stands next to its first consumer", () => {
  assert.deepEqual(layers(5, links([0, 1], [1, 2], [2, 3], [4, 3])), [0, 1, 2, 3, 2]);
});

test("two crossed links are untangled", () => {
  const ordered = reduceCrossings([[0, 1], [2, 3]], links([0, 3], [1, 2]));
  const place = (item: number): number => ordered.flat().indexOf(item);
  assert.equal(place(0) < place(1), place(3) < place(2));
});

test("stacked boxes keep their gaps and stay as near to their wishes as they can", () => {
  const top = stack([0, 0, 100], [20, 20, 20], [1, 1, 1], 10);
  assert.deepEqual(top, [-15, 15, 100]);
  const next = random(5);
  for (let round = 0; round < 50; round++) {
    const n = 1 + Math.floor(next() * 8);
    const heights = Array.from({ length: n }, () => 10 + next() * 30);
    const wish = Array.from({ length: n }, () => next() * 200);
    const placed = stack(wish, heights, heights.map(() => 1), 5);
    for (let i = 1; i < n; i++) assert.ok(placed[i] >= placed[i - 1] + heights[i - 1] + 5 - 1e-6);
    // No single shift of one box that keeps the gaps brings the sum of squares down.
    const cost = (at: number[]): number => at.reduce((sum, y, i) => sum + (y - wish[i]) ** 2, 0);
    for (let i = 0; i < n; i++)
      for (const step of [-0.5, 0.5]) {
        const moved = placed.map((y, k) => (k === i ? y + step : y));
        const fits = moved.every((y, k) => !k || y >= moved[k - 1] + heights[k - 1] + 5 - 1e-6);
        if (fits) assert.ok(cost(moved) >= cost(placed) - 1e-6);
      }
  }
});
