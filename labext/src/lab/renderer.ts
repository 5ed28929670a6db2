/** Renders a saved record as the explorer: read-only, without a kernel, also in an untrusted notebook. */

import type { IRenderMime } from "@jupyterlab/rendermime-interfaces";
import { Widget } from "@lumino/widgets";

import { type Mounted, mountText } from "./bundle.js";

export const MIME_TYPE = "application/vnd.cachelab.recording+json";

class RecordRenderer extends Widget implements IRenderMime.IRenderer {
  private readonly mimeType: string;
  private mounted: Mounted | null = null;

  constructor(options: IRenderMime.IRendererOptions) {
    super();
    this.mimeType = options.mimeType;
    this.addClass("cachelab-Record");
  }

  renderModel(model: IRenderMime.IMimeModel): Promise<void> {
    const data = model.data[this.mimeType];
    this.mounted?.stop();
    try {
      // The explorer makes elements, never markup: nothing in a recording can run.
      this.mounted = mountText(this.node, typeof data === "string" ? data : JSON.stringify(data));
    } catch (error) {
      const line = document.createElement("p");
      line.textContent = String((error as Error).message);
      this.node.replaceChildren(line);
    }
    return Promise.resolve();
  }

  dispose(): void {
    this.mounted?.stop();
    super.dispose();
  }
}

export const rendererFactory: IRenderMime.IRendererFactory = {
  safe: true,
  mimeTypes: [MIME_TYPE],
  defaultRank: 40,
  createRenderer: (options) => new RecordRenderer(options),
};
