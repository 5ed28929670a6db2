/** Elements without markup strings: every text becomes a text node, so nothing in a recording can be markup. */

type Value = string | number | boolean | null | undefined | EventListener;
type Child = Node | string | number | null | undefined | false | readonly Child[];

const SVG = "http://www.w3.org/2000/svg";

function fill(element: Element, attributes: Readonly<Record<string, unknown>>, children: readonly Child[]): void {
  for (const [name, value] of Object.entries(attributes) as [string, Value][]) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === "function") element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  append(element, children);
}

function append(element: Element, children: readonly Child[]): void {
  for (const child of children) {
    if (Array.isArray(child)) append(element, child as readonly Child[]);
    else if (child instanceof Node) element.append(child);
    else if (child !== null && child !== undefined && child !== false) element.append(String(child));
  }
}

/** An HTML element; attributes named `onclick` and the like take listeners. */
export function h<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  attributes: Readonly<Record<string, unknown>> = {},
  ...children: Child[]
): HTMLElementTagNameMap[K] {
  const element = document.createElement(tag);
  fill(element, attributes, children);
  return element;
}

/** An SVG element. */
export function s<K extends keyof SVGElementTagNameMap>(
  tag: K,
  attributes: Readonly<Record<string, unknown>> = {},
  ...children: Child[]
): SVGElementTagNameMap[K] {
  const element = document.createElementNS(SVG, tag) as SVGElementTagNameMap[K];
  fill(element, attributes, children);
  return element;
}

/** Text with `code` parts written between backticks. */
export function prose(text: string): (Node | string)[] {
  return text.split("`").map((part, i) => (i % 2 ? h("code", {}, part) : part));
}

/** Replace the content of `element` and give the focus back to the element with the same `data-key`. */
export function redraw(element: HTMLElement, ...children: Child[]): void {
  const root = element.getRootNode() as Document | ShadowRoot;
  const active = root.activeElement;
  const key = active && element.contains(active) ? active.getAttribute("data-key") : null;
  element.replaceChildren();
  append(element, children);
  if (key !== null) {
    const again = [...element.querySelectorAll<HTMLElement>("[data-key]")].find((one) => one.dataset.key === key);
    again?.focus({ preventScroll: true });
  }
}

/** Offer `data` as a file. */
export function download(name: string, type: string, data: string | Blob): void {
  const url = URL.createObjectURL(data instanceof Blob ? data : new Blob([data], { type }));
  const link = h("a", { href: url, download: name });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}
