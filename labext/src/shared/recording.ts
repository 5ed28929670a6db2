/** A recording as the views read it: statuses by row and call, causes, versions of sources, sums. */

import { Columns, type Read } from "./columns.ts";
import type { RawCall, RawCause, RawMode, RawRecording, RawReplay } from "./format.ts";
import { Graph } from "./graph.ts";
import { executed, PRUNED, RECOMPUTED } from "./statuses.ts";
import { t } from "./strings.ts";

export interface Cell {
  status: number;
  evidence: string;
  seconds: number;
  bytes: number;
  count: number;
  witness: number | null;
  causes: RawCause[];
  shape: string;
  device: string;
  into: string;
  /** False where the columns do not list the op: no fetch of the call needs it. */
  listed: boolean;
}

export interface Totals {
  /** Op executions (not bookkeeping) by status index. */
  counts: number[];
  /** Op seconds by status index. */
  seconds: number[];
  wall: number;
}

const EVIDENCE: Readonly<Record<string, string>> = { m: "measured", d: "derived", a: "assumed" };
const shift = (call: number | null, by: number): number | null => (call === null ? null : call + by);

let serials = 0;

/** What one way of executing the calls did: the recording itself (`run`), or a replay in another mode. */
export class Execution {
  /** Tells executions apart, also two of the same mode. */
  readonly serial = ++serials;
  readonly mode: string;
  readonly calls: readonly RawCall[];
  readonly raw: RawReplay;
  private readonly graphs: ReadonlyMap<number, Graph>;
  private readonly held: Columns[] = [];
  private readonly places = new Map<number, Int32Array>();
  private readonly statuses = new Map<number, Uint8Array>();
  private readonly sums = new Map<number, Totals>();
  private readonly bases = new Map<number, number>();

  constructor(mode: string, raw: RawReplay, graphs: ReadonlyMap<number, Graph>) {
    this.mode = mode;
    this.raw = raw;
    this.calls = raw.calls;
    this.graphs = graphs;
    const read: Read = new Map();
    for (const columns of raw.columns) this.held.push(new Columns(columns, this.held, read));
    for (const call of raw.calls) if (!this.bases.has(call.columns)) this.bases.set(call.columns, call.index);
  }

  graph(entry: number): Graph {
    return this.graphs.get(this.calls[entry].graph) ?? [...this.graphs.values()][0];
  }

  columns(entry: number): Columns {
    return this.held[this.calls[entry].columns];
  }

  /** Place of each row in the call's columns, -1 where they do not list it. */
  private place(entry: number): Int32Array {
    const key = this.calls[entry].columns;
    let place = this.places.get(key);
    if (!place) {
      const { op } = this.columns(entry);
      const { size } = this.graph(entry);
      // Where every op is listed in the order of the graph the rows are their places.
      const plain = op.length === size && op.every((row, i) => row === i);
      place = plain ? op : new Int32Array(size).fill(-1);
      if (!plain) for (let i = 0; i < op.length; i++) place[op[i]] = i;
      this.places.set(key, place);
      if (this.places.size > 64) this.places.delete(this.places.keys().next().value as number);
    }
    return place;
  }

  /** Status index of each row of the graph in a call; what the columns do not list is `pruned`. */
  status(entry: number): Uint8Array {
    const key = this.calls[entry].columns;
    let found = this.statuses.get(key);
    if (!found) {
      found = new Uint8Array(this.graph(entry).size).fill(PRUNED);
      const { op, status } = this.columns(entry);
      for (let i = 0; i < op.length; i++) found[op[i]] = status[i];
      this.statuses.set(key, found);
      if (this.statuses.size > 256) this.statuses.delete(this.statuses.keys().next().value as number);
    }
    return found;
  }

  /** Op seconds of the rows in a call, zero where an op did not run. */
  seconds(entry: number): (row: number) => number {
    const place = this.place(entry);
    const { seconds } = this.columns(entry);
    return (row) => (place[row] < 0 ? 0 : seconds[place[row]]);
  }

