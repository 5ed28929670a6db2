/** The parts of the side panel that only show the kernel's state: recordings, calls, findings, live sessions. */

import type { TranslationBundle } from "@jupyterlab/translation";

import { h, prose } from "../shared/dom.js";
import { bytes, shorten, time } from "../shared/strings.js";
import type { CallRow, LiveRow, RecordingRow } from "./link.js";
import { bar } from "./swatches.js";
import { percent } from "./words.js";

/** Characters of a recording's name and of a call's fetches; the whole is in the title. */
const NAME = 20;
const FETCHES = 18;

export function section(title: string, note: string, ...content: (Node | string)[]): HTMLElement {
  return h("section", { "aria-label": title }, h("h3", {}, title, note ? h("span", {}, note) : null), content);
}

/** Says what of a recording the panel does when it is clicked. */
export interface RecordingActs {
  select(row: RecordingRow): void;
  /** Position of the cell in the notebook, -1 if it is gone. */
  place(row: RecordingRow): number;
  jump(index: number): void;
}

export function recordingTable(trans: TranslationBundle, rows: readonly RecordingRow[], selected: string, acts: RecordingActs): HTMLElement {
  const line = (row: RecordingRow): HTMLElement => {
    const index = acts.place(row);
    const where = row.number ? `[${row.number}]` : "";
    const cell =
      index >= 0
        ? h("button", { type: "button", class: "cachelab-Jump", "data-key": `jump-${row.name}`, title: trans.__("Go to cell %1", index + 1), onclick: () => acts.jump(index) }, where || trans.__("cell %1", index + 1))
        : row.cell
          ? h("span", { class: "cachelab-Quiet", title: trans.__("The cell that ran it was deleted.") }, trans.__("%1 deleted", where))
          : "";
    return h(
      "tr",
      { class: row.name === selected ? "cachelab-On" : null },
      h("th", { scope: "row" }, h("button", { type: "button", "data-key": `row-${row.name}`, "aria-pressed": String(row.name === selected), title: trans.__("%1: show its calls and findings here", row.name), onclick: () => acts.select(row) }, shorten(row.name, NAME))),
      h("td", {}, cell),
      h("td", {}, String(row.calls)),
      h("td", {}, percent(row.share)),
      h("td", {}, time(row.redundant)),
    );
  };
  const heads = [trans.__("recording"), trans.__("cell"), trans.__("calls")].map((text) => h("th", { scope: "col" }, text));
  const share = h("th", { scope: "colgroup", colspan: 2 }, trans.__("redundant"));
  return h("table", { class: "cachelab-Recordings" }, h("thead", {}, h("tr", {}, heads, share)), h("tbody", {}, rows.map(line)));
}

/** What could be saved at most, as a sentence: the redundant op time is a bound, no promise. */
export function saving(trans: TranslationBundle, row: RecordingRow): HTMLElement {
  const text = row.redundant
    ? trans.__("Could be saved: at most %1 of %2 op time (a sum over ops; the calls took %3 of wall time).", time(row.redundant), time(row.seconds), time(row.wall))
    : trans.__("Nothing to save: no op ran twice on equal inputs.");
  return h("p", {}, text);
}

export function callTable(trans: TranslationBundle, log: readonly CallRow[], open: (call: number) => void): HTMLElement {
  const most = Math.max(...log.map((row) => row.seconds), 0);
  const line = (row: CallRow): HTMLElement =>
    row.omitted
      ? h("tr", {}, h("td", { colspan: 4, class: "cachelab-Quiet" }, trans._n("%1 call is left out", "%1 calls are left out", row.calls)))
      : h(
          "tr",
          {},
          h("th", { scope: "row" }, h("button", { type: "button", "data-key": `call-${row.first}`, title: trans.__("Show call %1 in the explorer", row.first), onclick: () => open(row.first) }, row.label)),
          h("td", { class: "cachelab-Name" }, h("code", { title: row.fetches }, shorten(row.fetches, FETCHES)), row.calls > 1 ? h("span", { class: "cachelab-Quiet" }, ` ${trans.__("each")}`) : null, row.failed ? h("b", {}, ` ${trans.__("failed")}`) : null),
          h("td", { class: "cachelab-BarCell" }, row.seconds > 0 ? bar(row.redundant, row.seconds, `${Math.max(2, (100 * row.seconds) / most)}%`) : null, h("span", { class: "cachelab-Hidden" }, trans.__("%1 recomputed", percent(row.seconds ? row.redundant / row.seconds : 0)))),
          h("td", {}, (row.estimated && row.seconds ? "≈ " : "") + (row.seconds ? time(row.seconds) : "–")),
        );
  const heads = [trans.__("call"), trans.__("fetches"), trans.__("recomputed"), trans.__("op time")];
  return h("table", { class: "cachelab-Calls" }, h("thead", {}, h("tr", {}, heads.map((text, i) => h("th", { scope: "col" }, i === 2 ? h("span", { class: "cachelab-Hidden" }, text) : text)))), h("tbody", {}, log.map(line)));
}

export function findingList(trans: TranslationBundle, row: RecordingRow): HTMLElement {
  return h("ol", {}, row.findings.map((text) => h("li", {}, prose(text))), row.more_findings ? h("li", {}, trans.__("and %1 more, in the explorer", row.more_findings)) : null);
}

const figures = (rows: readonly (readonly [string, string])[]): HTMLElement =>
  h("table", { class: "cachelab-Figures" }, h("tbody", {}, rows.map(([name, value]) => h("tr", {}, h("th", { scope: "row" }, name), h("td", {}, value)))));

function hitRate(trans: TranslationBundle, { hits, misses }: { hits: number; misses: number }): string {
  const asked = hits + misses;
  return asked ? trans.__("%1 of %2 values, %3", hits, asked, percent(hits / asked)) : trans.__("none asked for yet");
}

/** An open live session: what it holds, how often it served. */
export function liveSession(trans: TranslationBundle, row: LiveRow, clear: (number: number) => void): HTMLElement {
  const held = row.budget ? trans.__("%1 of %2", bytes(row.bytes), bytes(row.budget)) : bytes(row.bytes);
  return section(
    trans.__("Live session"),
    [row.name, row.mode].filter(Boolean).join(", "),
    figures([
      [trans.__("held"), row.entries ? trans._n("%2 in %1 value", "%2 in %1 values", row.entries, held) : held],
      [trans.__("hits"), hitRate(trans, row)],
      [trans.__("saved"), trans.__("%1 op time (estimated)", time(row.saved))],
      ...(row.evictions ? [[trans.__("dropped for room"), String(row.evictions)] as const] : []),
    ]),
    ...(row.note ? [h("p", { class: "cachelab-Quiet" }, row.note)] : []),
    h("button", { type: "button", "data-key": `clear-${row.number}`, disabled: row.entries === 0, onclick: () => clear(row.number) }, trans.__("Clear kept values")),
  );
}

/** What a live mode served while a cell ran; nothing is held after the cell. */
export function servedInCell(trans: TranslationBundle, row: RecordingRow): HTMLElement | null {
  const { live } = row;
  if (!live) return null;
  return section(
    trans.__("Served in %1", row.name),
    live.mode,
    figures([
      [trans.__("held at the end"), bytes(live.bytes)],
      [trans.__("hits"), hitRate(trans, live)],
      [trans.__("saved"), trans.__("%1 op time (estimated)", time(live.saved))],
      ...(live.skipped ? [[trans.__("served whole"), trans._n("%1 call: it ran nothing", "%1 calls: they ran nothing", live.skipped)] as const] : []),
    ]),
  );
}
