/** The explorer: state, panels, and what passes between them. */

import { type App, type Host, type Key, modeName, type Panel, type State } from "./app.ts";
import { download, h, prose, redraw } from "./dom.ts";
import { exportMenu, fileName } from "./exports.ts";
import type { RawMode, RawRecording, RawReplay } from "./format.ts";
import type { Graph } from "./graph.ts";
import { GraphPanel } from "./graphview.ts";
import { arrange, buildTree, type Group, revealed, type Tree } from "./hierarchy.ts";
import { InspectorPanel } from "./inspector.ts";
import { MatrixPanel } from "./matrix.ts";
import { ModesPanel, summary } from "./modes.ts";
import { firstShown, initiallyOpen } from "./opening.ts";
import { goTo, type Target } from "./places.ts";
import { PredictPanel } from "./predict.ts";
import type { Execution, Recording } from "./recording.ts";
import { searchBox } from "./search.ts";
import { StepsPanel } from "./steps.ts";
import { plural, t } from "./strings.ts";
import { SumCache, type Sums } from "./sums.ts";
import { CodePanel, TablePanel } from "./table.ts";
import { TimelinePanel } from "./timeline.ts";
import { rove } from "./widgets.ts";

const TABS: readonly [string, string][] = [["matrix", "Matrix"], ["timeline", "Timeline"], ["code", "Code"], ["table", "Table"]];

export class Explorer implements App {
  readonly recording: Recording;
  readonly host: Host | null;
  readonly bundle: () => string;
  readonly root = h("div", { class: "xp" });
  state: State;
  private readonly trees = new Map<number, { tree: Tree; fetched: ReadonlySet<number> }>();
  private readonly panels: Panel[];
  private readonly graphPanel: GraphPanel;
  private readonly tabs = h("div", { class: "tabs", role: "tablist", "aria-label": t("Views") });
  private readonly live = h("div", { class: "vh", role: "status", "aria-live": "polite" });
  private readonly tabBodies: Map<string, Panel>;
  private readonly find: HTMLElement;
  private sequence = 0;
  private asked = false;
  /** Number of the last request for a page. */
  private paging = -1;
  private readonly cache = new SumCache();

  constructor(recording: Recording, host: Host | null, bundle: () => string) {
    this.recording = recording;
    this.host = host;
    this.bundle = bundle;
    const entry = firstShown(recording.run);
    const graph = recording.run.calls[entry]?.graph ?? recording.raw.graphs[0].id;
    this.state = {
      mode: "run", entry, graph, selected: null, open: new Set(), dimmed: new Set(), tab: "matrix", traced: null, cuts: [], predict: null, pending: null, notice: null,
    };
    this.state.open = initiallyOpen(this);
    const graphPanel = new GraphPanel(this);
    const predict = new PredictPanel(this);
    this.graphPanel = graphPanel;
    this.find = searchBox(this);
    this.tabBodies = new Map<string, Panel>([["matrix", new MatrixPanel(this)], ["timeline", new TimelinePanel(this)], ["code", new CodePanel(this)], ["table", new TablePanel(this)]]);
    const modes = new ModesPanel(this);
    const steps = new StepsPanel(this, graphPanel);
    const inspector = new InspectorPanel(this);
    this.panels = [modes, predict, graphPanel, steps, ...this.tabBodies.values(), inspector];
    const body = h("div", { id: "tab", role: "tabpanel", tabindex: 0, "aria-label": t("Matrix") }, [...this.tabBodies.values()].map((panel) => panel.element));
    this.root.append(
      this.toolbar(predict, graphPanel),
      modes.element,
      predict.element,
      graphPanel.element,
      steps.element,
      h("div", { class: "bot" }, h("div", {}, this.tabs, body), inspector.element),
      this.live,
    );
    this.root.addEventListener("keydown", (event) => this.onKey(event));
    this.tabs.addEventListener("keydown", (event) => {
      const next = rove(event, [...this.tabs.querySelectorAll<HTMLElement>('[role="tab"]')]);
      if (next?.dataset.tab) this.set({ tab: next.dataset.tab });
    });
    this.refresh(new Set<Key>(["mode", "entry", "graph", "selected", "open", "dimmed", "tab", "traced", "cuts", "predict", "pending", "notice", "results"]));
  }

  private toolbar(predict: PredictPanel, graph: GraphPanel): HTMLElement {
    const { raw, run } = this.recording;
    const calls = run.all().calls;
    const graphs = raw.graphs.length > 1 && h(
      "select",
      { "aria-label": t("Graph"), onchange: (event: Event) => this.showGraph(Number((event.target as HTMLSelectElement).value)) },
      raw.graphs.map((one) => h("option", { value: one.id }, t("graph {id}, {n} ops", { id: one.id, n: this.recording.graphs.get(one.id)?.size ?? 0 }))),
    );
    const button = (text: string, key: string, act: () => void) => h("button", { class: "btn", type: "button", "data-key": key, onclick: act }, text);
    return h(
      "div",
      { class: "tb" },
      h("b", {}, "CacheLab"),
      h("span", { class: "q" }, [raw.name, plural("{n} call", "{n} calls", calls), this.host ? "" : t("saved, no kernel")].filter(Boolean).join(", ")),
      graphs,
      h("span", { class: "grow" }),
      this.find,
      button(t("Close all"), "closeall", () => this.set({ open: new Set() })),
      button(t("Predict"), "predict", () => predict.start()),
      exportMenu(this, () => ({ svg: graph.svg, w: graph.picture.w, h: graph.picture.h })),
    );
  }

