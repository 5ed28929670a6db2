/** The mode buttons, the menu with the rest, and the table that compares what was replayed. */

import { type App, type Key, MODES, modeName, MORE, type Panel } from "./app.ts";
import { h, prose, redraw } from "./dom.ts";
import type { RawMode } from "./format.ts";
import { COMPUTED, RECOMPUTED, REUSED } from "./statuses.ts";
import { bytes, count, plural, t, time } from "./strings.ts";
import { bar, rove } from "./widgets.ts";

const SHOWN: ReadonlySet<Key> = new Set<Key>(["mode", "results", "pending", "notice", "predict", "cuts"]);

export class ModesPanel implements Panel {
  readonly element = h("div", { class: "modes-part" });
  private readonly app: App;
  private readonly group = h("div", { class: "modes" });
  private readonly table = h("div", { class: "cmp", tabindex: 0, role: "region", "aria-label": t("Comparison of modes") });
  private readonly note = h("div", { class: "note", role: "status" });
  private menuOpen = false;

  constructor(app: App) {
    this.app = app;
    this.element.append(this.group, this.note, this.table);
    this.group.addEventListener("keydown", (event) => this.onKey(event));
    app.root.addEventListener("click", (event) => {
      if (this.menuOpen && !event.composedPath().includes(this.group)) this.menu(false, false);
    });
  }

  update(changed: ReadonlySet<Key>): void {
    if (![...changed].some((key) => SHOWN.has(key))) return;
    this.buttons();
    this.noteLine();
    this.compare();
  }

  /** Why a mode can't be chosen now; empty if it can. */
  private refusal(mode: string): string {
    const result = this.app.result(mode);
    if (result && !result.applicable) return result.reason || t("not applicable");
    if (this.app.recording.executions.has(mode)) return "";
    if (!this.app.host) return t("No replay of this mode was saved, and no kernel is connected.");
    return "";
  }

  private sub(mode: string): string {
    const { pending } = this.app.state;
    if (pending?.mode === mode) {
      if (pending.state === "waiting") return t("waits for the busy kernel");
      return pending.total ? t("replaying, {done} of {total}", { done: pending.done, total: pending.total }) : t("replaying");
    }
    const refusal = this.refusal(mode);
    const result = this.app.result(mode);
    if (result && !result.applicable) return t("not applicable: {reason}", { reason: refusal });
    if (refusal && !result) return t("not replayed");
    if (mode === "run") {
      const recorded = time(this.app.recording.run.all().wall);
      const again = replayedRun(this.app);
      return again ? t("{time} replayed, {recorded} as recorded", { time: time(again), recorded }) : t("{time} as recorded", { time: recorded });
    }
    if (!result) return this.app.recording.executions.has(mode) ? t("replayed") : t("press to replay");
    return t("{time}, {speed}× as fast", { time: time(result.seconds ?? 0), speed: (result.speedup ?? 0).toFixed(1) });
  }

  private buttons(): void {
    const { state } = this.app;
    const extra = MORE.includes(state.mode);
    redraw(
      this.group,
      h(
        "div",
        { class: "radios", role: "radiogroup", "aria-label": t("Mode") },
        MODES.map((mode) => this.button(mode, "radio", state.mode === mode, state.mode === mode || (extra && mode === "run"))),
      ),
      h(
        "div",
        { class: "more" },
        h(
          "button",
          {
            type: "button", "data-key": "more", "aria-haspopup": "menu", "aria-expanded": String(this.menuOpen), class: extra ? "on" : "",
            onclick: () => this.menu(!this.menuOpen),
          },
          h("b", {}, extra ? `${modeName(state.mode)} ▾` : t("more ▾")),
          h("small", {}, extra ? this.sub(state.mode).replaceAll("`", "") : MORE.join(", ")),
        ),
        this.menuOpen &&
          h("div", { class: "menu", role: "menu", "aria-label": t("More modes") }, MORE.map((mode) => this.button(mode, "menuitemradio", state.mode === mode, true))),
      ),
    );
  }

