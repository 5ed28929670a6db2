/**
 * The drawing of one level: boxes in columns from left to right, wide levels broken into rows that run to and fro
 * like a furrow, gradients in rows of their own that return below. Edges within a row pass between the boxes;
 * edges between rows take the channels between columns and rows.
 */

import { Channels, GAP, type Pin, type Wire } from "./channels.ts";
import { type End, type Route, throughRow } from "./routes.ts";
import { cycleBreakers, layers, type Link, reduceCrossings, stack } from "./order.ts";

export interface LevelNode {
  w: number;
  h: number;
  /** Heights at which values enter (left) and leave (right); mirrored rows swap the sides. */
  ins: number[];
  outs: number[];
  /** Belongs to the gradients and what follows them. */
  back: boolean;
  /** Belongs to what is drawn below everything else. */
  aside?: boolean;
}

export interface LevelEdge extends Link {
  fromPort: number;
  toPort: number;
}

export interface Placed {
  x: number;
  y: number;
  mirror: boolean;
}

export interface Level {
  w: number;
  h: number;
  nodes: Placed[];
  routes: Route[];
  /** Heights of the level's own ports, in at the left and out at the right. */
  ins: number[];
  outs: number[];
}

export const GAP_Y = 14;
export const PAD = 14;
const THIN = 6;

interface Row {
  columns: number[][];
  mirror: boolean;
}

/** Ports of the level: which node (and port of it) each one serves. */
export interface Borders {
  ins: { node: number; port: number }[][];
  outs: { node: number; port: number }[][];
}

export function layoutLevel(nodes: readonly LevelNode[], edges: readonly LevelEdge[], borders: Borders, maxWidth: number, minWidth = 0): Level {
  const turned = cycleBreakers(nodes.length, edges);
  const rows = toRows(nodes, edges, turned, maxWidth);
  const row: number[] = new Array<number>(nodes.length).fill(0);
  const column: number[] = new Array<number>(nodes.length).fill(0);
  rows.forEach((one, r) => one.columns.forEach((list, c) => list.forEach((node) => ((row[node] = r), (column[node] = c)))));
  // Borders of a single row take part in its order; those of several are reached through channels.
  const own = rows.length === 1 ? borders : { ins: [], outs: [] };
  const far = rows.length === 1 ? { ins: [], outs: [] } : borders;

  const within = edges.map((edge) => row[edge.from] === row[edge.to] && column[edge.to] > column[edge.from]);
  const leaves = (node: number, port: number): Pin => ({ row: row[node], gap: column[node] + 1, y: nodes[node].outs[port] });
  const comes = (node: number, port: number): Pin => ({ row: row[node], gap: column[node], y: nodes[node].ins[port] });
  const wires: Wire[] = [];
  const wireOf = edges.map((edge, i) => {
    if (within[i]) return -1;
    return wires.push({ net: `${edge.from}:${edge.fromPort}`, start: leaves(edge.from, edge.fromPort), end: comes(edge.to, edge.toPort) }) - 1;
  });
  const firstBorder = wires.length;
  far.ins.forEach((served, p) => served.forEach(({ node, port }) => wires.push({ net: `in${p}`, start: null, end: comes(node, port) })));
  far.outs.forEach((served) => served.forEach(({ node, port }) => wires.push({ net: `${node}:${port}`, start: leaves(node, port), end: null })));
  const channels = new Channels(rows.map((one) => ({ columns: one.columns.length, mirror: one.mirror })), wires);

  const drawn = rows.map((one, r) => {
    const mine = edges.map((_, i) => i).filter((i) => within[i] && row[edges[i].from] === r);
    return drawRow(one, nodes, edges, mine, column, own, (gap) => channels.gap(r, gap));
  });
  const w = Math.max(...drawn.map((one) => one.w), minWidth);
  const mirrored = (r: number, x: number): number => (rows[r].mirror ? w - x : x);
  const heights = channels.settle((r, gap) => drawn[r].right[gap - 1], mirrored, w);
  const tops: number[] = [];
  const channelTops: number[] = [];
  let y = 0;
  heights.forEach((height, k) => {
    channelTops.push(y);
    y += height;
    if (k === rows.length) return;
    tops.push(y);
    y += drawn[k].h;
  });

  const [left, right] = channels.margins;
  const level: Level = { w: left + w + right, h: y, nodes: [], routes: [], ins: [], outs: [] };
  nodes.forEach((node, i) => {
    const { mirror } = rows[row[i]];
    const x = drawn[row[i]].x[i];
    level.nodes.push({ x: mirror ? w - x - node.w : x, y: drawn[row[i]].y[i] + tops[row[i]], mirror });
  });
  const exit = (node: number, port: number): End => {
    const at = level.nodes[node];
    return { x: at.mirror ? at.x : at.x + nodes[node].w, y: at.y + nodes[node].outs[port], dir: at.mirror ? -1 : 1 };
  };
  const entry = (node: number, port: number): End => {
    const at = level.nodes[node];
    return { x: at.mirror ? at.x + nodes[node].w : at.x, y: at.y + nodes[node].ins[port], dir: at.mirror ? -1 : 1 };
  };
  const bendsOf = (r: number, i: number): { x: number; y: number }[] =>
    (drawn[r].bends.get(i) ?? []).map((bend) => ({ x: mirrored(r, bend.x), y: bend.y + tops[r] }));
  level.routes = edges.map((edge, i) => {
    const [start, end] = [exit(edge.from, edge.fromPort), entry(edge.to, edge.toPort)];
    return within[i] ? throughRow(start, bendsOf(row[edge.from], i), end) : channels.route(wireOf[i], start, end, channelTops);
  });
  let nth = edges.length;
  for (const side of ["ins", "outs"] as const)
    own[side].forEach((served, p) => {
      const at = { x: side === "ins" ? -left - PAD : w + right + PAD, y: drawn[0][side][p] + tops[0], dir: 1 };
      level[side].push(at.y);
      for (const { node, port } of served) {
        const bends = bendsOf(0, nth++);
        level.routes.push(side === "ins" ? throughRow(at, bends, entry(node, port)) : throughRow(exit(node, port), bends, at));
      }
    });
  let wire = firstBorder;
  for (const side of ["ins", "outs"] as const)
    far[side].forEach((served) => {
      served.forEach(({ node, port }, k) => {
        const end = side === "ins" ? entry(node, port) : exit(node, port);
        if (!k) level[side].push(channels.border(wire, end.y, channelTops));
        const at = { x: side === "ins" ? -left - PAD : w + right + PAD, y: level[side][level[side].length - 1] };
        level.routes.push(side === "ins" ? channels.route(wire, at, end, channelTops) : channels.route(wire, end, at, channelTops));
        wire += 1;
      });
    });
  // Everything was placed beside the left margin.
  for (const node of level.nodes) node.x += left;
  for (const route of level.routes) for (let i = 0; i < route.xy.length; i += 2) route.xy[i] += left;
  return level;
}

