/** CacheLab inside JupyterLab: mode switch, side panel, explorer tabs, renderer of saved records. */

import { ILayoutRestorer, type JupyterFrontEnd, type JupyterFrontEndPlugin } from "@jupyterlab/application";
import { ICommandPalette, MainAreaWidget } from "@jupyterlab/apputils";
import { INotebookTracker, type NotebookPanel } from "@jupyterlab/notebook";
import { IRenderMimeRegistry } from "@jupyterlab/rendermime";
import { ITranslator, nullTranslator } from "@jupyterlab/translation";

import { Badges } from "./lab/badges.js";
import { linkOf } from "./lab/links.js";
import { rendererFactory } from "./lab/renderer.js";
import { SidePanel } from "./lab/sidepanel.js";
import { ExplorerTab } from "./lab/tab.js";
import { SwitchExtension } from "./lab/toolbar.js";
import "../style/index.css";

const CATEGORY = "CacheLab";

const plugin: JupyterFrontEndPlugin<void> = {
  id: "cachelab:plugin",
  description: "Shows what TensorFlow computed again, and switches how cells execute.",
  autoStart: true,
  requires: [INotebookTracker, IRenderMimeRegistry],
  optional: [ITranslator, ICommandPalette, ILayoutRestorer],
  activate: (
    app: JupyterFrontEnd,
    tracker: INotebookTracker,
    rendermime: IRenderMimeRegistry,
    translator: ITranslator | null,
    palette: ICommandPalette | null,
    restorer: ILayoutRestorer | null,
  ): void => {
    const trans = (translator ?? nullTranslator).load("cachelab");
    rendermime.addFactory(rendererFactory(trans));
    app.docRegistry.addWidgetExtension("Notebook", new SwitchExtension(trans));

    const open = (panel: NotebookPanel, name: string): void => {
      const tab = new MainAreaWidget({ content: new ExplorerTab(panel, name, trans) });
      tab.id = `cachelab-explorer-${Date.now()}`;
      tab.title.label = name;
      app.shell.add(tab, "main", { mode: "split-bottom", ref: panel.id });
      app.shell.activateById(tab.id);
    };
    const badge = (panel: NotebookPanel): void => void panel.context.ready.then(() => new Badges(panel, trans, open));
    tracker.forEach(badge);
    tracker.widgetAdded.connect((_, panel) => badge(panel));
    const side = new SidePanel(tracker, trans, open);
    app.shell.add(side, "right", { rank: 900 });
    restorer?.add(side, "cachelab-panel");

    const { commands } = app;
    commands.addCommand("cachelab:show-panel", {
      label: trans.__("Show the CacheLab panel"),
      execute: () => app.shell.activateById(side.id),
    });
    commands.addCommand("cachelab:load", {
      label: trans.__("Load CacheLab in the kernel"),
      isEnabled: () => tracker.currentWidget !== null,
      execute: () => (tracker.currentWidget ? linkOf(tracker.currentWidget).load() : undefined),
    });
    commands.addCommand("cachelab:open-explorer", {
      label: trans.__("Open the explorer of the last recording"),
      isEnabled: () => tracker.currentWidget !== null && linkOf(tracker.currentWidget).state.recordings.length > 0,
      execute: () => {
        const panel = tracker.currentWidget;
        const last = panel ? linkOf(panel).state.recordings[0] : undefined;
        if (panel && last) open(panel, last.name);
      },
    });
    for (const command of ["cachelab:show-panel", "cachelab:load", "cachelab:open-explorer"]) palette?.addItem({ command, category: CATEGORY });
  },
};

export default plugin;
