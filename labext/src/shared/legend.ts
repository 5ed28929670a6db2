/** The legend: every status with its count in the current call; a click dims a status, it never removes one. */

import type { App } from "./app.ts";
import { h, redraw } from "./dom.ts";
import { STATUSES } from "./statuses.ts";
import { count, t } from "./strings.ts";
import { swatch } from "./widgets.ts";

/** Element with a `refresh` method on it, called by the explorer after each change. */
export interface Legend extends HTMLElement {
  refresh(): void;
}

/** Ops of the current call by status, bookkeeping left out. */
export function statusCounts(app: App): number[] {
  const counts = new Array<number>(11).fill(0);
  const status = app.statuses();
  const { bookkeeping } = app.graph();
  const { docked } = app.tree();
  const { rows } = app.tree().root;
  for (let i = 0; i < rows.length; i++) if (!bookkeeping[rows[i]]) counts[status[rows[i]]] += 1;
  for (let row = 0; row < docked.length; row++) if (docked[row] && status[row] === 3) counts[3] += 1;
  return counts;
}

export function legend(app: App): Legend {
  const element = h("div", { class: "lg", role: "group", "aria-label": t("Legend, filters by status") }) as unknown as Legend;
  element.refresh = () => {
    const hidden = app.hidden();
    const counts = statusCounts(app);
    redraw(
      element,
      h("p", {}, hidden ? t("Statuses are hidden until you reveal them.") : t("Ops in call {call}. Click a status to dim it.", { call: app.execution().label(app.state.entry) })),
      STATUSES.map((status, index) => {
        const n = counts[index];
        const content = [swatch(index), h("span", {}, t(status.name)), hidden ? "" : count(n)];
        if (!n || hidden) return h("span", { class: "z", title: t(status.meaning) }, content);
        const dim = app.state.dimmed.has(index);
        return h(
          "button",
          {
            "data-key": `legend-${status.letter}`, "aria-pressed": String(!dim), title: t(status.meaning), type: "button",
            onclick: () => {
              const dimmed = new Set(app.state.dimmed);
              dim ? dimmed.delete(index) : dimmed.add(index);
              app.set({ dimmed });
              app.announce(dim ? t("{status} shown", { status: t(status.name) }) : t("{status} dimmed", { status: t(status.name) }));
            },
          },
          content,
        );
      }),
    );
  };
  return element;
}
