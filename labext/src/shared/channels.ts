/**
 * Lines between the rows of a level, and back within one. No line passes a box: it leaves its column through the gap
 * beside it, runs along the channel between two rows, and passes other rows in the margins left and right of them all.
 * What leaves one box by one port is a net and shares its tracks, so that a fan is one trunk with branches.
 */

import type { End, Route } from "./routes.ts";
import { rounded } from "./routes.ts";

/** Where a line touches a row: the gap (0 is before the first column) in the order in which values flow. */
export interface Pin {
  row: number;
  gap: number;
  /** Height within the row, for the order of tracks. */
  y: number;
}

/** A line to draw; without a start it comes from the level's left border, without an end it goes to the right one. */
export interface Wire {
  net: string;
  start: Pin | null;
  end: Pin | null;
}

export interface Shape {
  columns: number;
  mirror: boolean;
}

type Side = 0 | 1;

interface Plan {
  wire: Wire;
  /** Margins that the pins lie at; null for a gap between two columns. */
  from: Side | null;
  to: Side | null;
  /** Channels to run along: channel k is above row k. None, one, or two joined by the margin `over`. */
  channels: number[];
  over: Side | null;
}

interface Span {
  lo: number;
  hi: number;
}

const LEAST = 34;
/** Least width of the gap between two columns. */
export const GAP = 30;
const WIDEST = 96;
const AIR = 10;

/** Distance of neighbouring tracks, so that many still fit. */
const pitch = (n: number): number => (n <= 8 ? 6 : n <= 16 ? 4.5 : 3.5);

export class Channels {
  readonly margins: [number, number];
  private readonly shapes: readonly Shape[];
  private readonly plans: Plan[];
  /** Tracks in the gaps between columns: `row,gap` -> keys of nets, in the order of the flow. */
  private readonly gaps = new Map<string, string[]>();
  private readonly lanesOf: [Map<string, number>, Map<string, number>];
  private lanes: Map<string, number>[] = [];
  private heights: number[] = [];

  constructor(shapes: readonly Shape[], wires: readonly Wire[]) {
    this.shapes = shapes;
    this.plans = wires.map((wire) => this.plan(wire));
    this.gapTracks();
    const spans: [Map<string, Span>, Map<string, Span>] = [new Map(), new Map()];
    for (const plan of this.plans) for (const [side, at] of this.margin(plan)) widen(spans[side], plan.wire.net, at);
    this.lanesOf = [pack(spans[0], 0), pack(spans[1], 0)];
    this.margins = [this.room(0), this.room(1)];
  }

  private room(side: Side): number {
    const n = count(this.lanesOf[side]);
    return n ? AIR + n * pitch(n) + 4 : 0;
  }

  private side(pin: Pin): Side | null {
    const { columns, mirror } = this.shapes[pin.row];
    if (pin.gap > 0 && pin.gap < columns) return null;
    return (pin.gap === 0) === mirror ? 1 : 0;
  }

  private plan(wire: Wire): Plan {
    const { start, end } = wire;
    const from = start ? this.side(start) : 0;
    const to = end ? this.side(end) : 1;
    const plan: Plan = { wire, from, to, channels: [], over: null };
    if (from !== null && from === to) return plan;
    const a = start?.row ?? (end as Pin).row;
    const b = end?.row ?? a;
    const leaves = a < b || (a === b && start) ? a + 1 : a;
    const comes = a < b || !start ? b : b + 1;
    if (from !== null) plan.channels = [comes];
    else if (to !== null || leaves === comes) plan.channels = [leaves];
    else {
      plan.channels = [leaves, comes];
      plan.over = this.across(start as Pin) + this.across(end as Pin) > 1 ? 1 : 0;
    }
    return plan;
  }

  /** How far to the right a gap lies: 0 to 1. */
  private across({ row, gap }: Pin): number {
    const { columns, mirror } = this.shapes[row];
    return mirror ? 1 - gap / columns : gap / columns;
  }

