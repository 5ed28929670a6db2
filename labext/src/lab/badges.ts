/** A badge on each recorded cell: how much of its op time repeated earlier work; stale, visibly, once the cell is edited. */

import type { Cell } from "@jupyterlab/cells";
import type { NotebookPanel } from "@jupyterlab/notebook";
import type { TranslationBundle } from "@jupyterlab/translation";

import type { RecordingRow } from "./link.js";
import { linkOf } from "./links.js";

const CLASS = "cachelab-Badge";

export class Badges {
  private readonly panel: NotebookPanel;
  private readonly trans: TranslationBundle;
  private readonly open: (panel: NotebookPanel, name: string) => void;
  /** Name of the recording that a cell's badge tells of, and whether the cell was edited since. */
  private readonly shown = new Map<string, { name: string; stale: boolean }>();
  private readonly watched = new WeakSet<Cell>();
  private queued = 0;

  constructor(panel: NotebookPanel, trans: TranslationBundle, open: (panel: NotebookPanel, name: string) => void) {
    this.panel = panel;
    this.trans = trans;
    this.open = open;
    linkOf(panel).changed.connect(this.later, this);
    // Cells are added, moved and split; their badges follow their ids.
    panel.content.modelContentChanged.connect(this.later, this);
    this.refresh();
  }

  /** Once a frame at most: typing changes the content with each key. */
  private later(): void {
    this.queued ||= requestAnimationFrame(() => {
      this.queued = 0;
      if (!this.panel.isDisposed) this.refresh();
    });
  }

  private refresh(): void {
    const { state } = linkOf(this.panel);
    const latest = new Map<string, RecordingRow>();
    for (const row of state.recordings) if (row.cell && !latest.has(row.cell)) latest.set(row.cell, row);
    for (const cell of this.panel.content.widgets) {
      const row = latest.get(cell.model.id);
      cell.node.querySelector(`:scope > .${CLASS}`)?.remove();
      if (!row) continue;
      const known = this.shown.get(cell.model.id);
      if (known?.name !== row.name) this.shown.set(cell.model.id, { name: row.name, stale: false });
      this.watch(cell);
      cell.node.append(this.badge(row, this.shown.get(cell.model.id)?.stale ?? false));
    }
  }

  private watch(cell: Cell): void {
    if (this.watched.has(cell)) return;
    this.watched.add(cell);
    cell.model.contentChanged.connect(() => {
      const known = this.shown.get(cell.model.id);
      if (!known || known.stale) return;
      known.stale = true;
      this.later();
    });
  }

  private badge(row: RecordingRow, stale: boolean): HTMLElement {
    const badge = document.createElement("button");
    badge.type = "button";
    badge.className = stale ? `${CLASS} cachelab-Stale` : CLASS;
    const mark = document.createElement("span");
    mark.className = row.share > 0 ? "cachelab-Hatch" : "cachelab-Plain";
    mark.setAttribute("aria-hidden", "true");
    const share = Math.round(100 * row.share);
    const text = row.share > 0 ? this.trans.__("%1 % of the op time repeated earlier work", share) : this.trans.__("no op ran twice on equal inputs");
    badge.append(mark, stale ? this.trans.__("edited since: %1", text) : text);
    badge.title = this.trans.__("Open the explorer of %1", row.name);
    badge.addEventListener("click", () => this.open(this.panel, row.name));
    return badge;
  }
}
