/** The graph on the screen: draws the picture once for each set of open scopes, recolours it for calls and modes. */

import type { App, Key, Panel } from "./app.ts";
import { h, s } from "./dom.ts";
import { drawItem, type Drawn, paintItem } from "./nodes.ts";
import { type Item, Layout, type Picture } from "./layout.ts";
import { type Legend, legend } from "./legend.ts";
import { aside } from "./opening.ts";
import { edgeClass, look } from "./paint.ts";
import { definitions } from "./shapes.ts";
import { executed } from "./statuses.ts";
import { t } from "./strings.ts";
import { bounds, View } from "./view.ts";

let instances = 0;

export class GraphPanel implements Panel {
  readonly element = h("div", { class: "gw" });
  private readonly frame = h("div", { class: "gp" });
  readonly svg: SVGSVGElement;
  picture: Picture = { w: 0, h: 0, items: [], segments: [] };
  private readonly app: App;
  private readonly view: View;
  /** Boxes of open scopes, below the lines. */
  private readonly ground = s("g", { class: "nodes" });
  private readonly lines = s("g", { class: "lines" });
  private readonly nodes = s("g", { class: "nodes" });
  private readonly layouts = new Map<number, Layout>();
  private drawn: Drawn[] = [];
  private paths: SVGPathElement[] = [];
  private focused = "";
  readonly legend: Legend;
  private readonly id = `cl${++instances}`;

  constructor(app: App) {
    this.app = app;
    const layer = s("g", {}, this.ground, this.lines, this.nodes);
    this.svg = s("svg", { role: "group", "aria-label": t("Graph"), class: "graph" }, definitions(this.id), layer);
    this.svg.style.setProperty("--hatch", `url(#${this.id}-hatch)`);
    this.legend = legend(app);
    this.frame.append(this.svg);
    this.element.append(this.frame, this.legend);
    this.view = new View(this.frame, this.svg, layer, { moved: () => this.view.cull(), fitted: () => this.placeLegend(), resized: () => this.begin() });
    this.svg.addEventListener("click", (event) => this.onClick(event));
    this.svg.addEventListener("keydown", (event) => this.onKey(event));
  }

  update(changed: ReadonlySet<Key>): void {
    const redrawn = changed.has("open") || changed.has("graph") || changed.has("results");
    if (redrawn) this.draw(changed.has("graph"));
    // Marking paints as well: a line of the selection wears its colour on top of its status.
    if (changed.has("selected") || redrawn || this.app.state.selected) this.mark();
    else this.paint();
  }

  fit(): void {
    this.view.fit(this.picture.w, this.picture.h);
  }

  zoom(factor: number): void {
    this.view.zoom(factor);
  }

  /** Lay out and build the elements; the place of the toggled scope on the screen stays. */
  private draw(fresh: boolean): void {
    const { app } = this;
    const graph = app.graph();
    let layout = this.layouts.get(graph.id);
    if (!layout) {
      layout = new Layout(app.tree(), app.fetched(), aside(app));
      this.layouts.set(graph.id, layout);
    }
    const keep = app.state.selected?.id ?? this.focused;
    const before = this.picture.items.find((item) => item.group.id === keep);
    const hadFocus = this.svg.contains((this.svg.getRootNode() as ShadowRoot).activeElement);
    this.picture = layout.draw(app.state.open);
    this.paths = this.picture.segments.map((segment) => s("path", { d: segment.d, class: "e" }));
    this.drawn = this.picture.items.map((item) => drawItem(item, this.id));
    this.lines.replaceChildren(...this.paths);
    const elements = (open: boolean): SVGGElement[] => this.drawn.filter((_, i) => this.picture.items[i].open === open).map(({ element }) => element);
    this.ground.replaceChildren(...elements(true));
    this.nodes.replaceChildren(...elements(false));
    this.view.size(this.picture.w, this.picture.h);
    const after = this.picture.items.find((item) => item.group.id === keep);
    // What was acted on stays where it was, unless the smaller or larger picture would lie outside of the window then.
    if (fresh || !before || !after) {
      if (fresh) this.begin();
      else this.fit();
    } else {
      this.view.shift(before.x - after.x, before.y - after.y);
      this.view.settle(this.picture.w, this.picture.h);
      this.view.show(after.x, after.y, after.w, Math.min(after.h, 80), 0);
      this.placeLegend();
    }
    this.view.bounds(this.picture.items, this.drawn, this.picture.segments, this.paths);
    if (hadFocus) this.focus(keep);
    else this.roving();
  }

