/** What flows between the children of a group: every edge of the graph, lifted to the level where its ends part. */

import type { Group, Tree } from "./hierarchy.ts";

export interface Flow {
  from: number;
  to: number;
  /** Pairs of rows, as in segments. */
  pairs: number[];
  control: boolean;
}

/** What flows between the children of a group, and for each child what comes into it and goes out over the border. */
export interface Flows {
  between: Flow[];
  into: number[][];
  out: number[][];
}

export class FlowFinder {
  /** For each depth: the child of its group that a row lies in. */
  readonly slot: Int32Array[] = [];
  private readonly owner: Int32Array[] = [];
  private readonly tree: Tree;
  private readonly known = new Map<Group, Flows>();
  private serial = 0;

  constructor(tree: Tree) {
    this.tree = tree;
  }

  /** Which values pass between the children, and in and out: found once, as it does not depend on what is open. */
  of(group: Group, depth: number): Flows {
    let flows = this.known.get(group);
    if (!flows) this.known.set(group, (flows = this.find(group, depth)));
    return flows;
  }

  private find(group: Group, depth: number): Flows {
    const { graph, visible } = this.tree;
    this.owner[depth] ??= new Int32Array(graph.size);
    this.slot[depth] ??= new Int32Array(graph.size);
    const [here, slot] = [this.owner[depth], this.slot[depth]];
    const owner = ++this.serial;
    const n = group.children.length;
    group.children.forEach((child, i) => {
      for (const row of child.rows) {
        here[row] = owner;
        slot[row] = i;
      }
    });
    const flows: Flows = { between: [], into: group.children.map(() => []), out: group.children.map(() => []) };
    const places = new Map<number, Flow>();
    const add = (from: number, to: number, control: boolean): void => {
      if (!visible[from] || !visible[to]) return;
      const [inside, target] = [here[from] === owner, here[to] === owner];
      if (inside && target) {
        const [a, b] = [slot[from], slot[to]];
        if (a === b) return;
        const flow = places.get(a * n + b);
        if (flow) {
          flow.pairs.push(from, to);
          flow.control &&= control;
        } else {
          const made = { from: a, to: b, pairs: [from, to], control };
          places.set(a * n + b, made);
          flows.between.push(made);
        }
      } else if (depth && inside) flows.out[slot[from]].push(from, to);
      else if (depth && target) flows.into[slot[to]].push(from, to);
    };
    const { consumers, producers, waits } = graph;
    const { rows } = group;
    for (let k = 0; k < rows.length; k++) {
      const row = rows[k];
      for (let i = consumers.at[row]; i < consumers.at[row + 1]; i++) add(row, consumers.list[i], false);
      if (depth) for (let i = producers.at[row]; i < producers.at[row + 1]; i++) if (here[producers.list[i]] !== owner) add(producers.list[i], row, false);
      for (let i = waits.at[row]; i < waits.at[row + 1]; i++) add(waits.list[i], row, true);
    }
    return flows;
  }
}
