/** The columns of one call, each read from its packed form when it is first asked for. */

import type { RawColumns } from "./format.ts";
import { statusIndices } from "./statuses.ts";
import { integers, letters, type Lists, numbers, type Packed, unpack, unpackLists } from "./unpack.ts";

/** Columns with equal lists share what was read of them. */
export type Read = Map<unknown, unknown>;

export class Columns {
  readonly base: number | undefined;
  private readonly raw: Record<string, unknown>;
  private readonly read: Read;

  /** `earlier` are the columns that this one may refer to by their place. */
  constructor(raw: RawColumns, earlier: readonly Columns[], read: Read) {
    this.raw = { ...raw };
    this.base = raw.base;
    this.read = read;
    for (const [key, value] of Object.entries(raw))
      if (value !== null && typeof value === "object" && "as" in value) this.raw[key] = earlier[value.as as number].raw[key];
  }

  private field<T>(key: string, reader: (form: never) => T): T {
    const form = this.raw[key];
    // Equal texts are equal columns; other forms are known by identity.
    const name = typeof form === "string" ? `${key}|${form}` : form;
    if (form === undefined) return reader(form as never);
    let found = this.read.get(name);
    if (found === undefined) this.read.set(name, (found = reader(form as never)));
    return found as T;
  }

  get op(): Int32Array {
    return this.field("op", integers);
  }
  /** Indices of statuses. */
  get status(): Uint8Array {
    return this.field("status", (form) => statusIndices(letters(form)));
  }
  get evidence(): string {
    return this.field("evidence", letters);
  }
  get seconds(): Float64Array {
    return this.field("seconds", numbers);
  }
  get bytes(): Float64Array {
    return this.field("bytes", numbers);
  }
  get count(): Float64Array {
    return this.field("count", numbers);
  }
  get witness(): (number | null)[] {
    return this.field("witness", (form: Packed<number | null>) => unpack(form));
  }
  get cause(): Lists {
    return this.field("cause", unpackLists);
  }
  get into(): Int32Array {
    return this.field("into", integers);
  }
  get shape(): Int32Array {
    return this.field("shape", integers);
  }
  get start(): Float64Array {
    return this.field("start", numbers);
  }
  get device(): Int32Array {
    return this.field("device", integers);
  }
}
