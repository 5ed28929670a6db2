/** The card beside a mark: what the line cost and why. It can be entered with the pointer, and Escape closes it. */

import type { TranslationBundle } from "@jupyterlab/translation";

import { prose } from "../shared/dom.js";
import type { CellMarks } from "./marks.js";
import type { Pointed, Standing } from "./gutter.js";
import { swatch } from "./swatches.js";

const WAIT = 200;

/** Sentences on where a mark comes from and whether it still holds. */
export function remarks(trans: TranslationBundle, { mark, edited }: Standing, cell: CellMarks): string[] {
  const said = [];
  if (edited) said.push(trans.__("The cell was edited since: this is of its last recorded run."));
  if (mark.rerun) said.push(trans.__("The cell ran again since, outside of this recording."));
  if (cell.shared) said.push(trans._n("%1 other cell has the same text: the figures are of both.", "%1 other cells have the same text: the figures are of all.", cell.shared));
  said.push(trans.__("Recording: %1.", mark.name));
  return said;
}

/** The sentences of a mark as elements: figures first, then causes. */
export function sentences(trans: TranslationBundle, standing: Standing): HTMLElement[] {
  return standing.mark.said.map((text, i) => {
    const line = document.createElement("p");
    if (i === 0) {
      const head = document.createElement("b");
      head.textContent = trans.__("Line %1: ", standing.line);
      line.append(swatch(standing.mark.letter), " ", head);
    }
    line.append(...prose(text));
    return line;
  });
}

export class HoverCard {
  private readonly trans: TranslationBundle;
  private readonly node = document.createElement("div");
  private timer = 0;
  private readonly onKey = (event: KeyboardEvent): void => {
    if (event.key === "Escape") this.hide();
  };

  constructor(trans: TranslationBundle) {
    this.trans = trans;
    this.node.className = "cachelab-Hover";
    this.node.setAttribute("role", "tooltip");
    this.node.addEventListener("mouseenter", () => clearTimeout(this.timer));
    this.node.addEventListener("mouseleave", () => this.leave());
  }

  show(pointed: Pointed, place: HTMLElement): void {
    clearTimeout(this.timer);
    const { node, trans } = this;
    const quiet = document.createElement("p");
    quiet.className = "cachelab-Quiet";
    quiet.textContent = [...remarks(trans, pointed, pointed.cell), trans.__("Click shows it in the explorer.")].join(" ");
    node.replaceChildren(...sentences(trans, pointed), quiet);
    document.body.append(node);
    const box = place.getBoundingClientRect();
    const { width, height } = node.getBoundingClientRect();
    const below = box.bottom + 4 + height <= window.innerHeight;
    node.style.left = `${Math.max(4, Math.min(box.left, window.innerWidth - width - 4))}px`;
    node.style.top = `${below ? box.bottom + 4 : Math.max(4, box.top - height - 4)}px`;
    document.addEventListener("keydown", this.onKey, true);
    document.addEventListener("scroll", this.hide, true);
  }

  /** The pointer left the mark; the card goes unless the pointer enters it. */
  leave(): void {
    clearTimeout(this.timer);
    this.timer = window.setTimeout(this.hide, WAIT);
  }

  readonly hide = (): void => {
    clearTimeout(this.timer);
    this.node.remove();
    document.removeEventListener("keydown", this.onKey, true);
    document.removeEventListener("scroll", this.hide, true);
  };
}
