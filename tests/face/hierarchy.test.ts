import assert from "node:assert/strict";
import { test } from "node:test";

import { arrange, buildTree, CAP, type Group, mix, path, reveal } from "../../labext/src/shared/hierarchy.ts";
import { Graph } from "../../labext/src/shared/graph.ts";
import { numbered } from "../../labext/src/shared/unpack.ts";
import { stem } from "../../labext/src/shared/scopes.ts";
import { all, graphOf, type Op, randomOps } from "./helpers.ts";

const labels = (group: Group): string[] => group.children.map((child) => child.label);
const opened = (ops: readonly Op[]) => {
  const graph = graphOf(ops);
  const tree = buildTree(graph, all(graph), new Set());
  arrange(tree, tree.root);
  return tree;
};

function* everyGroup(group: Group): Generator<Group> {
  yield group;
  for (const child of group.children) yield* everyGroup(child);
}

test("scopes come from names; an op named like a scope lies inside it", () => {
  const tree = opened([["enc/a"], ["enc/b", "enc/a"], ["loss", "enc/b"], ["loss/mean", "loss"]]);
  assert.deepEqual(labels(tree.root), ["enc", "loss"]);
  for (const child of tree.root.children) arrange(tree, child);
  assert.deepEqual(labels(tree.root.children[0]), ["a", "b"]);
  assert.deepEqual(tree.root.children[1].children.map((child) => [child.id, child.kind]), [["loss/()", "op"], ["loss/mean", "op"]]);
});

test("packed names make the same tree as plain ones", () => {
  const ops = randomOps(3000, 21);
  const plain = graphOf(ops);
  const parts = ops.map(([name]) => [name.slice(0, name.lastIndexOf("/") + 1), ...numbered(name.slice(name.lastIndexOf("/") + 1))] as const);
  const table = (texts: string[]) => ({ table: [...new Set(texts)], at: texts.map((text) => [...new Set(texts)].indexOf(text)) });
  const packed = new Graph({
    id: 0, name: { paths: table(parts.map(([path]) => path)), stems: table(parts.map(([, name]) => name)), numbers: parts.map(([, , n]) => n) },
    type: [...plain.type], line: [...plain.line],
    inputs: { rows: ops.map((_, row) => [...plain.from(row)].map((from) => row - from)), outputs: [...plain.producers.list].map(() => 0), others: [] },
    control: { rows: ops.map(() => []), others: [] },
  });
  const shape = (graph: Graph): unknown => {
    const tree = buildTree(graph, all(graph), new Set());
    const walk = (group: Group): unknown => (arrange(tree, group), [group.id, group.label, group.kind, group.children.map(walk)]);
    return walk(tree.root);
  };
  assert.deepEqual(packed.name, plain.name);
  assert.deepEqual(shape(packed), shape(plain));
  // Looked for by parts, or in a table of all names: the same row.
  for (let k = 0; k < 200; k++) assert.equal(packed.find(plain.name[k * 14]), k * 14);
  assert.equal(packed.find("enc/none_of_this_name_7"), -1);
});

test("a name that begins with a slash lies in no scope", () => {
  const tree = opened([["/b"], ["b/x", "/b"], ["b/y", "b/x"], ["a//c", "b/y"], ["a//d", "a//c"]]);
  assert.deepEqual(tree.root.children.map((child) => [child.id, child.kind, child.rows.length]), [["/b", "op", 1], ["b", "scope", 2], ["a/", "scope", 2]]);
});

test("a scope with a single child is merged with it", () => {
  const tree = opened([["a/b/c/x"], ["a/b/c/y", "a/b/c/x"], ["z", "a/b/c/y"]]);
  assert.deepEqual(labels(tree.root), ["a/b/c", "z"]);
});

test("feeds, variables, their reads and constants dock; fetched ones and unused ones do not", () => {
  const graph = graphOf([["x|Placeholder"], ["w|VarHandleOp"], ["w/read|ReadVariableOp", "w"], ["c|Const"], ["y|MatMul", "x", "w/read", "c"], ["lonely|Const"]]);
  const names = (fetched: number[]) => [...graph.docked(new Set(fetched))].flatMap((docks, row) => (docks ? [graph.name[row]] : []));
  assert.deepEqual(names([]), ["x", "w", "w/read", "c"]);
  assert.deepEqual(names([0, 2]), ["w", "c"]);
});

