/** Find an op by name or type, or a scope by name: a combobox with a list of matches. */

import type { App } from "./app.ts";
import { h } from "./dom.ts";
import { count, plural, t } from "./strings.ts";

const SHOWN = 12;

export interface Match {
  /** The op, or one of the scope's ops. */
  row: number;
  /** The scope's name; none for an op. */
  scope?: string;
  ops: number;
}

const rank = (name: string, word: string): number => (name === word ? 0 : name.endsWith(`/${word}`) ? 1 : name.startsWith(word) ? 2 : 3);
const split = (query: string): string[] => query.toLowerCase().split(/\s+/).filter(Boolean);

/** Every scope that the names of some rows lie in, with its first row and the number of rows. */
export function scopesOf(names: readonly string[], rows: Iterable<number>): Map<string, { row: number; ops: number }> {
  const found = new Map<string, { row: number; ops: number }>();
  for (const row of rows)
    for (let cut = names[row].indexOf("/", 1); cut > 0; cut = names[row].indexOf("/", cut + 1)) {
      const scope = names[row].slice(0, cut);
      const known = found.get(scope);
      if (known) known.ops += 1;
      else found.set(scope, { row, ops: 1 });
    }
  return found;
}

/** Scopes and ops that a query means: by how well the name agrees, of equals scopes first. A scope goes by its own name. */
export function matches(names: readonly string[], types: readonly string[], scopes: ReadonlyMap<string, { row: number; ops: number }>, query: string, shown?: Uint8Array): Match[] {
  const words = split(query);
  const found: (Match & { rank: number })[] = [];
  for (const [scope, { row, ops }] of scopes) {
    const name = scope.toLowerCase();
    if (words.every((word) => name.includes(word)) && words.some((word) => name.slice(name.lastIndexOf("/") + 1).includes(word) || name.endsWith(word)))
      found.push({ row, scope, ops, rank: rank(name, words[0]) });
  }
  found.sort((a, b) => a.rank - b.rank || (a.scope as string).length - (b.scope as string).length);
  const rows = find(names, types, query, shown).map((row) => ({ row, ops: 1, rank: rank(names[row].toLowerCase(), words[0]) }));
  // Both are in order; a stable sort keeps scopes before ops.
  return [...found, ...rows].sort((a, b) => a.rank - b.rank);
}

/** Rows whose name or type holds all words; names that end with the first word come first. */
export function find(names: readonly string[], types: readonly string[], query: string, shown?: Uint8Array): number[] {
  const words = split(query);
  if (!words.length) return [];
  const found: number[] = [];
  for (let row = 0; row < names.length; row++) {
    if (shown && !shown[row]) continue;
    const text = `${names[row]} ${types[row]}`.toLowerCase();
    if (words.every((word) => text.includes(word))) found.push(row);
  }
  const ranks = new Map(found.map((row) => [row, rank(names[row].toLowerCase(), words[0])]));
  return found.sort((a, b) => (ranks.get(a) as number) - (ranks.get(b) as number) || names[a].length - names[b].length);
}

export function searchBox(app: App): HTMLElement {
  const id = `cl-find-${Math.random().toString(36).slice(2, 8)}`;
  const list = h("ul", { class: "found", role: "listbox", id, "aria-label": t("Matches"), hidden: true });
  let rows: Match[] = [];
  let known: { tree: object; scopes: Map<string, { row: number; ops: number }> } | null = null;
  let at = -1;
  const input = h("input", {
    type: "text", placeholder: t("Find op or scope  /"), "aria-label": t("Find op or scope"), role: "combobox", "aria-expanded": "false", "aria-controls": id, "aria-autocomplete": "list", autocomplete: "off", spellcheck: "false", class: "find",
  });
  const close = (): void => {
    list.hidden = true;
    input.setAttribute("aria-expanded", "false");
    input.removeAttribute("aria-activedescendant");
  };
  const pick = ({ row, scope }: Match): void => {
    close();
    app.select(row, scope);
  };
  const mark = (): void => {
    [...list.children].forEach((one, i) => one.setAttribute("aria-selected", String(i === at)));
    if (at >= 0) input.setAttribute("aria-activedescendant", `${id}-${at}`);
  };
  const show = (): void => {
    const graph = app.graph();
    const tree = app.tree();
    if (known?.tree !== tree) known = { tree, scopes: scopesOf(graph.name, tree.root.rows) };
    rows = matches(graph.name, graph.type, known.scopes, input.value, app.recording.used(graph).shown);
    at = rows.length ? 0 : -1;
    list.replaceChildren(
      ...rows.slice(0, SHOWN).map((one, i) =>
        h(
          "li",
          { role: "option", id: `${id}-${i}`, "aria-selected": String(i === 0), onmousedown: (event: Event) => (event.preventDefault(), pick(one)) },
          h("span", { class: "m" }, one.scope ?? graph.name[one.row]),
          h("span", { class: "q" }, ` ${one.scope === undefined ? graph.type[one.row] : t("scope, {ops}", { ops: plural("{n} op", "{n} ops", one.ops) })}`),
        ),
      ),
    );
    if (rows.length > SHOWN) list.append(h("li", { class: "q", role: "presentation" }, t("and {n} more", { n: count(rows.length - SHOWN) })));
    if (input.value && !rows.length) list.append(h("li", { class: "q", role: "presentation" }, t("No op or scope of this name.")));
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
