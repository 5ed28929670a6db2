/** Packed lists of large recordings (see `cachelab/packing.py`), read as plain or typed arrays when they are asked for. */

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
function digits(text: string): Float64Array {
  let n = 0;
  for (let i = 0; i < text.length; i++) if (VALUES[text.charCodeAt(i)] < BASE) n += 1;
  const list = new Float64Array(n);
  let number = 0;
  let at = 0;
  for (let i = 0; i < text.length; i++) {
    const value = VALUES[text.charCodeAt(i)];
    number = number * BASE + (value % BASE);
    if (value >= BASE) continue;
    list[at++] = number % 2 === 0 ? number / 2 : -(number + 1) / 2;
    number = 0;
  }
  return list;
}

/** A list of numbers. */
export function numbers(form: Packed<number> | undefined): Float64Array {
  if (form === undefined) return new Float64Array(0);
  if (Array.isArray(form)) return Float64Array.from(form);
  if ("runs" in form) {
    const runs = form.runs as number[];
    let n = 0;
    for (let i = 1; i < runs.length; i += 2) n += runs[i];
    const list = new Float64Array(n);
    let at = 0;
    for (let i = 0; i < runs.length; i += 2) list.fill(runs[i], at, (at += runs[i + 1]));
    return list;
  }
  if ("delta" in form) {
    const list = numbers(form.delta as Packed<number>);
    for (let i = 1; i < list.length; i++) list[i] += list[i - 1];
    return list;
  }
  if ("digits" in form) return digits(form.digits as string);
  if ("table" in form) {
    const table = numbers(form.table as Packed<number>);
    return numbers(form.at as Packed<number>).map((index) => table[index]);
  }
  if ("scaled" in form) {
    // Divide, so that the nearest decimal number comes back and not one next to it.
    const scale = Math.round(1 / (form.scaled as number));
    return numbers(form.of as Packed<number>).map((number) => number / scale);
  }
  throw unknown();
}

export const integers = (form: Packed<number> | undefined): Int32Array => Int32Array.from(numbers(form));

const unknown = (): Error => new Error("This recording holds a packed list of an unknown form. Update CacheLab.");

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
  if ("table" in form) {
    const table = unpack(form.table as Packed<T>);
    return Array.from(numbers(form.at as Packed<number>), (index) => table[index]);
  }
  if ("paths" in form) {
    const { scope, scopes, stem, stems, number } = unpackNames(form);
    return Array.from(scope, (at, row) => scopes[at] + stems[stem[row]] + (number[row] < 0 ? "" : `_${number[row]}`)) as T[];
  }
  if ("front" in form) {
    let last = "";
    const rest = form.rest as string[];
    return Array.from(numbers(form.front as Packed<number>), (shared, i) => (last = beginning(last, shared) + rest[i])) as T[];
  }
  if ("lists" in form) {
    const flat = unpack(form.of as Packed<unknown>);
    let at = 0;
    return Array.from(numbers(form.lists as Packed<number>), (length) => flat.slice(at, (at += length))) as T[];
  }
  return Array.from(numbers(form as Packed<number>)) as T[];
}

/** Letters as one string. */
export function letters(form: unknown): string {
  if (typeof form === "string") return form;
  const { runs } = form as { runs?: (string | number)[] };
  if (!runs) return unpack(form as Packed<string>).join("");
  let text = "";
  for (let i = 0; i < runs.length; i += 2) text += (runs[i] as string).repeat(runs[i + 1] as number);
  return text;
}

/** Lists of numbers, one after the other: list `i` is `list[at[i]] .. list[at[i + 1]]`. */
export interface Lists {
  at: Int32Array;
  list: Int32Array;
}

export function unpackLists(form: Packed<number[]>): Lists {
  if (!Array.isArray(form) && "lists" in form) {
    const lengths = numbers(form.lists as Packed<number>);
    const at = new Int32Array(lengths.length + 1);
    for (let i = 0; i < lengths.length; i++) at[i + 1] = at[i] + lengths[i];
    return { at, list: integers(form.of as Packed<number>) };
  }
  const lists = unpack(form);
  const at = new Int32Array(lists.length + 1);
  lists.forEach((one, i) => (at[i + 1] = at[i] + one.length));
  const list = new Int32Array(at[lists.length]);
  lists.forEach((one, i) => list.set(one, at[i]));
  return { at, list };
}

/** A table of strings and which of them each row has. */
export interface Table {
  table: string[];
  at: Int32Array;
}

export function unpackTable(form: Packed<string>): Table {
  if (!Array.isArray(form) && "table" in form) return { table: unpack(form.table as Packed<string>), at: integers(form.at as Packed<number>) };
  const index = new Map<string, number>();
  const at = Int32Array.from(unpack(form), (text) => {
    let found = index.get(text);
    if (found === undefined) index.set(text, (found = index.size));
    return found;
  });
  return { table: [...index.keys()], at };
}

/** Names of ops in three parts, `scope/` + `stem` + `_number` (-1: none), so that 55,000 cost few strings. */
export interface Names {
  scopes: string[];
  scope: Int32Array;
  stems: string[];
  stem: Int32Array;
  number: Int32Array;
}

const NUMBERED = /^(.*?)(?:_(0|[1-9]\d{0,8}))?$/s;

/** A name without its scope: the stem, and the number or -1. */
export function numbered(label: string): [stem: string, number: number] {
  const [, stem, number] = NUMBERED.exec(label) as RegExpExecArray;
  return number === undefined ? [stem, -1] : [stem, Number(number)];
}

export function unpackNames(form: Packed<string>): Names {
  if (!Array.isArray(form) && "paths" in form) {
    const paths = unpackTable(form.paths as Packed<string>);
    const stems = unpackTable(form.stems as Packed<string>);
    return { scopes: paths.table, scope: paths.at, stems: stems.table, stem: stems.at, number: integers(form.numbers as Packed<number>) };
  }
  const names = unpack(form);
  const parts = names.map((name) => numbered(name.slice(name.lastIndexOf("/") + 1)));
  const scopes = unpackTable(names.map((name) => name.slice(0, name.lastIndexOf("/") + 1)));
  const stems = unpackTable(parts.map(([stem]) => stem));
  return { scopes: scopes.table, scope: scopes.at, stems: stems.table, stem: stems.at, number: Int32Array.from(parts, ([, number]) => number) };
}
