/** The side panel: what the active notebook's kernel recorded, repeated, found, holds; and the lines of the active cell. */

import type { CodeEditor } from "@jupyterlab/codeeditor";
import type { INotebookTracker, NotebookPanel } from "@jupyterlab/notebook";
import type { TranslationBundle } from "@jupyterlab/translation";
import { Widget } from "@lumino/widgets";

import { h, prose, redraw } from "../shared/dom.js";
import { type Adviser, adviserOf } from "./advice.js";
import type { Target } from "./bundle.js";
import type { Gutters, Standing } from "./gutter.js";
import { keyOf, type Link, type RecordingRow } from "./link.js";
import { lineKey, lineList } from "./linelist.js";
import { linkOf } from "./links.js";
import { callTable, findingList, liveSession, recordingTable, saving, section, servedInCell } from "./sections.js";

type Open = (panel: NotebookPanel, name: string, target?: Target | null) => void;

export class SidePanel extends Widget {
  private readonly tracker: INotebookTracker;
  private readonly gutters: Gutters;
  private readonly trans: TranslationBundle;
  private readonly open: Open;
  private link: Link | null = null;
  private adviser: Adviser | null = null;
  /** The recording that is shown; the latest one unless somebody chose another. */
  private chosen = "";
  private line = 0;
  private latest = "";
  private queued = 0;

  constructor(tracker: INotebookTracker, gutters: Gutters, trans: TranslationBundle, open: Open) {
    super();
    this.tracker = tracker;
    this.gutters = gutters;
    this.trans = trans;
    this.open = open;
    this.id = "cachelab-panel";
    this.addClass("cachelab-Panel");
    this.title.label = "";
    this.title.caption = "CacheLab";
    this.title.iconClass = "cachelab-Icon";
    this.node.tabIndex = -1;
    this.node.setAttribute("role", "region");
    this.node.setAttribute("aria-label", "CacheLab");
    // JupyterLab's own shortcuts work from here as well; those of the notebook have selectors that do not reach the panel.
    tracker.currentChanged.connect(this.follow, this);
    tracker.activeCellChanged.connect(this.onCell, this);
    gutters.changed.connect(this.later, this);
    this.follow();
  }

  /** Unfold the mark of a line of the active cell (by default where the cursor is), and put the focus there. */
  showLine(line?: number): boolean {
    const lines = this.lines();
    const at = line ?? (this.tracker.activeCell?.editor?.getCursorPosition().line ?? 0) + 1;
    const found = [...lines].sort((a, b) => Math.abs(a.line - at) - Math.abs(b.line - at))[0];
    if (!found) return false;
    this.line = found.line;
    this.refresh();
    this.node.querySelector<HTMLElement>(`[data-key="${lineKey(found.line)}"]`)?.focus();
    return true;
  }

  protected onAfterShow(): void {
    this.refresh();
  }

  /** Whoever shows the panel by a command goes on in it: at its first control, or at the panel itself. */
  protected onActivateRequest(): void {
    if (this.node.contains(document.activeElement)) return;
    const first = this.node.querySelector<HTMLElement>("button:not(:disabled)");
    (first ?? this.node).focus({ preventScroll: true });
  }

  private follow(): void {
    const panel = this.tracker.currentWidget;
    const link = panel ? linkOf(panel) : null;
    if (link !== this.link) {
      this.link?.changed.disconnect(this.onState, this);
      this.link?.marked.disconnect(this.later, this);
      this.adviser?.changed.disconnect(this.later, this);
      this.link = link;
      this.adviser = link ? adviserOf(link) : null;
      this.chosen = this.latest = "";
      link?.changed.connect(this.onState, this);
      link?.marked.connect(this.later, this);
      this.adviser?.changed.connect(this.later, this);
    }
    this.refresh();
  }

  private onState(): void {
    const [first] = this.link?.state.recordings ?? [];
    const latest = first ? keyOf(first) : "";
    // A new recording is shown, whatever was chosen before.
    if (latest !== this.latest) this.chosen = "";
    this.latest = latest;
    this.later();
  }

  private onCell(): void {
    this.line = 0;
    this.later();
  }

  /** Once a frame at most, and only while somebody can see it. */
  private later(): void {
    this.queued ||= requestAnimationFrame(() => {
      this.queued = 0;
      if (!this.isDisposed && this.isVisible) this.refresh();
    });
  }

