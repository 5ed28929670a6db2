/** One graph as typed columns: names, types, data and control edges by row, and which ops dock on their consumers. */

import type { RawGraph } from "./format.ts";
import { BOOKKEEPING } from "./statuses.ts";
import { type Inputs, unpackInputs } from "./unpack.ts";

/** Compressed rows: the neighbours of row `r` are `list[at[r]] .. list[at[r + 1]]`. */
export interface Adjacency {
  at: Int32Array;
  list: Int32Array;
}

const SOURCE_TYPE =
  /^(Placeholder|PlaceholderV2|PlaceholderWithDefault|Const|VarHandleOp|VariableV2|Variable|IteratorV2|Iterator|AnonymousIteratorV\d|HashTableV2|MutableHashTableV2|FIFOQueueV2|OneShotIterator)$/;
const HANDLE_TYPE = /^(VarHandleOp|VariableV2|Variable)$/;

function compress(pairs: number[], rows: number, from: 0 | 1): Adjacency {
  const at = new Int32Array(rows + 1);
  for (let i = from; i < pairs.length; i += 2) at[pairs[i] + 1] += 1;
  for (let r = 0; r < rows; r++) at[r + 1] += at[r];
  const next = at.slice(0, rows);
  const list = new Int32Array(pairs.length / 2);
  for (let i = 0; i < pairs.length; i += 2) list[next[pairs[i + from]]++] = pairs[i + 1 - from];
  return { at, list };
}

export class Graph {
  readonly id: number;
  readonly name: readonly string[];
  readonly type: readonly string[];
  readonly line: readonly number[];
  /** Data edges: row -> producers, row -> consumers. */
  readonly producers: Adjacency;
  readonly consumers: Adjacency;
  /** Control edges: row -> ops that it waits for. */
  readonly waits: Adjacency;
  readonly bookkeeping: Uint8Array;
  private readonly tensors: Inputs;
  private rows: Map<string, number> | null = null;

  constructor(raw: RawGraph) {
    this.id = raw.id;
    this.name = raw.name;
    this.type = raw.type;
    this.line = raw.line;
    this.bookkeeping = Uint8Array.from(raw.type, (type) => (BOOKKEEPING.has(type) ? 1 : 0));
    this.tensors = unpackInputs(raw.inputs, raw.name, (tensor) => this.producer(tensor));
    const data: number[] = [];
    const control: number[] = [];
    for (let row = 0; row < raw.name.length; row++) {
      const seen: number[] = [];
      for (const from of this.tensors.rows[row] ?? []) {
        if (from >= 0 && !seen.includes(from)) {
          seen.push(from);
          data.push(from, row);
        }
      }
      for (const op of raw.control[row] ?? []) {
        const from = this.row.get(op) ?? -1;
        if (from >= 0 && !seen.includes(from)) {
          seen.push(from);
          control.push(from, row);
        }
      }
    }
    this.producers = compress(data, raw.name.length, 1);
    this.consumers = compress(data, raw.name.length, 0);
    this.waits = compress(control, raw.name.length, 1);
  }

  /** Op name -> row. */
  get row(): ReadonlyMap<string, number> {
    this.rows ??= new Map(this.name.map((name, row) => [name, row]));
    return this.rows;
  }

  get size(): number {
    return this.name.length;
  }

  /** Row of the op that makes a tensor (`"x:0"`, or an op's name), -1 if it is not in the graph. */
  producer(tensor: string): number {
    const colon = tensor.lastIndexOf(":");
    return this.row.get(colon > 0 ? tensor.slice(0, colon) : tensor) ?? this.row.get(tensor) ?? -1;
  }

  inputs(row: number): readonly string[] {
    return this.tensors.names(row);
  }

  *from(row: number): Iterable<number> {
    const { at, list } = this.producers;
    for (let i = at[row]; i < at[row + 1]; i++) yield list[i];
  }

  *to(row: number): Iterable<number> {
    const { at, list } = this.consumers;
    for (let i = at[row]; i < at[row + 1]; i++) yield list[i];
  }

  /** Rows upstream (`back`) or downstream of `start`, itself included, over data edges. */
  reach(start: number, back: boolean): Set<number> {
    const found = new Set([start]);
    for (const row of found) for (const next of back ? this.from(row) : this.to(row)) found.add(next);
    return found;
  }

  /**
   * Which ops dock on their consumers instead of taking a place of their own: sources (feeds, variables, constants)
   * and plain reads of variables. One that nobody uses or that is in `keep` (fetched) stays a node.
   */
  docked(keep: ReadonlySet<number>): Uint8Array {
    const result = new Uint8Array(this.size);
    for (let row = 0; row < this.size; row++) {
      const used = this.consumers.at[row + 1] > this.consumers.at[row];
      if (used && !keep.has(row) && (SOURCE_TYPE.test(this.type[row]) || this.variable(row) >= 0)) result[row] = 1;
    }
    return result;
  }

  /** Row of the variable that `row` is or plainly reads, -1 if neither. */
  variable(row: number): number {
    if (HANDLE_TYPE.test(this.type[row])) return row;
    const reads = this.type[row] === "ReadVariableOp" || (this.type[row] === "Identity" && this.name[row].endsWith("/read"));
    if (!reads) return -1;
    for (const from of this.from(row)) if (HANDLE_TYPE.test(this.type[from])) return from;
    return -1;
  }
}
