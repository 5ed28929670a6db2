/**
 * The drawing of one level: boxes in columns from left to right, wide levels broken into rows that run to and fro
 * like a furrow, gradients in rows of their own that return below. Edges within a row pass between the boxes;
 * edges between rows take the channels between columns and rows.
 */

import { type End, type Route, throughChannels, throughRow, toBorder } from "./routes.ts";
import { cycleBreakers, layers, type Link, reduceCrossings, stack } from "./order.ts";

export interface LevelNode {
  w: number;
  h: number;
  /** Heights at which values enter (left) and leave (right); mirrored rows swap the sides. */
  ins: number[];
  outs: number[];
  /** Belongs to the gradients and what follows them. */
  back: boolean;
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

export const GAP_X = 30;
export const GAP_Y = 14;
const ROW_GAP = 38;
const SIDE = 26;
export const PAD = 14;
const THIN = 6;

interface Row {
  columns: number[][];
  mirror: boolean;
  top: number;
  h: number;
  w: number;
}

/** Ports of the level: which node (and port of it) each one serves. */
export interface Borders {
  ins: { node: number; port: number }[][];
  outs: { node: number; port: number }[][];
}

export function layoutLevel(nodes: readonly LevelNode[], edges: readonly LevelEdge[], borders: Borders, maxWidth: number, minWidth = 0): Level {
  const turned = cycleBreakers(nodes.length, edges);
  const rows = toRows(nodes, edges, turned, maxWidth);
  const single = rows.length === 1;
  const row: number[] = new Array<number>(nodes.length).fill(0);
  const column: number[] = new Array<number>(nodes.length).fill(0);
  rows.forEach((one, r) => one.columns.forEach((list, c) => list.forEach((node) => ((row[node] = r), (column[node] = c)))));

  const level: Level = { w: 0, h: 0, nodes: nodes.map(() => ({ x: 0, y: 0, mirror: false })), routes: [], ins: [], outs: [] };
  const paths = new Map<number, { x: number; y: number }[]>();
  // Lines from the border to a row that does not begin there pass above the first row.
  let top = !single && borders.ins.length ? ROW_GAP / 2 + 8 : 0;
  for (const [r, one] of rows.entries()) {
    const mine = edges.map((_, i) => i).filter((i) => !turned.has(i) && row[edges[i].from] === r && row[edges[i].to] === r);
    const drawn = drawRow(one, nodes, edges, mine, column, single ? borders : { ins: [], outs: [] });
    one.top = top;
    one.h = drawn.h;
    one.w = drawn.w;
    for (const list of one.columns) for (const node of list) level.nodes[node] = { x: drawn.x[node], y: drawn.y[node] + top, mirror: false };
    for (const [i, bends] of drawn.bends) paths.set(i, bends.map(({ x, y }) => ({ x, y: y + top })));
    if (single) {
      level.ins = drawn.ins;
      level.outs = drawn.outs;
    }
    top += drawn.h + ROW_GAP;
  }
  level.w = Math.max(...rows.map((one) => one.w), minWidth);
  level.h = Math.max(0, top - ROW_GAP);
  rows.forEach((one) => {
    if (!one.mirror) return;
    for (const list of one.columns)
      for (const node of list) {
        level.nodes[node].x = level.w - level.nodes[node].x - nodes[node].w;
        level.nodes[node].mirror = true;
      }
  });
  for (const [i, bends] of paths) if (i < edges.length && rows[row[edges[i].from]].mirror) bends.forEach((bend) => (bend.x = level.w - bend.x));
  if (!single) {
    // Room for the turns at the ends of the rows and for what goes to the borders.
    for (const node of level.nodes) node.x += SIDE;
    for (const bends of paths.values()) bends.forEach((bend) => (bend.x += SIDE));
    level.w += 2 * SIDE;
  }

  const used = new Map<number, number>();
  /** Height of the next free line in the gap below a row (-1: above the first), and how many went before. */
  const lane = (below: number): [number, number] => {
    const nth = used.get(below) ?? 0;
    used.set(below, nth + 1);
    const y = below < 0 ? -ROW_GAP / 2 : rows[below].top + rows[below].h + ROW_GAP / 2;
    return [y + (((nth * 5) % 25) - 12), nth];
  };
  level.routes = edges.map((edge, i) => {
    const start = exit(level, nodes, edge.from, edge.fromPort);
    const end = entry(level, nodes, edge.to, edge.toPort);
    const bends = paths.get(i);
    return bends ? throughRow(start, bends, end) : throughChannels(start, end, ...lane(Math.min(row[edge.from], row[edge.to])));
  });
  let border = edges.length;
  for (const side of ["ins", "outs"] as const)
    borders[side].forEach((served, p) => {
      const x = side === "ins" ? -PAD : level.w + PAD;
      served.forEach(({ node, port }, k) => {
        const end = side === "ins" ? entry(level, nodes, node, port) : exit(level, nodes, node, port);
        const bends = paths.get(border++) ?? [];
        if (single) {
          const at = { x, y: level[side][p], dir: 1 };
          level.routes.push(side === "ins" ? throughRow(at, bends, end) : throughRow(end, bends, at));
          return;
        }
        const { columns, mirror } = rows[row[node]];
        const faces = !mirror && column[node] === (side === "ins" ? 0 : columns.length - 1);
        const [y, nth] = lane(side === "ins" ? row[node] - 1 : row[node]);
        if (!k) level[side][p] = faces ? end.y : y;
        level.routes.push(toBorder(end, { x, y: level[side][p] }, faces, y, nth, side === "ins"));
      });
    });
  if (!single && used.has(rows.length - 1)) level.h += ROW_GAP;
  return level;
}

/** Layers, broken where a column is too tall or a row too wide. Gradients start a row that runs back. */
function toRows(nodes: readonly LevelNode[], edges: readonly LevelEdge[], turned: ReadonlySet<number>, maxWidth: number): Row[] {
  const rows: Row[] = [];
  const mixed = nodes.some((node) => node.back) && nodes.some((node) => !node.back);
  for (const back of mixed ? [false, true] : [null]) {
    const members = nodes.map((_, i) => i).filter((i) => back === null || nodes[i].back === back);
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
    const widths = columns.map((list) => Math.max(...list.map((node) => nodes[node].w)) + GAP_X);
    const total = widths.reduce((sum, w) => sum + w, 0);
    const wanted = total / Math.ceil(total / maxWidth);
    let used = Infinity;
    columns.forEach((list, c) => {
      if (used + widths[c] / 2 > wanted && used > 0) {
        rows.push({ columns: [], mirror: rows.length % 2 === 1, top: 0, h: 0, w: 0 });
        used = 0;
      }
      rows[rows.length - 1].columns.push(list);
      used += widths[c];
    });
  }
  return rows.length ? rows : [{ columns: [], mirror: false, top: 0, h: 0, w: 0 }];
}

interface DrawnRow {
  w: number;
  h: number;
  x: number[];
  y: number[];
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
  let at = 0;
  ordered.slice(1, -1).forEach((list) => {
    const width = Math.max(0, ...list.filter((item) => item < nodes.length).map((item) => nodes[item].w));
    for (const item of list) x[item] = at;
    at += width + GAP_X;
  });
  const result: DrawnRow = { w: Math.max(0, at - GAP_X), h: 0, x, y: y.map((value) => value - low), bends: new Map(), ins: [], outs: [] };
  result.h = Math.max(0, ...ordered.flat().map((item) => result.y[item] + height(item)));
  const widthAt = ordered.map((list) => Math.max(0, ...list.filter((item) => item < nodes.length).map((item) => nodes[item].w)));
  const served = borders.outs.flat();
  const startColumn = (i: number): number =>
    i < edges.length ? column[edges[i].from] + 1 : i < border - served.length ? 0 : column[served[i - border + served.length].node] + 1;
  for (const [i, chain] of chains) {
    const first = startColumn(i) + 1;
    result.bends.set(
      i,
      chain.flatMap((item, k) => [
        { x: x[item] - 4, y: result.y[item] + THIN / 2 },
        { x: x[item] + widthAt[first + k] + 4, y: result.y[item] + THIN / 2 },
      ]),
    );
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

function exit(level: Level, nodes: readonly LevelNode[], node: number, port: number): End {
  const { x, y, mirror } = level.nodes[node];
  return { x: mirror ? x : x + nodes[node].w, y: y + nodes[node].outs[port], dir: mirror ? -1 : 1 };
}

function entry(level: Level, nodes: readonly LevelNode[], node: number, port: number): End {
  const { x, y, mirror } = level.nodes[node];
  return { x: mirror ? x + nodes[node].w : x, y: y + nodes[node].ins[port], dir: mirror ? -1 : 1 };
}