  set(patch: Partial<State>, also: readonly Key[] = []): void {
    const changed = new Set<Key>(also);
    for (const key of Object.keys(patch) as (keyof State)[]) if (patch[key] !== this.state[key]) changed.add(key);
    this.state = { ...this.state, ...patch };
    if (changed.has("graph")) this.state = { ...this.state, open: initiallyOpen(this), selected: null, traced: null };
    if (changed.size) this.refresh(changed);
  }

  private refresh(changed: ReadonlySet<Key>): void {
    for (const [name, panel] of this.tabBodies) panel.element.hidden = name !== this.state.tab;
    for (const panel of this.panels) panel.update(changed);
    if (changed.has("tab") || changed.has("cuts") || changed.has("mode")) this.drawTabs();
    const told: readonly Key[] = ["mode", "entry", "graph", "dimmed", "predict", "results"];
    if (told.some((key) => changed.has(key))) this.graphPanel.legend.refresh();
  }

  private drawTabs(): void {
    const { tab, cuts, mode } = this.state;
    redraw(
      this.tabs,
      TABS.map(([name, title]) =>
        h("button", { type: "button", role: "tab", id: `tab-${name}`, "aria-controls": "tab", "data-tab": name, "data-key": `tab-${name}`, "aria-selected": String(name === tab), tabindex: name === tab ? 0 : -1, onclick: () => this.set({ tab: name }) }, t(title)),
      ),
      h("span", { class: "q s0", role: "presentation" }, cuts.length ? prose(t("cut: {cuts}", { cuts: cuts.map((cut) => `\`${cut}\``).join(", ") })) : mode === "run" ? t("no cut: nothing is kept") : ""),
    );
    this.root.querySelector("#tab")?.setAttribute("aria-label", t(TABS.find(([name]) => name === tab)?.[1] ?? ""));
  }

  execution(): Execution {
    return this.recording.executions.get(this.state.mode) ?? this.recording.run;
  }

  graph(): Graph {
    return this.recording.graphs.get(this.state.graph) as Graph;
  }

  private planted(): { tree: Tree; fetched: ReadonlySet<number> } {
    const graph = this.graph();
    let found = this.trees.get(graph.id);
    if (!found) {
      const { shown, fetched } = this.recording.used(graph);
      found = { tree: buildTree(graph, shown, fetched), fetched };
      arrange(found.tree, found.tree.root);
      this.trees.set(graph.id, found);
    }
    return found;
  }

  tree(): Tree {
    return this.planted().tree;
  }

  fetched(): ReadonlySet<number> {
    return this.planted().fetched;
  }

  sums(group: Group, entry: number): Sums {
    return this.cache.of(group, this.execution(), entry, this.graph());
  }

  statuses(): Uint8Array {
    return this.execution().status(this.state.entry);
  }

  hidden(): boolean {
    return this.state.predict !== null && !this.state.predict.revealed;
  }

  /** Ask once what is worth keeping, when somebody looks at an op. */
  askAdvice(): void {
    if (this.asked || !this.host || this.recording.raw.advice) return;
    this.asked = true;
    try {
      this.host.send({ type: "advise", id: ++this.sequence });
    } catch {
      // Without its kernel the explorer still shows what it has.
    }
  }

  /** Have the kernel make the exported page. */
  askPage(): void {
    let text = t("The kernel makes the page, as soon as it is free.");
    try {
      this.paging = ++this.sequence;
      this.host?.send({ type: "page", id: this.paging });
    } catch {
      text = t("The kernel that made this recording is gone. Run the cell again to export it.");
    }
    this.set({ notice: { text, bad: false } });
    this.announce(text);
  }

  result(mode: string): RawMode | undefined {
    return this.recording.results.get(mode);
  }

  /** Select an op wherever it is, or a scope around it; the scopes that it lies in open. */
  select(row: number, scope?: string): void {
    const { found, around } = revealed(this.tree(), row, scope);
    if (!found) this.set({ selected: { row, id: null } });
    else {
      const open = new Set([...this.state.open, ...around]);
      this.set({ selected: { row: found.row, id: found.id }, ...(open.size > this.state.open.size ? { open } : {}) });
      this.graphPanel.show(found.id);
    }
    this.announce(t("{op} selected", { op: scope ?? this.graph().name[row] }));
  }

  /** Show what somebody pointed at outside: the ops of lines of code, or a call. */
  goTo(target: Target): void {
    goTo(this, target);
  }

  choose(group: Group): void {
    this.set({ selected: { row: group.kind === "op" ? group.row : -1, id: group.id } });
  }

