/** The marks of code lines as the kernel sends them, and where they stand in a text that may have changed since. */

export interface Mark {
  /** Line of the executed text, from 1. */
  line: number;
  /** Status letter of the columns: `r` recomputed, `c` computed, `s` reused, ... */
  letter: string;
  seconds: number;
  redundant: number;
  /** Sentences: figures, causes, calls. */
  said: string[];
  /** The recording that tells it, and its numbers of the line. */
  name: string;
  at: number[];
  /** The cell ran again since, without being part of that recording. */
  rerun: boolean;
}

export interface CellMarks {
  id: string;
  /** The text that was executed. */
  source: string;
  /** Number of other cells with the same text: the figures are of all of them. */
  shared: number;
  /** Ops made here that some call needed, and how many of them were ever recomputed. */
  made: number;
  again: number;
  marks: Mark[];
}

export interface MarksMessage {
  all: boolean;
  cells: CellMarks[];
  gone: string[];
  left_out: number;
}

/** The marks after a message: those of other cells stay the same objects. */
export function merged(before: ReadonlyMap<string, CellMarks>, message: MarksMessage): Map<string, CellMarks> {
  const after = new Map(message.all ? [] : before);
  for (const id of message.gone) after.delete(id);
  for (const cell of message.cells) after.set(cell.id, cell);
  return after;
}

const CELLS = 1_000_000;

/** Which line of `now` each line of `before` became (both from 1): equal text, same order, as many as possible. */
export function follow(before: readonly string[], now: readonly string[]): Map<number, number> {
  const a = before.map((line) => line.trim());
  const b = now.map((line) => line.trim());
  const found = new Map<number, number>();
  let top = 0;
  while (top < a.length && top < b.length && a[top] === b[top]) found.set(++top, top);
  let left = 0;
  while (left < a.length - top && left < b.length - top && a[a.length - 1 - left] === b[b.length - 1 - left]) {
    found.set(a.length - left, b.length - left);
    left += 1;
  }
  const [n, m] = [a.length - top - left, b.length - top - left];
  if (n * m > CELLS) return found;
  // Longest common subsequence of what is left; empty lines say nothing.
  const best = Array.from({ length: n + 1 }, () => new Uint16Array(m + 1));
  const same = (i: number, j: number): boolean => a[top + i] !== "" && a[top + i] === b[top + j];
  for (let i = n - 1; i >= 0; i--)
    for (let j = m - 1; j >= 0; j--) best[i][j] = same(i, j) ? best[i + 1][j + 1] + 1 : Math.max(best[i + 1][j], best[i][j + 1]);
  for (let i = 0, j = 0; i < n && j < m; )
    if (same(i, j)) found.set(top + ++i, top + ++j);
    else if (best[i + 1][j] >= best[i][j + 1]) i += 1;
    else j += 1;
  return found;
}

const lines = (text: string): string[] => text.split("\n");

/** The lines of `part`, without empty ones at its ends, stand one after the other in `whole`. */
export function isPart(part: string, whole: string): boolean {
  const small = lines(part.trim()).map((line) => line.trim());
  const large = lines(whole).map((line) => line.trim());
  if (!small[0]) return false;
  for (let i = 0; i + small.length <= large.length; i++) if (small.every((line, k) => line === large[i + k])) return true;
  return false;
}

export interface CellText {
  id: string;
  source: string;
  /** Number in the prompt, if it ran. */
  number?: number | null;
}

/** The cell that marks belong to: one that ran before the kernel could learn its id has the number and still the text. */
function home(cells: readonly CellText[], known: ReadonlyMap<string, CellMarks>, marks: CellMarks): string {
  if (!marks.id.startsWith("?")) return marks.id;
  const cell = cells.find((one) => `?${one.number}` === marks.id && one.source === marks.source);
  return cell && !known.has(cell.id) ? cell.id : marks.id;
}

/**
 * Which marks each cell shows, by cell id. A cell shows its own. A cell that has none of its own but whose text was cut
 * out of an executed one (split off, or cut and pasted) shows those, if that one is gone or has lost the lines.
 */
export function assign(cells: readonly CellText[], known: ReadonlyMap<string, CellMarks>): Map<string, CellMarks> {
  const shown = new Map<string, CellMarks>();
  const texts = new Map(cells.map((cell) => [cell.id, cell.source]));
  const lost: [CellMarks, Set<number>][] = [];
  for (const marks of known.values()) {
    const id = home(cells, known, marks);
    const now = texts.get(id);
    if (now !== undefined) shown.set(id, marks);
    if (now === marks.source) continue;
    const kept = now === undefined ? new Map<number, number>() : follow(lines(marks.source), lines(now));
    const missing = marks.marks.map((mark) => mark.line).filter((line) => !kept.has(line));
    if (missing.length) lost.push([marks, new Set(missing)]);
  }
  for (const cell of lost.length ? cells : []) {
    if (shown.has(cell.id)) continue;
    for (const [marks, missing] of lost) {
      if (!isPart(cell.source, marks.source)) continue;
      const here = [...follow(lines(marks.source), lines(cell.source)).keys()].filter((line) => missing.has(line));
      if (!here.length) continue;
      for (const line of here) missing.delete(line);
      shown.set(cell.id, marks);
      break;
    }
  }
  return shown;
}

/** The mark whose recording a cell's badge names: the one with most redundant op time, else the first. */
export function teller(marks: readonly Mark[]): Mark {
  return marks.reduce((best, mark) => (mark.letter === "r" && (best.letter !== "r" || mark.redundant > best.redundant) ? mark : best));
}

/** The longest op time of a line: the bars of a notebook share one scale. */
export function scale(known: Iterable<CellMarks>): number {
  let most = 0;
  for (const cell of known) for (const mark of cell.marks) most = Math.max(most, mark.seconds);
  return most;
}

/** Width of a bar in pixels: by the root of the time, so that short lines can still be seen. */
export function width(seconds: number, most: number, room = 44): number {
  return most > 0 && seconds > 0 ? Math.max(4, Math.round(room * Math.sqrt(seconds / most))) : 0;
}