test("196 alike ops without order among them become one series", () => {
  const ops: Op[] = [["loss"], ...Array.from({ length: 196 }, (_, i): Op => [i ? `Identity_${i}` : "Identity", "loss"])];
  const tree = opened(ops);
  assert.deepEqual(labels(tree.root), ["loss", "Identity ×196"]);
  assert.equal(tree.root.children[1].rows.length, 196);
  assert.equal(tree.root.children[1].kind, "series");
});

test("sibling scopes of the same shape and place become one series", () => {
  const ops: Op[] = [["grad"], ["adam/iteration", "grad"]];
  for (let i = 0; i < 50; i++) ops.push([`adam/var_${i}/mul`, "grad"], [`adam/var_${i}/add`, `adam/var_${i}/mul`]);
  const tree = opened(ops);
  const adam = tree.root.children.find((child) => child.id === "adam") as Group;
  arrange(tree, adam);
  assert.deepEqual(labels(adam), ["iteration", "var ×50"]);
});

test("ops of a chain are not taken for a series: what uses its like stays in order", () => {
  const ops: Op[] = Array.from({ length: 100 }, (_, i): Op => (i ? [`Relu_${i}`, i === 1 ? "Relu" : `Relu_${i - 1}`] : ["Relu"]));
  const tree = opened(ops);
  const rows = tree.root.children.map((child) => [...child.rows]);
  assert.ok(tree.root.children.length <= CAP);
  assert.deepEqual(rows.flat(), [...rows.flat()].sort((a, b) => a - b));
});

test("many layers are grouped by the beginning of their names", () => {
  const ops: Op[] = [];
  for (let b = 1; b <= 7; b++)
    for (let k = 0; k < 12; k++) ops.push([`block${b}a_part${k}/op`, ...(ops.length ? [ops[ops.length - 1][0]] : [])], [`block${b}a_part${k}/act`, `block${b}a_part${k}/op`]);
  const tree = opened(ops);
  assert.ok(tree.root.children.length <= CAP, String(tree.root.children.length));
  assert.ok(tree.root.children.every((child) => /^block/.test(child.label)));
});

for (const [n, seed] of [[40, 1], [400, 2], [3000, 3], [3000, 4]])
  test(`every op is in the tree once, and no level holds more than ${CAP} (${n} ops, seed ${seed})`, () => {
    const graph = graphOf(randomOps(n, seed));
    const tree = buildTree(graph, all(graph), new Set());
    for (const group of everyGroup(tree.root)) arrange(tree, group);
    const rows: number[] = [];
    for (const group of everyGroup(tree.root)) {
      assert.ok(group.children.length <= CAP, `${group.id}: ${group.children.length}`);
      if (group.kind === "op") rows.push(group.row);
      else assert.deepEqual(new Set(group.rows), new Set(group.children.flatMap((child) => [...child.rows])));
      assert.equal(tree.byId.get(group.id), group);
    }
    const shown = [...tree.docked].flatMap((docks, row) => (docks ? [] : [row]));
    assert.deepEqual(rows.sort((a, b) => a - b), shown);
  });

test("reveal arranges the way to an op, so that opening its path shows it", () => {
  const graph = graphOf(randomOps(2000, 9));
  const tree = buildTree(graph, all(graph), new Set());
  const row = graph.size - 7;
  const leaf = reveal(tree, row) as Group;
  let at = tree.root;
  for (const step of path(leaf)) {
    assert.ok(at.arranged && at.children.includes(step));
    at = step;
  }
  assert.equal(at.row, row);
});

test("the mix counts ops by status and leaves bookkeeping out unless there is nothing else", () => {
  const tree = opened([["s/a"], ["s/b", "s/a"], ["s/c|Identity", "s/b"], ["t/c|Identity", "s/b"], ["t/d|NoOp", "^s/a"]]);
  const status = Uint8Array.from([0, 1, 7, 7, 0]);
  const { bookkeeping } = tree.graph;
  assert.deepEqual(mix(tree.root.children[0], status, bookkeeping).slice(0, 8), [1, 1, 0, 0, 0, 0, 0, 0]);
  assert.deepEqual(mix(tree.root.children[1], status, bookkeeping).slice(0, 8), [1, 0, 0, 0, 0, 0, 0, 1]);
});

test("a stem is a name without its numbers", () => {
  assert.deepEqual(["MatMul_12", "block3a", "x"].map(stem), ["MatMul", "block#a", "x"]);
});