  /** Heights at which a plan uses the margins: odd for rows, even for channels. */
  private *margin({ wire, from, to, channels, over }: Plan): Iterable<[Side, number]> {
    const [first, last] = [channels[0], channels[channels.length - 1]];
    const row = (pin: Pin): number => 2 * pin.row + 1;
    if (from !== null && wire.start) yield [from, row(wire.start)];
    if (to !== null && wire.end) yield [to, row(wire.end)];
    if (from !== null && first !== undefined) yield [from, 2 * first];
    if (to !== null && last !== undefined) yield [to, 2 * last];
    if (over !== null) yield* [[over, 2 * first], [over, 2 * last]] as [Side, number][];
  }

  /** Tracks of a gap: lines that leave stand near their column, those that enter near theirs, ordered to cross little. */
  private gapTracks(): void {
    const found = new Map<string, Map<string, number>>();
    const note = (pin: Pin, net: string, leaves: boolean, down: boolean): void => {
      const key = `${pin.row},${pin.gap}`;
      let tracks = found.get(key);
      if (!tracks) found.set(key, (tracks = new Map<string, number>()));
      // The farther the box from the channel, the farther the track of what leaves it; the nearer of what enters it.
      const order = leaves ? (down ? -pin.y : pin.y) : 1e6 + (down ? pin.y : -pin.y);
      const name = `${leaves ? ">" : "<"}${net}`;
      tracks.set(name, Math.max(tracks.get(name) ?? -Infinity, order));
    };
    for (const { wire, from, to, channels } of this.plans) {
      if (wire.start && from === null) note(wire.start, wire.net, true, channels[0] > wire.start.row);
      if (wire.end && to === null) note(wire.end, wire.net, false, channels[channels.length - 1] > wire.end.row);
    }
    for (const [key, tracks] of found) this.gaps.set(key, [...tracks].sort((p, q) => p[1] - q[1]).map(([name]) => name));
  }

  /** Width of the gap before column `gap` of a row. */
  gap(row: number, gap: number): number {
    const n = this.gaps.get(`${row},${gap}`)?.length ?? 0;
    return n < 2 ? GAP : Math.min(WIDEST, 18 + n * pitch(n));
  }

  /** Distance of a net's track from the left of its gap. */
  private track(pin: Pin, net: string, leaves: boolean): number {
    const tracks = this.gaps.get(`${pin.row},${pin.gap}`) ?? [];
    const at = tracks.indexOf(`${leaves ? ">" : "<"}${net}`);
    const width = this.gap(pin.row, pin.gap);
    return tracks.length === 1 ? (leaves ? width * 0.35 : width * 0.65) : 9 + ((width - 18) * at) / Math.max(1, tracks.length - 1);
  }

  /**
   * Give every net its lanes in the channels, now that the columns have their places; returns the heights of the
   * channels above each row, and below the last. `left` is where a gap of a row begins, `mirrored` turns an x of the
   * flow into one of the level.
   */
  settle(left: (row: number, gap: number) => number, mirrored: (row: number, x: number) => number, w: number): readonly number[] {
    this.xOf = (pin, net, leaves) => mirrored(pin.row, left(pin.row, pin.gap) + this.track(pin, net, leaves));
    this.w = w;
    const spans = Array.from({ length: this.shapes.length + 1 }, () => new Map<string, Span>());
    for (const plan of this.plans) {
      const { wire, from, to, channels, over } = plan;
      const ends = [this.endX(plan, true), this.endX(plan, false)];
      channels.forEach((channel, i) => {
        const a = i === 0 ? ends[0] : this.marginX(over as Side, wire.net);
        const b = i === channels.length - 1 ? ends[1] : this.marginX(over as Side, wire.net);
        for (const x of [a, b]) widen(spans[channel], wire.net, x);
        // What goes to a border runs on to it.
        if (!wire.start && from === 0 && i === 0) widen(spans[channel], wire.net, -this.margins[0]);
        if (!wire.end && to === 1 && i === channels.length - 1) widen(spans[channel], wire.net, w + this.margins[1]);
      });
    }
    this.lanes = spans.map((one) => pack(one, 6));
    this.heights = this.lanes.map((lanes, k) => {
      const n = count(lanes);
      const inner = k > 0 && k < this.shapes.length;
      return Math.max(inner ? LEAST : 0, n ? 16 + n * pitch(n) : 0);
    });
    return this.heights;
  }

