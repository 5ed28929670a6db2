/** What can be taken away: the picture, a page of its own, JSON, DOT, CSV, a trace for Perfetto. */

import type { App } from "./app.ts";
import { download, h } from "./dom.ts";
import { why } from "./explain.ts";
import { snapshot } from "./snapshot.ts";
import { executed, STATUSES } from "./statuses.ts";
import { t } from "./strings.ts";

const quote = (text: string): string => `"${text.replaceAll('"', '""')}"`;

/** One line an op and call entry, every call: `call,op,type,status,evidence,seconds,bytes,cause`. */
export function csv(app: App): string {
  const execution = app.execution();
  const lines = ["call,op,type,status,evidence,count,seconds,bytes,shape,device,cause"];
  execution.calls.forEach((_, entry) => {
    const graph = execution.graph(entry);
    for (const row of execution.columns(entry).op) {
      const cell = execution.cell(entry, row);
      const fields = [graph.name[row], graph.type[row], STATUSES[cell.status].name, cell.evidence].map(guard).map(quote);
      lines.push([quote(execution.label(entry)), ...fields, cell.count, cell.seconds, cell.bytes, quote(cell.shape), quote(cell.device), quote(guard(why(execution, entry, row)))].join(","));
    }
  });
  return `${lines.join("\n")}\n`;
}

/** A spreadsheet must not take a name for a formula. */
const guard = (text: string): string => (/^[=+\-@\t\r]/.test(text) ? `'${text}` : text);

/** The graph of the current call in DOT, ops coloured by status, scopes as clusters left out. */
export function dot(app: App): string {
  const graph = app.graph();
  const status = app.statuses();
  const { shown } = app.recording.used(graph);
  const colours: Record<string, string> = { C: "#4f5a69", R: "#c94f00", S: "#0064b0", F: "#b9609a", M: "#007a5a", K: "#007a5a", U: "#007a5a", X: "#5e4a00" };
  const id = (text: string): string => `"${text.replaceAll("\\", "\\\\").replaceAll('"', '\\"')}"`;
  const lines = ["digraph cachelab {", "  rankdir=LR; node [shape=box, fontname=monospace, fontsize=10];"];
  for (let row = 0; row < graph.size; row++) {
    if (!shown[row]) continue;
    const { letter, name } = STATUSES[status[row]];
    const style = executed(status[row]) ? "solid" : letter === "S" ? "filled,rounded" : "dashed";
    const fill = letter === "S" ? ', fillcolor="#0064b0", fontcolor="#ffffff"' : "";
    lines.push(`  ${id(graph.name[row])} [label=${id(`${graph.name[row]}\n${letter} ${name}`).replaceAll("\n", "\\n")}, color="${colours[letter] ?? "#7b8490"}", style="${style}"${fill}];`);
  }
  for (let row = 0; row < graph.size; row++)
    if (shown[row]) for (const from of graph.from(row)) if (shown[from]) lines.push(`  ${id(graph.name[from])} -> ${id(graph.name[row])};`);
  return `${lines.join("\n")}\n}\n`;
}

/** Trace events that Perfetto and chrome://tracing open: a process a call, a thread a device. */
export function trace(app: App): string {
  const execution = app.execution();
  const events: unknown[] = [];
  execution.calls.forEach((call, entry) => {
    const graph = execution.graph(entry);
    const starts = execution.starts(entry);
    const seconds = execution.seconds(entry);
    events.push({ name: "process_name", ph: "M", pid: entry, args: { name: `call ${execution.label(entry)}: ${call.fetches.join(", ")}` } });
    events.push({ name: `call ${execution.label(entry)}`, ph: "X", pid: entry, tid: 0, ts: call.start * 1e6, dur: call.seconds * 1e6 });
    const devices: string[] = [];
    let clock = 0;
    for (const row of execution.columns(entry).op) {
      const cell = execution.cell(entry, row);
      if (!executed(cell.status)) continue;
      let at = devices.indexOf(cell.device);
      if (at < 0) {
        at = devices.push(cell.device) - 1;
        events.push({ name: "thread_name", ph: "M", pid: entry, tid: at + 1, args: { name: cell.device || "device not measured" } });
      }
      const start = starts(row) >= 0 ? starts(row) : clock;
      clock = Math.max(clock, start + seconds(row));
      events.push({
        name: graph.name[row], cat: STATUSES[cell.status].name, ph: "X", pid: entry, tid: at + 1, ts: (call.start + start) * 1e6, dur: seconds(row) * 1e6,
        args: { type: graph.type[row], status: STATUSES[cell.status].name, evidence: cell.evidence, cause: why(execution, entry, row), bytes: cell.bytes },
      });
    }
  });
  return JSON.stringify({ traceEvents: events, displayTimeUnit: "ms" });
}

