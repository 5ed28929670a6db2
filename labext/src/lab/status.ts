/** The status bar's item: mode of the active kernel, redundant share of its latest recording; a click opens the panel. */

import type { TranslationBundle } from "@jupyterlab/translation";
import { type ISignal, Signal } from "@lumino/signaling";
import { Widget } from "@lumino/widgets";

import type { Link } from "./link.js";
import { modeGroups, obstacle } from "./modes.js";

export class StatusItem extends Widget {
  private readonly trans: TranslationBundle;
  private readonly button = document.createElement("button");
  private readonly names: ReadonlyMap<string, string>;
  private readonly shownChanged = new Signal<this, void>(this);
  private link: Link | null = null;

  constructor(trans: TranslationBundle, click: () => void) {
    super();
    this.trans = trans;
    this.names = new Map(modeGroups(trans).flatMap(({ modes }) => modes.map(({ value, text }) => [value, text])));
    this.addClass("cachelab-Status");
    this.button.type = "button";
    this.button.addEventListener("click", click);
    this.node.append(this.button);
    this.refresh();
  }

  /** Tell of another kernel from now on; of none, nothing is shown. */
  follow(link: Link | null): void {
    if (link === this.link) return;
    this.link?.changed.disconnect(this.refresh, this);
    this.link = link;
    link?.changed.connect(this.refresh, this);
    this.refresh();
  }

  /** Whether there is no kernel to tell of. */
  get empty(): boolean {
    return this.link === null;
  }

  /** Emitted when the item may have to be shown or hidden. */
  get shown(): ISignal<this, void> {
    return this.shownChanged;
  }

  changed(): void {
    this.shownChanged.emit();
  }

  private refresh(): void {
    this.changed();
    const { trans } = this;
    const state = this.link?.state;
    if (!state) return;
    const reason = obstacle(state, trans);
    const mode = trans.__("CacheLab: %1", this.names.get(state.mode) ?? state.mode);
    const [latest] = state.recordings;
    const share = latest && trans.__("%1 % redundant", Math.round(100 * latest.share));
    this.button.textContent = reason ? trans.__("CacheLab: not loaded") : share ? `${mode} · ${share}` : mode;
    this.button.title = reason || (latest ? trans.__("%1: show the CacheLab panel", latest.name) : trans.__("Show the CacheLab panel"));
  }
}
