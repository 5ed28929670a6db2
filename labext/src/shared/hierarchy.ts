/**
 * The tree of a graph: name scopes, and where a level would hold more than `CAP` children, groups made of series,
 * of siblings with the same shape, of common name beginnings, and at last of consecutive parts.
 * Levels are arranged when they are first opened, so that a graph of 55,000 ops costs what is looked at.
 */

import type { Graph } from "./graph.ts";
import { Scopes, stem } from "./scopes.ts";
import { painted } from "./statuses.ts";
import { shorten } from "./strings.ts";

/** Most children that one level shows. */
export const CAP = 40;
const ROOMY = 28;

export type Kind = "op" | "scope" | "series" | "part";

export class Group {
  children: Group[] = [];
  /** Hash of the types and names below with their numbers removed: equal for siblings of the same shape. */
  shape = 0;
  /** The label without its numbers. */
  stem = "";
  /** Number of a name scope, -1 for the others. */
  scope = -1;
  arranged: boolean;
  readonly id: string;
  label: string;
  readonly kind: Kind;
  parent: Group | null;
  /** Row of an op, -1 for the others. */
  readonly row: number;
  private held: Int32Array | null;

  constructor(id: string, label: string, kind: Kind, parent: Group | null, rows: Int32Array | number) {
    this.id = id;
    this.label = label;
    this.kind = kind;
    this.parent = parent;
    this.row = typeof rows === "number" ? rows : -1;
    this.held = typeof rows === "number" ? null : rows;
    this.arranged = kind === "op";
  }

  /** Rows of all ops below, docked ones left out. */
  get rows(): Int32Array {
    this.held ??= Int32Array.of(this.row);
    return this.held;
  }
}

export interface Tree {
  root: Group;
  graph: Graph;
  /** 1 where an op docks on its consumers and has no node of its own. */
  docked: Uint8Array;
  /** 1 where an op has a place in the picture. */
  visible: Uint8Array;
  scopes: Scopes;
  byId: Map<string, Group>;
}

/** Build the tree of the ops in `shown`; `fetched` ops always get a node. Groups are made when their level is arranged. */
export function buildTree(graph: Graph, shown: Uint8Array, fetched: ReadonlySet<number>): Tree {
  const docked = graph.docked(fetched);
  const visible = shown.map((one, row) => (one && !docked[row] ? 1 : 0));
  const scopes = new Scopes(graph, visible);
  const root = new Group("", "", "scope", null, scopes.rows(0));
  root.scope = 0;
  return { root, graph, docked, visible, scopes, byId: new Map([["", root]]) };
}

/** Make the groups of a scope's children. Scopes with one child are merged with it. */
function materialise({ graph, scopes }: Tree, group: Group): void {
  const op = (row: number, label: string): Group => {
    const child = new Group(scopes.own(row) ? `${graph.name[row]}/()` : graph.name[row], label, "op", group, row);
    child.shape = graph.typeOf[row];
    return child;
  };
  const inner = scopes.children(group.scope);
  let next = 0;
  // Both lists are in the order of the graph.
  const scopesBefore = (row: number): void => {
    for (; next < inner.length && scopes.first(inner[next]) < row; next++) {
      const { label, shape, end, row: only } = scopes.merged(inner[next]);
      const child = only < 0 ? new Group(scopes.path(end), label, "scope", group, scopes.rows(end)) : op(only, label);
      if (only < 0) child.scope = end;
      child.shape = shape;
      child.stem = stem(label);
      group.children.push(child);
    }
  };
  for (const row of scopes.direct(group.scope)) {
    scopesBefore(row);
    const child = op(row, graph.label(row));
    child.stem = scopes.stem(row);
    group.children.push(child);
  }
  scopesBefore(graph.size);
}

/** Bring the children of `group` down to at most `CAP`. Called before a level is drawn. */
export function arrange(tree: Tree, group: Group): void {
  if (group.arranged) return;
  group.arranged = true;
  if (group.scope >= 0) materialise(tree, group);
  if (group.children.length > ROOMY) reduce(tree, group);
  for (const child of group.children) tree.byId.set(child.id, child);
}

