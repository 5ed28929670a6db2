/** The matrix: sources, then scopes and ops, against calls; coloured by status, walked with grid keys. */

import type { App, Key, Panel } from "./app.ts";
import { h, prose, redraw } from "./dom.ts";
import { why } from "./explain.ts";
import type { Group } from "./hierarchy.ts";
import { aside } from "./opening.ts";
import { MIX_ORDER, painted as shown, STATUSES } from "./statuses.ts";
import { count, shorten, t, timeColumn } from "./strings.ts";
import { sourceRows } from "./sources.ts";
import { counted } from "./sums.ts";
import { swatch } from "./widgets.ts";

const ROWS = 40;
const CALLS = 120;
/** Share of a cell from which on a part of a mix has room for its letter. */
const LETTERED = 0.4;

interface Line {
  group: Group;
  open: boolean;
  row: HTMLElement;
  cells: HTMLElement[];
  total: HTMLElement;
  redundant: HTMLElement;
  cause: HTMLElement;
  /** What stands in the cells and in the last column. */
  painted: string[];
  why: string;
}

export class MatrixPanel implements Panel {
  readonly element = h("div", { class: "mxp" });
  private readonly app: App;
  private limit = ROWS;
  private entries: number[] = [];
  private heads = "";
  private shown: Line[] = [];
  private time = timeColumn(0);

  constructor(app: App) {
    this.app = app;
    this.element.addEventListener("keydown", (event) => this.onKey(event));
  }

  update(changed: ReadonlySet<Key>): void {
    const seen: Key[] = ["mode", "entry", "selected", "open", "tab", "results", "graph", "predict"];
    if (this.app.state.tab !== "matrix" || !seen.some((key) => changed.has(key))) return;
    const same = !this.app.state.predict && !["predict", "tab", "graph"].some((key) => changed.has(key as Key)) && this.same();
    if (same) this.recolour(changed.has("mode") || changed.has("results"));
    else this.draw();
  }

  /** Whether the rows and columns on the screen are those to show. */
  private same(): boolean {
    const groups = this.groups();
    const entries = this.columns();
    return (
      this.shown.length === Math.min(groups.length, this.limit) &&
      this.shown.every(({ group, open }, i) => group === groups[i].group && open === this.isOpen(group)) &&
      this.heads === this.headings(entries)
    );
  }

  /** Another call, op or mode is current: the cells stay, what they say changes where it differs. */
  private recolour(cells: boolean): void {
    const { app } = this;
    const execution = app.execution();
    const { entry, selected } = app.state;
    const at = String(entry);
    for (const cell of this.element.querySelectorAll<HTMLElement>(".on")) if (cell.dataset.e !== at) cell.classList.remove("on");
    for (const cell of this.element.querySelectorAll<HTMLElement>(`[data-e="${at}"]`)) cell.classList.add("on");
    for (const stop of this.element.querySelectorAll<HTMLElement>('[data-cell][tabindex="0"]')) stop.tabIndex = -1;
    if (cells) this.scale();
    for (const [i, line] of this.shown.entries()) {
      const { group, row } = line;
      row.classList.toggle("sel", group.id === selected?.id);
      if (cells) this.fill(line, false);
      this.reason(line, false);
      if (group.id === selected?.id || (!selected && !i)) row.querySelector<HTMLElement>(`[data-e="${at}"]`)?.setAttribute("tabindex", "0");
    }
    if (!this.element.querySelector('[data-cell][tabindex="0"]')) this.element.querySelector<HTMLElement>(`[data-cell][data-e="${at}"]`)?.setAttribute("tabindex", "0");
    const heads = this.element.querySelectorAll("thead th");
    heads[heads.length - 1].textContent = t("why, in call {call}", { call: execution.label(entry) });
    const body = this.element.querySelector("tbody") as HTMLElement;
    for (const old of body.querySelectorAll(".src")) old.remove();
    body.prepend(...sourceRows(app, execution, this.entries));
  }

  private isOpen(group: Group): boolean {
    return group.kind !== "op" && this.app.state.open.has(group.id);
  }

  /** Entries of the log that have a column: those around the current one. */
  private columns(): number[] {
    const { calls } = this.app.execution();
    const { entry, graph } = this.app.state;
    const first = Math.max(0, Math.min(entry - CALLS / 2, calls.length - CALLS));
    return calls.map((_, e) => e).slice(first, first + CALLS).filter((e) => calls[e].graph === graph);
  }

  /** Entries and the calls that they stand for: a replay may have others. */
  private headings(entries: readonly number[]): string {
    const execution = this.app.execution();
    return entries.map((e) => `${e}:${execution.label(e)}`).join();
  }

