/** The mode switch in the notebook toolbar: how the next cells execute. */

import type { TranslationBundle } from "@jupyterlab/translation";
import { Widget } from "@lumino/widgets";

import type { Link } from "./link.js";
import { loadable, modeGroups, obstacle } from "./modes.js";

/** Name of the toolbar's item, as the settings schema places it. */
export const SWITCH = "cachelab-mode";

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
    for (const { title, modes } of modeGroups(trans)) {
      const group = document.createElement("optgroup");
      group.label = title;
      for (const { value, text } of modes) group.append(new Option(text, value));
      this.select.append(...(title ? [group] : group.children));
    }
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

  /** Give the keyboard to what can be used: the switch, or the button that loads CacheLab. */
  take(): void {
    const target = this.select.disabled ? this.button : this.select;
    target.focus();
    // The toolbar hands a keyboard that comes from outside to the item that had it last.
    target.focus();
  }

  private refresh(): void {
    const { state, pending } = this.link;
    const reason = obstacle(state, this.trans);
    this.select.disabled = reason !== "";
    this.select.title = reason || (pending ? this.trans.__("The kernel is busy; the mode is set when the cell ends.") : this.trans.__("How the next cells execute"));
    this.select.value = pending || state.mode;
    this.button.hidden = !loadable(state);
    this.button.title = reason;
  }
}
