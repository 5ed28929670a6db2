/** The matrix: sources, then scopes and ops, against calls; coloured by status, walked with grid keys. */

import type { App, Key, Panel } from "./app.ts";
import { h, prose, redraw } from "./dom.ts";
import { why } from "./explain.ts";
import type { Group } from "./hierarchy.ts";
import { MIX_ORDER, STATUSES } from "./statuses.ts";
import { count, shorten, t, timeColumn } from "./strings.ts";
import { sourceRows } from "./sources.ts";
import { swatch } from "./widgets.ts";

const ROWS = 40;
const CALLS = 120;

export class MatrixPanel implements Panel {
  readonly element = h("div", { class: "mxp" });
  private readonly app: App;
  private limit = ROWS;
  private entries: number[] = [];
  private shown: { group: Group; row: HTMLElement }[] = [];
  private time = timeColumn(0);

  constructor(app: App) {
    this.app = app;
    this.element.addEventListener("keydown", (event) => this.onKey(event));
  }

  update(changed: ReadonlySet<Key>): void {
    const seen: Key[] = ["mode", "entry", "selected", "open", "tab", "results", "graph", "predict"];
    if (this.app.state.tab !== "matrix" || !seen.some((key) => changed.has(key))) return;
    const only = [...changed].every((key) => key === "entry" || key === "selected");
    if (only && !this.app.state.predict && this.entries.includes(this.app.state.entry)) this.move();
    else this.draw();
  }

