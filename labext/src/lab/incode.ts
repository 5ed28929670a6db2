/** CacheLab in the code: marks in the gutter of every notebook's cells, what the pointer does there, badges. */

import type { IEditorExtensionRegistry } from "@jupyterlab/codemirror";
import type { INotebookTracker, NotebookPanel } from "@jupyterlab/notebook";
import type { TranslationBundle } from "@jupyterlab/translation";

import { Badges } from "./badges.js";
import type { Target } from "./bundle.js";
import { Gutters } from "./gutter.js";
import { HoverCard } from "./hover.js";
import { markNotebook, panelOf } from "./marking.js";

export interface Parts {
  tracker: INotebookTracker;
  editors: IEditorExtensionRegistry;
  trans: TranslationBundle;
  open(panel: NotebookPanel, name: string, target?: Target | null): void;
}

export function inCode({ tracker, editors, trans, open }: Parts): Gutters {
  const card = new HoverCard(trans);
  const gutters = new Gutters({
    over: (pointed, place) => card.show(pointed, place),
    out: () => card.leave(),
    click: ({ mark }, model) => {
      card.hide();
      const panel = panelOf(model);
      if (panel) open(panel, mark.name, { lines: mark.at });
    },
  });
  editors.addExtension(gutters.factory);
  const begin = (panel: NotebookPanel): void =>
    void panel.context.ready.then(() => {
      new Badges(panel, gutters, trans, open);
      markNotebook(panel, gutters);
    });
  tracker.forEach(begin);
  tracker.widgetAdded.connect((_, panel) => begin(panel));
  return gutters;
}
