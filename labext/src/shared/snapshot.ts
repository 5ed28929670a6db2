/** The graph as an SVG file of its own: colours resolved, legend below, no style sheet needed. */

import type { App } from "./app.ts";
import { s } from "./dom.ts";
import { statusCounts } from "./legend.ts";
import { face } from "./shapes.ts";
import { STATUSES } from "./statuses.ts";
import { count, t } from "./strings.ts";

const PROPERTIES = ["fill", "stroke", "stroke-width", "stroke-dasharray", "opacity", "font-family", "font-size", "font-weight"] as const;

/** `color(srgb r g b / a)` is not read by most programs that open SVG. */
export function plainColour(value: string): string {
  const found = /^color\(srgb ([\d.e-]+) ([\d.e-]+) ([\d.e-]+)(?: \/ ([\d.e-]+))?\)$/.exec(value);
  if (!found) return value;
  const [r, g, b] = found.slice(1, 4).map((part) => Math.round(Number(part) * 255));
  return found[4] === undefined ? `rgb(${r},${g},${b})` : `rgba(${r},${g},${b},${Number(found[4]).toFixed(3)})`;
}

function inline(from: Element, to: Element): void {
  const style = getComputedStyle(from);
  if (style.display === "none") {
    to.remove();
    return;
  }
  for (const name of PROPERTIES) {
    const value = style.getPropertyValue(name);
    if (value && value !== "none" && !(name === "opacity" && value === "1")) to.setAttribute(name, plainColour(value));
    else if (value === "none" && (name === "fill" || name === "stroke")) to.setAttribute(name, "none");
  }
  to.removeAttribute("style");
  to.removeAttribute("class");
  const children = [...to.children];
  [...from.children].forEach((child, i) => inline(child, children[i]));
}

/** SVG text of what is on the screen, whole, with the legend and a title. */
export function snapshot(app: App, graph: { svg: SVGSVGElement; w: number; h: number }): string {
  const { svg, w, h } = graph;
  const width = Math.max(w, 780);
  const legend = s("g", { class: "nodes" });
  const counts = statusCounts(app);
  STATUSES.forEach((status, i) => {
    const place = `translate(${16 + (i % 6) * 126} ${h + 44 + Math.floor(i / 6) * 26})`;
    const mark = s("g", { class: `n op ${status.letter}` }, s("g", { class: "face" }, face(status.letter, 22, 16)), s("text", { class: "lt", x: 8, y: 12 }, status.letter));
    const one = s("g", { transform: place }, mark, s("text", { class: "lgt", x: 30, y: 12 }, `${t(status.name)} ${count(counts[i])}`));
    legend.append(one);
  });
  const title = t("CacheLab: {name}, mode {mode}, call {call}", { name: app.recording.raw.name || t("recording"), mode: app.state.mode, call: app.execution().label(app.state.entry) });
  legend.append(s("text", { class: "lgt", x: 16, y: h + 28 }, title));
  const layer = svg.querySelector(":scope > g") as SVGGElement;
  layer.append(legend);
  const copy = svg.cloneNode(true) as SVGSVGElement;
  inline(svg, copy);
  legend.remove();
  const inner = copy.querySelector(":scope > g") as SVGGElement;
  inner.removeAttribute("transform");
  const paper = plainColour(getComputedStyle(svg.parentElement as Element).backgroundColor);
  const total = h + 110;
  copy.prepend(s("rect", { width, height: total, fill: paper }), s("title", {}, title));
  for (const one of copy.querySelectorAll("[tabindex],[role],[data-id]"))
    for (const name of [...one.getAttributeNames()]) if (/^(tabindex|role|aria-|data-)/.test(name)) one.removeAttribute(name);
  copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
  copy.setAttribute("width", String(width));
  copy.setAttribute("height", String(total));
  copy.setAttribute("viewBox", `0 0 ${width} ${total}`);
  return new XMLSerializer().serializeToString(copy);
}