/** Layers, broken where a column is too tall or a row too wide. Gradients start a row that runs back, what stands aside another. */
function toRows(nodes: readonly LevelNode[], edges: readonly LevelEdge[], turned: ReadonlySet<number>, maxWidth: number): Row[] {
  const rows: Row[] = [];
  const part = ({ aside, back }: LevelNode): number => (aside ? 2 : back ? 1 : 0);
  for (const kind of [0, 1, 2]) {
    const members = nodes.map((_, i) => i).filter((i) => part(nodes[i]) === kind);
    if (!members.length) continue;
    const local = new Map(members.map((node, i) => [node, i]));
    const links: Link[] = [];
    edges.forEach((edge, i) => {
      const from = local.get(turned.has(i) ? edge.to : edge.from);
      const to = local.get(turned.has(i) ? edge.from : edge.to);
      if (from !== undefined && to !== undefined && from !== to) links.push({ from, to });
    });
    const layer = layers(members.length, links);
    const byLayer: number[][] = [];
    members.forEach((node, i) => (byLayer[layer[i]] ??= []).push(node));
    const tall = Math.max(5, Math.ceil(Math.sqrt(members.length) * 1.3));
    const columns = byLayer.filter(Boolean).flatMap((list) => {
      const parts = Math.ceil(list.length / tall);
      return Array.from({ length: parts }, (_, k) =>
        list.slice(Math.floor((k * list.length) / parts), Math.floor(((k + 1) * list.length) / parts)),
      );
    });
    const widths = columns.map((list) => Math.max(...list.map((node) => nodes[node].w)) + GAP);
    const total = widths.reduce((sum, w) => sum + w, 0);
    const wanted = total / Math.ceil(total / maxWidth);
    let used = Infinity;
    columns.forEach((list, c) => {
      if (used + widths[c] / 2 > wanted && used > 0) {
        rows.push({ columns: [], mirror: rows.length % 2 === 1 });
        used = 0;
      }
      rows[rows.length - 1].columns.push(list);
      used += widths[c];
    });
  }
  return rows.length ? rows : [{ columns: [], mirror: false }];
}

interface DrawnRow {
  w: number;
  h: number;
  x: number[];
  y: number[];
  /** Where each column ends. */
  right: number[];
  bends: Map<number, { x: number; y: number }[]>;
  ins: number[];
  outs: number[];
}

