/** The picture of a graph: open scopes drawn each by itself, one inside the other, edges lifted to what is visible. */

import { arrange, type Group, type Tree } from "./hierarchy.ts";
import { FlowFinder } from "./flows.ts";
import { type Borders, type Level, layoutLevel, type LevelEdge, type LevelNode, PAD } from "./level.ts";
import type { Route } from "./routes.ts";
import { shorten } from "./strings.ts";

export const NODE_H = 34;
export const SCOPE_H = 38;
export const CHIP_H = 18;
export const HEAD = 26;
const FOOT = 12;
const LABEL = 44;
const MAX_PORTS = 8;

export interface Chip {
  /** Rows of the feeds or variables that the chip stands for. */
  sources: number[];
  text: string;
  feed: boolean;
  w: number;
}

export interface Item {
  group: Group;
  x: number;
  y: number;
  w: number;
  h: number;
  open: boolean;
  /** Height of the row of chips above the box. */
  chipH: number;
  chips: Chip[];
  /** A fetch of some call ends here. */
  fetched: boolean;
  label: string;
}

export interface Segment {
  d: string;
  /** Pairs of rows (producer, consumer) that this line stands for. */
  pairs: number[];
  control: boolean;
  arrow: boolean;
}

export interface Picture {
  w: number;
  h: number;
  items: Item[];
  segments: Segment[];
}

interface Box {
  w: number;
  h: number;
  level: Level;
  children: LevelNode[];
  faces: Face[];
  groups: Group[];
  segments: { pairs: number[]; control: boolean; arrow: boolean }[];
  inOf: Int32Array;
  outOf: Int32Array;
}

type Face = Pick<Item, "chipH" | "chips" | "fetched" | "label" | "open">;

const BACKWARD =
  /^(gradients?(_\d+)?|gradient_tape|train|training|train_op|adamw?|nadam|adamax|adagrad|adadelta|sgd|momentum|rmsprop|ftrl|lion|optimizer\w*|gradientdescent|update_.*)(\/|$|~|…| )/i;

/** Whether a name belongs to the gradients or to the optimizer, by TensorFlow's habits. */
export const backward = (label: string): boolean => BACKWARD.test(label);

export class Layout {
  private readonly tree: Tree;
  private readonly fetched: ReadonlySet<number>;
  private readonly aside: ReadonlySet<Group>;
  private readonly maxWidth: number;
  private readonly cache = new Map<string, { key: string; box: Box }>();
  private readonly faces = new Map<string, Face>();
  private readonly flows: FlowFinder;

  constructor(tree: Tree, fetched: ReadonlySet<number>, aside: ReadonlySet<Group> = new Set(), maxWidth = 1300) {
    this.tree = tree;
    this.flows = new FlowFinder(tree);
    this.fetched = fetched;
    this.aside = aside;
    this.maxWidth = maxWidth;
  }

  /** Draw the tree with the groups of `open` opened. */
  draw(open: ReadonlySet<string>): Picture {
    const box = this.box(this.tree.root, open, 0);
    const picture: Picture = { w: box.level.w + 2 * PAD, h: box.level.h + 2 * PAD, items: [], segments: [] };
    this.place(box, open, 0, PAD - HEAD, false, picture, picture.w);
    return picture;
  }

  private signature(group: Group, open: ReadonlySet<string>): string {
    arrange(this.tree, group);
    return group.children.map((child) => (open.has(child.id) ? `${child.id}(${this.signature(child, open)})` : "")).join("");
  }

  private box(group: Group, open: ReadonlySet<string>, depth: number): Box {
    const key = this.signature(group, open);
    const cached = this.cache.get(group.id);
    if (cached?.key === key) return cached.box;
    const groups = group.children;
    this.flows.of(group, depth);
    const inner = groups.map((child) => (open.has(child.id) && child.kind !== "op" ? this.box(child, open, depth + 1) : null));
    const faces = groups.map((child, i) => this.face(child, inner[i] !== null));
    const children = groups.map((child, i) => this.node(child, faces[i], inner[i]));
    const found = this.edges(group, depth, inner);
    closeBackward(children, found.edges);
    const level = layoutLevel(children, found.edges, found.borders, depth ? this.maxWidth * 0.85 : this.maxWidth, depth ? 60 + group.label.length * 7 : 0);
    const box: Box = {
      w: level.w + 2 * PAD,
      h: level.h + HEAD + FOOT,
      level, children, faces, groups,
      segments: found.segments,
      inOf: found.inOf,
      outOf: found.outOf,
    };
    this.cache.set(group.id, { key, box });
    return box;
  }

