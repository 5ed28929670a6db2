/** Pan, zoom and fit of the graph; in big pictures only what is near the window stays in the document. */

import type { Drawn } from "./nodes.ts";
import type { Item, Segment } from "./layout.ts";

const MIN_READABLE = 0.72;
const MANY = 700;

interface Bounded {
  element: SVGElement;
  parent: Element;
  x0: number;
  y0: number;
  x1: number;
  y1: number;
  attached: boolean;
}

/** Where a picture of `size` pixels that begins at `at` goes in a window: wholly into it, or with no room left empty. */
export function settled(at: number, size: number, room: number, margin = 24): number {
  const [low, high] = size <= room ? [0, room - size] : [room - size - margin, margin];
  return Math.min(high, Math.max(low, at));
}

/** Box around the points of a path: left, top, width, height. */
export function bounds(d: string): [number, number, number, number] {
  const numbers = d.match(/-?[\d.]+/g)?.map(Number) ?? [0, 0];
  const xs = numbers.filter((_, k) => k % 2 === 0);
  const ys = numbers.filter((_, k) => k % 2 === 1);
  const [x, y] = [Math.min(...xs), Math.min(...ys)];
  return [x, y, Math.max(...xs) - x, Math.max(...ys) - y];
}

export class View {
  /** True from the end of a drag until the click that follows it. */
  dragged = false;
  private k = 1;
  private x = 0;
  private y = 0;
  private readonly frame: HTMLElement;
  private readonly svg: SVGSVGElement;
  private readonly layer: SVGGElement;
  private readonly on: { moved(): void; fitted(): void; resized(): void };
  private things: Bounded[] = [];
  private queued = 0;
  private sized = false;
  /** Size of the window, kept: reading it would make the browser lay out the page anew. */
  private width = 1000;
  private height = 300;
  private w = 0;
  private h = 0;

  constructor(frame: HTMLElement, svg: SVGSVGElement, layer: SVGGElement, on: { moved(): void; fitted(): void; resized(): void }) {
    this.frame = frame;
    this.svg = svg;
    this.layer = layer;
    this.on = on;
    svg.addEventListener("wheel", (event) => this.onWheel(event), { passive: false });
    svg.addEventListener("pointerdown", (event) => this.onDown(event));
    new ResizeObserver(() => {
      const before = { width: this.width, height: this.height };
      this.width = frame.clientWidth || this.width;
      this.height = frame.clientHeight || this.height;
      if (Math.abs(this.width - before.width) < 2) {
        if (Math.abs(this.height - before.height) >= 2) this.on.fitted();
        return;
      }
      this.size(this.w, this.h);
      this.on.resized();
    }).observe(frame);
  }

  /** Give the window a height that suits a picture of `w` × `h`, unless the reader has set one. */
  size(w: number, h: number): void {
    this.w = w;
    this.h = h;
    if (this.sized && this.frame.style.height && this.frame.dataset.auto !== this.frame.style.height) return;
    const k = Math.min(1, Math.max(MIN_READABLE, this.width / Math.max(1, w)));
    this.height = Math.round(Math.min(520, Math.max(230, h * k + 16)));
    this.frame.style.height = `${this.height}px`;
    this.frame.dataset.auto = this.frame.style.height;
    this.sized = true;
  }

  /** The whole picture, or as much of its beginning as can be read. */
  fit(w: number, h: number): void {
    const all = Math.min(1, (this.width - 12) / Math.max(1, w), (this.height - 8) / Math.max(1, h));
    this.k = Math.max(MIN_READABLE, all);
    this.x = Math.max(0, (this.width - w * this.k) / 2);
    if (w * this.k < this.width) this.x = Math.min(this.x, 10);
    this.y = Math.max(0, (this.height - h * this.k) / 2);
    this.y = Math.min(this.y, 8);
    this.apply();
    this.on.fitted();
  }

  /** Size of the window in pixels. */
  window(): { width: number; height: number } {
    return { width: this.width, height: this.height };
  }

  /** A box of the picture in pixels of the window. */
  onScreen(x: number, y: number, w: number, h: number): { x: number; y: number; w: number; h: number } {
    return { x: x * this.k + this.x, y: y * this.k + this.y, w: w * this.k, h: h * this.k };
  }

  zoom(factor: number, cx = this.width / 2, cy = this.height / 2): void {
    const k = Math.min(3, Math.max(0.08, this.k * factor));
    this.x = cx - ((cx - this.x) * k) / this.k;
    this.y = cy - ((cy - this.y) * k) / this.k;
    this.k = k;
    this.apply();
  }

