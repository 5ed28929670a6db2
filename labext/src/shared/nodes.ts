/** Elements of one node, and what changes on them when the call or the mode changes. */

import { s } from "./dom.ts";
import type { Graph } from "./graph.ts";
import { CHIP_H, type Item, NODE_H, SCOPE_H } from "./layout.ts";
import type { Look } from "./paint.ts";
import { face } from "./shapes.ts";
import { t } from "./strings.ts";

export interface Drawn {
  element: SVGGElement;
  face: SVGGElement;
  letter: SVGTextElement | null;
  name: SVGTextElement;
  sub: SVGTextElement;
  right: SVGTextElement;
  mix: SVGGElement;
  title: SVGTitleElement;
  chips: SVGGElement[];
  fetched: SVGGElement | null;
  /** What was painted last, so that a recolour touches only what changed. */
  painted: string;
}

export interface Around {
  versions: ReadonlyMap<string, { label: string; fresh: boolean | null }>;
  graph: Graph;
  fetches: ReadonlySet<number>;
  id: string;
}

export function drawItem(item: Item, id: string): Drawn {
  const { group, open, w } = item;
  const op = group.kind === "op";
  const height = open ? item.h : op ? NODE_H : SCOPE_H;
  const title = s("title");
  const faceLayer = s("g", { class: "face" });
  const name = s("text", { class: op ? "nm" : "bt", x: op ? 21 : 9, y: open ? 16 : 15 }, op ? item.label : `${open ? "▾" : "▸"} ${item.label}`);
  const sub = s("text", { class: "sub", x: op ? 21 : 9, y: 28 });
  const right = s("text", { class: "sub", x: w - 8, y: open ? 16 : 28, "text-anchor": "end" });
  const letter = op ? s("text", { class: "lt", x: 9, y: 15 }) : null;
  const mix = s("g", { class: "mixbar" });
  const element = s(
    "g",
    {
      class: "n", "data-id": group.id, role: "button", tabindex: -1, transform: `translate(${item.x} ${item.y})`,
      "aria-expanded": op ? null : String(open),
    },
    title,
  );
  const body = s("g", { class: "body", transform: item.chipH ? `translate(0 ${item.chipH})` : null });
  if (open) body.append(s("rect", { class: "box", width: w, height, rx: 6 }), s("rect", { class: "grab", width: w, height: 24 }), name, right);
  else {
    if (!op) faceLayer.append(s("rect", { class: "shadow", x: 3, y: 3, width: w, height, rx: 5 }), s("rect", { class: "b", width: w, height, rx: 5 }));
    body.append(faceLayer, ...(letter ? [letter] : []), name, sub, right, mix);
  }
  body.append(s("rect", { class: "selr", x: -4, y: -4, width: w + 8, height: height + 8, rx: 6 }));
  element.append(body);
  let x = 0;
  const chips = item.chips.map((chip, k) => {
    const one = s(
      "g",
      { class: `chip${chip.feed ? " F" : ""}`, transform: `translate(${x} 0)`, "data-chip": k },
      s("title", {}, chip.sources.length === 1 ? "" : t("{n} more sources", { n: chip.sources.length })),
      s("rect", { width: chip.w, height: CHIP_H - 4, rx: chip.feed ? 0 : 7 }),
      s("text", { x: 5, y: 10.5 }, chip.text),
    );
    x += chip.w + 4;
    element.append(one);
    return one;
  });
  let fetched: SVGGElement | null = null;
  if (item.fetched) {
    fetched = s("g", { class: "chip fetched", transform: `translate(${x} 0)` }, s("title"), s("rect", { width: 54, height: CHIP_H - 4, rx: 2 }), s("text", { x: 5, y: 10.5 }, t("fetched")));
    element.append(fetched);
  }
  element.dataset.svg = id;
  return { element, face: faceLayer, letter, name, sub, right, mix, title, chips, fetched, painted: "" };
}

export function paintItem(drawn: Drawn, item: Item, look: Look, around: Around): void {
  const state = JSON.stringify(look);
  paintChips(drawn, item, around);
  if (drawn.painted === state) return;
  drawn.painted = state;
  const op = item.group.kind === "op";
  const selected = drawn.element.classList.contains("sel");
  drawn.element.setAttribute("class", `n ${op ? "op" : "scope"} ${item.open ? "open" : look.letter}${look.dim ? " dim" : ""}${selected ? " sel" : ""}`);
  drawn.element.setAttribute("aria-label", look.aria);
  drawn.title.textContent = look.title;
  drawn.right.textContent = look.right;
  if (item.open) return;
  drawn.sub.textContent = look.sub;
  const predicted = look.letter[0] === "Q";
  if (op) {
    drawn.face.replaceChildren(...face(look.letter, item.w, NODE_H));
    const inset = look.letter === "S" ? 4 : look.letter === "U" || look.letter === "F" ? 3 : 0;
    if (drawn.letter) {
      drawn.letter.textContent = predicted ? (look.letter === "Q1" ? "✓" : "?") : look.letter;
      drawn.letter.setAttribute("x", String(9 + inset));
    }
    drawn.name.setAttribute("x", String(21 + inset));
    drawn.sub.setAttribute("x", String(21 + inset));
    return;
  }
  let x = 8;
  const width = item.w - 16;
  drawn.mix.replaceChildren(
    ...look.mix.map(({ letter, share }) => {
      const part = s("rect", { class: `mx-${letter}`, x, y: SCOPE_H - 7, width: Math.max(1, width * share - 1), height: 4 });
      x += width * share;
      return part;
    }),
  );
}

/** `=`: same version as in the call before; `≠`: new; nothing in the first call. */
function paintChips(drawn: Drawn, item: Item, around: Around): void {
  item.chips.forEach((chip, k) => {
    let fresh: boolean | null = null;
    let known = "";
    for (const row of chip.sources) {
      const name = around.graph.name[row];
      const version = around.versions.get(name) ?? around.versions.get(`${name}:0`);
      if (!version) continue;
      if (chip.sources.length === 1) known = `${name}: ${version.label}`;
      if (version.fresh !== null) fresh = (fresh ?? false) || version.fresh;
    }
    const element = drawn.chips[k];
    const sign = fresh === null ? "" : fresh ? " ≠" : " =";
    const text = chip.text + sign;
    const label = element.lastElementChild as SVGTextElement;
    if (label.textContent === text && element.dataset.known === known) return;
    label.textContent = text;
    element.dataset.known = known;
    element.classList.toggle("new", fresh === true);
    if (chip.sources.length === 1) (element.firstElementChild as Element).textContent = known || around.graph.name[chip.sources[0]];
  });
  if (!drawn.fetched) return;
  const off = !around.fetches.has(item.group.row);
  drawn.fetched.classList.toggle("off", off);
  (drawn.fetched.firstElementChild as Element).textContent = off ? t("fetched in another call") : t("fetched in this call");
}