  /** Another call or op is current: the cells stay, the marks and reasons move. */
  private move(): void {
    const { app } = this;
    const execution = app.execution();
    const { entry, selected } = app.state;
    const at = String(entry);
    for (const cell of this.element.querySelectorAll<HTMLElement>("[data-e]")) cell.classList.toggle("on", cell.dataset.e === at);
    for (const stop of this.element.querySelectorAll<HTMLElement>('[data-cell][tabindex="0"]')) stop.tabIndex = -1;
    for (const [i, { group, row }] of this.shown.entries()) {
      row.classList.toggle("sel", group.id === selected?.id);
      (row.lastElementChild as HTMLElement).replaceChildren(...prose(this.why(group, this.isOpen(group))));
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

  private draw(): void {
    const { app } = this;
    const execution = app.execution();
    const { entry } = app.state;
    const first = Math.max(0, Math.min(entry - CALLS / 2, execution.calls.length - CALLS));
    const entries = execution.calls.map((_, e) => e).slice(first, first + CALLS).filter((e) => execution.calls[e].graph === app.state.graph);
    const size = entries.length > 60 ? "tiny" : entries.length > 16 ? "dense" : "";
    const groups: { group: Group; depth: number }[] = [];
    const walk = (group: Group, depth: number): void => {
      for (const child of group.children) {
        groups.push({ group: child, depth });
        if (app.state.open.has(child.id) && child.arranged) walk(child, depth + 1);
      }
    };
    walk(app.tree().root, 0);
    const shown = groups.slice(0, this.limit);
    const hidden = app.hidden();
    const largest = Math.max(0, ...shown.map(({ group }) => entries.reduce((sum, e) => sum + app.sums(group, e).total * (execution.calls[e].repeat ?? 1), 0)));
    this.time = timeColumn(largest);
    const head = h(
      "tr",
      {},
      h("th", { scope: "col" }, t("sources, then ops")),
      entries.map((e) => h("th", { scope: "col", class: `c${e === entry ? " on" : ""}`, "data-e": e, title: t("call {call}", { call: execution.label(e) }) }, size === "tiny" && e % 10 ? "" : execution.label(e))),
      h("th", { class: "r", scope: "col" }, t("op time")),
      h("th", { class: "r", scope: "col" }, t("redundant")),
      h("th", { class: "cause", scope: "col" }, t("why, in call {call}", { call: execution.label(entry) })),
    );
    const rows = shown.map(({ group, depth }, index) => this.row(group, depth, entries, index, hidden));
    this.entries = entries;
    this.shown = shown.map(({ group }, i) => ({ group, row: rows[i] }));
    redraw(
      this.element,
      first > 0 || entries.length < execution.calls.length ? h("p", { class: "q s0" }, t("{n} of {all} entries of the log, around the current one.", { n: entries.length, all: execution.calls.length })) : null,
      h("table", { class: `mx ${size}`, role: "grid", "aria-label": t("Ops by call"), "aria-readonly": "true" }, h("thead", {}, head), h("tbody", {}, sourceRows(app, execution, entries), rows)),
      groups.length > this.limit &&
        h("button", { class: "btn", type: "button", "data-key": "more-rows", onclick: () => ((this.limit += 2 * ROWS), this.draw()) }, t("{n} more rows", { n: count(groups.length - this.limit) })),
    );
    if (!this.element.querySelector('[tabindex="0"][data-cell]')) this.element.querySelector("[data-cell]")?.setAttribute("tabindex", "0");
  }

  private row(
    group: Group,
    depth: number,
    entries: readonly number[],
    index: number,
    hidden: boolean,
  ): HTMLElement {
    const { app } = this;
    const { entry, selected } = app.state;
    const execution = app.execution();
    const op = group.kind === "op";
    const open = this.isOpen(group);
    let total = 0;
    let redundant = 0;
    const cells = entries.map((e) => {
      const sums = app.sums(group, e);
      total += sums.total * (execution.calls[e].repeat ?? 1);
      redundant += sums.redundant * (execution.calls[e].repeat ?? 1);
      const current = e === entry ? " on" : "";
      const shade = hidden && e >= entry;
      const content = shade ? h("span", { class: "st Q" }, "?") : op ? swatch(execution.status(e)[group.row], `, ${t("call {call}", { call: execution.label(e) })}`) : open ? "" : this.mix(sums.counts);
      return h(
        "td",
        {
          class: `c${current}`, role: "gridcell", "data-cell": `${index},${entries.indexOf(e)}`, "data-key": `cell-${group.id}-${e}`,
          tabindex: e === entry && (group.id === selected?.id || (!selected && index === 0)) ? 0 : -1, "data-e": e, "data-group": group.id,
          onclick: () => this.pick(group, e),
        },
        content,
      );
    });
    const label = op ? group.label : `${open ? "▾" : "▸"} ${group.label}`;
    return h(
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
          shorten(label, 34),
          op ? null : h("span", { class: "q s0" }, ` ${count(group.rows.length)}`),
        ),
      ),
      cells,
      h("td", { class: "r" }, total && !hidden ? this.time(total) : "–"),
      h("td", { class: "r" }, redundant && !hidden ? this.time(redundant) : h("span", { class: "q" }, "–")),
      h("td", { class: "cause" }, hidden ? "" : prose(this.why(group, open))),
    );
  }

  private mix(counts: readonly number[]): HTMLElement {
    const total = counts.reduce((sum, n) => sum + n, 0);
    return h(
      "div",
      { class: "mix", role: "img", "aria-label": MIX_ORDER.filter((i) => counts[i]).map((i) => `${counts[i]} ${t(STATUSES[i].name)}`).join(", ") },
      MIX_ORDER.filter((i) => counts[i]).slice(0, 3).map((i) =>
        h("span", { class: `st ${STATUSES[i].letter}`, style: `flex:${counts[i]}`, title: t("{n} of {all} {status}", { n: counts[i], all: total, status: t(STATUSES[i].name) }) }, STATUSES[i].letter),
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
    for (const row of group.rows) {
      const kind = kinds(row);
      let text = texts.get(kind);
      if (text === undefined) texts.set(kind, (text = why(execution, entry, row)));
      tally.set(text, (tally.get(text) ?? 0) + 1);
    }
    const [best, n] = [...tally].sort((a, b) => b[1] - a[1])[0] ?? ["", 0];
    return tally.size > 1 ? t("{n} of {all}: {text}", { n, all: group.rows.length, text: best }) : best;
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
