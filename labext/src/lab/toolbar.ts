/** The mode switch in the notebook toolbar: how the next cells execute. */

import type { DocumentRegistry } from "@jupyterlab/docregistry";
import type { INotebookModel, NotebookPanel } from "@jupyterlab/notebook";
import type { TranslationBundle } from "@jupyterlab/translation";
import { DisposableDelegate, type IDisposable } from "@lumino/disposable";
import { Widget } from "@lumino/widgets";

import type { Link } from "./link.js";
import { linkOf } from "./links.js";

/** Modes of the user's own session; the others replay the cell after it ran. */
const LIVE = ["run", "memo", "feed"];
const REPLAY = ["variable", "handle", "partial_run", "joint", "per_example"];

export class ModeSwitch extends Widget {
  private readonly link: Link;
  private readonly trans: TranslationBundle;
  private readonly select = document.createElement("select");
  private readonly button = document.createElement("button");

  constructor(link: Link, trans: TranslationBundle) {
    super();
    this.link = link;
    this.trans = trans;
    this.addClass("cachelab-Switch");
    const label = document.createElement("label");
    label.textContent = "CacheLab ";
    this.select.setAttribute("aria-label", trans.__("CacheLab mode for the next cells"));
    this.option(this.select, "off", trans.__("off"));
    const live = document.createElement("optgroup");
    live.label = trans.__("execute in mode");
    for (const mode of LIVE) this.option(live, mode, mode);
    const replay = document.createElement("optgroup");
    replay.label = trans.__("run, then replay in mode");
    for (const mode of REPLAY) this.option(replay, mode, mode === "per_example" ? "per-example" : mode);
    this.select.append(live, replay);
    this.select.addEventListener("change", () => {
      this.link.setMode(this.select.value);
      this.refresh();
    });
    this.button.textContent = trans.__("Load CacheLab");
    this.button.type = "button";
    this.button.addEventListener("click", () => void this.link.load());
    label.append(this.select);
    this.node.append(label, this.button);
    link.changed.connect(this.refresh, this);
    this.refresh();
  }

  dispose(): void {
    this.link.changed.disconnect(this.refresh, this);
    super.dispose();
  }

  private option(parent: HTMLElement, value: string, text: string): void {
    const option = document.createElement("option");
    option.value = value;
    option.textContent = text;
    parent.append(option);
  }

  private refresh(): void {
    const { state, pending } = this.link;
    const reason =
      state.link === "none" ? this.trans.__("No kernel is connected.") : state.link === "absent" ? this.trans.__("CacheLab is not loaded in this kernel.") : "";
    this.select.disabled = reason !== "";
    this.select.title = reason || (pending ? this.trans.__("The kernel is busy; the mode is set when the cell ends.") : this.trans.__("How the next cells execute"));
    this.select.value = pending || state.mode;
    this.button.hidden = state.link !== "absent";
    this.button.title = reason;
  }
}

/** Puts a switch into the toolbar of every notebook. */
export class SwitchExtension implements DocumentRegistry.IWidgetExtension<NotebookPanel, INotebookModel> {
  private readonly trans: TranslationBundle;

  constructor(trans: TranslationBundle) {
    this.trans = trans;
  }

  createNew(panel: NotebookPanel): IDisposable {
    const item = new ModeSwitch(linkOf(panel), this.trans);
    panel.toolbar.insertBefore("kernelName", "cachelab-mode", item) || panel.toolbar.addItem("cachelab-mode", item);
    return new DisposableDelegate(() => item.dispose());
  }
}