  /** Colours only: nothing moves between calls and modes. */
  private paint(): void {
    const { app } = this;
    const status = app.statuses();
    const seconds = app.execution().seconds(app.state.entry);
    const hidden = app.hidden();
    const versions = app.recording.versions(Math.min(app.state.entry, app.recording.run.calls.length - 1));
    const fetches = new Set(app.execution().calls[app.state.entry].fetches.map((name) => app.graph().producer(name)));
    this.picture.items.forEach((item, i) => {
      paintItem(this.drawn[i], item, look(app, item, status, seconds), { versions, graph: app.graph(), fetches, id: this.id });
    });
    this.picture.segments.forEach((segment, i) => {
      const kind = edgeClass(segment, status, hidden, app.state.traced);
      const path = this.paths[i];
      if (path.dataset.kind === kind) return;
      path.dataset.kind = kind;
      path.setAttribute("class", kind);
      const end = / S\b/.test(kind) ? "aS" : / P\b/.test(kind) ? "aP" : "a";
      if (segment.arrow) path.setAttribute("marker-end", `url(#${this.id}-${end})`);
    });
    this.svg.setAttribute("aria-label", t("Graph, call {call}", { call: app.execution().label(app.state.entry) }));
  }

  /** Show the selection and the lines that touch it. */
  private mark(): void {
    const { selected } = this.app.state;
    const group = selected?.id ? this.app.tree().byId.get(selected.id) : undefined;
    const rows = new Set(group ? (group.rows.length > 400 ? [] : group.rows) : selected ? [selected.row] : []);
    this.picture.items.forEach((item, i) => {
      const on = item.group.id === selected?.id;
      this.drawn[i].element.classList.toggle("sel", on);
      this.drawn[i].element.setAttribute("aria-pressed", String(on));
      this.drawn[i].chips.forEach((chip, k) => chip.classList.toggle("on", selected !== null && item.chips[k].sources.includes(selected.row)));
    });
    for (const path of this.paths) path.dataset.kind = "";
    this.paint();
    if (rows.size)
      this.picture.segments.forEach((segment, i) => {
        if (!segment.pairs.some((row, k) => rows.has(row) && !rows.has(segment.pairs[k ^ 1]))) return;
        this.paths[i].classList.add("on");
        if (segment.arrow) this.paths[i].setAttribute("marker-end", `url(#${this.id}-aI)`);
      });
    this.roving();
  }

  /** A picture that the window does not hold begins with what ran in the shown call, not with what none of its fetches needs. */
  private begin(): void {
    this.fit();
    const status = this.app.statuses();
    const first = this.picture.items
      .filter(({ group }) => group.parent === this.app.tree().root && group.rows.some((row) => executed(status[row])))
      .sort((a, b) => a.x - b.x || a.y - b.y)[0];
    if (!first) return;
    const box = this.view.onScreen(first.x, first.y, first.w, Math.min(first.h, 80));
    const { width, height } = this.view.window();
    if (box.x + box.w <= width && box.y + box.h <= height) return;
    this.view.pan(8 - box.x, 8 - box.y);
    this.view.settle(this.picture.w, this.picture.h);
    this.placeLegend();
  }

  /** Bring the selected node into view. */
  show(id: string): void {
    const item = this.picture.items.find((one) => one.group.id === id);
    if (item) this.view.show(item.x, item.y, item.w, Math.min(item.h, 80));
    this.placeLegend();
  }

  /** Into the emptiest corner; below the graph where every corner is taken. */
  private placeLegend(): void {
    const { legend } = this;
    const [w, h] = [402, 108];
    const { width, height } = this.view.window();
    const boxes = this.picture.items.map((item) => this.view.onScreen(item.x - 8, item.y - 4, item.w + 16, item.h + 8));
    const lines = this.picture.segments.map((segment) => this.view.onScreen(...bounds(segment.d)));
    const corners = [[4, height - h - 2], [width - w - 4, height - h - 2], [4, 2], [width - w - 4, 2]];
    const free = corners.find(([x, y]) => ![...boxes, ...lines].some((box) => box.x < x + w && box.x + box.w > x && box.y < y + h && box.y + box.h > y));
    legend.classList.toggle("corner", free !== undefined);
    legend.style.left = free ? `${free[0]}px` : "";
    legend.style.top = free ? `${free[1]}px` : "";
  }

