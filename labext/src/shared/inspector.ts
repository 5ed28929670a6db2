/** The inspector: one op or scope, its status and evidence in each call, the cause as a sentence with its chain. */

import { type App, type Key, modeName, type Panel } from "./app.ts";
import { h, prose, redraw } from "./dom.ts";
import { chain, sentence } from "./explain.ts";
import { type Group, mix } from "./hierarchy.ts";
import { executed, MIX_ORDER, painted, STATUSES } from "./statuses.ts";
import { bytes, count, ops, plural, t, time } from "./strings.ts";
import { counted } from "./sums.ts";
import { swatch } from "./widgets.ts";

const CALLS = 10;

export class InspectorPanel implements Panel {
  readonly element = h("div", { class: "ins", role: "region", "aria-label": t("Inspector") });
  private readonly app: App;

  constructor(app: App) {
    this.app = app;
  }

  update(changed: ReadonlySet<Key>): void {
    const seen: Key[] = ["mode", "entry", "selected", "open", "results", "graph", "predict", "traced", "cuts"];
    if (!seen.some((key) => changed.has(key))) return;
    const { selected } = this.app.state;
    const group = selected?.id ? this.app.tree().byId.get(selected.id) : undefined;
    if (!selected) redraw(this.element, h("p", { class: "hd" }, t("Inspector")), h("p", { class: "say q" }, t("Select an op or a scope in the graph, the matrix or the table.")));
    else if (selected.row >= 0) this.op(selected.row);
    else if (group) this.scope(group);
  }

  private op(row: number): void {
    const { app } = this;
    const graph = app.graph();
    const execution = app.execution();
    const { entry } = app.state;
    const name = graph.name[row];
    const hidden = app.hidden();
    const cell = execution.cell(entry, row);
    const said = sentence(execution, entry, row);
    const line = app.recording.line(graph.line[row]);
    const { lines, left } = chain(app, row);
    const kv: [string, (Node | string)[]][] = [];
    const output = [cell.shape, cell.bytes ? bytes(cell.bytes) : ""].filter(Boolean).join(", ");
    if (output) kv.push([t("output"), [output]]);
    if (cell.count > 1) kv.push([t("ran"), [t("{n} times in this call", { n: count(cell.count) })]]);
    if (cell.device) kv.push([t("device"), [cell.device]]);
    if (line) kv.push([t("written at"), [h("code", {}, line.where), h("br"), h("code", { class: "q" }, line.text)]]);
    app.askAdvice();
    const known = app.recording.raw.advice;
    const advice = known?.find((one) => one.cut.split(":")[0] === name);
    kv.push([t("evidence"), [t("m measured, d derived, a assumed")]]);
    if (known) kv.push([t("advice"), advice ? prose(advice.text) : [t("none")]]);
    redraw(
      this.element,
      h("p", { class: "hd" }, h("span", { class: "m name" }, name), h("span", {}, graph.type[row])),
      hidden
        ? h("p", { class: "say q" }, t("Its status is hidden until you reveal."))
        : [
            h("div", { class: "now" }, swatch(painted(cell.status, graph.bookkeeping[row])), h("b", {}, t(STATUSES[cell.status].name)), h("span", { class: "q" }, t("in call {call}, {evidence}", { call: execution.label(entry), evidence: t(cell.evidence) }))),
            h("p", { class: "say" }, h("b", {}, said.lead), " ", prose(said.body), graph.bookkeeping[row] ? ` ${t("Bookkeeping: not counted.")}` : ""),
          ],
      h(
        "div",
        { class: "chain", role: "list", "aria-label": t("Inputs down to the sources") },
        lines.map((one) =>
          h(
            "div",
            { role: "listitem" },
            h("button", { type: "button", style: `padding-left:${one.depth * 12}px`, "data-key": `chain-${one.row}`, title: one.name, onclick: () => app.select(one.row) }, `${one.depth ? "└ " : ""}${one.name}`),
            h("span", {}, one.version),
            h("b", {}, one.against),
          ),
        ),
        left > 0 && h("div", { role: "listitem" }, h("span", { class: "all" }, t("and {n} more inputs", { n: left }))),
      ),
      this.perCall(row, hidden),
      h("div", { class: "kv" }, kv.map(([key, value]) => [h("span", {}, key), h("div", {}, value)])),
      this.buttons(name, row),
    );
  }

