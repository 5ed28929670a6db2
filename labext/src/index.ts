/** CacheLab inside JupyterLab: mode switch, side panel, explorer tabs, renderer of saved records. */

import { ILayoutRestorer, type JupyterFrontEnd, type JupyterFrontEndPlugin } from "@jupyterlab/application";
import { ICommandPalette } from "@jupyterlab/apputils";
import { IEditorExtensionRegistry } from "@jupyterlab/codemirror";
import { INotebookTracker, type NotebookPanel } from "@jupyterlab/notebook";
import { IRenderMimeRegistry } from "@jupyterlab/rendermime";
import { ITranslator, nullTranslator } from "@jupyterlab/translation";

import { inCode } from "./lab/incode.js";
import type { Target } from "./lab/bundle.js";
import { linkOf } from "./lab/links.js";
import { rendererFactory } from "./lab/renderer.js";
import { Explorers } from "./lab/explorers.js";
import { SidePanel } from "./lab/sidepanel.js";
import { SwitchExtension } from "./lab/toolbar.js";
import "../style/index.css";
import "../style/marks.css";

const CATEGORY = "CacheLab";

const plugin: JupyterFrontEndPlugin<void> = {
  id: "cachelab:plugin",
  description: "Shows what TensorFlow computed again, and switches how cells execute.",
  autoStart: true,
  requires: [INotebookTracker, IRenderMimeRegistry, IEditorExtensionRegistry],
  optional: [ITranslator, ICommandPalette, ILayoutRestorer],
  activate: (
    app: JupyterFrontEnd,
    tracker: INotebookTracker,
    rendermime: IRenderMimeRegistry,
    editors: IEditorExtensionRegistry,
    translator: ITranslator | null,
    palette: ICommandPalette | null,
    restorer: ILayoutRestorer | null,
  ): void => {
    const trans = (translator ?? nullTranslator).load("cachelab");
    rendermime.addFactory(rendererFactory(trans));
    app.docRegistry.addWidgetExtension("Notebook", new SwitchExtension(trans));

    const explorers = new Explorers(app, trans);
    const open = (panel: NotebookPanel, name: string, target?: Target | null): void => void explorers.open(panel, name, target);
    const gutters = inCode({ tracker, editors, trans, open });
    const side = new SidePanel(tracker, gutters, trans, open);
    app.shell.add(side, "right", { rank: 900 });
    restorer?.add(side, "cachelab-panel");

    const { commands } = app;
    commands.addCommand("cachelab:show-panel", {
      label: trans.__("Show the CacheLab panel"),
      execute: () => app.shell.activateById(side.id),
    });
    commands.addCommand("cachelab:line-details", {
      label: trans.__("Show what the lines of this cell cost"),
      isEnabled: () => tracker.activeCell !== null,
      execute: (args) => {
        app.shell.activateById(side.id);
        return side.showLine(typeof args.line === "number" ? args.line : undefined);
      },
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
    for (const command of ["cachelab:show-panel", "cachelab:line-details", "cachelab:load", "cachelab:open-explorer"]) palette?.addItem({ command, category: CATEGORY });
  },
};

export default plugin;
