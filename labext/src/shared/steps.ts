/** The steps: one button a call with its share of redundant work, play, and the figures of the current call. */

import type { App, Key, Panel } from "./app.ts";
import { h, redraw } from "./dom.ts";
import type { Execution } from "./recording.ts";
import { COMPUTED, RECOMPUTED, REUSED } from "./statuses.ts";
import { count, shorten, t, time } from "./strings.ts";
import { spared } from "./sums.ts";
import { bar, rove } from "./widgets.ts";

const WINDOW = 12;

export class StepsPanel implements Panel {
  readonly element = h("div", { class: "step" });
  private readonly app: App;
  private readonly calls = h("div", { class: "stp", role: "group", "aria-label": t("Calls") });
  private readonly say = h("span", { class: "say" });
  private readonly figures = h("span", { class: "figs" });
  private readonly playButton: HTMLButtonElement;
  private timer = 0;
  private made = { serial: 0, against: 0, saved: new Map<number, number>() };

  constructor(app: App, graph: { fit(): void; zoom(factor: number): void }) {
    this.app = app;
    this.playButton = h("button", { class: "btn", type: "button", "data-key": "play", "aria-label": t("Play"), onclick: () => this.play() }, "▷");
    const button = (text: string, label: string, act: () => void, key: string) =>
      h("button", { class: "btn", type: "button", "aria-label": label, title: label, "data-key": key, onclick: act }, text);
    this.element.append(
      button("◀", t("Previous call"), () => this.go(app.state.entry - 1), "previous"),
      this.playButton,
      button("▶", t("Next call"), () => this.go(app.state.entry + 1), "next"),
      this.calls,
      this.say,
      this.figures,
      h("span", { class: "zoom" }, button(t("fit"), t("Fit the graph"), () => graph.fit(), "fit"), button("+", t("Zoom in"), () => graph.zoom(1.25), "in"), button("−", t("Zoom out"), () => graph.zoom(0.8), "out")),
    );
    this.calls.addEventListener("keydown", (event) => {
      const all = [...this.calls.querySelectorAll<HTMLElement>("[data-entry]")];
      const slider = this.calls.querySelector("input");
      if (slider && event.target === slider) return event.stopPropagation();
      const next = rove(event, all);
      if (next) this.go(Number(next.dataset.entry));
    });
  }

  update(changed: ReadonlySet<Key>): void {
    if (!(["mode", "entry", "results", "graph", "predict"] as Key[]).some((key) => changed.has(key))) return;
    const { app } = this;
    const execution = app.execution();
    const { entry } = app.state;
    const call = execution.calls[entry];
    const { calls } = execution;
    const hidden = app.hidden();
    const sums = execution.totals(entry);
    const longest = Math.max(...calls.map((_, e) => this.shares(e).reduce((sum, [, value]) => sum + value, 0)));
    const first = Math.max(0, Math.min(entry - WINDOW / 2, calls.length - WINDOW));
    const shown = calls.slice(first, first + WINDOW).map((_, k) => first + k);
    redraw(
      this.calls,
      calls.length > WINDOW &&
        h("input", {
          type: "range", min: 0, max: calls.length - 1, value: entry, "aria-label": t("Call"), "data-key": "slider",
          "aria-valuetext": t("call {call}", { call: execution.label(entry) }),
          oninput: (event: Event) => this.go(Number((event.target as HTMLInputElement).value)),
        }),
      shown.map((e) =>
        h(
          "button",
          {
            type: "button", "data-entry": e, "data-key": `call-${e}`, "aria-current": e === entry ? "step" : null, tabindex: e === entry ? 0 : -1,
            "aria-label": t("Call {call}, {fetches}", { call: execution.label(e), fetches: calls[e].fetches.join(", ") }),
            onclick: () => this.go(e),
          },
          execution.label(e),
          hidden && e >= entry ? h("div", { class: "bar" }) : bar(this.shares(e), Math.max(longest, 1e-9)),
        ),
      ),
    );
    const fetches = call.fetches.length > 1 ? `[${call.fetches.map(bare).join(", ")}]` : bare(call.fetches[0] ?? call.kind);
    redraw(this.say, `${execution.among(entry)}, `, h("code", { title: call.fetches.join(", ") }, shorten(fetches, 42)),
      call.failed ? h("span", { class: "bad" }, ` ${t("failed")}: ${call.failed.slice(0, 80)}`) : null);
    const ran = sums.counts[COMPUTED] + sums.counts[RECOMPUTED];
    redraw(
      this.figures,
      hidden ? "" : h("span", {}, t("{ran} ran, {reused} reused", { ran: count(ran), reused: count(sums.counts[REUSED]) })),
      hidden ? "" : this.took(entry),
    );
  }

