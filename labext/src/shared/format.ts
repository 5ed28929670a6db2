/** The JSON of a recording, format `cachelab.recording` version 1, as the kernel sends it. */

import type { Packed } from "./unpack.ts";

export interface RawCause {
  kind: string;
  source: string;
  call: number | null;
  text: string;
  may?: boolean;
}

/** Lists may be packed; `Columns` reads them. */
export interface RawColumns {
  op: Packed<number>;
  status: unknown;
  evidence: unknown;
  seconds: Packed<number>;
  bytes: Packed<number>;
  count: Packed<number>;
  witness: Packed<number | null>;
  cause: Packed<number[]>;
  into?: Packed<number>;
  shape?: Packed<number>;
  start?: Packed<number>;
  device?: Packed<number>;
  /** Call that the absolute numbers hold for; for another call of the same columns they shift with it. */
  base?: number;
}

export interface RawCall {
  index: number;
  kind: string;
  graph: number;
  session: number;
  thread: number;
  fetches: string[];
  feeds: string[];
  line: number;
  start: number;
  seconds: number;
  failed: string | null;
  columns: number;
  repeat?: number;
  versions?: [number, string][];
  needs?: string[][];
  trace?: string;
}

export interface RawGraph {
  id: number;
  name: Packed<string>;
  type: Packed<string>;
  /** Names by row, or how many rows back each producer is. */
  inputs: unknown;
  control: unknown;
  line: Packed<number>;
}

export interface RawSource {
  name: string;
  kind: string;
  graph: number;
}

export interface RawMode {
  mode: string;
  applicable: boolean;
  reason: string;
  equality: string;
  max_difference?: number;
  seconds?: number;
  setup_seconds?: number;
  speedup?: number;
  bytes_held?: number;
  executed?: number;
  recomputed?: number;
  reused?: number;
  break_even?: number | null;
  code?: string;
}

export interface RawFinding {
  kind: string;
  ops: string[];
  call: number | null;
  text: string;
}

/** What a mode executed: calls and columns over the graph of the recording that it repeats. */
export interface RawReplay {
  columns: RawColumns[];
  calls: RawCall[];
  causes: RawCause[];
  shapes?: string[];
  devices?: string[];
}

export interface RawRecording extends RawReplay {
  format: string;
  version: number;
  name?: string;
  environment: Record<string, unknown>;
  graphs: RawGraph[];
  lines: [string, number, string][];
  sources?: RawSource[];
  findings?: RawFinding[];
  modes?: RawMode[];
  summary?: Record<string, unknown>;
  /** Replays that travel with the recording, by mode. */
  replays?: Record<string, RawReplay>;
  /** What to keep, by cut, as `advise()` says it. */
  advice?: { cut: string; text: string; seconds?: number; bytes?: number }[];
}

/** Read a recording; throws an error that a person can act on. */
export function parseRecording(text: string): RawRecording {
  const raw = JSON.parse(text) as RawRecording;
  if (raw?.format !== "cachelab.recording" || !Array.isArray(raw.graphs))
    throw new Error("This is not a CacheLab recording. Save one with recording.save(path).");
  if (raw.version !== 1)
    throw new Error(`This recording has version ${raw.version}; this explorer reads version 1. Update CacheLab.`);
  raw.sources = (raw.sources ?? []).map((source) => (Array.isArray(source) ? { name: source[0], kind: source[1], graph: source[2] } : source));
  return raw;
}

/** Undo gzip where the bytes are gzip; the browser's own stream does the work. */
export async function readBytes(data: Uint8Array | DataView): Promise<string> {
  const bytes = data instanceof DataView ? new Uint8Array(data.buffer, data.byteOffset, data.byteLength) : data;
  if (bytes[0] !== 0x1f || bytes[1] !== 0x8b) return new TextDecoder().decode(bytes);
  const stream = new Blob([bytes as BlobPart]).stream().pipeThrough(new DecompressionStream("gzip"));
  return await new Response(stream).text();
}