  /** Edges between the children, and the ports by which values enter and leave the group. */
  private edges(group: Group, depth: number, inner: readonly (Box | null)[]) {
    const { between, into, out } = this.flows.of(group, depth);
    const [slot, below] = [this.flows.slot[depth], this.flows.slot[depth + 1]];
    const n = group.children.length;
    const port = (row: number, side: "inOf" | "outOf"): number => {
      const box = inner[slot[row]];
      return box ? Math.max(0, box[side][below[row]]) : 0;
    };
    const edges: LevelEdge[] = [];
    const segments: Box["segments"] = [];
    for (const { from, to, pairs, control } of between) {
      if (!inner[from] && !inner[to]) {
        edges.push({ from, to, fromPort: 0, toPort: 0 });
        segments.push({ pairs, control, arrow: true });
        continue;
      }
      // One line for each port of an open child, so that the line can go on inside it.
      const split = new Map<number, number>();
      for (let k = 0; k < pairs.length; k += 2) {
        const [fromPort, toPort] = [port(pairs[k], "outOf"), port(pairs[k + 1], "inOf")];
        const at = split.get(fromPort * 64 + toPort);
        if (at !== undefined) {
          segments[at].pairs.push(pairs[k], pairs[k + 1]);
          continue;
        }
        split.set(fromPort * 64 + toPort, segments.length);
        edges.push({ from, to, fromPort, toPort });
        segments.push({ pairs: [pairs[k], pairs[k + 1]], control, arrow: !inner[to] });
      }
    }
    const borders: Borders = { ins: [], outs: [] };
    const ports = (lists: number[][], side: "ins" | "outs"): Int32Array => {
      const of = new Int32Array(n).fill(-1);
      const used = lists.map((list, i) => (list.length ? i : -1)).filter((i) => i >= 0);
      const merged = used.length > MAX_PORTS;
      used.forEach((child, p) => {
        of[child] = merged ? 0 : p;
        const served = (borders[side][of[child]] ??= []);
        const split = new Map<number, number[]>();
        for (let k = 0; k < lists[child].length; k += 2) {
          const at = port(lists[child][k + (side === "ins" ? 1 : 0)], side === "ins" ? "inOf" : "outOf");
          const pairs = split.get(at);
          if (pairs) pairs.push(lists[child][k], lists[child][k + 1]);
          else split.set(at, [lists[child][k], lists[child][k + 1]]);
        }
        for (const [at, pairs] of split) {
          served.push({ node: child, port: at });
          segments.push({ pairs, control: false, arrow: side === "ins" && !inner[child] });
        }
      });
      return of;
    };
    const inOf = ports(into, "ins");
    const outOf = ports(out, "outs");
    return { edges, segments, borders, inOf, outOf };
  }

  private face(group: Group, open: boolean): Face {
    const key = `${group.id}|${open}`;
    let face = this.faces.get(key);
    if (!face) {
      const chips = open ? [] : this.chips(group);
      const fetched = !open && group.kind === "op" && this.fetched.has(group.row);
      face = { open, chips, fetched, chipH: chips.length || fetched ? CHIP_H : 0, label: shorten(group.label, LABEL) };
      this.faces.set(key, face);
    }
    return face;
  }

