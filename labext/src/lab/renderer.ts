/**
 * Renders a saved record. In a trusted notebook: the record as it was saved, and the explorer on demand; in an untrusted
 * one the explorer at once, which makes elements, never markup, so that nothing in a recording can run.
 */

import type { IRenderMime } from "@jupyterlab/rendermime-interfaces";
import type { TranslationBundle } from "@jupyterlab/translation";
import { Widget } from "@lumino/widgets";

import { type Mounted, mountText } from "./bundle.js";

export const MIME_TYPE = "application/vnd.cachelab.recording+json";

class RecordRenderer extends Widget implements IRenderMime.IRenderer {
  private readonly mimeType: string;
  private readonly trans: TranslationBundle;
  private mounted: Mounted | null = null;

  constructor(options: IRenderMime.IRendererOptions, trans: TranslationBundle) {
    super();
    this.mimeType = options.mimeType;
    this.trans = trans;
    this.addClass("cachelab-Record");
  }

  renderModel(model: IRenderMime.IMimeModel): Promise<void> {
    const data = model.data[this.mimeType];
    const text = typeof data === "string" ? data : JSON.stringify(data);
    const html = model.data["text/html"];
    const place = document.createElement("div");
    if (model.trusted && html) {
      const saved = document.createElement("div");
      saved.innerHTML = Array.isArray(html) ? html.join("") : String(html);
      const button = document.createElement("button");
      button.className = "cachelab-Explore";
      button.textContent = this.trans.__("Explore this record");
      button.setAttribute("aria-expanded", "false");
      button.addEventListener("click", () => {
        const open = button.getAttribute("aria-expanded") === "true";
        button.setAttribute("aria-expanded", String(!open));
        place.hidden = open;
        if (!open && !this.mounted) this.explore(place, text);
      });
      this.node.replaceChildren(saved, button, place);
    } else {
      this.node.replaceChildren(place);
      this.explore(place, text);
    }
    return Promise.resolve();
  }

  dispose(): void {
    this.mounted?.stop();
    super.dispose();
  }

  private explore(place: HTMLElement, text: string): void {
    this.mounted?.stop();
    try {
      this.mounted = mountText(place, text);
    } catch (error) {
      const line = document.createElement("p");
      line.textContent = String((error as Error).message);
      place.replaceChildren(line);
    }
  }
}

export const rendererFactory = (trans: TranslationBundle): IRenderMime.IRendererFactory => ({
  safe: true,
  mimeTypes: [MIME_TYPE],
  defaultRank: 40,
  createRenderer: (options) => new RecordRenderer(options, trans),
});