  private perCall(row: number, hidden: boolean): HTMLElement {
    const { app } = this;
    const execution = app.execution();
    const { again } = app.recording;
    const { entry, mode } = app.state;
    const first = Math.max(0, Math.min(entry - CALLS / 2, execution.calls.length - CALLS));
    const entries = execution.calls.map((_, e) => e).slice(first, first + CALLS).filter((e) => execution.calls[e].graph === app.state.graph);
    const ms = (status: number, seconds: number): string => (executed(status) ? (seconds * 1e3).toFixed(seconds < 0.00095 ? 2 : 1) : "–");
    const cells = entries.map((e) => execution.cell(e, row));
    const line = (label: string, content: (i: number) => Node | string, quiet = true) =>
      h("tr", { class: quiet ? "s0" : "" }, h("th", { scope: "row", class: quiet ? "q" : "" }, label), entries.map((e, i) => h("td", {}, hidden && e >= entry ? "?" : content(i))));
    return h(
      "table",
      { class: "pc" },
      h("thead", {}, h("tr", {}, h("th", { scope: "col" }, t("call")), entries.map((e) => h("th", { scope: "col", class: e === entry ? "on" : "" }, execution.label(e))))),
      h(
        "tbody",
        {},
        line(modeName(mode), (i) => swatch(painted(cells[i].status, app.graph().bookkeeping[row])), false),
        line(t("evidence"), (i) => h("abbr", { title: t(cells[i].evidence) }, cells[i].evidence.charAt(0))),
        line("ms", (i) => ms(cells[i].status, cells[i].seconds)),
        // The recorded calls were cold and traced: only a replay of them can be compared.
        mode !== "run" && again &&
          line(t("in run"), (i) => {
            const e = again.entry(execution.calls[entries[i]].index);
            if (e < 0) return "–";
            const cell = again.cell(e, row);
            return ms(cell.status, cell.seconds);
          }),
      ),
    );
  }

  private buttons(name: string, row: number): HTMLElement {
    const { app } = this;
    const { cuts, traced } = app.state;
    const tensor = `${name}:0`;
    const on = cuts.includes(tensor);
    const trace = (back: boolean): void => {
      const rows = app.graph().reach(row, back);
      app.set({ traced: rows });
      app.announce(back ? plural("{n} op upstream", "{n} ops upstream", rows.size - 1) : plural("{n} op downstream", "{n} ops downstream", rows.size - 1));
    };
    const button = (text: string, key: string, act: () => void, pressed?: boolean) =>
      h("button", { class: "btn", type: "button", "data-key": key, "aria-pressed": pressed === undefined ? null : String(pressed), onclick: act }, text);
    return h(
      "div",
      { class: "acts" },
      app.host && app.graph().consumers.at[row + 1] > app.graph().consumers.at[row]
        ? button(on ? t("Unset cut") : t("Set as cut"), "cut", () => app.set({ cuts: on ? cuts.filter((one) => one !== tensor) : [...cuts, tensor], notice: null }), on)
        : null,
      button(t("Sources"), "sources", () => trace(true)),
      button(t("Consumers"), "consumers", () => trace(false)),
      traced && button(t("End trace"), "untrace", () => app.set({ traced: null })),
    );
  }

  private scope(group: Group): void {
    const { app } = this;
    const graph = app.graph();
    const execution = app.execution();
    const { entry } = app.state;
    const hidden = app.hidden();
    const counts = mix(group, app.statuses(), graph.bookkeeping);
    const seconds = execution.seconds(entry);
    const rows = counted(group, graph);
    const spent = Array.from(rows, (row) => [seconds(row), row] as const).filter(([value]) => value > 0).sort((a, b) => b[0] - a[0]);
    const sum = spent.reduce((total, [value]) => total + value, 0);
    redraw(
      this.element,
      h("p", { class: "hd" }, h("span", { class: "m name" }, group.kind === "scope" && !group.id.includes("~") ? group.id : group.label), h("span", {}, ops(rows.length, group.rows.length - rows.length))),
      hidden
        ? h("p", { class: "say q" }, t("Its statuses are hidden until you reveal."))
        : [
            h("p", { class: "say" }, t("In call {call} its ops took {time} of op time.", { call: execution.label(entry), time: time(sum) })),
            h("table", { class: "mixes" }, h("tbody", {}, MIX_ORDER.filter((i) => counts[i]).map((i) => h("tr", {}, h("td", {}, swatch(i)), h("td", {}, t(STATUSES[i].name)), h("td", { class: "r" }, count(counts[i])))))),
          ],
      spent.length > 0 && [
        h("p", { class: "hd2" }, t("Longest ops")),
        h(
          "div",
          { class: "chain" },
          spent.slice(0, 8).map(([value, row]) =>
            h("div", {}, h("button", { type: "button", "data-key": `top-${row}`, title: graph.name[row], onclick: () => app.select(row) }, graph.name[row].startsWith(`${group.id}/`) ? graph.name[row].slice(group.id.length + 1) : graph.name[row]), h("span"), h("b", {}, time(value))),
          ),
        ),
      ],
      h("div", { class: "acts" }, h("button", { class: "btn", type: "button", "data-key": "toggle", onclick: () => app.toggle(group) }, app.state.open.has(group.id) ? t("Close scope") : t("Open scope"))),
    );
  }
}
