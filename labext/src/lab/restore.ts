/** Explorer tabs come back with the layout: each notebook that is open again gets its tab again. */

import type { ILayoutRestorer, JupyterFrontEnd } from "@jupyterlab/application";
import { WidgetTracker } from "@jupyterlab/apputils";
import type { INotebookTracker } from "@jupyterlab/notebook";

import type { Explorers, ExplorerWidget } from "./explorers.js";

const COMMAND = "cachelab:restore-explorer";

export function restoreExplorers(app: JupyterFrontEnd, tracker: INotebookTracker, explorers: Explorers, restorer: ILayoutRestorer): void {
  const tabs = new WidgetTracker<ExplorerWidget>({ namespace: "cachelab-explorer" });
  explorers.opened.connect((_, tab) => {
    void tabs.add(tab);
    tab.content.panel.context.pathChanged.connect(() => void tabs.save(tab));
  });
  explorers.changed.connect((_, tab) => void tabs.save(tab));
  app.commands.addCommand(COMMAND, {
    execute: ({ path, recording, follows }) => {
      const panel = tracker.find((one) => one.context.path === path);
      if (panel) explorers.open(panel, String(recording), null, follows !== false);
    },
  });
  void restorer.restore(tabs, {
    command: COMMAND,
    args: ({ content }) => ({ path: content.panel.context.path, recording: content.recording, follows: content.follows }),
    name: ({ content }) => content.panel.context.path,
    when: tracker.restored,
  });
}
