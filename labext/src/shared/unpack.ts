/** Packed lists of large recordings (see `cachelab/packing.py`), read back into plain arrays. */

export type Packed<T> = T[] | Record<string, unknown>;

const SURROGATE = /[\ud800-\udfff]/;

/** The first `n` characters as Python counts them. */
const beginning = (text: string, n: number): string => (SURROGATE.test(text) ? [...text].slice(0, n).join("") : text.slice(0, n));

const BASE = 46;
const VALUES = new Int16Array(128).fill(-1);
{
  const codes: number[] = [];
  for (let code = 35; code < 127; code++) if (code !== 92) codes.push(code);
  [...codes, 33].forEach((code, value) => (VALUES[code] = value));
}

/** Whole numbers in base 46: the first 46 characters end a number, the next 46 say that more digits follow. */
function digits(text: string): number[] {
  const list: number[] = [];
  let number = 0;
  for (let i = 0; i < text.length; i++) {
    const value = VALUES[text.charCodeAt(i)];
    number = number * BASE + (value % BASE);
    if (value >= BASE) continue;
    list.push(number % 2 === 0 ? number / 2 : -(number + 1) / 2);
    number = 0;
  }
  return list;
}

/** The list that a packed form stands for; throws on a form of a later version. */
export function unpack<T>(form: Packed<T> | undefined): T[] {
  if (form === undefined) return [];
  if (Array.isArray(form)) return form;
  if ("runs" in form) {
    const runs = form.runs as (T | number)[];
    const list: T[] = [];
    for (let i = 0; i < runs.length; i += 2) for (let k = runs[i + 1] as number; k > 0; k--) list.push(runs[i] as T);
    return list;
  }
  if ("delta" in form) {
    let sum = 0;
    return unpack(form.delta as Packed<number>).map((step) => (sum += step)) as T[];
  }
  if ("digits" in form) return digits(form.digits as string) as T[];
  if ("table" in form) {
    const table = unpack(form.table as Packed<T>);
    return unpack(form.at as Packed<number>).map((index) => table[index]);
  }
  if ("paths" in form) {
    const stems = unpack(form.stems as Packed<string>);
    const numbers = unpack(form.numbers as Packed<number>);
    return unpack(form.paths as Packed<string>).map((path, i) => path + stems[i] + (numbers[i] < 0 ? "" : `_${numbers[i]}`)) as T[];
  }
  if ("scaled" in form) {
    // Divide, so that the nearest decimal number comes back and not one next to it.
    const scale = Math.round(1 / (form.scaled as number));
    return unpack(form.of as Packed<number>).map((number) => number / scale) as T[];
  }
  if ("front" in form) {
    let last = "";
    const rest = form.rest as string[];
    return unpack(form.front as Packed<number>).map((shared, i) => (last = beginning(last, shared) + rest[i])) as T[];
  }
  if ("lists" in form) {
    const flat = unpack(form.of as Packed<unknown>);
    let at = 0;
    return unpack(form.lists as Packed<number>).map((length) => flat.slice(at, (at += length))) as T[];
  }
  throw new Error("This recording holds a packed list of an unknown form. Update CacheLab.");
}

/** Inputs of a graph: rows of their producers, -1 for one outside, and the tensor names when they are asked for. */
export interface Inputs {
  rows: number[][];
  names(row: number): string[];
}

/** Read the inputs of a graph, plain or packed (how many rows back each producer is, and which output of it). */
export function unpackInputs(form: unknown, names: readonly string[], producer: (tensor: string) => number): Inputs {
  const packed = form as Record<string, unknown>;
  if (Array.isArray(form) || !("rows" in packed)) {
    const lists = unpack(form as Packed<string[]>);
    return { rows: lists.map((list) => list.map(producer)), names: (row) => lists[row] };
  }
  const outputs = unpack(packed.outputs as Packed<number>);
  const others = packed.others as string[];
  const backs = unpack(packed.rows as Packed<number[]>);
  const first = new Int32Array(backs.length + 1);
  backs.forEach((list, row) => (first[row + 1] = first[row] + list.length));
  const name = (at: number, i: number): string => (at < names.length ? `${names[at]}:${outputs[i]}` : others[at - names.length]);
  return {
    rows: backs.map((list, row) => list.map((back) => (row - back < names.length ? row - back : -1))),
    names: (row) => backs[row].map((back, k) => name(row - back, first[row] + k)),
  };
}
