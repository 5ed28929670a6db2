/** One graph as typed columns: names, types, data and control edges by row, and which ops dock on their consumers. */

import type { RawGraph } from "./format.ts";
import { BOOKKEEPING } from "./statuses.ts";
import { integers, type Lists, type Names, numbered, type Packed, unpack, unpackLists, unpackNames, unpackTable } from "./unpack.ts";

const SOURCE_TYPE =
  /^(Placeholder|PlaceholderV2|PlaceholderWithDefault|Const|VarHandleOp|VariableV2|Variable|IteratorV2|Iterator|AnonymousIteratorV\d|HashTableV2|MutableHashTableV2|FIFOQueueV2|OneShotIterator)$/;
const HANDLE_TYPE = /^(VarHandleOp|VariableV2|Variable)$/;
/** So many names are looked for one by one before a table of all is made. */
const FEW = 64;

/** Rows of producers by row, repeated and unknown ones left out, turned round: rows of consumers. */
function turned({ at, list }: Lists): Lists {
  const n = at.length - 1;
  const result: Lists = { at: new Int32Array(n + 1), list: new Int32Array(list.length) };
  for (const row of list) result.at[row + 1] += 1;
  for (let r = 0; r < n; r++) result.at[r + 1] += result.at[r];
  const next = result.at.slice(0, n);
  for (let row = 0; row < n; row++) for (let i = at[row]; i < at[row + 1]; i++) result.list[next[list[i]]++] = row;
  return result;
}

export class Graph {
  readonly id: number;
  readonly names: Names;
  /** Types and which each row has. */
  readonly types: readonly string[];
  readonly typeOf: Int32Array;
  /** Data edges: row -> producers, row -> consumers. */
  readonly producers: Lists;
  readonly consumers: Lists;
  /** Control edges: row -> ops that it waits for. */
  readonly waits: Lists;
  readonly bookkeeping: Uint8Array;
  private readonly raw: RawGraph;
  private readonly variables: Int32Array;
  private readonly sought = new Map<string, number>();
  private rows: Map<string, number> | null = null;
  private texts: string[] | null = null;
  private typeTexts: string[] | null = null;
  private lines: Int32Array | null = null;
  private tensors: { lists: Lists; outputs: Int32Array } | null = null;

  constructor(raw: RawGraph) {
    this.raw = raw;
    this.id = raw.id;
    this.names = unpackNames(raw.name);
    const types = unpackTable(raw.type);
    this.types = types.table;
    this.typeOf = types.at;
    const kept = this.types.map((type) => (BOOKKEEPING.has(type) ? 1 : 0));
    this.bookkeeping = Uint8Array.from(this.typeOf, (type) => kept[type]);
    const stamp = new Int32Array(this.size);
    this.producers = this.edges(raw.inputs, stamp, 0);
    this.consumers = turned(this.producers);
    this.waits = this.edges(raw.control, stamp, this.size);
    this.variables = this.findVariables();
  }

  get size(): number {
    return this.typeOf.length;
  }

  /** Names in full. */
  get name(): readonly string[] {
    this.texts ??= unpack(this.raw.name);
    return this.texts;
  }

  get type(): readonly string[] {
    this.typeTexts ??= unpack(this.raw.type);
    return this.typeTexts;
  }

  get line(): Int32Array {
    this.lines ??= integers(this.raw.line);
    return this.lines;
  }

  /** Edges of a packed or plain list of names, each once a row; a control edge beside a data edge is none. */
  private edges(form: unknown, stamp: Int32Array, offset: number): Lists {
    const n = this.size;
    const packed = !Array.isArray(form) && "rows" in (form as object) ? unpackLists((form as { rows: Packed<number[]> }).rows) : null;
    const lists = packed ? null : unpack(form as Packed<string[]>);
    const at = new Int32Array(n + 1);
    const list: number[] = [];
    // Marks of data edges stay while control edges are read: `producers` are marked again for each row.
    for (let row = 0; row < n; row++) {
      const mark = offset + row + 1;
      if (offset) for (let i = this.producers.at[row]; i < this.producers.at[row + 1]; i++) stamp[this.producers.list[i]] = mark;
      const count = packed ? packed.at[row + 1] - packed.at[row] : (lists?.[row] ?? []).length;
      for (let k = 0; k < count; k++) {
        const from = packed ? row - packed.list[packed.at[row] + k] : this.producer((lists as string[][])[row][k]);
        if (from < 0 || from >= n || stamp[from] === mark) continue;
        stamp[from] = mark;
        list.push(from);
      }
      at[row + 1] = list.length;
    }
    return { at, list: Int32Array.from(list) };
  }

