/** Small pieces that several panels use: swatches, bars, moving the focus within a group. */

import { h } from "./dom.ts";
import { STATUSES } from "./statuses.ts";
import { t } from "./strings.ts";

/** The swatch of a status, with its word for those who do not see it. */
export function swatch(index: number, note = ""): HTMLElement {
  const { letter, name } = STATUSES[index];
  return h("span", { class: `st ${letter}`, title: t(name) + note, role: "img", "aria-label": t(name) + note }, letter);
}

/** A bar of shares; widths are relative to `whole`. */
export function bar(parts: readonly (readonly [letter: string, value: number])[], whole: number): HTMLElement {
  const sum = parts.reduce((total, [, value]) => total + value, 0);
  const width = whole > 0 ? Math.min(100, (100 * sum) / whole) : 0;
  return h(
    "div",
    { class: "bar", style: `width:${width.toFixed(2)}%`, "aria-hidden": "true" },
    parts.filter(([, value]) => value > 0).map(([letter, value]) => h("i", { class: letter, style: `flex:${((100 * value) / sum).toFixed(3)} 0 0` })),
  );
}

/** Arrow keys, Home and End move the focus among `items`; returns the one that got it. */
export function rove(event: KeyboardEvent, items: readonly HTMLElement[]): HTMLElement | null {
  const step: Record<string, number> = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 };
  const root = items[0]?.getRootNode() as Document | ShadowRoot | undefined;
  const at = items.indexOf(root?.activeElement as HTMLElement);
  if (at < 0) return null;
  const to =
    event.key in step ? (at + step[event.key] + items.length) % items.length : event.key === "Home" ? 0 : event.key === "End" ? items.length - 1 : -1;
  if (to < 0) return null;
  event.preventDefault();
  event.stopPropagation();
  items[to].focus();
  return items[to];
}