/** Positions of one row, drawn from left to right with its top at 0. */
function drawRow(
  row: Row,
  nodes: readonly LevelNode[],
  edges: readonly LevelEdge[],
  mine: readonly number[],
  column: readonly number[],
  borders: Borders,
  gap: (before: number) => number,
): DrawnRow {
  // Items beyond the nodes: bends of long edges, and ports in a column of their own at either end.
  let next = nodes.length;
  const columns = [[] as number[], ...row.columns.map((list) => [...list]), [] as number[]];
  const links: (Link & { dy: number })[] = [];
  const chains = new Map<number, number[]>();
  const inItems = borders.ins.map(() => (columns[0].push(next), next++));
  const outItems = borders.outs.map(() => (columns[columns.length - 1].push(next), next++));
  const connect = (from: number, to: number, c0: number, c1: number, outY: number, inY: number): number[] => {
    const chain: number[] = [];
    let last = from;
    let y = outY;
    for (let c = c0 + 1; c < c1; c++) {
      columns[c].push(next);
      links.push({ from: last, to: next, dy: y - THIN / 2 });
      chain.push(next);
      last = next++;
      y = THIN / 2;
    }
    links.push({ from: last, to, dy: y - inY });
    return chain;
  };
  for (const i of mine) {
    const { from, to, fromPort, toPort } = edges[i];
    if (column[to] <= column[from]) continue;
    chains.set(i, connect(from, to, column[from] + 1, column[to] + 1, nodes[from].outs[fromPort], nodes[to].ins[toPort]));
  }
  // Lines to the borders are numbered after the edges.
  let border = edges.length;
  borders.ins.forEach((served, p) =>
    served.forEach(({ node, port }) => chains.set(border++, connect(inItems[p], node, 0, column[node] + 1, THIN / 2, nodes[node].ins[port]))),
  );
  borders.outs.forEach((served, p) =>
    served.forEach(({ node, port }) =>
      chains.set(border++, connect(node, outItems[p], column[node] + 1, columns.length - 1, nodes[node].outs[port], THIN / 2)),
    ),
  );
  const height = (item: number): number => (item < nodes.length ? nodes[item].h : THIN);
  const ordered = reduceCrossings(columns, links);
  const y = positions(ordered, links, height, next);
  const low = Math.min(...ordered.flat().map((item) => y[item]), Infinity);
  const x = new Array<number>(next).fill(0);
  const widthAt = ordered.map((list) => Math.max(0, ...list.filter((item) => item < nodes.length).map((item) => nodes[item].w)));
  const right: number[] = [];
  let at = 0;
  ordered.slice(1, -1).forEach((list, c) => {
    if (c) at += gap(c);
    for (const item of list) x[item] = at;
    right.push((at += widthAt[c + 1]));
  });
  const result: DrawnRow = { w: at, h: 0, x, y: y.map((value) => value - low), right, bends: new Map(), ins: [], outs: [] };
  result.h = Math.max(0, ...ordered.flat().map((item) => result.y[item] + height(item)));
  const outs = borders.outs.flat();
  const source = (i: number): { node: number; port: number } | undefined =>
    i < edges.length ? { node: edges[i].from, port: edges[i].fromPort } : outs[i - border + outs.length];
  for (const [i, chain] of chains) {
    const start = source(i);
    const first = start ? column[start.node] + 1 : 0;
    // A box narrower than its column: straight to the column's end, so that the curve does not cut its neighbours.
    const beside = start ? [{ x: right[first - 1], y: result.y[start.node] + nodes[start.node].outs[start.port] }] : [];
    const bends = chain.flatMap((item, k) => [x[item] - 4, x[item] + widthAt[first + 1 + k] + 4].map((at) => ({ x: at, y: result.y[item] + THIN / 2 })));
    result.bends.set(i, [...beside, ...bends]);
  }
  result.ins = inItems.map((item) => result.y[item] + THIN / 2);
  result.outs = outItems.map((item) => result.y[item] + THIN / 2);
  return result;
}

/** Tops of all items: columns in turn draw near to the mean of their neighbours. */
function positions(columns: readonly number[][], links: readonly (Link & { dy: number })[], height: (item: number) => number, n: number): number[] {
  const y = new Array<number>(n).fill(0);
  const near = [new Map<number, { other: number; dy: number }[]>(), new Map<number, { other: number; dy: number }[]>()];
  for (const { from, to, dy } of links) {
    near[0].set(to, [...(near[0].get(to) ?? []), { other: from, dy }]);
    near[1].set(from, [...(near[1].get(from) ?? []), { other: to, dy: -dy }]);
  }
  for (const list of columns) {
    let at = -list.reduce((sum, item) => sum + height(item) + GAP_Y, 0) / 2;
    for (const item of list) {
      y[item] = at;
      at += height(item) + GAP_Y;
    }
  }
  const settle = (list: readonly number[], sides: readonly number[]): void => {
    if (!list.length) return;
    const wish: number[] = [];
    const weight: number[] = [];
    for (const item of list) {
      const found = sides.flatMap((side) => near[side].get(item) ?? []);
      wish.push(found.length ? found.reduce((sum, one) => sum + y[one.other] + one.dy, 0) / found.length : y[item]);
      weight.push(found.length ? (height(item) === THIN ? 2 : 1) : 0.2);
    }
    stack(wish, list.map(height), weight, GAP_Y).forEach((value, i) => (y[list[i]] = value));
  };
  for (let sweep = 0; sweep < 6; sweep++) {
    for (const list of columns.slice(1)) settle(list, [0]);
    for (const list of [...columns.slice(0, -1)].reverse()) settle(list, [1]);
  }
  for (const list of columns) settle(list, [0, 1]);
  return y;
}
