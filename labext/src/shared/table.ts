/** The table: everything that the graph says, op by op, sorted and filtered; and the code of the mode. */

import { type App, type Key, modeName, type Panel } from "./app.ts";
import { h, prose, redraw } from "./dom.ts";
import { why } from "./explain.ts";
import { executed, painted, STATUSES } from "./statuses.ts";
import { bytes, ops, shorten, t, time } from "./strings.ts";
import { swatch } from "./widgets.ts";

const PAGE = 100;
/** Characters of a name, a type and a list of inputs: what stands beside them stays in view. The whole is in the title. */
const NAME = 30;
const TYPE = 20;
const INPUTS = 60;
type Sort = "order" | "name" | "type" | "status" | "time" | "output";

export class TablePanel implements Panel {
  readonly element = h("div", { class: "tbp" });
  private readonly app: App;
  private sort: Sort = "order";
  private page = 0;
  private filter = "";
  private readonly body = h("div", {});

  constructor(app: App) {
    this.app = app;
    const input = h("input", {
      type: "search", "aria-label": t("Filter the table"), placeholder: t("Filter by name, type or status"),
      oninput: (event: Event) => {
        this.filter = (event.target as HTMLInputElement).value.toLowerCase();
        this.page = 0;
        this.draw();
      },
    });
    this.element.append(h("div", { class: "tbf" }, input), this.body);
  }

  update(changed: ReadonlySet<Key>): void {
    const seen: Key[] = ["mode", "entry", "selected", "tab", "results", "graph", "predict"];
    if (this.app.state.tab === "table" && seen.some((key) => changed.has(key))) this.draw();
  }

  private draw(): void {
    const { app } = this;
    const graph = app.graph();
    const execution = app.execution();
    const { entry, selected } = app.state;
    if (app.hidden()) return void redraw(this.body, h("p", { class: "q" }, t("Statuses are hidden until you reveal them.")));
    const status = app.statuses();
    const seconds = execution.seconds(entry);
    const { shown } = app.recording.used(graph);
    let rows = [...shown.keys()].filter((row) => shown[row]);
    if (this.filter)
      rows = rows.filter((row) => [graph.name[row], graph.type[row], STATUSES[status[row]].name].some((text) => text.toLowerCase().includes(this.filter)));
    const by: Record<Sort, (a: number, b: number) => number> = {
      order: (a, b) => a - b,
      name: (a, b) => graph.name[a].localeCompare(graph.name[b]),
      type: (a, b) => graph.type[a].localeCompare(graph.type[b]) || a - b,
      status: (a, b) => status[a] - status[b] || a - b,
      time: (a, b) => seconds(b) - seconds(a) || a - b,
      output: (a, b) => execution.cell(entry, b).bytes - execution.cell(entry, a).bytes || a - b,
    };
    if (this.sort !== "order") rows.sort(by[this.sort]);
    const bookkeeping = rows.reduce((sum, row) => sum + graph.bookkeeping[row], 0);
    const pages = Math.max(1, Math.ceil(rows.length / PAGE));
    this.page = Math.min(this.page, pages - 1);
    const head = (sort: Sort | "", text: string, right = false) =>
      h(
        "th",
        { scope: "col", class: right ? "r" : null, "aria-sort": sort && sort === this.sort ? (sort === "time" || sort === "output" ? "descending" : "ascending") : null },
        sort
          ? h("button", { type: "button", "data-key": `sort-${sort}`, onclick: () => ((this.sort = this.sort === sort ? "order" : sort), this.draw()) }, text, this.sort === sort ? " ▾" : "")
          : text,
      );
    const line = (row: number): HTMLElement => {
      const cell = execution.cell(entry, row);
      const place = app.recording.line(graph.line[row]);
      const quiet = graph.bookkeeping[row] === 1;
      const inputs = graph.inputs(row).join(", ");
      return h(
        "tr",
        { class: selected?.row === row ? "sel" : null },
        h("th", { scope: "row", class: "m" }, h("button", { type: "button", "data-key": `op-${row}`, title: graph.name[row], onclick: () => app.select(row) }, shorten(graph.name[row], NAME))),
        h("td", { class: "q", title: graph.type[row] }, shorten(graph.type[row], TYPE)),
        h("td", {}, swatch(painted(cell.status, quiet))),
        h("td", { class: quiet ? "q" : null, title: quiet ? t("Bookkeeping: not counted.") : null }, t(STATUSES[cell.status].name)),
        h("td", { class: "r" }, executed(cell.status) ? time(cell.seconds) : "–"),
        h("td", { class: "r" }, cell.bytes ? bytes(cell.bytes) : "–"),
        h("td", { class: "wrap" }, prose(why(execution, entry, row))),
        h("td", { class: "q" }, t(cell.evidence)),
        h("td", { class: "m q", title: inputs }, shorten(inputs, INPUTS)),
        h("td", { class: "m q" }, place?.where ?? ""),
      );
    };
    const turn = (by: number) => () => {
      this.page = Math.min(pages - 1, Math.max(0, this.page + by));
      this.draw();
    };
    redraw(
      this.body,
      h(
        "table",
        { class: "ops", "aria-label": t("Ops of call {call}", { call: execution.label(entry) }) },
        h("thead", {}, h("tr", {}, head("name", t("op")), head("type", t("type")), h("th", { scope: "col" }, h("span", { class: "vh" }, t("mark"))), head("status", t("status")), head("time", t("time"), true), head("output", t("output"), true), head("", t("cause")), head("", t("evidence")), head("", t("inputs")), head("", t("line")))),
        h("tbody", {}, rows.slice(this.page * PAGE, (this.page + 1) * PAGE).map(line)),
      ),
      h(
        "p",
        { class: "q s0 pager" },
        ops(rows.length - bookkeeping, bookkeeping),
        pages > 1 && [
          h("button", { class: "btn", type: "button", "data-key": "page-back", onclick: turn(-1) }, t("Previous")),
          t("page {page} of {pages}", { page: this.page + 1, pages }),
          h("button", { class: "btn", type: "button", "data-key": "page-next", onclick: turn(1) }, t("Next")),
        ],
      ),
    );
  }
}