function reduce(tree: Tree, group: Group): void {
  const links = siblingLinks(tree, group);
  const order = topological(group.children, links);
  group.children = order.map((i) => group.children[i]);
  const place = new Map(order.map((from, to) => [from, to]));
  const next = order.map((i) => [...links[i]].map((j) => place.get(j) as number));
  bundle(tree, group, alike(group.children, next), "series");
  if (group.children.length > CAP) bundle(tree, group, byPrefix(group.children), "scope");
  if (group.children.length > CAP) bundle(tree, group, inParts(group.children), "part");
}

/** For each child the children that use one of its values. */
function siblingLinks(tree: Tree, group: Group): Set<number>[] {
  const child = new Int32Array(tree.graph.size).fill(-1);
  group.children.forEach((one, i) => {
    if (one.row >= 0) child[one.row] = i;
    else for (const row of one.rows) child[row] = i;
  });
  const links = group.children.map(() => new Set<number>());
  const { at, list } = tree.graph.consumers;
  for (const row of group.rows)
    for (let k = at[row]; k < at[row + 1]; k++) {
      const j = child[list[k]];
      if (j >= 0 && j !== child[row]) links[child[row]].add(j);
    }
  return links;
}

/** An order in which values flow forward where there is one; cycles are cut at the op built first. */
function topological(children: readonly Group[], links: readonly ReadonlySet<number>[]): number[] {
  const waiting = children.map(() => 0);
  links.forEach((set) => set.forEach((j) => (waiting[j] += 1)));
  const done = children.map(() => false);
  const order: number[] = [];
  const ready = children.map((_, i) => i).filter((i) => waiting[i] === 0);
  let fallback = 0;
  let head = 0;
  while (order.length < children.length) {
    if (head === ready.length) {
      while (done[fallback]) fallback += 1;
      ready.push(fallback);
    }
    const i = ready[head++];
    if (done[i]) continue;
    done[i] = true;
    order.push(i);
    for (const j of links[i]) if (--waiting[j] === 0 && !done[j]) ready.push(j);
  }
  return order;
}

/** Siblings with equal shape and stem that stand side by side: none uses another's value, same distance from the start. */
function alike(children: readonly Group[], next: readonly number[][]): (string | null)[] {
  const depth = children.map(() => 0);
  next.forEach((targets, i) => targets.forEach((j) => j > i && (depth[j] = Math.max(depth[j], depth[i] + 1))));
  const has = { in: children.map(() => false), out: next.map((targets) => targets.length > 0) };
  next.forEach((targets) => targets.forEach((j) => (has.in[j] = true)));
  return children.map((child, i) => {
    const end = !has.out[i] ? "end" : !has.in[i] ? "start" : String(depth[i]);
    return `${child.kind === "op"}|${child.stem}|${child.shape}|${end}`;
  });
}

/** The shortest beginning of names (cut at `_ - .` and between letters and numbers) that leaves few enough groups. */
function byPrefix(children: readonly Group[]): (string | null)[] {
  const words = children.map((child) => child.label.split(/(?<=[_\-.])|(?<=[a-zA-Z])(?=\d)|(?<=\d)(?=[a-zA-Z])/));
  let best: (string | null)[] = children.map(() => null);
  for (let length = 1; length <= 9; length++) {
    const keys = words.map((word) => (word.length > length ? word.slice(0, length).join("") : null));
    const sizes = new Map<string, number>();
    for (const key of keys) if (key) sizes.set(key, (sizes.get(key) ?? 0) + 1);
    const singles = keys.filter((key) => !key || (sizes.get(key) as number) < 3).length;
    const total = singles + [...sizes.values()].filter((n) => n >= 3).length;
    const largest = Math.max(0, ...sizes.values());
    if (total > CAP) break;
    // A beginning that nearly all share tells nothing: look for a longer one.
    if (largest === children.length) continue;
    best = keys;
    if (largest < children.length * 0.7) break;
  }
  return best;
}

/** Consecutive stretches of near equal size, in the order in which values flow. */
function inParts(children: readonly Group[]): (string | null)[] {
  const parts = Math.min(CAP, Math.max(2, Math.ceil(Math.sqrt(children.length / 2))));
  return children.map((_, i) => `part ${1 + Math.floor((i * parts) / children.length)}`);
}

