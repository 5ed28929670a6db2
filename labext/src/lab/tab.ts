/** The explorer in a main area tab, following the kernel's recordings. */

import type { NotebookPanel } from "@jupyterlab/notebook";
import type { TranslationBundle } from "@jupyterlab/translation";
import { Widget } from "@lumino/widgets";

import { deliver, type Mounted, mountBytes } from "./bundle.js";
import type { Link, Message } from "./link.js";
import { linkOf } from "./links.js";

export class ExplorerTab extends Widget {
  private readonly link: Link;
  private readonly recording: string;
  private readonly trans: TranslationBundle;
  private mounted: Mounted | null = null;

  constructor(panel: NotebookPanel, recording: string, trans: TranslationBundle) {
    super();
    this.link = linkOf(panel);
    this.recording = recording;
    this.trans = trans;
    this.addClass("cachelab-Tab");
    this.title.label = recording;
    this.title.caption = `CacheLab: ${recording}`;
    this.title.iconClass = "cachelab-Icon";
    this.title.closable = true;
    this.link.message.connect(this.onMessage, this);
    this.link.changed.connect(this.onState, this);
    this.ask();
  }

  dispose(): void {
    this.link.message.disconnect(this.onMessage, this);
    this.link.changed.disconnect(this.onState, this);
    this.mounted?.stop();
    super.dispose();
  }

  private ask(): void {
    try {
      this.link.send({ type: "recording", name: this.recording });
    } catch {
      this.say(this.trans.__("CacheLab is not loaded in this kernel."));
    }
  }

  private onState(): void {
    if (!this.mounted && this.link.state.link === "ready") this.ask();
  }

  private onMessage(_: Link, { data, buffers }: Message): void {
    if (data.name !== this.recording) return;
    if (data.type === "recording") {
      const host = { send: (message: Record<string, unknown>) => this.link.send({ ...message, name: this.recording }) };
      this.mounted?.stop();
      void mountBytes(this.node, buffers[0], host).then((mounted: Mounted) => (this.mounted = mounted));
    } else if (data.type === "gone" && !this.mounted) this.say(String(data.text));
    else deliver(this.mounted, data, buffers);
  }

  private say(text: string): void {
    const line = document.createElement("p");
    line.textContent = text;
    this.node.replaceChildren(line);
  }
}