  private button(mode: string, role: string, checked: boolean, stop: boolean): HTMLElement {
    const refusal = this.refusal(mode);
    const sub = this.sub(mode);
    return h(
      "button",
      {
        type: "button", role, "data-mode": mode, "data-key": `mode-${mode}`, "aria-checked": String(checked), tabindex: stop ? 0 : -1,
        "aria-disabled": refusal ? "true" : null, title: sub.replaceAll("`", ""),
        onclick: () => this.press(mode),
      },
      h("b", {}, modeName(mode)),
      h("small", {}, prose(sub)),
    );
  }

  private press(mode: string): void {
    const refusal = this.refusal(mode);
    this.menuOpen = false;
    if (refusal) {
      this.app.set({ notice: { text: t("`{mode}` is not possible here. {reason}", { mode: modeName(mode), reason: refusal }), bad: false } });
      this.app.announce(t("{mode} is not possible here. {reason}", { mode: modeName(mode), reason: refusal.replaceAll("`", "") }));
      return;
    }
    this.app.replay(mode);
  }

  private menu(open: boolean, focus = true): void {
    this.menuOpen = open;
    this.buttons();
    if (!focus) return;
    const to = open ? '[role="menuitemradio"]' : '[data-key="more"]';
    this.group.querySelector<HTMLElement>(to)?.focus();
  }

  private onKey(event: KeyboardEvent): void {
    const target = event.target as HTMLElement;
    if (event.key === "Escape" && this.menuOpen) {
      event.stopPropagation();
      return this.menu(false);
    }
    const role = target.getAttribute("role");
    if (role !== "radio" && role !== "menuitemradio") return;
    const next = rove(event, [...this.group.querySelectorAll<HTMLElement>(`[role="${role}"]`)]);
    const mode = next?.dataset.mode;
    if (!mode || role !== "radio") return;
    const refusal = this.refusal(mode);
    if (refusal) this.app.announce(t("{mode}, {reason}", { mode: modeName(mode), reason: refusal.replaceAll("`", "") }));
    else if (this.app.recording.executions.has(mode)) this.app.replay(mode);
    else this.app.announce(t("{mode}: press Enter to replay", { mode: modeName(mode) }));
  }

  private noteLine(): void {
    const { pending, notice, cuts } = this.app.state;
    const parts: (Node | string)[] = [];
    if (pending) {
      const says =
        pending.state === "waiting"
          ? t("The kernel is busy; the replay of `{mode}` starts when the running cell ends. After a restart of the kernel, run the cell again.", { mode: modeName(pending.mode) })
          : pending.text || t("Replaying `{mode}` in a private session.", { mode: modeName(pending.mode) });
      parts.push(
        h("span", {}, prose(says)),
        h("progress", { max: pending.total || 1, value: pending.total ? pending.done : null, "aria-label": t("Progress of the replay") }),
        h("button", { class: "btn", type: "button", "data-key": "cancel", onclick: () => this.app.cancel() }, t("Cancel")),
      );
    } else if (notice) parts.push(h("span", { class: notice.bad ? "bad" : "" }, prose(notice.text)));
    else if (cuts.length) parts.push(h("span", {}, prose(t("Cut for the next replay: {cuts}", { cuts: cuts.map((cut) => `\`${cut}\``).join(", ") }))));
    redraw(this.note, parts);
    this.note.hidden = parts.length === 0;
  }

  private compare(): void {
    const { app } = this;
    // Its counts would tell what the learner is to predict.
    this.table.hidden = app.hidden();
    const { run } = app.recording;
    const all = run.all();
    const base = replayedRun(app) || all.wall;
    const modes = ["run", ...[...MODES, ...MORE].filter((mode) => mode !== "run" && (app.result(mode)?.applicable || app.recording.executions.has(mode)))];
    const head = (text: string, right = true) => h("th", { class: right ? "r" : null, scope: "col" }, text);
    redraw(
      this.table,
      h(
        "table",
        {},
        h(
          "thead",
          {},
          h("tr", {}, head(t("mode"), false), head(t("calls")), head(t("ran")), head(t("recomputed")), head(t("reused")), head(t("wall time")),
            h("th", { class: "barcol", scope: "col" }, t("hollow: saved")), head(t("speed")), head(t("held")), head(t("setup")), head(t("pays from")), head(t("results"), false)),
        ),
        h("tbody", {}, modes.map((mode) => this.row(mode, app.result(mode), base))),
      ),
    );
  }