/** Put children with the same key under a new group each; keys with fewer than three members leave them as they are. */
function bundle(tree: Tree, group: Group, keys: readonly (string | null)[], kind: Kind): void {
  const members = new Map<string, Group[]>();
  group.children.forEach((child, i) => {
    const key = keys[i];
    if (key === null) return;
    const set = members.get(key);
    if (set) set.push(child);
    else members.set(key, [child]);
  });
  const least = kind === "part" ? 2 : 3;
  const made = new Map<string, Group>();
  const children: Group[] = [];
  group.children.forEach((child, i) => {
    const key = keys[i];
    const set = key === null ? undefined : members.get(key);
    if (!set || set.length < least || set.length === group.children.length) return void children.push(child);
    let one = made.get(key as string);
    if (!one) {
      one = new Group(freeId(tree, `${group.id}~${key}`), bundleLabel(set, key as string, kind), kind, group, joined(set));
      one.children = set;
      for (const member of set) member.parent = one;
      tree.byId.set(one.id, one);
      made.set(key as string, one);
      children.push(one);
    }
  });
  group.children = children;
}

function joined(set: readonly Group[]): Int32Array {
  if (set.every((one) => one.row >= 0)) return Int32Array.from(set, (one) => one.row);
  const rows = new Int32Array(set.reduce((sum, one) => sum + one.rows.length, 0));
  let at = 0;
  for (const one of set) {
    rows.set(one.rows, at);
    at += one.rows.length;
  }
  return rows;
}

function freeId(tree: Tree, wish: string): string {
  let id = wish;
  for (let n = 2; tree.byId.has(id) || tree.graph.find(id) >= 0; n++) id = `${wish}·${n}`;
  return id;
}

function bundleLabel(set: readonly Group[], key: string, kind: Kind): string {
  if (kind === "series") return `${set[0].stem.replace(/#/g, "n")} ×${set.length}`;
  if (kind === "part") {
    const [first, last] = [set[0].label, set[set.length - 1].label];
    let shared = 0;
    while (shared < first.length && first[shared] === last[shared]) shared += 1;
    const cut = Math.max(first.slice(0, shared).lastIndexOf("_"), first.slice(0, shared).lastIndexOf("/")) + 1;
    return `${shorten(first.slice(cut), 20)} to ${shorten(last.slice(cut), 20)}`;
  }
  return `${key.replace(/[_\-.]+$/, "")}… ×${set.length}`;
}

/** Groups from the root's child down to `group` itself. */
export function path(group: Group): Group[] {
  const steps: Group[] = [];
  for (let at: Group | null = group; at?.parent; at = at.parent) steps.unshift(at);
  return steps;
}

/** Arrange whatever leads to `row`; returns its group, none for an op that docks or is not shown. */
export function reveal(tree: Tree, row: number): Group | undefined {
  if (!tree.visible[row]) return undefined;
  let at = tree.root;
  while (at.kind !== "op") {
    arrange(tree, at);
    at = at.children.find((child) => child.rows.includes(row)) as Group;
  }
  return at;
}

/** The group of an op, or of a scope around it by name, and the ids of the groups that it lies in. */
export function revealed(tree: Tree, row: number, scope?: string): { found: Group | undefined; around: string[] } {
  const leaf = reveal(tree, row);
  if (!leaf) return { found: undefined, around: [] };
  const steps = path(leaf);
  // A scope with a single child is merged with it.
  const at = scope === undefined ? -1 : steps.findIndex(({ id }) => id === scope || id.startsWith(`${scope}/`));
  const found = at < 0 ? leaf : steps[at];
  return { found, around: steps.slice(0, steps.indexOf(found)).map(({ id }) => id) };
}

/** Share of each status among the ops of a group, bookkeeping left out unless there is nothing else. */
export function mix(group: Group, status: Uint8Array, bookkeeping: Uint8Array): number[] {
  const counts = new Array<number>(11).fill(0);
  const { rows } = group;
  let any = false;
  for (let i = 0; i < rows.length; i++)
    if (!bookkeeping[rows[i]]) {
      counts[status[rows[i]]] += 1;
      any = true;
    }
  if (!any) for (const row of group.rows) counts[painted(status[row], true)] += 1;
  return counts;
}