  /** Feeds and variables that dock on a closed group; what does not fit is counted. */
  private chips(group: Group): Chip[] {
    const { graph, docked } = this.tree;
    const found = new Map<number, boolean>();
    const { at, list } = graph.producers;
    for (const row of group.rows)
      for (let i = at[row]; i < at[row + 1]; i++) {
        const from = list[i];
        if (!docked[from]) continue;
        const variable = graph.variable(from);
        const source = variable >= 0 ? variable : from;
        if (!found.has(source) && graph.types[graph.typeOf[from]] !== "Const") found.set(source, variable < 0 && graph.types[graph.typeOf[from]].startsWith("Placeholder"));
      }
    const all = [...found].sort((a, b) => Number(b[1]) - Number(a[1]));
    const room = group.kind === "op" ? 3 : 2;
    const shown = all.length > room ? all.slice(0, room - 1) : all;
    const scope = group.id.includes("~") ? "" : group.id.slice(0, group.id.lastIndexOf("/") + 1);
    const chips = shown.map(([row, feed]): Chip => {
      const name = graph.name[row];
      const own = scope && name.startsWith(scope) ? name.slice(scope.length) : name.startsWith(`${group.id}/`) ? name.slice(group.id.length + 1) : name;
      const text = shorten(own, 14);
      return { sources: [row], text, feed, w: (text.length + 2) * 6.1 + 10 };
    });
    const rest = all.slice(shown.length);
    if (rest.length) {
      const text = `+${rest.length}`;
      chips.push({ sources: rest.map(([row]) => row), text, feed: rest.every(([, feed]) => feed), w: (text.length + 2) * 6.1 + 10 });
    }
    return chips;
  }

  private node(group: Group, face: Face, box: Box | null): LevelNode {
    const back = backward(group.label);
    const aside = this.aside.has(group);
    if (box) {
      const shift = (y: number): number => y + HEAD;
      const middle = [box.h / 2];
      const { ins, outs } = box.level;
      return { w: box.w, h: box.h, ins: ins.length ? ins.map(shift) : middle, outs: outs.length ? outs.map(shift) : middle, back, aside };
    }
    const chipsW = face.chips.reduce((sum, chip) => sum + chip.w + 4, 0) + (face.fetched ? 58 : 0);
    const op = group.kind === "op";
    const text = op ? 34 + face.label.length * 7 : 34 + face.label.length * 6.9;
    const h = op ? NODE_H : SCOPE_H;
    const port = [face.chipH + h / 2];
    return { w: Math.ceil(Math.max(op ? 116 : 136, text, chipsW)), h: h + face.chipH, ins: port, outs: port, back, aside };
  }

  private place(box: Box, open: ReadonlySet<string>, x: number, y: number, mirror: boolean, picture: Picture, width: number): void {
    const left = (local: number, w: number): number => x + (mirror ? width - PAD - local - w : PAD + local);
    box.groups.forEach((group, i) => {
      const at = box.level.nodes[i];
      const node = box.children[i];
      const item: Item = { group, ...box.faces[i], x: left(at.x, node.w), y: y + HEAD + at.y, w: node.w, h: node.h };
      picture.items.push(item);
      const inner = item.open ? this.cache.get(group.id)?.box : undefined;
      if (inner) this.place(inner, open, item.x, item.y, mirror !== at.mirror, picture, node.w);
    });
    box.level.routes.forEach((route, i) => {
      const d = write(route, (px) => left(px, 0), (py) => y + HEAD + py);
      picture.segments.push({ d, ...box.segments[i] });
    });
  }
}

/** What follows a gradient is drawn with the gradients. */
function closeBackward(nodes: LevelNode[], edges: readonly LevelEdge[]): void {
  const next = nodes.map(() => [] as number[]);
  for (const { from, to } of edges) next[from].push(to);
  const queue = nodes.map((_, i) => i).filter((i) => nodes[i].back);
  for (let at = 0; at < queue.length; at++)
    for (const to of next[queue[at]])
      if (!nodes[to].back) {
        nodes[to].back = true;
        queue.push(to);
      }
}

function write(route: Route, fx: (x: number) => number, fy: (y: number) => number): string {
  let d = "";
  let at = 0;
  for (const kind of route.kinds) {
    d += kind;
    for (let k = kind === "C" ? 3 : 1; k > 0; k--, at += 2)
      d += `${Math.round(fx(route.xy[at]) * 10) / 10} ${Math.round(fy(route.xy[at + 1]) * 10) / 10} `;
  }
  return d.trim();
}
