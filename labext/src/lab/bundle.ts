/** The explorer as the widget ships it: the extension shows the very same bundle. */

import { deliver, mountBytes, mountText, setTranslator } from "../../../cachelab/static/widget.js";

export { deliver, mountBytes, mountText, setTranslator };

/** A link to the kernel, as the explorer expects it. */
export interface Host {
  send(message: Record<string, unknown>): void;
}

/** What to show of a recording: its lines of code by number, or a call. */
export interface Target {
  lines?: readonly number[];
  call?: number;
}

export interface Mounted {
  explorer: { receive(message: Record<string, unknown>): void; goTo(target: Target): void };
  stop(): void;
}
