/** Packed lists of large recordings (see `cachelab/packing.py`), read back into plain arrays. */

export type Packed<T> = T[] | Record<string, unknown>;

const SURROGATE = /[\ud800-\udfff]/;

/** The first `n` characters as Python counts them. */
const beginning = (text: string, n: number): string => (SURROGATE.test(text) ? [...text].slice(0, n).join("") : text.slice(0, n));

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
  if ("table" in form) {
    const table = form.table as T[];
    return unpack(form.at as Packed<number>).map((index) => table[index]);
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

/** Inputs of a large graph: how many rows back each producer is, and which output of it. */
export function unpackInputs(form: unknown, names: readonly string[]): string[][] {
  const packed = form as Record<string, unknown>;
  if (Array.isArray(form) || !("rows" in packed)) return unpack(form as Packed<string[]>);
  const outputs = unpack(packed.outputs as Packed<number>);
  const others = packed.others as string[];
  let at = 0;
  return unpack(packed.rows as Packed<number[]>).map((backs, row) =>
    backs.map((back) => {
      const producer = row - back;
      const output = outputs[at++];
      return producer < names.length ? `${names[producer]}:${output}` : others[producer - names.length];
    }),
  );
}
