/** Predict, then reveal: the learner marks what will run; the score explains each miss. */

import type { App, Key, Panel, Prediction } from "./app.ts";
import { h, prose, redraw } from "./dom.ts";
import { sentence } from "./explain.ts";
import { executed, STATUSES } from "./statuses.ts";
import { plural, t } from "./strings.ts";
import { swatch } from "./widgets.ts";

export interface Miss {
  row: number;
  /** It ran although it was not marked; else it was marked and did not run. */
  ran: boolean;
}

/** Compare a prediction with what ran: ops with a node of their own, bookkeeping left out. */
export function score(app: App, prediction: Prediction): { right: number; total: number; misses: Miss[] } {
  const { bookkeeping } = app.graph();
  const status = app.statuses();
  const misses: Miss[] = [];
  let total = 0;
  for (const row of app.tree().root.rows) {
    if (bookkeeping[row]) continue;
    total += 1;
    const ran = executed(status[row]);
    if (ran !== prediction.marked.has(row)) misses.push({ row, ran });
  }
  return { right: total - misses.length, total, misses };
}

export class PredictPanel implements Panel {
  readonly element = h("div", { class: "pred", role: "region", "aria-label": t("Prediction") });
  private readonly app: App;

  constructor(app: App) {
    this.app = app;
    this.element.hidden = true;
  }

  update(changed: ReadonlySet<Key>): void {
    if (!(["predict", "entry", "mode"] as Key[]).some((key) => changed.has(key))) return;
    const { app } = this;
    const { predict } = app.state;
    this.element.hidden = !predict;
    if (!predict) return;
    const call = app.execution().label(app.state.entry);
    const end = h("button", { class: "btn", type: "button", "data-key": "predict-end", onclick: () => app.set({ predict: null }) }, t("End"));
    if (!predict.revealed) {
      redraw(
        this.element,
        h("span", {}, h("b", {}, t("Which ops will run in call {call}?", { call })), " ", t("Click or press Enter to mark them; a scope marks all of its ops. Change call or mode above to predict another."), " ", t("{n} marked.", { n: predict.marked.size })),
        h("button", { class: "btn strong", type: "button", "data-key": "reveal", onclick: () => this.reveal() }, t("Reveal")),
        end,
      );
      return;
    }
    const result = score(app, predict);
    const again = h("button", { class: "btn", type: "button", "data-key": "again", onclick: () => this.next() }, t("Next call"));
    redraw(
      this.element,
      h("span", {}, h("b", {}, t("{right} of {total} right in call {call}.", { right: result.right, total: result.total, call })), result.misses.length ? "" : ` ${t("Every op as predicted.")}`),
      again,
      end,
      result.misses.length > 0 &&
        h(
          "ul",
          {},
          result.misses.slice(0, 12).map(({ row, ran }) => {
            const cell = app.execution().cell(app.state.entry, row);
            const said = sentence(app.execution(), app.state.entry, row);
            return h(
              "li",
              {},
              swatch(cell.status),
              h("button", { type: "button", class: "m", "data-key": `miss-${row}`, onclick: () => app.select(row) }, app.graph().name[row]),
              h("span", {}, ran ? t("ran, you expected it not to.") : t("{status}, you expected it to run.", { status: t(STATUSES[cell.status].name) }), " ", said.lead, " ", prose(said.body)),
            );
          }),
          result.misses.length > 12 && h("li", {}, plural("and {n} more", "and {n} more", result.misses.length - 12)),
        ),
    );
  }

  /** Begin (or start over) with everything hidden from the next call on. */
  start(): void {
    const { app } = this;
    const last = app.execution().calls.length - 1;
    const entry = Math.min(last, app.state.entry + (app.state.predict ? 0 : app.state.entry === 0 && last > 0 ? 1 : 0));
    app.set({ predict: { marked: new Set(), revealed: false }, entry, traced: null, tab: "matrix" });
    app.announce(t("Statuses are hidden. Mark the ops that will run in call {call}, then reveal.", { call: app.execution().label(entry) }));
  }

  private reveal(): void {
    const { predict } = this.app.state;
    if (!predict) return;
    const revealed = { ...predict, revealed: true };
    this.app.set({ predict: revealed });
    const { right, total } = score(this.app, revealed);
    this.app.announce(t("{right} of {total} right", { right, total }));
  }

  private next(): void {
    const { app } = this;
    const last = app.execution().calls.length - 1;
    app.set({ entry: Math.min(last, app.state.entry + 1), predict: { marked: new Set(), revealed: false } });
  }
}