  /**
   * A key for each row: rows with equal keys have the same status, witness, target and causes in the call. Few causes
   * at once make a number, which 55,000 rows need.
   */
  kinds(entry: number): (row: number) => number | string {
    const place = this.place(entry);
    const { status, witness, cause, into } = this.columns(entry);
    const causes = this.raw.causes.length + 1;
    const calls = this.calls[this.calls.length - 1].index + 2;
    return (row) => {
      const at = place[row];
      if (at < 0) return -1;
      const [from, to] = [cause.at[at], cause.at[at + 1]];
      if (to - from > 1) return `${status[at]}|${witness[at]}|${into.length ? into[at] : -1}|${cause.list.subarray(from, to).join()}`;
      const key = (status[at] * calls + 1 + (witness[at] ?? -1)) * causes + (to > from ? 1 + cause.list[from] : 0);
      return into.length && into[at] >= 0 ? `${key}|${into[at]}` : key;
    };
  }

  starts(entry: number): (row: number) => number {
    const place = this.place(entry);
    const { start } = this.columns(entry);
    return (row) => (place[row] < 0 || !start.length ? -1 : start[place[row]]);
  }

  cell(entry: number, row: number): Cell {
    const at = this.place(entry)[row];
    const columns = this.columns(entry);
    if (at < 0)
      return {
        status: PRUNED, evidence: "derived", seconds: 0, bytes: 0, count: 0, witness: null, causes: [], shape: "",
        device: "", into: "", listed: false,
      };
    const call = this.calls[entry];
    const by = call.index - (columns.base ?? this.bases.get(call.columns) ?? call.index);
    const pick = (list: Int32Array, names: readonly string[] | undefined): string => (list.length && list[at] >= 0 ? (names?.[list[at]] ?? "") : "");
    const { cause } = columns;
    return {
      status: columns.status[at],
      evidence: EVIDENCE[columns.evidence[at]] ?? "assumed",
      seconds: columns.seconds[at],
      bytes: columns.bytes[at],
      count: columns.count[at],
      witness: shift(columns.witness[at], by),
      causes: Array.from(cause.list.subarray(cause.at[at], cause.at[at + 1]), (one) => this.cause(one, by)),
      shape: pick(columns.shape, this.raw.shapes),
      device: pick(columns.device, this.raw.devices),
      into: pick(columns.into, this.graph(entry).name),
      listed: true,
    };
  }

  private cause(index: number, by: number): RawCause {
    const cause = this.raw.causes[index];
    if (!cause) return { kind: "", source: "", call: null, text: "" };
    const call = shift(cause.call, by);
    return { ...cause, call, text: cause.text.replaceAll("{call}", String(call)) };
  }

  /** The call that a served value comes from, where only one earlier call can have made it; else -1. */
  madeBy(entry: number, row: number): number {
    let found = -1;
    for (let e = 0; e < entry; e++) {
      if (this.calls[e].graph !== this.calls[entry].graph || this.calls[e].session !== this.calls[entry].session || !executed(this.status(e)[row])) continue;
      if (found >= 0 || (this.calls[e].repeat ?? 1) > 1) return -1;
      found = this.calls[e].index;
    }
    return found;
  }

  /** Sums of one call, bookkeeping ops left out. */
  totals(entry: number): Totals {
    const key = this.calls[entry].columns;
    let found = this.sums.get(key);
    if (!found) {
      found = { counts: new Array<number>(11).fill(0), seconds: new Array<number>(11).fill(0), wall: 0 };
      const { op, status, seconds, count } = this.columns(entry);
      const { bookkeeping } = this.graph(entry);
      for (let i = 0; i < op.length; i++) {
        if (bookkeeping[op[i]]) continue;
        const index = status[i];
        found.counts[index] += Math.max(count[i], 1);
        found.seconds[index] += seconds[i];
      }
      this.sums.set(key, found);
    }
    return { ...found, wall: this.calls[entry].seconds };
  }

  /** Sums over all calls, repeats counted. */
  all(): Totals & { calls: number } {
    const sum = { counts: new Array<number>(11).fill(0), seconds: new Array<number>(11).fill(0), wall: 0, calls: 0 };
    this.calls.forEach((call, entry) => {
      const times = call.repeat ?? 1;
      const one = this.totals(entry);
      sum.calls += times;
      sum.wall += one.wall * times;
      for (let s = 0; s < 11; s++) {
        sum.counts[s] += one.counts[s] * times;
        sum.seconds[s] += one.seconds[s] * times;
      }
    });
    return sum;
  }

