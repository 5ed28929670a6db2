/** The anywidget entry: a model with the recording's bytes in, an explorer out. `mount` serves exported pages. */

import { Explorer } from "./shared/explorer.ts";
import { h } from "./shared/dom.ts";
import { parseRecording, readBytes } from "./shared/format.ts";
import type { Host } from "./shared/app.ts";
import { Recording } from "./shared/recording.ts";
import { setCatalogue, setTranslator, t } from "./shared/strings.ts";
import css from "./shared/style.css";
import { watchTheme } from "./shared/theme.ts";

interface Traits {
  data: DataView;
  catalogue: Record<string, string>;
  _esm: string;
}

/** What anywidget hands to `render`, as far as it is used here. */
interface Model {
  get<K extends keyof Traits>(name: K): Traits[K];
  send(message: unknown): void;
  on(event: string, listener: (...values: never[]) => void): void;
  off(event: string, listener: (...values: never[]) => void): void;
}

/** A host feeds its own catalogue before it mounts: a table of messages, or a function such as JupyterLab's `trans.__`. */
export { setCatalogue, setTranslator };

export interface Mounted {
  explorer: Explorer;
  stop(): void;
}

/** Put an explorer for the recording in `text` into `place`. `bundle` is this module's source, for exported pages. */
export function mount(place: HTMLElement, text: string, host: Host | null = null, bundle = ""): Mounted {
  const box = h("div", { "data-lm-suppress-shortcuts": "true", class: "cachelab-explorer" });
  const shadow = box.attachShadow({ mode: "open" });
  place.replaceChildren(box);
  shadow.append(h("style", {}, css));
  const explorer = new Explorer(new Recording(parseRecording(text)), host, () => bundle);
  const stop = watchTheme(box, (dark) => explorer.root.toggleAttribute("data-dark", dark));
  shadow.append(explorer.root);
  return { explorer, stop };
}

function decode(text: string): Uint8Array {
  const raw = atob(text);
  const bytes = new Uint8Array(raw.length);
  for (let i = 0; i < raw.length; i++) bytes[i] = raw.charCodeAt(i);
  return bytes;
}

/** The same for gzipped JSON in base64, and the bundle in base64. */
export async function mountPacked(place: HTMLElement, data: string, bundle = ""): Promise<Mounted> {
  return mount(place, await readBytes(decode(data)), null, new TextDecoder().decode(decode(bundle)));
}

/** The same for plain JSON. */
export function mountText(place: HTMLElement, text: string, bundle = ""): Mounted {
  return mount(place, text, null, new TextDecoder().decode(decode(bundle)));
}

/** A front end of its own (the JupyterLab extension): bytes as the kernel sends them, a link to the kernel. */
export async function mountBytes(place: HTMLElement, data: DataView, host: Host | null): Promise<Mounted> {
  return mount(place, await readBytes(data), host);
}

/** Hand a message of the kernel to an explorer; the columns of a replay, or a page, come gzipped in a buffer. */
export function deliver(mounted: Mounted | null, message: Record<string, unknown>, buffers: readonly DataView[]): void {
  if (!buffers?.length) return mounted?.explorer.receive(message);
  void readBytes(buffers[0]).then((text) =>
    mounted?.explorer.receive({ ...message, ...(message.type === "page" ? { text } : { replay: JSON.parse(text) as unknown }) }),
  );
}

function render({ model, el }: { model: Model; el: HTMLElement }): () => void {
  let mounted: Mounted | null = null;
  let gone = false;
  const host: Host = { send: (message) => model.send(message) };
  const receive = (message: Record<string, unknown>, buffers: DataView[]): void => deliver(mounted, message, buffers);
  const show = async (): Promise<void> => {
    setCatalogue(model.get("catalogue") ?? {});
    try {
      const text = await readBytes(model.get("data"));
      mounted?.stop();
      if (!gone) mounted = mount(el, text, host, model.get("_esm") ?? "");
    } catch (error) {
      el.replaceChildren(h("p", { role: "alert" }, t("The explorer can't show this recording: {why}", { why: String((error as Error).message) })));
    }
  };
  const again = (): void => void show();
  model.on("change:data", again);
  model.on("msg:custom", receive);
  void show();
  return () => {
    gone = true;
    mounted?.stop();
    model.off("change:data", again);
    model.off("msg:custom", receive);
  };
}

export default { render };