  private row(mode: string, result: RawMode | undefined, base: number): HTMLElement {
    const { recording, state } = this.app;
    const execution = recording.executions.get(mode);
    const sums = execution?.all();
    const ran = sums ? sums.counts[COMPUTED] + sums.counts[RECOMPUTED] : (result?.executed ?? 0);
    const again = sums ? sums.counts[RECOMPUTED] : (result?.recomputed ?? 0);
    const reused = sums ? sums.counts[REUSED] : (result?.reused ?? 0);
    const wall = mode === "run" ? base : (result?.seconds ?? 0);
    const opTime = sums ? sums.seconds[COMPUTED] + sums.seconds[RECOMPUTED] : 0;
    // Each mode was timed beside runs of its own: its bar says what its speed says.
    const own = result?.speedup ? wall * result.speedup : base;
    const share = sums && opTime > 0 ? sums.seconds[RECOMPUTED] / opTime : 0;
    const none = (value: string, shown: boolean) => h("td", { class: "r" }, shown ? value : "–");
    const even = result?.break_even;
    return h(
      "tr",
      { class: mode === state.mode ? "me" : null },
      h("th", { scope: "row", class: "m" }, modeName(mode)),
      h("td", { class: "r" }, sums ? count(sums.calls) : "–"),
      h("td", { class: "r" }, count(ran)),
      h("td", { class: "r" }, count(again)),
      h("td", { class: "r" }, count(reused)),
      none(time(wall), wall > 0),
      h("td", { class: "barcol" }, bar([["R", wall * share], ["C", wall * (1 - share)], ["S", Math.max(0, own - wall)]], Math.max(own, wall))),
      none(`${(mode === "run" ? 1 : result?.speedup || base / wall).toFixed(1)}×`, wall > 0),
      none(bytes(result?.bytes_held ?? 0), mode !== "run" && result !== undefined),
      none(time(result?.setup_seconds ?? 0), mode !== "run" && result !== undefined),
      none(even === 0 ? t("at once") : t("repeat {n}", { n: count(even ?? 0) }), typeof even === "number"),
      h("td", {}, this.proof(mode, result)),
    );
  }

  private proof(mode: string, result: RawMode | undefined): HTMLElement {
    if (!result) return h("span", { class: "q" }, mode !== "run" ? t("not compared") : replayedRun(this.app) ? t("timed beside the replay, untraced") : t("as recorded, not replayed"));
    const { equality, reason, max_difference: difference = 0 } = result;
    const word = h("b", { class: equality.replace(" ", "-") }, t(equality));
    const more =
      equality === "close" ? t("within {difference}", { difference: difference.toPrecision(2) }) : equality === "equal" || equality === "reproduced" ? t("bitwise") : "";
    return h("span", { class: "proof" }, word, h("span", {}, more, more && reason ? ": " : "", prose(reason)));
  }
}

/** Wall time of the calls replayed as they were, which is timed beside every other mode; 0 if nothing was replayed. */
function replayedRun(app: App): number {
  const run = app.result("run")?.seconds;
  if (run) return run;
  const beside = [...app.recording.results.values()].find((result) => result.applicable && result.seconds && result.speedup);
  return beside ? (beside.seconds as number) * (beside.speedup as number) : 0;
}

/** One sentence on a mode for the live region. */
export function summary(app: App, mode: string): string {
  const result = app.result(mode);
  const sums = app.recording.executions.get(mode)?.all();
  const ran = sums ? sums.counts[COMPUTED] + sums.counts[RECOMPUTED] : (result?.executed ?? 0);
  const parts = [modeName(mode), plural("{n} op ran", "{n} ops ran", ran)];
  if (sums) parts.push(t("{n} recomputed", { n: count(sums.counts[RECOMPUTED]) }), t("{n} reused", { n: count(sums.counts[REUSED]) }));
  if (result) parts.push(time(result.seconds ?? 0), t("results {equality}", { equality: t(result.equality) }));
  return parts.join(", ");
}