const TOKEN = /(#.*$)|("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')|\b(for|in|with|as|def|return|import|from|if|else|not|and|or|None|True|False|lambda|while)\b/gm;

/** Python text with comments, strings and keywords marked. */
export function highlight(code: string): (Node | string)[] {
  const parts: (Node | string)[] = [];
  let at = 0;
  for (const match of code.matchAll(TOKEN)) {
    parts.push(code.slice(at, match.index));
    parts.push(h("span", { class: match[1] ? "cm" : match[2] ? "sx" : "kw" }, match[0]));
    at = match.index + match[0].length;
  }
  parts.push(code.slice(at));
  return parts;
}

export class CodePanel implements Panel {
  readonly element = h("div", { class: "cdp" });
  private readonly app: App;

  constructor(app: App) {
    this.app = app;
  }

  update(changed: ReadonlySet<Key>): void {
    if (this.app.state.tab !== "code" || !(["mode", "tab", "results"] as Key[]).some((key) => changed.has(key))) return;
    const { mode } = this.app.state;
    const code = this.app.result(mode)?.code;
    redraw(
      this.element,
      code
        ? [
            h(
              "p",
              { class: "q" },
              t("What `{mode}` does, by hand, in plain TensorFlow", { mode: modeName(mode) }).replaceAll("`", ""),
              h("button", { class: "btn", type: "button", "data-key": "copy", onclick: () => void navigator.clipboard?.writeText(code).then(() => this.app.announce(t("Code copied"))) }, t("Copy")),
            ),
            h("pre", { tabindex: 0, "aria-label": t("Code") }, highlight(code)),
          ]
        : h("p", { class: "q" }, mode === "run" ? t("The calls ran as you wrote them. Choose another mode to see its code.") : t("Replay this mode to see its code.")),
    );
  }
}
