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
  private readonly made = new Signal<this, ExplorerWidget>(this);

  constructor(app: JupyterFrontEnd, trans: TranslationBundle) {
    this.app = app;
    this.trans = trans;
  }

  /** Emitted with each new tab. */
  get opened(): ISignal<this, ExplorerWidget> {
    return this.made;
  }

  /** Show a recording of a notebook in its tab, and in it what `target` points at. */
  open(panel: NotebookPanel, name: string, target: Target | null = null): ExplorerWidget {
    const { shell } = this.app;
    let tab = this.tabs.get(panel);
    if (tab) tab.content.present(name, target);
    else {
      tab = new MainAreaWidget({ content: new ExplorerTab(panel, name, this.trans) });
      tab.id = `cachelab-explorer-${panel.id}`;
      tab.content.present(name, target);
      tab.toolbar.addItem("follow", this.follow(tab.content));
      this.tabs.set(panel, tab);
      tab.disposed.connect(() => this.tabs.delete(panel));
      panel.disposed.connect(() => tab?.dispose());
      shell.add(tab, "main", { mode: "split-bottom", ref: panel.id });
      this.made.emit(tab);
    }
    shell.activateById(tab.id);
    return tab;
  }

  private follow(tab: ExplorerTab): Widget {
    const label = document.createElement("label");
    const box = document.createElement("input");
    box.type = "checkbox";
    box.checked = tab.follows;
    box.addEventListener("change", () => (tab.follows = box.checked));
    label.append(box, this.trans.__("Follow new recordings"));
    const item = new Widget();
    item.addClass("cachelab-Follow");
    item.node.append(label);
    return item;
  }
}