  private groups(): { group: Group; depth: number }[] {
    const groups: { group: Group; depth: number }[] = [];
    const walk = (group: Group, depth: number): void => {
      // As in the graph: what the first shown call needs comes first.
      const last = group.parent ? new Set<Group>() : aside(this.app);
      for (const child of [...group.children].sort((a, b) => Number(last.has(a)) - Number(last.has(b)))) {
        groups.push({ group: child, depth });
        if (this.isOpen(child) && child.arranged) walk(child, depth + 1);
      }
    };
    walk(this.app.tree().root, 0);
    return groups;
  }

  private draw(): void {
    const { app } = this;
    const execution = app.execution();
    const { entry } = app.state;
    const entries = this.columns();
    const size = entries.length > 60 ? "tiny" : entries.length > 16 ? "dense" : "";
    const groups = this.groups();
    const hidden = app.hidden();
    const head = h(
      "tr",
      {},
      h("th", { scope: "col" }, t("sources, then ops")),
      entries.map((e) => h("th", { scope: "col", class: `c${e === entry ? " on" : ""}`, "data-e": e, title: t("call {call}", { call: execution.label(e) }) }, size === "tiny" && e % 10 ? "" : execution.label(e))),
      h("th", { class: "r", scope: "col" }, t("op time")),
      h("th", { class: "r", scope: "col" }, t("redundant")),
      h("th", { class: "cause", scope: "col" }, t("why, in call {call}", { call: execution.label(entry) })),
    );
    this.entries = entries;
    this.heads = this.headings(entries);
    this.shown = groups.slice(0, this.limit).map(({ group, depth }, index) => this.row(group, depth, index));
    this.scale();
    for (const line of this.shown) {
      this.fill(line, hidden);
      this.reason(line, hidden);
    }
    const rows = this.shown.map(({ row }) => row);
    redraw(
      this.element,
      entries.length < execution.calls.length ? h("p", { class: "q s0" }, t("{n} of {all} entries of the log, around the current one.", { n: entries.length, all: execution.calls.length })) : null,
      h("table", { class: `mx ${size}`, role: "grid", "aria-label": t("Ops by call"), "aria-readonly": "true" }, h("thead", {}, head), h("tbody", {}, sourceRows(app, execution, entries), rows)),
      groups.length > this.limit &&
        h("button", { class: "btn", type: "button", "data-key": "more-rows", onclick: () => ((this.limit += 2 * ROWS), this.draw()) }, t("{n} more rows", { n: count(groups.length - this.limit) })),
    );
    if (!this.element.querySelector('[tabindex="0"][data-cell]')) this.element.querySelector("[data-cell]")?.setAttribute("tabindex", "0");
  }

  /** The unit of the columns of times. */
  private scale(): void {
    const { app } = this;
    const { calls } = app.execution();
    const largest = Math.max(0, ...this.shown.map(({ group }) => this.entries.reduce((sum, e) => sum + app.sums(group, e).total * (calls[e].repeat ?? 1), 0)));
    this.time = timeColumn(largest);
  }

  /** A row with empty cells. */
  private row(group: Group, depth: number, index: number): Line {
    const { app, entries } = this;
    const { entry, selected } = app.state;
    const op = group.kind === "op";
    const open = this.isOpen(group);
    const cells = entries.map((e, at) =>
      h("td", {
        class: `c${e === entry ? " on" : ""}`, role: "gridcell", "data-cell": `${index},${at}`, "data-key": `cell-${group.id}-${e}`,
        tabindex: e === entry && (group.id === selected?.id || (!selected && index === 0)) ? 0 : -1, "data-e": e, "data-group": group.id,
        onclick: () => this.pick(group, e),
      }),
    );
    const [total, redundant, cause] = [h("td", { class: "r" }), h("td", { class: "r" }), h("td", { class: "cause" })];
    const row = h(
      "tr",
      { class: `${op ? "op" : "sc"}${group.id === selected?.id ? " sel" : ""}` },
      h(
        "th",
        { scope: "row", class: "m" },
        h(
          "button",
          {
            type: "button", style: `padding-left:${depth * 12}px`, "data-key": `row-${group.id}`, title: op ? app.graph().name[group.row] : group.id,
            "aria-expanded": op ? null : String(open), tabindex: -1,
            onclick: () => (op ? app.choose(group) : app.toggle(group)),
          },
          shorten(op ? group.label : `${open ? "▾" : "▸"} ${group.label}`, 34),
          op ? null : h("span", { class: "q s0" }, ` ${count(counted(group, app.graph()).length)}`),
        ),
      ),
      cells, total, redundant, cause,
    );
    return { group, open, row, cells, total, redundant, cause, painted: entries.map(() => ""), why: "" };
  }