  /** Move by a distance of the picture. */
  shift(dx: number, dy: number): void {
    this.x += dx * this.k;
    this.y += dy * this.k;
    this.apply();
  }

  /** Bring a picture of `w` × `h` back into the window. */
  settle(w: number, h: number): void {
    this.x = settled(this.x, w * this.k, this.width);
    this.y = settled(this.y, h * this.k, this.height);
    this.apply();
  }

  pan(dx: number, dy: number): void {
    this.x += dx;
    this.y += dy;
    this.apply();
  }

  /** Bring a box into the window if it does not lie in it, with some margin, moving as little as needed. */
  show(x: number, y: number, w: number, h: number, margin = 24): void {
    const move = (at: number, size: number, room: number): number =>
      at >= 0 && at + size <= room ? 0 : at < margin ? margin - at : at + size > room - margin ? Math.max(room - margin - at - size, margin - at) : 0;
    const dx = move(x * this.k + this.x, w * this.k, this.width);
    const dy = move(y * this.k + this.y, h * this.k, this.height);
    if (dx || dy) this.pan(dx, dy);
  }

  private apply(): void {
    this.layer.setAttribute("transform", `translate(${this.x.toFixed(1)} ${this.y.toFixed(1)}) scale(${this.k.toFixed(4)})`);
    if (this.things.length && !this.queued)
      this.queued = requestAnimationFrame(() => {
        this.queued = 0;
        this.on.moved();
      });
  }

  /** Learn what is drawn; small pictures are kept whole. */
  bounds(items: readonly Item[], drawn: readonly Drawn[], segments: readonly Segment[], paths: readonly SVGPathElement[]): void {
    this.things = [];
    if (items.length + segments.length < MANY) return;
    items.forEach((item, i) => {
      // Open boxes lie one on the other: they stay in their order.
      if (item.open) return;
      const { element } = drawn[i];
      this.things.push({ element, parent: element.parentElement as Element, x0: item.x, y0: item.y, x1: item.x + item.w, y1: item.y + item.h, attached: true });
    });
    segments.forEach((segment, i) => {
      const [x, y, w, h] = bounds(segment.d);
      const element = paths[i];
      this.things.push({
        element, parent: element.parentElement as Element, x0: x, y0: y, x1: x + w, y1: y + h, attached: true,
      });
    });
    this.cull();
  }

  /** Keep only what is within half a window of what can be seen. The focused node stays. */
  cull(): void {
    const marginX = this.width / 2;
    const marginY = this.height / 2;
    for (const one of this.things) {
      const near =
        one.x1 * this.k + this.x > -marginX && one.x0 * this.k + this.x < this.width + marginX &&
        one.y1 * this.k + this.y > -marginY && one.y0 * this.k + this.y < this.height + marginY;
      if (near === one.attached) continue;
      if (near) one.parent.append(one.element);
      else if (one.element.getAttribute("tabindex") !== "0") one.element.remove();
      else continue;
      one.attached = near;
    }
  }

  private onWheel(event: WheelEvent): void {
    // A plain wheel scrolls the notebook.
    if (!event.ctrlKey && !event.metaKey && !event.shiftKey) return;
    event.preventDefault();
    event.stopPropagation();
    if (event.shiftKey && !event.ctrlKey) return this.pan(-(event.deltaX || event.deltaY), 0);
    const box = this.svg.getBoundingClientRect();
    this.zoom(Math.exp(-event.deltaY * 0.002), event.clientX - box.left, event.clientY - box.top);
  }

  private onDown(event: PointerEvent): void {
    if (event.button !== 0) return;
    let [x, y] = [event.clientX, event.clientY];
    let far = 0;
    this.dragged = false;
    const move = (next: PointerEvent): void => {
      far += Math.abs(next.clientX - x) + Math.abs(next.clientY - y);
      if (far > 4) {
        this.dragged = true;
        this.svg.classList.add("drag");
        this.pan(next.clientX - x, next.clientY - y);
      }
      [x, y] = [next.clientX, next.clientY];
    };
    const up = (): void => {
      this.svg.classList.remove("drag");
      window.removeEventListener("pointermove", move);
      window.removeEventListener("pointerup", up);
      setTimeout(() => (this.dragged = false), 0);
    };
    window.addEventListener("pointermove", move);
    window.addEventListener("pointerup", up);
  }
}
