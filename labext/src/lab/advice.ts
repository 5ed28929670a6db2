/** Advice on what to keep: asked for by a click, worked out in a thread of the kernel, kept as long as the kernel lives. */

import { type ISignal, Signal } from "@lumino/signaling";

import type { Link, Message } from "./link.js";

export interface Advice {
  cut: string;
  text: string;
  seconds: number;
  bytes: number;
}

export type Answer = { state: "asked" } | { state: "failed"; text: string } | { state: "known"; advice: Advice[] };

export class Adviser {
  private readonly link: Link;
  private readonly answers = new Map<string, Answer>();
  private readonly pending = new Map<number, string>();
  private readonly answered = new Signal<this, void>(this);

  constructor(link: Link) {
    this.link = link;
    link.message.connect(this.onMessage, this);
    link.changed.connect(() => {
      if (link.state.link === "ready") return;
      this.answers.clear();
      this.pending.clear();
    });
  }

  get changed(): ISignal<this, void> {
    return this.answered;
  }

  /** `key` tells recordings of the same name apart. */
  of(key: string): Answer | undefined {
    return this.answers.get(key);
  }

  ask(name: string, key: string): void {
    const id = this.link.nextId();
    this.pending.set(id, key);
    this.answers.set(key, { state: "asked" });
    this.link.send({ type: "advise", name, id });
    this.answered.emit();
  }

  private onMessage(_: Link, { data }: Message): void {
    const key = this.pending.get(Number(data.id));
    if (key === undefined || (data.type !== "advice" && data.type !== "failed")) return;
    this.pending.delete(Number(data.id));
    this.answers.set(key, data.type === "advice" ? { state: "known", advice: data.advice as Advice[] } : { state: "failed", text: String(data.text) });
    this.answered.emit();
  }
}

const advisers = new WeakMap<Link, Adviser>();

export function adviserOf(link: Link): Adviser {
  let adviser = advisers.get(link);
  if (!adviser) advisers.set(link, (adviser = new Adviser(link)));
  return adviser;
}
