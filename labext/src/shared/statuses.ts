/** The eleven statuses: letter in the JSON, letter on the screen, word, meaning. The order is that of the format. */

export interface Status {
  /** Letter in the columns of the JSON. */
  code: string;
  /** Letter and class on the screen. */
  letter: string;
  name: string;
  meaning: string;
}

export const STATUSES: readonly Status[] = [
  { code: "c", letter: "C", name: "computed", meaning: "new inputs" },
  { code: "r", letter: "R", name: "recomputed", meaning: "ran again on equal inputs" },
  { code: "s", letter: "S", name: "reused", meaning: "not run, value served" },
  { code: "d", letter: "F", name: "fed", meaning: "value given by the caller" },
  { code: "m", letter: "M", name: "merged", meaning: "shared with an equal op" },
  { code: "k", letter: "K", name: "folded", meaning: "constant before the run" },
  { code: "u", letter: "U", name: "fused", meaning: "part of a larger kernel" },
  { code: "p", letter: "P", name: "pruned", meaning: "not needed" },
  { code: "t", letter: "T", name: "untaken", meaning: "branch not taken" },
  { code: "n", letter: "N", name: "not_reached", meaning: "after an error" },
  { code: "x", letter: "X", name: "unknown", meaning: "no evidence" },
];

export const COMPUTED = 0;
export const RECOMPUTED = 1;
export const REUSED = 2;
export const FED = 3;
export const PRUNED = 7;
export const UNKNOWN = 10;

const BY_CODE = new Uint8Array(256).fill(UNKNOWN);
STATUSES.forEach((status, index) => (BY_CODE[status.code.charCodeAt(0)] = index));

/** Indices of the status letters of the JSON; letters of a later format read as `unknown`. */
export function statusIndices(codes: string): Uint8Array {
  const indices = new Uint8Array(codes.length);
  for (let i = 0; i < codes.length; i++) indices[i] = BY_CODE[codes.charCodeAt(i) & 255];
  return indices;
}

/** Whether an op of this status executed in the call. */
export const executed = (status: number): boolean => status === COMPUTED || status === RECOMPUTED;

/** What a mark paints: bookkeeping is not counted, so it is not painted as redundant work either. */
export const painted = (status: number, bookkeeping: number | boolean): number => (bookkeeping && status === RECOMPUTED ? COMPUTED : status);

/** Order in which a mix is told and drawn: what matters first. */
export const MIX_ORDER: readonly number[] = [2, 1, 0, 3, 4, 5, 6, 10, 9, 8, 7];

/** Op types that only hold, name or pass on a value: headline counts leave them out (as `cachelab.model` does). */
export const BOOKKEEPING: ReadonlySet<string> = new Set(
  (
    "Const VarHandleOp VariableV2 Variable VarIsInitializedOp NoOp Placeholder PlaceholderV2 PlaceholderWithDefault " +
    "ReadVariableOp Identity _Arg _Retval Enter Exit NextIteration LoopCond Switch Merge RefEnter RefExit RefSwitch " +
    "RefMerge RefNextIteration ControlTrigger IteratorV2 Iterator AnonymousIteratorV3 HashTableV2 MutableHashTableV2 " +
    "FIFOQueueV2 RefIdentity OneShotIterator"
  ).split(" "),
);