  private itemOf(target: EventTarget | null): Item | undefined {
    const node = (target as Element | null)?.closest?.("[data-id]");
    return node ? this.picture.items.find((item) => item.group.id === node.getAttribute("data-id")) : undefined;
  }

  private onClick(event: MouseEvent): void {
    if (this.view.dragged) return;
    const item = this.itemOf(event.target);
    const chip = (event.target as Element).closest("[data-chip]");
    if (item && chip) {
      const source = item.chips[Number(chip.getAttribute("data-chip"))]?.sources[0];
      if (source !== undefined) return this.app.select(source);
    }
    if (!item) return;
    this.focused = item.group.id;
    this.activate(item);
    this.focus(item.group.id);
  }

  private activate(item: Item): void {
    if (this.app.hidden()) return this.predict(item);
    this.app.choose(item.group);
    if (item.group.kind !== "op") this.app.toggle(item.group);
  }

  private predict(item: Item): void {
    const { predict } = this.app.state;
    if (!predict) return;
    const marked = new Set(predict.marked);
    const all = item.group.rows.every((row) => marked.has(row));
    for (const row of item.group.rows) all ? marked.delete(row) : marked.add(row);
    this.app.set({ predict: { ...predict, marked } });
  }

  private onKey(event: KeyboardEvent): void {
    const item = this.itemOf(event.target);
    const zooms: Record<string, () => void> = { "+": () => this.zoom(1.25), "=": () => this.zoom(1.25), "-": () => this.zoom(0.8), "0": () => this.fit() };
    if (zooms[event.key] && !event.ctrlKey && !event.metaKey) zooms[event.key]();
    else if (!item) return;
    else if (event.key === "Enter" || event.key === " ") this.activate(item);
    else if (event.key === "o" && item.group.kind !== "op") this.app.toggle(item.group);
    else {
      const next = this.neighbour(item, event.key);
      if (!next) return;
      this.focus(next.group.id);
      this.view.show(next.x, next.y, next.w, Math.min(next.h, 60));
    }
    event.preventDefault();
    event.stopPropagation();
  }

  /** Right and left follow the edges, up and down go to the nearest box above or below. */
  private neighbour(item: Item, key: string): Item | undefined {
    const others = this.picture.items.filter((one) => one !== item);
    const centre = (one: Item): [number, number] => [one.x + one.w / 2, one.y + (one.open ? 12 : one.h / 2)];
    const [x, y] = centre(item);
    const near = (list: Item[]): Item | undefined =>
      list.sort((a, b) => Math.hypot(centre(a)[0] - x, centre(a)[1] - y) - Math.hypot(centre(b)[0] - x, centre(b)[1] - y))[0];
    if (key === "ArrowUp" || key === "ArrowDown") {
      const sign = key === "ArrowUp" ? -1 : 1;
      const column = others.filter((one) => (centre(one)[1] - y) * sign > 4);
      return column.sort((a, b) => distance(a) - distance(b))[0];
    }
    if (key !== "ArrowRight" && key !== "ArrowLeft") return undefined;
    if (item.open && key === "ArrowRight") return near(others.filter((one) => one.group.parent === item.group));
    const back = key === "ArrowLeft" ? 1 : 0;
    const mine = new Set(item.group.rows);
    const linked = new Set<number>();
    for (const segment of this.picture.segments)
      for (let i = 0; i < segment.pairs.length; i += 2)
        if (mine.has(segment.pairs[i + back])) linked.add(segment.pairs[i + 1 - back]);
    const found = near(others.filter((one) => !one.open && one.group.rows.some((row) => linked.has(row) && !mine.has(row))));
    const sign = back ? -1 : 1;
    return found ?? near(others.filter((one) => (centre(one)[0] - x) * sign > 4));
    function distance(one: Item): number {
      return Math.abs(centre(one)[1] - y) + 2 * Math.abs(centre(one)[0] - x);
    }
  }

  private focus(id: string): void {
    this.focused = id;
    this.roving();
    const at = this.picture.items.findIndex((item) => item.group.id === id);
    this.drawn[at]?.element.focus({ preventScroll: true });
  }

  /** One node takes the tab stop: the focused one, else the selected one, else the first. */
  private roving(): void {
    const ids = this.picture.items.map((item) => item.group.id);
    const wanted = [this.focused, this.app.state.selected?.id ?? ""].find((id) => ids.includes(id)) ?? ids[0];
    this.drawn.forEach((one, i) => one.element.setAttribute("tabindex", ids[i] === wanted ? "0" : "-1"));
  }
}
