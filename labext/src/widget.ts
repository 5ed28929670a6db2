/** The anywidget entry: a model with the recording's bytes in, an explorer out. `mount` serves exported pages. */

import type { RenderProps } from "@anywidget/types";

import { Explorer } from "./shared/explorer.ts";
import { h } from "./shared/dom.ts";
import { parseRecording, readBytes } from "./shared/format.ts";
import type { Host } from "./shared/app.ts";
import { Recording } from "./shared/recording.ts";
import { setCatalogue, t } from "./shared/strings.ts";
import css from "./shared/style.css";
import { watchTheme } from "./shared/theme.ts";

interface Model {
  data: DataView;
  catalogue: Record<string, string>;
  _esm: string;
}

interface Mounted {
  explorer: Explorer;
  stop(): void;
}

/** Put an explorer for the recording in `text` into `place`. */
export function mount(place: HTMLElement, text: string, host: Host | null = null, bundle = ""): Mounted {
  const box = h("div", { "data-lm-suppress-shortcuts": "true", class: "cachelab-explorer" });
  const shadow = box.attachShadow({ mode: "open" });
  place.replaceChildren(box);
  shadow.append(h("style", {}, css));
  const explorer = new Explorer(new Recording(parseRecording(text)), host, () => bundle || ownSource());
  const stop = watchTheme(box, (dark) => explorer.root.toggleAttribute("data-dark", dark));
  shadow.append(explorer.root);
  explorer.root.dispatchEvent(new Event("cachelab:ready"));
  return { explorer, stop };
}

/** The same for gzipped JSON in base64. */
export async function mountPacked(place: HTMLElement, data: string): Promise<Mounted> {
  return mount(place, await readBytes(Uint8Array.from(atob(data), (one) => one.charCodeAt(0))));
}

/** In an exported page the module was read from its own address; elsewhere the source is not at hand. */
function ownSource(): string {
  const prefix = "data:text/javascript;base64,";
  const url = import.meta.url;
  if (!url.startsWith(prefix)) return "";
  return new TextDecoder().decode(Uint8Array.from(atob(url.slice(prefix.length)), (one) => one.charCodeAt(0)));
}

function render({ model, el }: RenderProps<Model>): () => void {
  let mounted: Mounted | null = null;
  let gone = false;
  const host: Host = { send: (message) => model.send(message) };
  const receive = (message: Record<string, unknown>, buffers: DataView[]): void => {
    if (!buffers?.length) return mounted?.explorer.receive(message);
    void readBytes(buffers[0]).then((text) => mounted?.explorer.receive({ ...message, replay: JSON.parse(text) as unknown }));
  };
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