  toggle(group: Group): void {
    const open = new Set(this.state.open);
    if (open.has(group.id)) open.delete(group.id);
    else {
      arrange(this.tree(), group);
      open.add(group.id);
    }
    this.set({ open });
    this.announce(open.has(group.id) ? t("{scope} opened, {n} inside", { scope: group.label, n: group.children.length }) : t("{scope} closed", { scope: group.label }));
  }

  announce(text: string): void {
    this.live.textContent = "";
    // An emptied region is read again even if the text is the same.
    setTimeout(() => (this.live.textContent = text), 30);
  }

  /** Show a mode; if it was not replayed yet, or with other cuts, ask the kernel. */
  replay(mode: string): void {
    const known = this.recording.executions.has(mode);
    if (known && (mode === "run" || !this.state.cuts.length)) return this.show(mode);
    if (!this.host) return known ? this.show(mode) : undefined;
    if (this.state.pending) return this.announce(t("A replay is running; cancel it first."));
    const id = ++this.sequence;
    this.set({ pending: { id, mode, state: "sent", done: 0, total: 0, text: "" }, notice: null });
    try {
      this.host.send({ type: "replay", id, mode, cuts: this.state.cuts });
    } catch {
      const text = t("The kernel that made this recording is gone. Run the cell again to replay it.");
      this.set({ pending: null, notice: { text, bad: true } });
      return this.announce(text);
    }
    setTimeout(() => {
      const { pending } = this.state;
      if (pending?.id === id && pending.state === "sent") {
        this.set({ pending: { ...pending, state: "waiting" } });
        this.announce(t("The kernel is busy; the replay waits."));
      }
    }, 700);
  }

  private show(mode: string): void {
    const execution = this.recording.executions.get(mode) ?? this.recording.run;
    const index = this.execution().calls[this.state.entry].index;
    const entry = Math.max(0, Math.min(execution.calls.length - 1, execution.entry(index)));
    this.set({ mode, entry, graph: execution.calls[entry].graph, notice: null, predict: this.state.predict ? { marked: new Set(), revealed: false } : null });
    if (!this.hidden()) this.announce(summary(this, mode));
  }

  cancel(): void {
    const { pending } = this.state;
    if (!pending) return;
    this.host?.send({ type: "cancel", id: pending.id });
    if (pending.state === "running") return;
    // The kernel gets both messages one after the other when it is free again; what it says then is not waited for.
    const text = t("Cancelled before it began.");
    this.set({ pending: null, notice: { text, bad: false } });
    this.announce(text);
  }

  /** A message of the kernel. */
  receive(message: Record<string, unknown>): void {
    const { pending } = this.state;
    if (message.type === "advice") {
      this.recording.raw.advice = message.advice as RawRecording["advice"];
      return this.set({}, ["results"]);
    }
    if (message.id === this.paging) {
      if (message.type === "page") {
        download(`${fileName(this)}.html`, "text/html", String(message.text));
        this.set({ notice: null });
      } else if (message.type === "failed") this.set({ notice: { text: String(message.text), bad: true } });
      return;
    }
    if (!pending || message.id !== pending.id) return;
    if (message.type === "accepted") this.set({ pending: { ...pending, state: "running" } });
    else if (message.type === "progress")
      this.set({ pending: { ...pending, state: "running", done: Number(message.done), total: Number(message.total), text: String(message.text ?? "") } });
    else if (message.type === "result") this.finish(message);
    else if (message.type === "failed" || message.type === "cancelled") {
      const text = String(message.text);
      this.set({ pending: null, notice: { text, bad: message.type === "failed" } });
      this.announce(text.replaceAll("`", ""));
    }
  }

  private finish(message: Record<string, unknown>): void {
    const result = message.result as RawMode;
    this.recording.results.set(result.mode, result);
    for (const other of (message.others as RawMode[] | undefined) ?? []) this.recording.results.set(other.mode, other);
    if (message.replay) this.recording.add(result.mode, message.replay as RawReplay);
    this.set({ pending: null }, ["results"]);
    if (result.applicable && this.recording.executions.has(result.mode)) this.show(result.mode);
    else {
      const text = result.applicable
        ? t("`{mode}` was replayed, without a record of its ops.", { mode: modeName(result.mode) })
        : t("`{mode}` is not possible here. {reason}", { mode: modeName(result.mode), reason: result.reason });
      this.set({ notice: { text, bad: false } });
      this.announce(text.replaceAll("`", ""));
    }
  }

  private showGraph(graph: number): void {
    const entry = this.execution().calls.findIndex((call) => call.graph === graph);
    if (entry >= 0) this.set({ entry, graph });
  }

  private onKey(event: KeyboardEvent): void {
    const typing = (event.target as HTMLElement).tagName === "INPUT";
    if (event.key === "/" && !typing) this.find.querySelector("input")?.focus();
    else if (event.key === "Escape" && (this.state.selected || this.state.traced)) this.set({ selected: null, traced: null });
    else return;
    event.preventDefault();
    event.stopPropagation();
  }
}