  /**
   * Wall time as recorded; of a replay the sum of its op times, as its calls are not timed one by one. It is compared with
   * a replay of `run` only: what was recorded was cold and traced.
   */
  private took(entry: number): HTMLElement {
    const { app } = this;
    const execution = app.execution();
    const { run } = app.recording;
    const sum = (one: Execution, e: number): number => {
      const { seconds } = one.totals(e);
      return seconds[COMPUTED] + seconds[RECOMPUTED];
    };
    const { again } = app.recording;
    if (execution === run) return h("span", {}, h("b", {}, time(run.calls[entry].seconds)), ` ${t("wall")}`);
    const before = again ? again.entry(execution.calls[entry].index) : -1;
    return h("span", {}, h("b", {}, time(sum(execution, entry))), ` ${t("op time")}`, !again || before < 0 ? "" : h("span", { class: "q" }, `, ${t("run {time}", { time: time(sum(again, before)) })}`));
  }

  /** Seconds that ran and seconds that were spared; made once a mode, as there may be many calls. */
  private shares(entry: number): (readonly [string, number])[] {
    const { recording } = this.app;
    const execution = this.app.execution();
    const against = recording.again?.serial ?? 0;
    if (this.made.serial !== execution.serial || this.made.against !== against) this.made = { serial: execution.serial, against, saved: new Map() };
    let saved = this.made.saved.get(entry);
    if (saved === undefined) this.made.saved.set(entry, (saved = spared(recording, execution, entry)));
    const { seconds } = execution.totals(entry);
    return [["R", seconds[RECOMPUTED]], ["C", seconds[COMPUTED]], ["S", saved]];
  }

  private go(entry: number): void {
    const last = this.app.execution().calls.length - 1;
    const to = Math.min(last, Math.max(0, entry));
    if (to === this.app.state.entry) return;
    const { graph } = this.app.execution().calls[to];
    this.app.set(graph === this.app.state.graph ? { entry: to } : { entry: to, graph });
    const execution = this.app.execution();
    const sums = execution.totals(to);
    if (!this.app.hidden())
      this.app.announce(
        t("Call {call}: {ran} ran, {again} recomputed, {reused} reused", {
          call: execution.label(to), ran: sums.counts[COMPUTED] + sums.counts[RECOMPUTED], again: sums.counts[RECOMPUTED], reused: sums.counts[REUSED],
        }),
      );
  }

  private play(): void {
    if (this.timer) return this.stop();
    this.playButton.textContent = "❚❚";
    this.playButton.setAttribute("aria-label", t("Pause"));
    const last = this.app.execution().calls.length - 1;
    if (this.app.state.entry === last) this.go(0);
    this.timer = window.setInterval(() => {
      if (this.app.state.entry >= this.app.execution().calls.length - 1 || !this.element.isConnected) return this.stop();
      this.go(this.app.state.entry + 1);
    }, 900);
  }

  private stop(): void {
    clearInterval(this.timer);
    this.timer = 0;
    this.playButton.textContent = "▷";
    this.playButton.setAttribute("aria-label", t("Play"));
  }
}

const bare = (tensor: string): string => tensor.replace(/:0$/, "");