  private refresh(): void {
    const { trans } = this;
    const panel = this.tracker.currentWidget;
    const state = this.link?.state;
    if (!panel || !state || state.link === "none") return this.draw("", h("p", {}, trans.__("No notebook with a kernel is active.")));
    if (state.link === "absent") {
      const load = h("button", { type: "button", "data-key": "load", onclick: () => void this.link?.load() }, trans.__("Load CacheLab"));
      return this.draw("", h("section", {}, h("p", {}, trans.__("CacheLab is not loaded in this kernel.")), load));
    }
    const mode = state.mode === "off" ? trans.__("records cells that begin with %1", "%%cachelab") : trans.__("records every cell, mode %1", state.mode);
    const calls = this.link?.progress ?? null;
    const now = calls === null ? null : h("section", { role: "status" }, h("p", {}, trans._n("Recording: %1 call so far.", "Recording: %1 calls so far.", calls)));
    const row = state.recordings.find((one) => one.name === this.chosen) ?? state.recordings[0];
    const live = state.live.map((one) => liveSession(trans, one, (number) => this.link?.send({ type: "clear", number })));
    const none = h("section", {}, h("p", {}, trans.__("No recordings yet. Put %1 on the first line of a cell, or switch a mode on.", "%%cachelab")));
    this.draw(mode, now, ...(row ? this.ofRecording(panel, state.recordings, row) : [none]), ...live, this.ofCell(panel));
  }

  private draw(note: string, ...content: (Node | null)[]): void {
    redraw(this.node, h("h2", {}, "CacheLab", note ? h("span", {}, note) : null), content);
  }

  private ofRecording(panel: NotebookPanel, rows: readonly RecordingRow[], row: RecordingRow): (Node | null)[] {
    const { trans } = this;
    const ids = new Map(panel.content.widgets.map((cell, index) => [cell.model.id, index]));
    const table = recordingTable(trans, rows, row.name, {
      select: (one) => {
        this.chosen = one.name;
        this.refresh();
      },
      place: (one) => ids.get(one.cell) ?? -1,
      jump: (index) => this.jump(panel, index),
    });
    const explorer = h("button", { type: "button", "data-key": "explorer", onclick: () => this.open(panel, row.name) }, trans.__("Open explorer"));
    return [
      section(trans.__("Recordings"), trans.__("redundant op time"), table, saving(trans, row), explorer),
      row.log.length ? section(trans.__("Calls of %1", row.name), "", callTable(trans, row.log, (call) => this.open(panel, row.name, { call }))) : null,
      row.findings.length ? section(trans.__("Findings of %1", row.name), String(row.findings.length + row.more_findings), findingList(trans, row)) : null,
      this.advice(row),
      servedInCell(trans, row),
    ];
  }

  private advice(row: RecordingRow): HTMLElement {
    const { trans } = this;
    const answer = this.adviser?.of(keyOf(row));
    const title = trans.__("Advice on %1", row.name);
    if (answer?.state === "known") {
      const list = answer.advice.map((one) => h("li", {}, prose(one.text)));
      return section(title, "", list.length ? h("ol", {}, list) : h("p", {}, trans.__("Nothing is worth keeping.")));
    }
    const ask = h("button", { type: "button", "data-key": "advise", disabled: answer?.state === "asked", onclick: () => this.adviser?.ask(row.name, keyOf(row)) }, trans.__("What is worth keeping?"));
    const said =
      answer?.state === "asked"
        ? trans.__("The kernel works it out; a busy one when its cell ends.")
        : answer?.state === "failed"
          ? answer.text
          : trans.__("Worked out when you ask, beside your cells.");
    return section(title, "", ask, h("p", { class: "cachelab-Quiet", role: "status" }, said));
  }

  private lines(): Standing[] {
    const model = this.tracker.activeCell?.model;
    return model ? this.gutters.standing(model as CodeEditor.IModel) : [];
  }

  private ofCell(panel: NotebookPanel): HTMLElement | null {
    const { trans } = this;
    const cell = this.tracker.activeCell;
    const lines = this.lines();
    const marks = cell ? this.gutters.given(cell.model as CodeEditor.IModel) : null;
    const left = this.link?.leftOut ?? 0;
    const missing = left ? h("p", { class: "cachelab-Quiet" }, trans._n("The marks of %1 cell are left out: too many.", "The marks of %1 cells are left out: too many.", left)) : null;
    if (!cell || !marks || !lines.length) return missing;
    const list = lineList(trans, marks, lines, this.line, {
      choose: (standing) => {
        this.line = this.line === standing.line ? 0 : standing.line;
        cell.editor?.setCursorPosition({ line: standing.line - 1, column: 0 });
        this.refresh();
      },
      explore: ({ mark }) => this.open(panel, mark.name, { lines: mark.at }),
    });
    return section(trans.__("Lines of cell %1", panel.content.activeCellIndex + 1), trans.__("op time"), list, ...(missing ? [missing] : []));
  }

  private jump(panel: NotebookPanel, index: number): void {
    panel.content.activeCellIndex = index;
    panel.content.deselectAll();
    void panel.content.scrollToItem(index, "smart").then(() => panel.content.activate());
  }
}
