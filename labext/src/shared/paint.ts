/** From items and statuses to what a node says: letter, second line, mix, edge classes. */

import type { App } from "./app.ts";
import type { Item, Segment } from "./layout.ts";
import { executed, MIX_ORDER, painted, PRUNED, REUSED, STATUSES } from "./statuses.ts";
import { bytes, count, t, time } from "./strings.ts";

export interface Look {
  letter: string;
  sub: string;
  /** Time of a scope, at the right of its second line. */
  right: string;
  mix: { letter: string; share: number }[];
  dim: boolean;
  aria: string;
  title: string;
}

/** How an op or a closed or open scope looks in the current call and mode. */
export function look(app: App, item: Item, status: Uint8Array, seconds: (row: number) => number): Look {
  const { group } = item;
  const { state } = app;
  if (app.hidden()) return hiddenLook(app, item);
  const traced = state.traced;
  const outside = traced !== null && !group.rows.some((row) => traced.has(row));
  if (group.kind === "op") {
    const index = status[group.row];
    const { name, meaning } = STATUSES[index];
    const { letter } = STATUSES[painted(index, app.graph().bookkeeping[group.row])];
    const sub = opLine(app, group.row, index, seconds(group.row));
    const dim = outside || state.dimmed.has(index);
    const full = app.graph().name[group.row];
    return { letter, sub, right: "", mix: [], dim, aria: `${full}, ${t(name)}, ${sub}`, title: `${full}: ${t(name)}, ${t(meaning)}` };
  }
  const { counts, total: spent } = app.sums(group, state.entry);
  const total = counts.reduce((sum, n) => sum + n, 0) || 1;
  const parts = MIX_ORDER.filter((index) => counts[index] > 0);
  const pruned = counts[PRUNED] === total;
  const sub = pruned ? t("{n} not needed", { n: count(total) }) : brief(parts.map((index) => `${count(counts[index])} ${STATUSES[index].letter}`));
  const words = parts.map((index) => `${counts[index]} ${t(STATUSES[index].name)}`).join(", ");
  const name = group.kind === "scope" ? group.id : group.label;
  return {
    letter: pruned ? "P" : counts[REUSED] === total ? "S" : "C",
    sub,
    right: pruned ? "" : time(spent),
    mix: parts.map((index) => ({ letter: STATUSES[index].letter, share: counts[index] / total })),
    dim: outside || parts.every((index) => state.dimmed.has(index)),
    aria: `${t("scope")} ${name}, ${words}, ${time(spent)}`,
    title: `${name}: ${words}`,
  };
}

/** As many parts of a mix as fit beside a time; the rest is in the title and in the bar. */
function brief(told: readonly string[]): string {
  let text = told[0] ?? "";
  for (const [i, part] of told.entries()) {
    if (!i) continue;
    if (text.length + part.length + 2 > 13) return `${text} …`;
    text += `, ${part}`;
  }
  return text;
}

function opLine(app: App, row: number, index: number, spent: number): string {
  if (executed(index)) return time(spent);
  if (index === REUSED) {
    const { bytes: size } = app.execution().cell(app.state.entry, row);
    return size ? t("served {size}", { size: bytes(size) }) : t("served");
  }
  return index === PRUNED ? t("not needed") : t(STATUSES[index].name);
}

function hiddenLook(app: App, item: Item): Look {
  const { group } = item;
  const marked = group.rows.filter((row) => app.state.predict?.marked.has(row)).length;
  const name = group.kind === "op" ? app.graph().name[group.row] : group.id;
  const says = marked === 0 ? t("predict") : marked === group.rows.length ? t("will run") : t("{n} will run", { n: marked });
  return {
    letter: marked ? "Q1" : "Q0", sub: says, right: "", mix: [], dim: false, aria: `${name}, ${says}`, title: `${name}: ${says}`,
  };
}

/** Class of a line: `S` where a served value flows, `P` where nothing flowed in this call. */
export function edgeClass(segment: Segment, status: Uint8Array, hidden: boolean, traced: ReadonlySet<number> | null): string {
  let served = false;
  let flows = false;
  const { pairs } = segment;
  const outside = traced !== null && !pairs.some((row, i) => i % 2 === 0 && traced.has(row) && traced.has(pairs[i + 1]));
  if (!hidden)
    for (let i = 0; i < pairs.length; i += 2) {
      const [from, to] = [status[pairs[i]], status[pairs[i + 1]]];
      if (!executed(to)) continue;
      flows = true;
      if (from === REUSED) {
        served = true;
        break;
      }
    }
  const kind = hidden ? "" : served ? "S" : flows ? "" : "P";
  return `e${segment.control ? " ctl" : ""}${kind ? ` ${kind}` : ""}${outside ? " dim" : ""}`;
}
