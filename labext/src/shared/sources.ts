/** Rows of the matrix for feeds, variables and other sources: an unbroken bar is an unchanged value. */

import type { App } from "./app.ts";
import { h } from "./dom.ts";
import type { Execution } from "./recording.ts";
import { t } from "./strings.ts";

interface SourceLine {
  names: string[];
  kind: string;
  labels: (string | null)[];
}

/** Sources that change together share a line. */
export function sourceLines(app: App, execution: Execution, entries: readonly number[]): SourceLine[] {
  const run = app.recording.run;
  const sources = app.recording.raw.sources ?? [];
  const labels = entries.map((e) => {
    const call = execution.calls[e];
    const held = call.versions?.length ? call : run.calls[run.entry(call.index)];
    return new Map<number, string>(held?.versions ?? []);
  });
  const lines = new Map<string, SourceLine>();
  sources.forEach((source, index) => {
    if (source.graph !== app.state.graph) return;
    const row = labels.map((map) => map.get(index) ?? null);
    if (row.every((label) => label === null)) return;
    const pattern = row.map((label, i) => (label === null ? "-" : i && label === row[i - 1] ? "=" : "≠")).join("");
    const key = `${source.kind}|${pattern}|${source.kind === "feed" ? "" : row.join("|")}`;
    const line = lines.get(key);
    const name = source.name.replace(/:0$/, "");
    if (line) line.names.push(name);
    else lines.set(key, { names: [name], kind: source.kind, labels: row });
  });
  return [...lines.values()];
}

/** `enc/W, b` for names of one scope; more than three are counted. */
export function together(names: readonly string[]): string {
  const [first, ...rest] = names;
  const scope = first.slice(0, first.lastIndexOf("/") + 1);
  const short = rest.map((name) => (scope && name.startsWith(scope) ? name.slice(scope.length) : name));
  if (names.length <= 3) return [first, ...short].join(", ");
  return `${first} +${rest.length}`;
}

/** As much of a version as a cell holds: the beginning of a digest, the end of a long number. */
export function brief(label: string): string {
  return label.length > 3 && /^v\d+$/.test(label) ? `…${label.slice(-2)}` : label.slice(0, 3);
}

export function sourceRows(app: App, execution: Execution, entries: readonly number[]): HTMLElement[] {
  const { entry } = app.state;
  return sourceLines(app, execution, entries).map(({ names, kind, labels }) => {
    const at = entries.indexOf(entry);
    const said =
      labels[at] === null ? t("not used") : at <= 0 ? t("first seen") : labels[at] === labels[at - 1] ? t("same as in call {call}", { call: execution.label(entries[at - 1]) }) : kind === "feed" ? t("fed with new content") : kind === "variable" ? t("written since call {call}", { call: execution.label(entries[at - 1]) }) : t("new in each call");
    return h(
      "tr",
      { class: "src" },
      h("th", { scope: "row", class: "m", title: names.join(", ") }, together(names)),
      labels.map((label, i) => {
        const begins = label !== null && label !== labels[i - 1];
        const ends = label !== null && label !== labels[i + 1];
        const on = entries[i] === entry ? " on" : "";
        return h("td", { class: `c v${on}` }, label === null ? "" : h("div", { class: `ver${begins ? " a" : ""}${ends ? " z" : ""}`, title: label }, begins ? brief(label) : "\u00a0"));
      }),
      h("td"),
      h("td"),
      h("td", { class: "cause" }, said),
    );
  });
}
