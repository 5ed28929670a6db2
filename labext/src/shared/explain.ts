/** Sentences on one op in one call: what happened, why, and the chain of inputs down to the sources. */

import type { App } from "./app.ts";
import type { RawCause } from "./format.ts";
import type { Execution } from "./recording.ts";
import { RECOMPUTED, REUSED, STATUSES } from "./statuses.ts";
import { t } from "./strings.ts";

const LEAD: Readonly<Record<string, string>> = {
  computed: "Had to run.",
  recomputed: "Ran again on equal inputs.",
  reused: "Served, not run.",
  fed: "Given by the caller.",
  merged: "Shared with an equal op.",
  folded: "Constant before the run.",
  fused: "Ran as part of a larger kernel.",
  pruned: "Not needed.",
  untaken: "Its branch was not taken.",
  not_reached: "An error came first.",
  unknown: "No evidence.",
};

/** The cause as a person reads it: its sentence with a capital and a full stop. */
export function causeText(cause: RawCause): string {
  const text = cause.text || cause.kind;
  const full = text.charAt(0).toUpperCase() + text.slice(1);
  return /[.!?]$/.test(full) ? full : `${full}.`;
}

/** Why the op has its status in this call, in one line for tables. */
export function why(execution: Execution, entry: number, row: number): string {
  const cell = execution.cell(entry, row);
  if (!cell.listed) return t("no fetch of this call needs it");
  const texts = cell.causes.map((cause) => cause.text || cause.kind);
  if (cell.into) return t("went into `{op}`", { op: cell.into });
  if (cell.status === RECOMPUTED && cell.witness !== null) {
    const said = texts.find((text) => /\bcall \d/.test(text));
    return said ?? [t("as in call {call}", { call: cell.witness }), ...texts].join("; ");
  }
  const made = cell.status === REUSED && !texts.length ? (cell.witness ?? execution.madeBy(entry, row)) : -1;
  if (made >= 0) return t("call {call} kept the value", { call: made });
  return texts.join("; ") || t(STATUSES[cell.status].meaning);
}

/** The inspector's sentence: a bold lead and the causes, root first. */
export function sentence(execution: Execution, entry: number, row: number): { lead: string; body: string } {
  const cell = execution.cell(entry, row);
  const lead = t(LEAD[STATUSES[cell.status].name]);
  if (!cell.listed) return { lead, body: t("No fetch of this call needs it.") };
  const parts = cell.causes.map(causeText);
  if (cell.status === RECOMPUTED && cell.witness !== null && !parts.some((text) => text.includes(`call ${cell.witness}`)))
    parts.unshift(t("Call {call} ran it with the same sources.", { call: cell.witness }));
  if (cell.status === REUSED && !parts.length) {
    const made = cell.witness ?? execution.madeBy(entry, row);
    if (made >= 0) parts.push(t("Call {call} kept the value.", { call: made }));
  }
  if (cell.into) parts.push(t("It went into `{op}`.", { op: cell.into }));
  return { lead, body: parts.join(" ") };
}

export interface ChainLine {
  depth: number;
  row: number;
  name: string;
  /** What a source held in this call. */
  version: string;
  /** `=` or `≠` and the call it is compared with. */
  against: string;
}

/** Inputs of the op down to the feeds and variables, at most `limit` lines; what was left out is counted. */
export function chain(app: App, row: number, limit = 12): { lines: ChainLine[]; left: number } {
  const graph = app.graph();
  const execution = app.execution();
  const { entry } = app.state;
  const runEntry = Math.max(0, app.recording.run.entry(execution.calls[entry].index));
  const versions = app.recording.versions(runEntry);
  const before = app.recording.run.previous(runEntry);
  const lines: ChainLine[] = [];
  const seen = new Set<number>();
  let left = 0;
  const visit = (at: number, depth: number): void => {
    const variable = graph.variable(at);
    const shown = variable >= 0 ? variable : at;
    if (seen.has(shown) || graph.type[shown] === "Const") return;
    seen.add(shown);
    if (lines.length >= limit) {
      left += 1;
      return;
    }
    const name = graph.name[shown];
    const version = versions.get(name) ?? versions.get(`${name}:0`);
    const sign = version?.fresh === null || !version ? "" : version.fresh ? "≠" : "=";
    lines.push({
      depth, row: shown, name, version: version?.label ?? "",
      against: sign && before >= 0 ? `${sign} ${t("call {call}", { call: app.recording.run.label(before) })}` : "",
    });
    if (variable >= 0 || version) return;
    for (const from of graph.from(at)) visit(from, depth + 1);
  };
  visit(row, 0);
  return { lines, left };
}
