/** Ops of one call in time, a lane for each that overlaps, by device; drawn one after another where no start was measured. */

import type { App, Key, Panel } from "./app.ts";
import { h, redraw, s } from "./dom.ts";
import { definitions } from "./shapes.ts";
import { executed, STATUSES } from "./statuses.ts";
import { count, plural, shorten, t, time } from "./strings.ts";

const LANE = 19;
const MOST = 400;

interface Bar {
  row: number;
  start: number;
  seconds: number;
  lane: number;
}

/** Put bars into as few lanes as their overlaps allow; returns the number of lanes. */
export function pack(bars: Bar[]): number {
  const ends: number[] = [];
  bars.sort((a, b) => a.start - b.start);
  for (const bar of bars) {
    let lane = ends.findIndex((end) => end <= bar.start + 1e-9);
    if (lane < 0) lane = ends.push(0) - 1;
    bar.lane = lane;
    ends[lane] = bar.start + bar.seconds;
  }
  return ends.length;
}

/** Up to so many ops each gets a line of its own with its name beside it. */
const LINES = 40;
const NAMES = 190;
let instances = 0;

export class TimelinePanel implements Panel {
  readonly element = h("div", { class: "tlp" });
  private readonly app: App;

  constructor(app: App) {
    this.app = app;
  }

  update(changed: ReadonlySet<Key>): void {
    const seen: Key[] = ["mode", "entry", "selected", "tab", "results", "graph", "predict"];
    if (this.app.state.tab !== "timeline" || !seen.some((key) => changed.has(key))) return;
    if (this.app.hidden()) return void redraw(this.element, h("p", { class: "q" }, t("Statuses are hidden until you reveal them.")));
    this.draw();
  }

  private draw(): void {
    const { app } = this;
    const execution = app.execution();
    const { entry } = app.state;
    const columns = execution.columns(entry);
    const status = app.statuses();
    const starts = execution.starts(entry);
    const seconds = execution.seconds(entry);
    const byDevice = new Map<string, Bar[]>();
    let measured = true;
    let clock = 0;
    const { bookkeeping } = app.graph();
    const ran = columns.op.filter((row) => executed(status[row]) && seconds(row) > 0);
    const rows = ran.filter((row) => !bookkeeping[row]);
    const left = ran.length - rows.length;
    rows.sort((a, b) => seconds(b) - seconds(a));
    const kept = new Set(rows.slice(0, MOST));
    for (const row of columns.op) {
      if (!kept.has(row)) continue;
      let start = starts(row);
      if (start < 0) {
        measured = false;
        start = clock;
      }
      clock = Math.max(clock, start + seconds(row));
      const device = execution.cell(entry, row).device || t("device not measured");
      byDevice.set(device, [...(byDevice.get(device) ?? []), { row, start, seconds: seconds(row), lane: 0 }]);
    }
    const width = Math.max(480, this.element.clientWidth - 4 || 700);
    const single = kept.size <= LINES;
    const edge = single ? NAMES : 8;
    const scale = (width - edge - 70) / Math.max(clock, 1e-9);
    const step = [50, 20, 10, 5, 2, 1].flatMap((n) => [1, 0.1, 0.01, 1e-3, 1e-4, 1e-5, 1e-6].map((unit) => n * unit)).sort((a, b) => b - a).find((one) => clock / one >= 4) ?? clock;
    const id = `clt${++instances}`;
    const parts: SVGElement[] = [definitions(id)];
    let y = 20;
    for (let at = 0; step > 0 && at <= clock + 1e-12; at += step)
      parts.push(s("line", { class: "tick", x1: edge + at * scale, x2: edge + at * scale, y1: 0, y2: 4000 }), s("text", { class: "sub", x: edge + at * scale + 3, y: 11 }, time(at)));
    for (const [device, bars] of byDevice) {
      const lanes = pack(bars);
      const text = lanes > 1 ? `${shorten(device, 60)}, ${t("up to {n} at once", { n: lanes })}` : shorten(device, 60);
      parts.push(s("text", { class: "sub", x: 4, y: y + 12 }, text));
      y += 18;
      bars.forEach((bar, i) => parts.push(this.bar(bar, y + (single ? i : bar.lane) * LANE, edge, scale, single)));
      y += (single ? bars.length : lanes) * LANE + 8;
    }
    const notes = [
      t("Call {call}, {time} from the first op to the last.", { call: execution.label(entry), time: time(clock) }),
      measured ? "" : t("Starts were not measured: drawn one after another."),
      left ? plural("{n} op of bookkeeping is left out.", "{n} ops of bookkeeping are left out.", left) : "",
      rows.length > MOST ? t("The {n} longest of {all} ops.", { n: MOST, all: count(rows.length) }) : "",
    ];
    const svg = s("svg", { class: "graph timeline", width, height: y, role: "group", "aria-label": t("Timeline of call {call}", { call: execution.label(entry) }) }, parts);
    svg.style.setProperty("--hatch", `url(#${id}-hatch)`);
    svg.querySelector('[role="button"]')?.setAttribute("tabindex", "0");
    svg.addEventListener("keydown", (event) => this.onKey(event, svg));
    redraw(this.element, h("p", { class: "q s0" }, notes.filter(Boolean).join(" ")), svg);
  }

  private bar(bar: Bar, y: number, left: number, scale: number, single: boolean): SVGElement {
    const { app } = this;
    const index = app.statuses()[bar.row];
    const name = app.graph().name[bar.row];
    const x = left + bar.start * scale;
    const w = Math.max(1.5, bar.seconds * scale);
    const inside = !single && w > name.length * 7 + 12;
    return s(
      "g",
      {
        class: `n ${STATUSES[index].letter}${app.state.selected?.row === bar.row ? " sel" : ""}`, role: "button", tabindex: -1, "data-row": bar.row,
        "aria-label": `${name}, ${t(STATUSES[index].name)}, ${time(bar.seconds)}`, onclick: () => app.select(bar.row),
      },
      s("title", {}, `${name}: ${time(bar.start)} + ${time(bar.seconds)}`),
      s("rect", { class: "b", x, y, width: w, height: LANE - 5, rx: 2 }),
      single && [s("text", { x: 4, y: y + 11 }, shorten(name, 26)), s("text", { class: "sub", x: x + w + 5, y: y + 11 }, time(bar.seconds))],
      inside && [s("rect", { class: "plate", x: x + 4, y: y + 1, width: name.length * 7 + 6, height: LANE - 7 }), s("text", { x: x + 7, y: y + 11 }, name)],
    );
  }

  private onKey(event: KeyboardEvent, svg: SVGElement): void {
    const all = [...svg.querySelectorAll<SVGElement>('[role="button"]')];
    const at = all.indexOf(event.target as SVGElement);
    const step: Record<string, number> = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 };
    if (at < 0) return;
    if (event.key === "Enter" || event.key === " ") this.app.select(Number(all[at].dataset.row));
    else if (event.key in step) {
      const next = all[(at + step[event.key] + all.length) % all.length];
      all[at].setAttribute("tabindex", "-1");
      next.setAttribute("tabindex", "0");
      next.focus();
    } else return;
    event.preventDefault();
    event.stopPropagation();
  }
}
