/** The marks of the active cell as a list: all that the gutter says, for the keyboard and for screen readers. */

import type { TranslationBundle } from "@jupyterlab/translation";

import { h } from "../shared/dom.js";
import { time } from "../shared/strings.js";
import type { CellMarks } from "./marks.js";
import type { Standing } from "./gutter.js";
import { remarks, sentences } from "./hover.js";
import { bar, swatch } from "./swatches.js";

export interface LineActs {
  /** Unfold a line, and put the cursor there. */
  choose(standing: Standing): void;
  explore(standing: Standing): void;
}

export const lineKey = (line: number): string => `line-${line}`;

export function lineList(trans: TranslationBundle, cell: CellMarks, lines: readonly Standing[], chosen: number, acts: LineActs): HTMLElement {
  const most = Math.max(...lines.map(({ mark }) => mark.seconds), 0);
  const row = (standing: Standing): HTMLElement[] => {
    const { mark, line, edited } = standing;
    const open = line === chosen;
    const id = `cachelab-line-${line}`;
    const old = edited || mark.rerun;
    return [
      h(
        "button",
        { type: "button", class: old ? "cachelab-LineRow cachelab-Old" : "cachelab-LineRow", "data-key": lineKey(line), "aria-expanded": String(open), "aria-controls": open ? id : null, onclick: () => acts.choose(standing) },
        h("span", {}, String(line)),
        swatch(mark.letter),
        h("span", {}, mark.seconds > 0 ? time(mark.seconds) : ""),
        mark.seconds > 0 ? bar(mark.redundant, mark.seconds, `${Math.max(2, (100 * mark.seconds) / most)}%`) : h("span"),
        h("span", { class: "cachelab-Hidden" }, `${mark.said[0]}${old ? `. ${remarks(trans, standing, cell)[0]}` : ""}`),
      ),
      ...(open
        ? [
            h(
              "div",
              { id, class: "cachelab-LineSaid" },
              sentences(trans, standing),
              h("p", { class: "cachelab-Quiet" }, remarks(trans, standing, cell).join(" ")),
              h("button", { type: "button", "data-key": `explore-${line}`, onclick: () => acts.explore(standing) }, trans.__("Show in the explorer")),
            ),
          ]
        : []),
    ];
  };
  return h("div", { class: "cachelab-Lines" }, lines.flatMap(row));
}
