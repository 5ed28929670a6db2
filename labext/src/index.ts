/** CacheLab inside JupyterLab: mode switch, side panel, explorer tabs, renderer of saved records. */

import { ILayoutRestorer, type JupyterFrontEnd, type JupyterFrontEndPlugin } from "@jupyterlab/application";
import { ICommandPalette, IToolbarWidgetRegistry } from "@jupyterlab/apputils";
import { IEditorExtensionRegistry } from "@jupyterlab/codemirror";
import { IConsoleTracker } from "@jupyterlab/console";
import { INotebookTracker, type NotebookPanel } from "@jupyterlab/notebook";
import { IRenderMimeRegistry } from "@jupyterlab/rendermime";
import { ISettingRegistry } from "@jupyterlab/settingregistry";
import { IStatusBar } from "@jupyterlab/statusbar";
import { ITranslator, nullTranslator } from "@jupyterlab/translation";

import { inCode } from "./lab/incode.js";
import { type Target, setTranslator } from "./lab/bundle.js";
import { rendererFactory } from "./lab/renderer.js";
import { Explorers } from "./lab/explorers.js";
import { SidePanel } from "./lab/sidepanel.js";
import { around, PLUGIN } from "./lab/shell.js";
import "../style/index.css";
import "../style/marks.css";

const plugin: JupyterFrontEndPlugin<void> = {
  id: PLUGIN,
  description: "Shows what TensorFlow computed again, and switches how cells execute.",
  autoStart: true,
  requires: [INotebookTracker, IRenderMimeRegistry, IEditorExtensionRegistry],
  optional: [ITranslator, ICommandPalette, ILayoutRestorer, ISettingRegistry, IStatusBar, IToolbarWidgetRegistry, IConsoleTracker],
  activate: (
    app: JupyterFrontEnd,
    tracker: INotebookTracker,
    rendermime: IRenderMimeRegistry,
    editors: IEditorExtensionRegistry,
    translator: ITranslator | null,
    palette: ICommandPalette | null,
    restorer: ILayoutRestorer | null,
    settings: ISettingRegistry | null,
    status: IStatusBar | null,
    toolbars: IToolbarWidgetRegistry | null,
    consoles: IConsoleTracker | null,
  ): void => {
    const trans = (translator ?? nullTranslator).load("cachelab");
    setTranslator((message) => trans.__(message));
    rendermime.addFactory(rendererFactory(trans));

    const explorers = new Explorers(app, trans);
    const open = (panel: NotebookPanel, name: string, target?: Target | null): void => void explorers.open(panel, name, target);
    const gutters = inCode({ tracker, editors, trans, open });
    const side = new SidePanel(tracker, gutters, trans, open);
    app.shell.add(side, "right", { rank: 900 });
    restorer?.add(side, "cachelab-panel");

    around({ app, tracker, trans, explorers, side, consoles, palette, restorer, settings, status, toolbars });
    app.commands.addCommand("cachelab:line-details", {
      label: trans.__("Show What the Lines of This Cell Cost"),
      isEnabled: () => tracker.activeCell !== null,
      execute: (args) => {
        app.shell.activateById(side.id);
        return side.showLine(typeof args.line === "number" ? args.line : undefined);
      },
    });
    palette?.addItem({ command: "cachelab:line-details", category: "CacheLab" });
  },
};

export default plugin;
