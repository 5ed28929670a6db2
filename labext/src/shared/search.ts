/** Find an op by name or type: a combobox with a list of matches. */

import type { App } from "./app.ts";
import { h } from "./dom.ts";
import { count, t } from "./strings.ts";

const SHOWN = 12;

/** Rows whose name or type holds all words; names that end with the first word come first. */
export function find(names: readonly string[], types: readonly string[], query: string, shown?: Uint8Array): number[] {
  const words = query.toLowerCase().split(/\s+/).filter(Boolean);
  if (!words.length) return [];
  const found: number[] = [];
  for (let row = 0; row < names.length; row++) {
    if (shown && !shown[row]) continue;
    const text = `${names[row]} ${types[row]}`.toLowerCase();
    if (words.every((word) => text.includes(word))) found.push(row);
  }
  const rank = (row: number): number => {
    const name = names[row].toLowerCase();
    return name === words[0] ? 0 : name.endsWith(`/${words[0]}`) ? 1 : name.startsWith(words[0]) ? 2 : 3;
  };
  return found.sort((a, b) => rank(a) - rank(b) || names[a].length - names[b].length);
}

export function searchBox(app: App): HTMLElement {
  const id = `cl-find-${Math.random().toString(36).slice(2, 8)}`;
  const list = h("ul", { class: "found", role: "listbox", id, "aria-label": t("Matches"), hidden: true });
  let rows: number[] = [];
  let at = -1;
  const input = h("input", {
    type: "text", placeholder: t("Find op  /"), "aria-label": t("Find op"), role: "combobox", "aria-expanded": "false", "aria-controls": id, "aria-autocomplete": "list", autocomplete: "off", spellcheck: "false", class: "find",
  });
  const close = (): void => {
    list.hidden = true;
    input.setAttribute("aria-expanded", "false");
    input.removeAttribute("aria-activedescendant");
  };
  const pick = (row: number): void => {
    close();
    app.select(row);
  };
  const mark = (): void => {
    [...list.children].forEach((one, i) => one.setAttribute("aria-selected", String(i === at)));
    if (at >= 0) input.setAttribute("aria-activedescendant", `${id}-${at}`);
  };
  const show = (): void => {
    const graph = app.graph();
    rows = find(graph.name, graph.type, input.value, app.recording.used(graph).shown);
    at = rows.length ? 0 : -1;
    list.replaceChildren(
      ...rows.slice(0, SHOWN).map((row, i) =>
        h("li", { role: "option", id: `${id}-${i}`, "aria-selected": String(i === 0), onmousedown: (event: Event) => (event.preventDefault(), pick(row)) }, h("span", { class: "m" }, graph.name[row]), h("span", { class: "q" }, ` ${graph.type[row]}`)),
      ),
    );
    if (rows.length > SHOWN) list.append(h("li", { class: "q", role: "presentation" }, t("and {n} more", { n: count(rows.length - SHOWN) })));
    if (input.value && !rows.length) list.append(h("li", { class: "q", role: "presentation" }, t("No op of this name.")));
    list.hidden = !input.value;
    input.setAttribute("aria-expanded", String(!list.hidden));
    mark();
  };
  input.addEventListener("input", show);
  input.addEventListener("blur", close);
  input.addEventListener("keydown", (event) => {
    event.stopPropagation();
    const n = Math.min(rows.length, SHOWN);
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      if (n) at = (at + (event.key === "ArrowDown" ? 1 : -1) + n) % n;
      mark();
    } else if (event.key === "Enter" && at >= 0) pick(rows[at]);
    else if (event.key === "Escape") {
      input.value = "";
      close();
      app.root.querySelector<HTMLElement>(".graph [tabindex='0']")?.focus();
    }
  });
  return h("div", { class: "search" }, input, list);
}
