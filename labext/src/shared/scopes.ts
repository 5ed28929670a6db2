/** The name scopes of a graph as numbers: who lies in whom, which ops, and which scopes look alike. Names stay unread. */

import type { Graph } from "./graph.ts";
import { numbered } from "./unpack.ts";

const stems = new Map<string, string>();

/** A name without its numbers: siblings of one series have the same. */
export function stem(name: string): string {
  let found = stems.get(name);
  if (found === undefined) {
    found = name.replace(/\d+/g, "#").replace(/_#$/, "");
    if (stems.size > 200_000) stems.clear();
    stems.set(name, found);
  }
  return found;
}

const hash = (text: string, seed: number): number => {
  let value = seed;
  for (let i = 0; i < text.length; i++) value = (value * 33) ^ text.charCodeAt(i);
  return value | 0;
};

/** What stands in the place of a scope with one child: that child, and the labels in between. */
export interface Merged {
  label: string;
  shape: number;
  /** The innermost scope merged. */
  end: number;
  /** The op where nothing but one is left, else -1. */
  row: number;
}

export class Scopes {
  private readonly graph: Graph;
  /** Paths without the last slash; 0 is the root. A scope stands after the one that it lies in. */
  private readonly paths: string[] = [""];
  private readonly parents: number[] = [-1];
  private readonly inside: number[][] = [[]];
  /** Scope of each visible op, -1 of the others. */
  private readonly home: Int32Array;
  private readonly owns: Uint8Array;
  /** Rows of all scopes, each scope's side by side: its own ops first. */
  private readonly order: Int32Array;
  private readonly starts: Int32Array;
  private readonly directs: Int32Array;
  private readonly totals: Int32Array;
  private readonly firsts: Int32Array;
  private readonly shapes = new Map<number, Merged>();
  private readonly kinds = new Map<number, number>();
  private readonly likes = new Map<number, string>();

  constructor(graph: Graph, visible: Uint8Array) {
    this.graph = graph;
    const { scope, scopes } = graph.names;
    const numbers = new Map<string, number>([["", 0]]);
    const numberOf = (path: string): number => {
      let found = numbers.get(path);
      if (found === undefined) {
        const parent = numberOf(path.slice(0, Math.max(0, path.lastIndexOf("/"))));
        found = this.paths.push(path) - 1;
        this.parents.push(parent);
        this.inside.push([]);
        this.inside[parent].push(found);
        numbers.set(path, found);
      }
      return found;
    };
    const known = new Int32Array(scopes.length).fill(-1);
    this.home = new Int32Array(graph.size).fill(-1);
    for (let row = 0; row < graph.size; row++) {
      if (!visible[row]) continue;
      if (known[scope[row]] < 0) known[scope[row]] = numberOf(scopes[scope[row]].slice(0, -1));
      this.home[row] = known[scope[row]];
    }
    this.owns = this.ownScopes();
    const n = this.paths.length;
    this.directs = new Int32Array(n);
    this.totals = new Int32Array(n);
    this.firsts = new Int32Array(n).fill(graph.size);
    for (let row = graph.size - 1; row >= 0; row--) {
      if (this.home[row] < 0) continue;
      this.directs[this.home[row]] += 1;
      this.firsts[this.home[row]] = row;
    }
    for (let at = n - 1; at >= 0; at--) {
      this.totals[at] += this.directs[at];
      if (!at) break;
      this.totals[this.parents[at]] += this.totals[at];
      this.firsts[this.parents[at]] = Math.min(this.firsts[this.parents[at]], this.firsts[at]);
    }
    this.starts = new Int32Array(n);
    const next = new Int32Array(n);
    for (let at = 0; at < n; at++) {
      let start = this.starts[at] + this.directs[at];
      for (const child of this.inside[at]) {
        this.starts[child] = start;
        start += this.totals[child];
      }
    }
    next.set(this.starts);
    this.order = new Int32Array(this.totals[0]);
    for (let row = 0; row < graph.size; row++) if (this.home[row] >= 0) this.order[next[this.home[row]]++] = row;
  }

  /** An op named like a scope lies inside it. */
  private ownScopes(): Uint8Array {
    const { names, size } = this.graph;
    const stemAt = new Map(names.stems.map((text, i) => [text, i]));
    const wanted = new Map<number, Map<number, number>>();
    for (let at = 1; at < this.paths.length; at++) {
      const path = this.paths[at];
      const [text, number] = numbered(path.slice(path.lastIndexOf("/") + 1));
      const found = stemAt.get(text);
      if (found === undefined) continue;
      const parent = this.parents[at];
      let inner = wanted.get(parent);
      if (!inner) wanted.set(parent, (inner = new Map<number, number>()));
      inner.set(found + names.stems.length * (number + 1), at);
    }
    const owns = new Uint8Array(size);
    for (let row = 0; row < size; row++) {
      const scope = wanted.get(this.home[row])?.get(names.stem[row] + names.stems.length * (names.number[row] + 1));
      // An op `/b` lies in no scope either, and is not the scope `b`.
      if (scope === undefined || names.scopes[names.scope[row]].length !== (this.home[row] ? this.paths[this.home[row]].length + 1 : 0)) continue;
      this.home[row] = scope;
      owns[row] = 1;
    }
    return owns;
  }

  path = (at: number): string => this.paths[at];
  first = (at: number): number => this.firsts[at];
  own = (row: number): boolean => this.owns[row] === 1;

  /** Rows of all ops below a scope. */
  rows(at: number): Int32Array {
    return this.order.subarray(this.starts[at], this.starts[at] + this.totals[at]);
  }

  /** Rows of the ops that lie in a scope itself. */
  direct(at: number): Int32Array {
    return this.order.subarray(this.starts[at], this.starts[at] + this.directs[at]);
  }

  /** Scopes right below one. */
  children(at: number): readonly number[] {
    return this.inside[at];
  }

  /** The op's label without its numbers. */
  stem(row: number): string {
    const { stems: texts, stem: at, number } = this.graph.names;
    const key = 2 * at[row] + (number[row] < 0 ? 0 : 1);
    let found = this.likes.get(key);
    if (found === undefined) this.likes.set(key, (found = stem(texts[at[row]] + (key % 2 ? "_1" : ""))));
    return found;
  }

  /** What a scope shows as: itself, or its only child. */
  merged(at: number): Merged {
    let found = this.shapes.get(at);
    if (!found) this.shapes.set(at, (found = this.merge(at)));
    return found;
  }

  private merge(at: number): Merged {
    const path = this.paths[at];
    const label = path.slice(path.lastIndexOf("/") + 1);
    const { graph } = this;
    if (this.directs[at] + this.inside[at].length === 1) {
      if (!this.directs[at]) {
        const inner = this.merged(this.inside[at][0]);
        return { ...inner, label: `${label}/${inner.label}` };
      }
      const row = this.direct(at)[0];
      return { label: this.own(row) ? label : `${label}/${graph.label(row)}`, shape: graph.typeOf[row], end: at, row };
    }
    // Order does not matter: TensorFlow numbers siblings in the order in which they were built.
    let shape = 7;
    for (const row of this.direct(at)) shape = (shape + this.kind(row)) | 0;
    for (const child of this.inside[at]) {
      const inner = this.merged(child);
      shape = (shape + Math.imul(hash(stem(inner.label), inner.shape), 31)) | 0;
    }
    return { label, shape, end: at, row: -1 };
  }

  /** A number for the op's stem and type. */
  private kind(row: number): number {
    const { names, typeOf, types } = this.graph;
    const key = (2 * names.stem[row] + (names.number[row] < 0 ? 0 : 1)) * types.length + typeOf[row];
    let found = this.kinds.get(key);
    if (found === undefined) this.kinds.set(key, (found = Math.imul(hash(this.stem(row), typeOf[row]), 31)));
    return found;
  }
}
