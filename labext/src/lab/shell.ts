/** CacheLab around the notebooks: toolbar, commands, status bar, settings; explorer tabs that outlive a reload. */

import type { ILayoutRestorer, JupyterFrontEnd } from "@jupyterlab/application";
import type { ICommandPalette, IToolbarWidgetRegistry } from "@jupyterlab/apputils";
import type { IConsoleTracker } from "@jupyterlab/console";
import type { INotebookTracker, NotebookPanel } from "@jupyterlab/notebook";
import type { ISettingRegistry } from "@jupyterlab/settingregistry";
import type { IStatusBar } from "@jupyterlab/statusbar";
import type { TranslationBundle } from "@jupyterlab/translation";
import type { Widget } from "@lumino/widgets";

import { addCommands, refreshCommands } from "./commands.js";
import type { Explorers } from "./explorers.js";
import type { Link } from "./link.js";
import { linkOf } from "./links.js";
import { Options } from "./options.js";
import { restoreExplorers } from "./restore.js";
import { StatusItem } from "./status.js";
import { ModeSwitch, SWITCH } from "./toolbar.js";

export const PLUGIN = "cachelab:plugin";

export interface Around {
  app: JupyterFrontEnd;
  tracker: INotebookTracker;
  trans: TranslationBundle;
  explorers: Explorers;
  side: Widget;
  /** Absent in Notebook 7 and other front ends that do without. */
  consoles: IConsoleTracker | null;
  palette: ICommandPalette | null;
  restorer: ILayoutRestorer | null;
  settings: ISettingRegistry | null;
  status: IStatusBar | null;
  toolbars: IToolbarWidgetRegistry | null;
}

export function around({ app, tracker, trans, explorers, side, consoles, palette, restorer, settings, status, toolbars }: Around): void {
  const options = new Options();
  const active = activeLink(app, tracker, consoles);

  const begin = (link: Link): void => {
    if (options.values.modeAfterLoading !== "off") link.setMode(options.values.modeAfterLoading);
  };
  const loaded = new WeakSet<Link>();
  const attend = (link: Link): void => {
    const { link: stage, why } = link.state;
    if (stage === "none") loaded.delete(link);
    if (link === active()) refreshCommands(app);
    // Once a kernel: whoever unloads CacheLab wants it so.
    if (stage === "ready") loaded.add(link);
    if (stage !== "absent" || why || loaded.has(link) || !options.values.loadAutomatically) return;
    loaded.add(link);
    void link.load();
  };
  const known = new Set<Link>();
  const welcome = (link: Link): void => {
    if (known.has(link)) return;
    known.add(link);
    link.changed.connect(attend);
    link.loaded.connect(begin);
    attend(link);
  };
  const both = (act: (link: Link) => void): void => {
    tracker.forEach((panel) => act(linkOf(panel)));
    consoles?.forEach((panel) => act(linkOf(panel)));
  };
  both(welcome);
  tracker.widgetAdded.connect((_, panel) => welcome(linkOf(panel)));
  consoles?.widgetAdded.connect((_, panel) => welcome(linkOf(panel)));

  toolbars?.addFactory<NotebookPanel>("Notebook", SWITCH, (panel) => new ModeSwitch(linkOf(panel), trans));
  addCommands({ app, tracker, trans, active, open: (panel, name) => void explorers.open(panel, name), side }, palette);

  const item = new StatusItem(trans, () => app.shell.activateById(side.id));
  status?.registerStatusItem("cachelab-status", { item, align: "left", rank: 60, isActive: () => options.values.statusBar && !item.empty, activeStateChanged: item.shown });
  const follow = (): void => {
    item.follow(active());
    refreshCommands(app);
  };
  tracker.currentChanged.connect(follow);
  consoles?.currentChanged.connect(follow);
  app.shell.currentChanged?.connect(follow);
  tracker.activeCellChanged.connect(() => refreshCommands(app));
  follow();

  options.changed.connect((_, values) => {
    document.body.classList.toggle("cachelab-NoBadges", !values.badges);
    document.body.classList.toggle("cachelab-NoMarks", !values.marks);
    explorers.followsFirst = values.followRecordings;
    item.changed();
    both(attend);
  });
  if (settings) void options.read(settings, PLUGIN);
  if (restorer) restoreExplorers(app, tracker, explorers, restorer);
}

/** The link of the notebook or console that is in use; of the last one where something else is. */
function activeLink(app: JupyterFrontEnd, tracker: INotebookTracker, consoles: IConsoleTracker | null): () => Link | null {
  return () => {
    const current = app.shell.currentWidget;
    const console = consoles?.currentWidget ?? null;
    const panel = console && (console === current || !tracker.currentWidget) ? console : tracker.currentWidget;
    return panel ? linkOf(panel) : null;
  };
}