  /** Row of the op of a name, -1 if there is none. */
  find(name: string): number {
    if (this.rows || this.sought.size > FEW || this.size < 2000) {
      this.rows ??= new Map(this.name.map((text, row) => [text, row]));
      return this.rows.get(name) ?? -1;
    }
    let found = this.sought.get(name);
    if (found === undefined) this.sought.set(name, (found = this.seek(name)));
    return found;
  }

  /** Look for a name without a table of all names. */
  private seek(name: string): number {
    const cut = name.lastIndexOf("/") + 1;
    const [stem, number] = numbered(name.slice(cut));
    const { names } = this;
    const [scopeAt, stemAt] = [names.scopes.indexOf(name.slice(0, cut)), names.stems.indexOf(stem)];
    if (scopeAt < 0 || stemAt < 0) return -1;
    for (let row = 0; row < this.size; row++)
      if (names.stem[row] === stemAt && names.scope[row] === scopeAt && names.number[row] === number) return row;
    return -1;
  }

  /** Row of the op that makes a tensor (`"x:0"`, or an op's name), -1 if it is not in the graph. */
  producer(tensor: string): number {
    const colon = tensor.lastIndexOf(":");
    const row = this.find(colon > 0 ? tensor.slice(0, colon) : tensor);
    return row < 0 && colon > 0 ? this.find(tensor) : row;
  }

  /** Name of an op without its scope. */
  label(row: number): string {
    const number = this.names.number[row];
    return this.names.stems[this.names.stem[row]] + (number < 0 ? "" : `_${number}`);
  }

  /** Names of the tensors that an op takes. */
  inputs(row: number): readonly string[] {
    const form = this.raw.inputs as Record<string, unknown>;
    if (Array.isArray(form) || !("rows" in form)) {
      this.plain ??= unpack(form as Packed<string[]>);
      return this.plain[row];
    }
    this.tensors ??= { lists: unpackLists(form.rows as Packed<number[]>), outputs: integers(form.outputs as Packed<number>) };
    const { lists, outputs } = this.tensors;
    const others = form.others as string[];
    return Array.from(lists.list.subarray(lists.at[row], lists.at[row + 1]), (back, k) => {
      const from = row - back;
      return from < this.size ? `${this.name[from]}:${outputs[lists.at[row] + k]}` : others[from - this.size];
    });
  }

  private plain: string[][] | null = null;

  from(row: number): Int32Array {
    return this.producers.list.subarray(this.producers.at[row], this.producers.at[row + 1]);
  }

  to(row: number): Int32Array {
    return this.consumers.list.subarray(this.consumers.at[row], this.consumers.at[row + 1]);
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
    const source = this.types.map((type) => SOURCE_TYPE.test(type));
    const result = new Uint8Array(this.size);
    for (let row = 0; row < this.size; row++) {
      const used = this.consumers.at[row + 1] > this.consumers.at[row];
      if (used && !keep.has(row) && (source[this.typeOf[row]] || this.variables[row] >= 0)) result[row] = 1;
    }
    return result;
  }

  /** Row of the variable that `row` is or plainly reads, -1 if neither. */
  variable(row: number): number {
    return this.variables[row];
  }

  private findVariables(): Int32Array {
    const handle = this.types.map((type) => HANDLE_TYPE.test(type));
    const [reads, identity] = [this.types.indexOf("ReadVariableOp"), this.types.indexOf("Identity")];
    const { stems, stem, number } = this.names;
    return Int32Array.from(this.typeOf, (type, row) => {
      if (handle[type]) return row;
      const read = type === reads || (type === identity && number[row] < 0 && stems[stem[row]] === "read" && this.names.scopes[this.names.scope[row]] !== "");
      if (read) for (const from of this.from(row)) if (handle[this.typeOf[from]]) return from;
      return -1;
    });
  }
}
