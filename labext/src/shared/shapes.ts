/** The form of each status as SVG: fill, border and outline, so that no status is told by colour alone. */

import { s } from "./dom.ts";

/** Face of an op's node of `w` × `h`; the class of the node (its letter) gives the colours. */
export function face(letter: string, w: number, h: number): SVGElement[] {
  const box = (extra: Record<string, unknown> = {}) => s("rect", { class: "b", width: w, height: h, rx: 3, ...extra });
  switch (letter) {
    case "R":
      return [box(), s("rect", { class: "plate", x: 4, y: 3, width: w - 8, height: h - 6, rx: 2 })];
    case "S":
      return [s("rect", { class: "halo", x: -4, y: -4, width: w + 8, height: h + 8, rx: h / 2 + 4 }), box({ rx: h / 2 })];
    case "F":
      return [box({ rx: 0 }), s("rect", { class: "edge", width: 5, height: h })];
    case "M":
      return [box(), s("rect", { class: "inner", x: 3, y: 3, width: w - 6, height: h - 6, rx: 1 })];
    case "K":
      return [s("path", { class: "b", d: `M0 0H${w - 12}L${w} 12V${h}H0z` })];
    case "U":
      return [
        box(),
        s("rect", { class: "edge", width: 4, height: h }),
        s("rect", { class: "edge", x: w - 4, width: 4, height: h }),
        s("rect", { class: "plate", x: 7, y: 3, width: w - 14, height: h - 6, rx: 2 }),
      ];
    case "T":
      return [box(), s("path", { class: "slash", d: `M0 ${h}L8 0` })];
    case "N":
      return [s("path", { class: "b", d: `M${w} 0H3Q0 0 0 3V${h - 3}Q0 ${h} 3 ${h}H${w}` })];
    default:
      return [box()];
  }
}

/** Patterns and arrowheads; `id` keeps several explorers of one page apart. */
export function definitions(id: string): SVGDefsElement {
  const arrow = (name: string, colour: string) =>
    s(
      "marker",
      { id: `${id}-${name}`, viewBox: "0 0 6 6", refX: 5.5, refY: 3, markerWidth: 6, markerHeight: 6, markerUnits: "userSpaceOnUse", orient: "auto" },
      s("path", { d: "M0 0L6 3L0 6z", style: `fill:var(${colour})` }),
    );
  return s(
    "defs",
    {},
    s(
      "pattern",
      { id: `${id}-hatch`, width: 6, height: 6, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" },
      s("rect", { width: 6, height: 6, class: "hatch0" }),
      s("rect", { width: 2, height: 6, class: "hatch1" }),
    ),
    s(
      "pattern",
      { id: `${id}-stripe`, width: 4, height: 4, patternUnits: "userSpaceOnUse" },
      s("rect", { width: 4, height: 4, class: "stripe0" }),
      s("rect", { width: 1, height: 4, class: "stripe1" }),
    ),
    arrow("a", "--cl-edge"),
    arrow("aS", "--cl-S"),
    arrow("aP", "--cl-P"),
    arrow("aI", "--cl-ink"),
  );
}
