/** The side panel: recordings of the active notebook's kernel, what they repeated, what was found. */

import type { INotebookTracker, NotebookPanel } from "@jupyterlab/notebook";
import type { TranslationBundle } from "@jupyterlab/translation";
import { Widget } from "@lumino/widgets";

import type { Link, RecordingRow } from "./link.js";
import { linkOf } from "./links.js";

const percent = (share: number): string => `${Math.round(100 * share)} %`;
const ms = (seconds: number): string => (seconds < 1 ? `${(seconds * 1e3).toFixed(seconds < 0.01 ? 1 : 0)} ms` : `${seconds.toFixed(2)} s`);

function element<K extends keyof HTMLElementTagNameMap>(tag: K, text = "", className = ""): HTMLElementTagNameMap[K] {
  const made = document.createElement(tag);
  made.textContent = text;
  if (className) made.className = className;
  return made;
}

export class SidePanel extends Widget {
  private readonly tracker: INotebookTracker;
  private readonly trans: TranslationBundle;
  private readonly open: (panel: NotebookPanel, name: string) => void;
  private link: Link | null = null;

  constructor(tracker: INotebookTracker, trans: TranslationBundle, open: (panel: NotebookPanel, name: string) => void) {
    super();
    this.tracker = tracker;
    this.trans = trans;
    this.open = open;
    this.id = "cachelab-panel";
    this.addClass("cachelab-Panel");
    this.title.label = "";
    this.title.caption = "CacheLab";
    this.title.iconClass = "cachelab-Icon";
    this.node.setAttribute("role", "region");
    this.node.setAttribute("aria-label", "CacheLab");
    tracker.currentChanged.connect(this.follow, this);
    this.follow();
  }

  private follow(): void {
    const panel = this.tracker.currentWidget;
    const link = panel ? linkOf(panel) : null;
    if (link !== this.link) {
      this.link?.changed.disconnect(this.refresh, this);
      this.link = link;
      link?.changed.connect(this.refresh, this);
    }
    this.refresh();
  }

  private refresh(): void {
    const { trans } = this;
    const panel = this.tracker.currentWidget;
    const state = this.link?.state;
    const head = element("h2", "CacheLab");
    this.node.replaceChildren(head);
    if (!panel || !state || state.link === "none") return void this.node.append(element("p", trans.__("No notebook with a kernel is active.")));
    if (state.link === "absent") {
      const load = element("button", trans.__("Load CacheLab"));
      load.addEventListener("click", () => void this.link?.load());
      this.node.append(element("p", trans.__("CacheLab is not loaded in this kernel.")), load);
      return;
    }
    head.append(element("span", state.mode === "off" ? trans.__("records cells that begin with %1", "%%cachelab") : trans.__("records every cell, mode %1", state.mode)));
    if (!state.recordings.length) return void this.node.append(element("p", trans.__("No recordings yet. Put %1 on the first line of a cell, or switch a mode on.", "%%cachelab")));
    this.node.append(this.table(panel, state.recordings), ...this.findings(state.recordings[0]));
  }

  private table(panel: NotebookPanel, rows: readonly RecordingRow[]): HTMLElement {
    const { trans } = this;
    const table = element("table");
    const head = table.createTHead().insertRow();
    for (const text of [trans.__("recording"), trans.__("calls"), trans.__("redundant"), trans.__("op time")]) {
      const cell = element("th", text);
      cell.scope = "col";
      head.append(cell);
    }
    const body = table.createTBody();
    for (const row of rows) {
      const line = body.insertRow();
      const name = element("th");
      name.scope = "row";
      const open = element("button", row.name);
      open.title = trans.__("Open the explorer");
      open.addEventListener("click", () => this.open(panel, row.name));
      name.append(open);
      const index = panel.content.widgets.findIndex((cell) => cell.model.id === row.cell);
      if (index >= 0) {
        const jump = element("button", trans.__("cell %1", index + 1), "cachelab-Jump");
        jump.addEventListener("click", () => {
          panel.content.activeCellIndex = index;
          void panel.content.scrollToItem(index, "smart");
        });
        name.append(" ", jump);
      }
      line.append(name);
      for (const text of [String(row.calls), percent(row.share), ms(row.redundant)]) line.append(element("td", text));
    }
    return table;
  }

  private findings(row: RecordingRow): HTMLElement[] {
    if (!row.findings.length) return [];
    const list = element("ol");
    for (const text of row.findings) {
      const item = element("li");
      text.split("`").forEach((part, i) => item.append(i % 2 ? element("code", part) : part));
      list.append(item);
    }
    if (row.more_findings) list.append(element("li", this.trans.__("and %1 more", row.more_findings)));
    return [element("h3", this.trans.__("Findings of %1", row.name)), list];
  }
}