const escapeJson = (text: string): string => text.replaceAll("<", "\\u003c").replaceAll("\u2028", "\\u2028").replaceAll("\u2029", "\\u2029");

/** A page that shows this explorer without kernel and network. */
export function page(app: App, bundle: string): string {
  const replays: Record<string, unknown> = {};
  for (const [mode, execution] of app.recording.executions) if (mode !== "run") replays[mode] = execution.raw;
  const raw = { ...app.recording.raw, replays, modes: [...app.recording.results.values()] };
  const source = btoa(Array.from(new TextEncoder().encode(bundle), (byte) => String.fromCharCode(byte)).join(""));
  const name = (app.recording.raw.name || "recording").replace(/[<&>"]/g, "");
  return `<!doctype html><html lang="en"><head><meta charset="utf-8"><title>CacheLab: ${name}</title><meta name="viewport" content="width=device-width">
<style>body{margin:16px;background:#fff}@media (prefers-color-scheme:dark){body{background:#111317}}</style></head><body><main id="explorer"></main>
<script type="application/json" id="recording">${escapeJson(JSON.stringify(raw))}</script>
<script type="text/plain" id="bundle">${source}</script>
<script type="module">const text=(id)=>document.getElementById(id).textContent;const m=await import("data:text/javascript;base64,"+text("bundle"));m.mountText(document.getElementById("explorer"),text("recording"),text("bundle"));</script>
</body></html>`;
}

/** Name of a file for the recording, without its ending. */
export const fileName = (app: App): string => (app.recording.raw.name || "cachelab").replace(/[^\w.-]+/g, "_");

/** The button with its menu. */
export function exportMenu(app: App, graph: () => { svg: SVGSVGElement; w: number; h: number }): HTMLElement {
  const base = fileName(app);
  const savePage = (): void => {
    // Made here it comes at once, also while a cell runs; a front end that does not hold the bundle asks the kernel.
    if (app.bundle()) download(`${base}.html`, "text/html", page(app, app.bundle()));
    else app.askPage();
  };
  const items: [string, () => void][] = [
    [t("Picture (SVG)"), () => download(`${base}.svg`, "image/svg+xml", snapshot(app, graph()))],
    ...(app.host || app.bundle() ? [[t("Page (HTML)"), savePage] as [string, () => void]] : []),
    [t("Recording (JSON)"), () => download(`${base}.json`, "application/json", JSON.stringify(app.recording.raw))],
    [t("Table (CSV)"), () => download(`${base}.csv`, "text/csv", csv(app))],
    [t("Graph (DOT)"), () => download(`${base}.dot`, "text/vnd.graphviz", dot(app))],
    [t("Trace (Perfetto)"), () => download(`${base}.trace.json`, "application/json", trace(app))],
  ];
  const menu = h("div", { class: "menu", role: "menu", "aria-label": t("Export"), hidden: true });
  const button = h("button", { class: "btn", type: "button", "aria-haspopup": "menu", "aria-expanded": "false", "data-key": "export" }, t("Export ▾"));
  const open = (on: boolean, focus = true): void => {
    menu.hidden = !on;
    button.setAttribute("aria-expanded", String(on));
    if (focus) (on ? (menu.firstElementChild as HTMLElement) : button).focus();
  };
  menu.append(
    ...items.map(([label, act]) =>
      h("button", { type: "button", role: "menuitem", tabindex: -1, onclick: () => (act(), open(false), app.announce(t("{what} saved", { what: label }))) }, label),
    ),
  );
  button.addEventListener("click", () => open(menu.hidden));
  const box = h("div", { class: "pop" }, button, menu);
  box.addEventListener("keydown", (event) => {
    if (menu.hidden) return;
    const all = [...menu.children] as HTMLElement[];
    const at = all.indexOf(event.target as HTMLElement);
    if (event.key === "Escape") open(false);
    else if (event.key === "ArrowDown") all[(at + 1) % all.length].focus();
    else if (event.key === "ArrowUp") all[(at - 1 + all.length) % all.length].focus();
    else return;
    event.preventDefault();
    event.stopPropagation();
  });
  app.root.addEventListener("click", (event) => {
    if (!menu.hidden && !event.composedPath().includes(box)) open(false, false);
  });
  return box;
}
