/** Graphs for the unit tests, written as `name: inputs`. */

import { Graph } from "../../labext/src/shared/graph.ts";

/** `op("a", "x", "y")` is an op `a` of type Add with inputs `x:0` and `y:0`; a type can be given as `a|MatMul`. */
export type Op = [name: string, ...inputs: string[]];

export function graphOf(ops: readonly Op[]): Graph {
  const parts = ops.map(([name]) => name.split("|"));
  return new Graph({
    id: 0,
    name: parts.map(([name]) => name),
    type: parts.map(([, type]) => type ?? "Add"),
    inputs: ops.map(([, ...inputs]) => inputs.filter((one) => !one.startsWith("^")).map((one) => (one.includes(":") ? one : `${one}:0`))),
    control: ops.map(([, ...inputs]) => inputs.filter((one) => one.startsWith("^")).map((one) => one.slice(1))),
    line: ops.map(() => -1),
  });
}

export const all = (graph: Graph): Uint8Array => new Uint8Array(graph.size).fill(1);

/** Repeatable numbers in [0, 1). */
export function random(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 2 ** 32;
  };
}

/** A graph of `n` ops under random scopes; inputs come from earlier ops. */
export function randomOps(n: number, seed: number): Op[] {
  const next = random(seed);
  const pick = (k: number): number => Math.floor(next() * k);
  const ops: Op[] = [];
  const used = new Set<string>();
  for (let i = 0; i < n; i++) {
    const scopes = Array.from({ length: pick(4) }, () => ["enc", "dec", "block", "layer"][pick(4)] + (next() < 0.5 ? `_${pick(9)}` : ""));
    let name = [...scopes, ["MatMul", "Add", "Relu", "Identity"][pick(4)]].join("/");
    while (used.has(name)) name = `${name.replace(/_\d+$/, "")}_${pick(10 * n)}`;
    used.add(name);
    const inputs = i ? Array.from({ length: pick(3) }, () => ops[Math.max(0, i - 1 - pick(12))][0]) : [];
    ops.push([name, ...inputs]);
  }
  return ops;
}