  /** The call's number as people read it: `3`, or `3–102` where equal calls are one entry. */
  label(entry: number): string {
    const { index, repeat = 1 } = this.calls[entry];
    return repeat > 1 ? `${index}–${index + repeat - 1}` : String(index);
  }

  /** Where a call stands among all: calls are numbered from 0, so that the last of six is `Call 5 of 0–5`. */
  among(entry: number): string {
    const first = this.calls[0].index;
    const { index, repeat = 1 } = this.calls[this.calls.length - 1];
    const call = this.label(entry);
    return first === index + repeat - 1 || this.calls.length === 1 ? t("Call {call}", { call }) : t("Call {call} of {first}–{last}", { call, first, last: index + repeat - 1 });
  }

  /** Entry that holds call `index`, -1 if none does. */
  entry(index: number): number {
    return this.calls.findIndex((call) => index >= call.index && index < call.index + (call.repeat ?? 1));
  }

  /** Entry of the previous call on the same graph, -1 if this is the first. */
  previous(entry: number): number {
    for (let i = entry - 1; i >= 0; i--) if (this.calls[i].graph === this.calls[entry].graph) return i;
    return -1;
  }

  /** Whether the op ran and its value was known: what a cache would have saved. */
  redundant(entry: number): number {
    return this.totals(entry).seconds[RECOMPUTED];
  }

  ran(entry: number): number {
    return this.totals(entry).counts.reduce((sum, n, status) => (executed(status) ? sum + n : sum), 0);
  }
}

export class Recording {
  readonly raw: RawRecording;
  readonly graphs = new Map<number, Graph>();
  readonly executions = new Map<string, Execution>();
  readonly results = new Map<string, RawMode>();
  /** The calls repeated as they were: warm and untraced as the replays of modes, whose times can be compared with these. */
  again: Execution | null = null;

  constructor(raw: RawRecording) {
    this.raw = raw;
    for (const graph of raw.graphs) this.graphs.set(graph.id, new Graph(graph));
    this.executions.set("run", new Execution("run", raw, this.graphs));
    for (const mode of raw.modes ?? []) this.results.set(mode.mode, mode);
    for (const [mode, replay] of Object.entries(raw.replays ?? {})) this.add(mode, replay);
  }

  get run(): Execution {
    return this.executions.get("run") as Execution;
  }

  add(mode: string, replay: RawReplay): void {
    if (!replay.calls.length) return;
    const execution = new Execution(mode, replay, this.graphs);
    if (mode === "run") this.again = execution;
    else this.executions.set(mode, execution);
  }

  /** The line of user code at an index, as `cell 3, line 4` and its text. */
  line(index: number): { where: string; text: string } | null {
    const line = index >= 0 ? this.raw.lines[index] : undefined;
    return line ? { where: `${line[0]}, line ${line[1]}`, text: line[2] } : null;
  }

  /** Rows that some call lists or fetches, for one graph: what the pictures show. All rows if no call lists any. */
  used(graph: Graph): { shown: Uint8Array; fetched: Set<number> } {
    const shown = new Uint8Array(graph.size);
    const fetched = new Set<number>();
    const seen = new Set<number>();
    let any = false;
    for (const execution of this.executions.values())
      execution.calls.forEach((call, entry) => {
        if (call.graph !== graph.id) return;
        for (const fetch of call.fetches) {
          const row = graph.producer(fetch);
          if (row >= 0) fetched.add(row);
        }
        if (execution.mode === "run" && seen.has(call.columns)) return;
        seen.add(call.columns);
        for (const row of execution.columns(entry).op) {
          shown[row] = 1;
          any = true;
        }
      });
    if (!any) shown.fill(1);
    return { shown, fetched };
  }

  /** Version label of each source (by its name) in a call of the recording, and whether it is new against the call before. */
  versions(entry: number, execution: Execution = this.run): Map<string, { label: string; fresh: boolean | null }> {
    const labels = (e: number): Map<number, string> => new Map(e < 0 ? [] : (execution.calls[e].versions ?? []));
    const before = labels(execution.previous(entry));
    const result = new Map<string, { label: string; fresh: boolean | null }>();
    for (const [source, label] of execution.calls[entry].versions ?? []) {
      const name = this.raw.sources?.[source]?.name;
      if (name === undefined) continue;
      result.set(name, { label, fresh: before.has(source) ? before.get(source) !== label : null });
    }
    return result;
  }
}
