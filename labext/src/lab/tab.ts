/** The explorer in a main area tab: shows one recording of a notebook's kernel, and the next one when it follows. */

import type { NotebookPanel } from "@jupyterlab/notebook";
import type { TranslationBundle } from "@jupyterlab/translation";
import { Widget } from "@lumino/widgets";

import { deliver, type Mounted, mountBytes, type Target } from "./bundle.js";
import { keyOf, type Link, type Message } from "./link.js";
import { linkOf } from "./links.js";

export class ExplorerTab extends Widget {
  readonly panel: NotebookPanel;
  recording: string;
  /** Show every new recording as soon as there is one. */
  follows = true;
  private readonly link: Link;
  private readonly trans: TranslationBundle;
  private mounted: Mounted | null = null;
  private target: Target | null = null;
  /** The newest recording that the kernel told of; null before it told of any. */
  private latest: string | null = null;
  /** Numbers of requests on the shared comm -> numbers that this explorer gave them. */
  private readonly requests = new Map<number, number>();

  constructor(panel: NotebookPanel, recording: string, trans: TranslationBundle) {
    super();
    this.panel = panel;
    this.link = linkOf(panel);
    this.recording = recording;
    this.trans = trans;
    if (this.link.state.link === "ready") this.latest = this.newest();
    this.addClass("cachelab-Tab");
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

  /** Show a recording, and in it what `target` points at. */
  present(recording: string, target: Target | null = null): void {
    if (recording === this.recording && this.mounted) {
      if (target) this.mounted.explorer.goTo(target);
      return;
    }
    this.target = target;
    if (recording === this.recording) return;
    this.recording = recording;
    this.ask();
  }

  private newest(): string {
    const [first] = this.link.state.recordings;
    return first ? keyOf(first) : "";
  }

  private ask(): void {
    this.title.label = this.recording;
    this.title.caption = this.trans.__("CacheLab: %1 of %2", this.recording, this.panel.title.label);
    this.mounted?.stop();
    this.mounted = null;
    try {
      this.link.send({ type: "recording", name: this.recording });
    } catch {
      this.say(this.trans.__("CacheLab is not loaded in this kernel."));
    }
  }

  private onState(): void {
    const { state } = this.link;
    if (state.link !== "ready") return;
    const newest = this.newest();
    const fresh = this.latest !== null && newest !== this.latest;
    this.latest = newest;
    if (fresh && newest && this.follows) {
      this.recording = state.recordings[0].name;
      this.target = null;
      this.ask();
    } else if (!this.mounted) this.ask();
  }

  private send(message: Record<string, unknown>): void {
    const data = { ...message, name: this.recording };
    if (typeof message.id !== "number") return this.link.send(data);
    const known = message.type === "cancel" ? [...this.requests].find(([, own]) => own === message.id) : undefined;
    const id = known?.[0] ?? this.link.nextId();
    this.requests.set(id, message.id);
    this.link.send({ ...data, id });
  }

  private onMessage(_: Link, { data, buffers }: Message): void {
    if (data.name !== this.recording) return;
    if (data.type === "recording") {
      this.mounted?.stop();
      void mountBytes(this.node, buffers[0], { send: (message) => this.send(message) }).then((mounted: Mounted) => {
        this.mounted = mounted;
        if (this.target) mounted.explorer.goTo(this.target);
        this.target = null;
      });
    } else if (data.type === "gone" && !this.mounted) this.say(String(data.text));
    else if (data.type === "advice") deliver(this.mounted, data, buffers);
    else if (this.requests.has(Number(data.id))) deliver(this.mounted, { ...data, id: this.requests.get(Number(data.id)) }, buffers);
  }

  private say(text: string): void {
    const line = document.createElement("p");
    line.textContent = text;
    this.node.replaceChildren(line);
  }
}
