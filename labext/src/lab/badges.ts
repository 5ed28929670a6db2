/** A badge on each cell that ran or made recorded work; stale, visibly, once the cell is edited or runs again. */

import type { CodeEditor } from "@jupyterlab/codeeditor";
import type { NotebookPanel } from "@jupyterlab/notebook";
import type { TranslationBundle } from "@jupyterlab/translation";

import { time } from "../shared/strings.js";
import type { Gutters } from "./gutter.js";
import type { RecordingRow } from "./link.js";
import { linkOf } from "./links.js";
import { type CellMarks, teller } from "./marks.js";
import { swatch } from "./swatches.js";
import { percent } from "./words.js";

const CLASS = "cachelab-Badge";
/** Class of a cell that has a badge: it leaves room for it. */
const ROOM = "cachelab-Badged";

interface Told {
  letter: string;
  text: string;
  /** The recording that a click opens. */
  name: string;
  old: boolean;
}

export class Badges {
  private readonly panel: NotebookPanel;
  private readonly gutters: Gutters;
  private readonly trans: TranslationBundle;
  private readonly open: (panel: NotebookPanel, name: string) => void;
  /** What a recorded cell's text was when its recording came, for cells whose lines carry no marks. */
  private readonly ran = new Map<string, { name: string; text: string }>();
  private queued = 0;

  constructor(panel: NotebookPanel, gutters: Gutters, trans: TranslationBundle, open: (panel: NotebookPanel, name: string) => void) {
    this.panel = panel;
    this.gutters = gutters;
    this.trans = trans;
    this.open = open;
    linkOf(panel).changed.connect(this.later, this);
    gutters.changed.connect(this.later, this);
    panel.disposed.connect(() => gutters.changed.disconnect(this.later, this));
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
      const { id } = cell.model;
      const row = latest.get(id);
      const text = cell.model.sharedModel.getSource();
      const given = this.gutters.given(cell.model as CodeEditor.IModel);
      // A cell that was split off shows its lines' marks, but the counts of the badge are of the whole.
      const made = given && (given.id === id || given.source === text) ? given : undefined;
      const told = row ? this.ofRun(id, row, made, text) : made ? this.ofOps(made, text) : null;
      const before = cell.node.querySelector<HTMLElement>(`:scope > .${CLASS}`);
      const key = JSON.stringify(told);
      if (before?.dataset.key === key) continue;
      before?.remove();
      if (told) cell.node.append(this.badge(told, key));
      cell.toggleClass(ROOM, told !== null);
    }
  }

  private ofRun(id: string, row: RecordingRow, made: CellMarks | undefined, text: string): Told {
    const { trans } = this;
    let known = this.ran.get(id);
    if (known?.name !== row.name) this.ran.set(id, (known = { name: row.name, text: made?.source ?? text }));
    const { live } = row;
    const asked = live ? live.hits + live.misses : 0;
    const said =
      live && asked
        ? trans.__("hit rate %1, %2 of %3 values, %4 saved", percent(live.hits / asked), live.hits, asked, time(live.saved))
        : row.share > 0
          ? trans.__("%1 of op time recomputed, %2 of %3", percent(row.share), time(row.redundant), time(row.seconds))
          : trans.__("no op ran twice on equal inputs");
    return this.aged({ letter: live?.hits ? "s" : row.share > 0 ? "r" : "c", text: said, name: row.name, old: false }, text !== known?.text, row.rerun);
  }

  private ofOps(made: CellMarks, text: string): Told | null {
    const { trans } = this;
    if (!made.made || !made.marks.length) return null;
    const said = made.again
      ? trans._n("%2 of %1 op made here was recomputed", "%2 of %1 ops made here were recomputed", made.made, made.again)
      : trans._n("the op made here was not recomputed", "none of %1 ops made here was recomputed", made.made);
    const rerun = made.marks.every((mark) => mark.rerun);
    return this.aged({ letter: made.again ? "r" : "c", text: said, name: teller(made.marks).name, old: false }, text !== made.source, rerun);
  }

  private aged(told: Told, edited: boolean, rerun: boolean): Told {
    if (edited) return { ...told, text: this.trans.__("edited since: %1", told.text), old: true };
    return rerun ? { ...told, text: this.trans.__("ran again since: %1", told.text), old: true } : told;
  }

  private badge(told: Told, key: string): HTMLElement {
    const badge = document.createElement("button");
    badge.type = "button";
    badge.className = told.old ? `${CLASS} cachelab-Old` : CLASS;
    badge.dataset.key = key;
    const text = document.createElement("span");
    text.textContent = told.text;
    badge.append(swatch(told.letter), text);
    badge.title = `${told.text}\n${this.trans.__("Open the explorer of %1", told.name)}`;
    badge.addEventListener("click", () => this.open(this.panel, told.name));
    return badge;
  }
}