  /** Colour the cells of a row and sum it up; only what differs from before is touched. */
  private fill(line: Line, hidden: boolean): void {
    const { app, entries } = this;
    const execution = app.execution();
    const { group, open, painted } = line;
    let total = 0;
    let redundant = 0;
    entries.forEach((e, i) => {
      const sums = app.sums(group, e);
      const times = execution.calls[e].repeat ?? 1;
      total += sums.total * times;
      redundant += sums.redundant * times;
      const status = group.kind === "op" ? execution.status(e)[group.row] : -1;
      const covered = hidden && e >= app.state.entry;
      const state = covered ? "?" : status >= 0 ? String(status) : open ? "" : sums.counts.join();
      if (painted[i] === state) return;
      painted[i] = state;
      line.cells[i].replaceChildren(
        covered ? h("span", { class: "st Q" }, "?") : status >= 0 ? swatch(shown(status, app.graph().bookkeeping[group.row]), `, ${t("call {call}", { call: execution.label(e) })}`) : open ? "" : this.mix(sums.counts),
      );
    });
    line.total.textContent = total && !hidden ? this.time(total) : "–";
    line.redundant.textContent = redundant && !hidden ? this.time(redundant) : "–";
    line.redundant.classList.toggle("q", !redundant || hidden);
  }

  private reason(line: Line, hidden: boolean): void {
    const text = hidden ? "" : this.why(line.group, line.open);
    if (text === line.why) return;
    line.why = text;
    line.cause.replaceChildren(...prose(text));
  }

  private mix(counts: readonly number[]): HTMLElement {
    const total = counts.reduce((sum, n) => sum + n, 0);
    const parts = MIX_ORDER.filter((i) => counts[i]).slice(0, 3);
    const drawn = parts.reduce((sum, i) => sum + counts[i], 0);
    return h(
      "div",
      { class: "mix", role: "img", "aria-label": MIX_ORDER.filter((i) => counts[i]).map((i) => `${counts[i]} ${t(STATUSES[i].name)}`).join(", ") },
      parts.map((i) =>
        h("span", { class: `st ${STATUSES[i].letter}`, style: `flex:${counts[i]}`, title: t("{n} of {all} {status}", { n: counts[i], all: total, status: t(STATUSES[i].name) }) }, counts[i] >= LETTERED * drawn ? STATUSES[i].letter : ""),
      ),
    );
  }

  private why(group: Group, open: boolean): string {
    const { entry } = this.app.state;
    const execution = this.app.execution();
    if (group.kind === "op") return why(execution, entry, group.row);
    if (open) return "";
    // Ops of equal status and causes have the same sentence: it is made once.
    const kinds = execution.kinds(entry);
    const tally = new Map<string, number>();
    const texts = new Map<number | string, string>();
    const rows = counted(group, this.app.graph());
    for (let i = 0; i < rows.length; i++) {
      const row = rows[i];
      const kind = kinds(row);
      let text = texts.get(kind);
      if (text === undefined) texts.set(kind, (text = why(execution, entry, row)));
      tally.set(text, (tally.get(text) ?? 0) + 1);
    }
    const [best, n] = [...tally].sort((a, b) => b[1] - a[1])[0] ?? ["", 0];
    return tally.size > 1 ? t("{n} of {all}: {text}", { n, all: rows.length, text: best }) : best;
  }

  private pick(group: Group, entry: number): void {
    const id = group.kind === "op" ? { row: group.row, id: group.id } : { row: -1, id: group.id };
    this.app.set({ selected: id, entry });
  }

  private onKey(event: KeyboardEvent): void {
    const cell = (event.target as HTMLElement).closest<HTMLElement>("[data-cell]");
    if (!cell) return;
    const [r, c] = (cell.dataset.cell as string).split(",").map(Number);
    const moves: Record<string, [number, number]> = { ArrowRight: [r, c + 1], ArrowLeft: [r, c - 1], ArrowUp: [r - 1, c], ArrowDown: [r + 1, c], Home: [r, 0], End: [r, 1e9] };
    const group = this.app.tree().byId.get(cell.dataset.group as string);
    if (event.key in moves) {
      const [nr, nc] = moves[event.key];
      const last = this.element.querySelectorAll(`[data-cell^="${r},"]`).length - 1;
      const next = this.element.querySelector<HTMLElement>(`[data-cell="${nr},${Math.min(nc, last)}"]`);
      if (next) {
        cell.tabIndex = -1;
        next.tabIndex = 0;
        next.focus();
      }
    } else if ((event.key === "Enter" || event.key === " ") && group) {
      if (group.kind !== "op") this.app.toggle(group);
      this.pick(group, Number(cell.dataset.e));
    } else return;
    event.preventDefault();
    event.stopPropagation();
  }
}
