/** One explorer tab for each notebook: opened on demand, then shown again; follows new recordings unless told not to. */

import type { JupyterFrontEnd } from "@jupyterlab/application";
import { MainAreaWidget } from "@jupyterlab/apputils";
import type { NotebookPanel } from "@jupyterlab/notebook";
import type { TranslationBundle } from "@jupyterlab/translation";
import { type ISignal, Signal } from "@lumino/signaling";
import { Widget } from "@lumino/widgets";

import type { Target } from "./bundle.js";
import { ExplorerTab } from "./tab.js";

export type ExplorerWidget = MainAreaWidget<ExplorerTab>;

export class Explorers {
  private readonly app: JupyterFrontEnd;
  private readonly trans: TranslationBundle;
  private readonly tabs = new Map<NotebookPanel, ExplorerWidget>();
  /** Whether new tabs follow new recordings. */
  followsFirst = true;
  private readonly made = new Signal<this, ExplorerWidget>(this);
  private readonly other = new Signal<this, ExplorerWidget>(this);

  constructor(app: JupyterFrontEnd, trans: TranslationBundle) {
    this.app = app;
    this.trans = trans;
  }

  /** Emitted with each new tab. */
  get opened(): ISignal<this, ExplorerWidget> {
    return this.made;
  }

  /** Emitted with a tab that shows another recording, or follows new ones or no more. */
  get changed(): ISignal<this, ExplorerWidget> {
    return this.other;
  }

  /** Show a recording of a notebook in its tab, and in it what `target` points at. */
  open(panel: NotebookPanel, name: string, target: Target | null = null, follows = this.followsFirst): ExplorerWidget {
    const known = this.tabs.get(panel);
    known?.content.present(name, target);
    const tab = known ?? this.make(panel, name, target, follows);
    this.app.shell.activateById(tab.id);
    return tab;
  }

  private make(panel: NotebookPanel, name: string, target: Target | null, follows: boolean): ExplorerWidget {
    const tab = new MainAreaWidget({ content: new ExplorerTab(panel, name, this.trans) });
    tab.id = `cachelab-explorer-${panel.id}`;
    tab.content.follows = follows;
    tab.content.present(name, target);
    tab.toolbar.addItem("follow", this.follow(tab));
    this.tabs.set(panel, tab);
    tab.disposed.connect(() => this.tabs.delete(panel));
    panel.disposed.connect(() => tab.dispose());
    tab.content.title.changed.connect(() => this.other.emit(tab));
    this.app.shell.add(tab, "main", { mode: "split-bottom", ref: panel.id });
    if (!tab.isAttached) {
      // Notebook 7 has room for one document in its main area.
      tab.content.node.style.minHeight = "40vh";
      this.app.shell.add(tab, "down");
    }
    this.made.emit(tab);
    return tab;
  }

  private follow(tab: ExplorerWidget): Widget {
    const label = document.createElement("label");
    const box = document.createElement("input");
    box.type = "checkbox";
    box.checked = tab.content.follows;
    box.addEventListener("change", () => {
      tab.content.follows = box.checked;
      this.other.emit(tab);
    });
    label.append(box, this.trans.__("Follow new recordings"));
    const item = new Widget();
    item.addClass("cachelab-Follow");
    item.node.append(label);
    return item;
  }
}