  private xOf: (pin: Pin, net: string, leaves: boolean) => number = () => 0;
  private w = 0;

  private marginX(side: Side, net: string): number {
    const n = count(this.lanesOf[side]);
    const at = AIR + ((this.lanesOf[side].get(net) ?? 0) + 0.5) * pitch(n);
    return side ? this.w + at : -at;
  }

  /** Where a wire turns into its first channel, or out of its last one. */
  private endX({ wire, from, to }: Plan, first: boolean): number {
    const [pin, side] = first ? [wire.start, from] : [wire.end, to];
    return side === null ? this.xOf(pin as Pin, wire.net, first) : this.marginX(side, wire.net);
  }

  /** Height of a net's lane in a channel whose top is at `top`. */
  private lane(channel: number, net: string, top: number): number {
    const lanes = this.lanes[channel];
    const n = count(lanes);
    const step = pitch(n);
    return top + (this.heights[channel] - (n - 1) * step) / 2 + (lanes.get(net) ?? 0) * step;
  }

  /** Height at which a wire to or from the border meets it: straight to the box that faces it, else along its lane. */
  border(at: number, facing: number, tops: readonly number[]): number {
    const { wire, channels } = this.plans[at];
    const channel = wire.start ? channels[channels.length - 1] : channels[0];
    return channel === undefined ? facing : this.lane(channel, wire.net, tops[channel]);
  }

  /** The line of a wire from `start` to `end`; `tops` are the heights of the channels. */
  route(at: number, start: Omit<End, "dir">, end: Omit<End, "dir">, tops: readonly number[]): Route {
    const plan = this.plans[at];
    const { wire, channels, over } = plan;
    const xs = [this.endX(plan, true), ...(over === null ? [] : [this.marginX(over, wire.net)]), this.endX(plan, false)];
    const ys = [start.y, ...channels.map((channel) => this.lane(channel, wire.net, tops[channel])), end.y];
    const points = [start.x, start.y];
    // One more height than turns: without a channel both ends lie at the same margin.
    if (!channels.length) points.push(xs[0], start.y, xs[0], end.y);
    else xs.forEach((x, i) => points.push(x, ys[i], x, ys[i + 1]));
    points.push(end.x, end.y);
    return rounded(straight(points));
  }
}

/** Points without those that lie on the way between their neighbours. */
function straight(xy: readonly number[]): number[] {
  const kept = [xy[0], xy[1]];
  for (let i = 2; i < xy.length; i += 2) {
    const [x, y, nx, ny] = [xy[i], xy[i + 1], xy[i + 2], xy[i + 3]];
    const [px, py] = kept.slice(-2);
    const last = i + 2 >= xy.length;
    if (!last && ((Math.abs(px - x) < 0.05 && Math.abs(x - nx) < 0.05) || (Math.abs(py - y) < 0.05 && Math.abs(y - ny) < 0.05))) continue;
    kept.push(x, y);
  }
  return kept;
}

function widen(spans: Map<string, Span>, net: string, at: number): void {
  const span = spans.get(net);
  if (!span) spans.set(net, { lo: at, hi: at });
  else {
    span.lo = Math.min(span.lo, at);
    span.hi = Math.max(span.hi, at);
  }
}

/** A lane for each span, short ones first; two on one lane are more than `apart` from each other. */
function pack(spans: ReadonlyMap<string, Span>, apart: number): Map<string, number> {
  const lanes: Span[][] = [];
  const result = new Map<string, number>();
  for (const [net, span] of [...spans].sort(([, a], [, b]) => a.hi - a.lo - (b.hi - b.lo) || a.lo - b.lo)) {
    let at = lanes.findIndex((lane) => lane.every((other) => other.hi < span.lo - apart || other.lo > span.hi + apart));
    if (at < 0) at = lanes.push([]) - 1;
    lanes[at].push(span);
    result.set(net, at);
  }
  return result;
}

const count = (lanes: ReadonlyMap<string, number>): number => Math.max(-1, ...lanes.values()) + 1;
