/** Gives the cells of one notebook their marks, whatever happens to the cells: moved, split, pasted, deleted, windowed. */

import type { ICodeCellModel } from "@jupyterlab/cells";
import type { CodeEditor } from "@jupyterlab/codeeditor";
import type { NotebookPanel } from "@jupyterlab/notebook";

import type { Gutters } from "./gutter.js";
import { linkOf } from "./links.js";
import { assign, scale } from "./marks.js";

const panels = new WeakMap<CodeEditor.IModel, NotebookPanel>();

/** The notebook that a cell's model stands in. */
export const panelOf = (model: CodeEditor.IModel): NotebookPanel | undefined => panels.get(model);

export function markNotebook(panel: NotebookPanel, gutters: Gutters): void {
  const link = linkOf(panel);
  let queued = 0;
  const refresh = (): void => {
    queued = 0;
    const cells = panel.isDisposed ? undefined : panel.content.model?.cells;
    if (!cells) return;
    const models = [...cells];
    const texts = models.map((model) => {
      const code = model.type === "code" ? (model as ICodeCellModel) : null;
      return { id: model.id, source: code?.sharedModel.getSource() ?? "", number: code?.executionCount };
    });
    const shown = assign(texts, link.marks);
    const most = scale(link.marks.values());
    for (const model of models) {
      panels.set(model, panel);
      const cell = shown.get(model.id);
      gutters.set(model, cell && model.type === "code" ? { cell, most } : null);
    }
  };
  const later = (): void => {
    queued ||= requestAnimationFrame(refresh);
  };
  link.marked.connect(later);
  panel.content.model?.cells.changed.connect(later);
  panel.content.modelChanged.connect(() => {
    panel.content.model?.cells.changed.connect(later);
    later();
  });
  panel.disposed.connect(() => cancelAnimationFrame(queued));
  later();
}
