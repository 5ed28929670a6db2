/** The state of one explorer and what its panels may ask of it. */

import type { RawMode } from "./format.ts";
import type { Graph } from "./graph.ts";
import type { Group, Tree } from "./hierarchy.ts";
import type { Execution, Recording } from "./recording.ts";
import type { Sums } from "./sums.ts";

export interface Selection {
  row: number;
  /** The group in the picture; null for an op that docks on its consumers. */
  id: string | null;
}

export interface Prediction {
  /** Rows that the learner marked as going to run. */
  marked: Set<number>;
  revealed: boolean;
}

export interface Pending {
  id: number;
  mode: string;
  state: "sent" | "waiting" | "running";
  done: number;
  total: number;
  text: string;
}

export interface State {
  mode: string;
  entry: number;
  graph: number;
  selected: Selection | null;
  open: ReadonlySet<string>;
  /** Status indices that the legend dims. */
  dimmed: ReadonlySet<number>;
  tab: string;
  /** Rows of a trace to sources or consumers. */
  traced: ReadonlySet<number> | null;
  /** Tensors to keep; empty: the advised cut. */
  cuts: readonly string[];
  predict: Prediction | null;
  pending: Pending | null;
  /** What the last replay or button said, shown below the modes. */
  notice: { text: string; bad: boolean } | null;
}

export type Key = keyof State | "results";

/** The link to the kernel; absent in saved and exported explorers. */
export interface Host {
  send(message: Record<string, unknown>): void;
}

export interface App {
  readonly recording: Recording;
  readonly state: State;
  readonly host: Host | null;
  readonly root: HTMLElement;
  /** Source of this very bundle, for the exported HTML; empty where unknown. */
  readonly bundle: () => string;
  set(patch: Partial<State>, also?: readonly Key[]): void;
  execution(): Execution;
  graph(): Graph;
  tree(): Tree;
  fetched(): ReadonlySet<number>;
  statuses(): Uint8Array;
  /** Sums over a group in a call of the current mode. */
  sums(group: Group, entry: number): Sums;
  /** Statuses are hidden: the learner is predicting. */
  hidden(): boolean;
  askAdvice(): void;
  askPage(): void;
  result(mode: string): RawMode | undefined;
  select(row: number, scope?: string): void;
  choose(group: Group): void;
  toggle(group: Group): void;
  announce(text: string): void;
  replay(mode: string): void;
  cancel(): void;
}

export interface Panel {
  element: HTMLElement;
  update(changed: ReadonlySet<Key>): void;
}

export const MODES: readonly string[] = ["run", "partial_run", "variable", "per_example"];
export const MORE: readonly string[] = ["joint", "feed", "handle", "memo"];

/** The mode's name on the screen. */
export const modeName = (mode: string): string => (mode === "per_example" ? "per-example" : mode);
