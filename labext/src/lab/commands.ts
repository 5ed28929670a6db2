/** The commands `cachelab:*`; menus and shortcuts are in `schema/plugin.json`. */

import type { JupyterFrontEnd } from "@jupyterlab/application";
import type { ICommandPalette } from "@jupyterlab/apputils";
import type { INotebookTracker, NotebookPanel } from "@jupyterlab/notebook";
import type { TranslationBundle } from "@jupyterlab/translation";
import type { ReadonlyJSONObject } from "@lumino/coreutils";
import type { Widget } from "@lumino/widgets";

import type { Link } from "./link.js";
import { linkOf } from "./links.js";
import { loadable, modeGroups } from "./modes.js";
import { ModeSwitch } from "./toolbar.js";

const HEADER = "%%cachelab";

export interface Parts {
  app: JupyterFrontEnd;
  tracker: INotebookTracker;
  trans: TranslationBundle;
  /** The link of the active notebook or console. */
  active: () => Link | null;
  open: (panel: NotebookPanel, name: string) => void;
  side: Widget;
}

export function addCommands({ app, tracker, trans, active, open, side }: Parts, palette: ICommandPalette | null): void {
  const { commands } = app;
  const category = "CacheLab";
  const ready = (): boolean => active()?.state.link === "ready";
  const notebook = (): NotebookPanel | null => tracker.currentWidget;

  commands.addCommand("cachelab:show-panel", {
    label: trans.__("Show the CacheLab Panel"),
    execute: () => {
      app.shell.activateById(side.id);
    },
  });
  commands.addCommand("cachelab:load", {
    label: trans.__("Load CacheLab in the Kernel"),
    isEnabled: () => {
      const link = active();
      return link !== null && loadable(link.state);
    },
    execute: () => active()?.load(),
  });

  const names = new Map(modeGroups(trans).flatMap(({ modes }) => modes.map(({ value, text }) => [value, text])));
  commands.addCommand("cachelab:set-mode", {
    label: (args) => {
      const name = names.get(String(args.mode)) ?? String(args.mode ?? "");
      return args.isPalette ? trans.__("Mode of the Next Cells: %1", name) : name;
    },
    isToggleable: true,
    isToggled: (args) => ready() && active()?.state.mode === args.mode,
    isEnabled: (args) => ready() && names.has(String(args.mode)),
    execute: (args) => active()?.setMode(String(args.mode)),
  });
  commands.addCommand("cachelab:choose-mode", {
    label: trans.__("Go to the Mode Switch"),
    isEnabled: () => notebook() !== null,
    execute: () => {
      for (const item of notebook()?.toolbar.children() ?? []) if (item instanceof ModeSwitch) item.take();
    },
  });

  commands.addCommand("cachelab:record-cell", {
    label: trans.__("Record This Cell"),
    caption: trans.__("Put %1 on the first line of the cell, or take it away", HEADER),
    isToggleable: true,
    isToggled: () => source(notebook())?.startsWith(HEADER) ?? false,
    isEnabled: () => source(notebook()) !== null,
    execute: () => {
      const text = source(notebook());
      if (text === null) return;
      const recorded = text.startsWith(HEADER);
      notebook()?.content.activeCell?.model.sharedModel.setSource(recorded ? text.replace(/^.*\n?/, "") : `${HEADER}\n${text}`);
    },
  });

  const latest = (cell = ""): string | undefined => {
    const panel = notebook();
    return panel ? linkOf(panel).state.recordings.find((row) => !cell || row.cell === cell)?.name : undefined;
  };
  const here = (): string | undefined => latest(notebook()?.content.activeCell?.model.id ?? "-");
  const explore = (name: string | undefined): void => {
    const panel = notebook();
    if (panel && name !== undefined) open(panel, name);
  };
  commands.addCommand("cachelab:open-explorer", {
    label: trans.__("Open the Explorer of the Last Recording"),
    isEnabled: () => latest() !== undefined,
    execute: () => explore(latest()),
  });
  commands.addCommand("cachelab:explore-cell", {
    label: trans.__("Open the Explorer of This Cell"),
    isEnabled: () => here() !== undefined,
    execute: () => explore(here()),
  });

  const offered: readonly [string, ReadonlyJSONObject?][] = [
    ["cachelab:show-panel"],
    ["cachelab:load"],
    ["cachelab:open-explorer"],
    ["cachelab:explore-cell"],
    ["cachelab:record-cell"],
    ["cachelab:choose-mode"],
    ...[...names.keys()].map((mode): [string, ReadonlyJSONObject] => ["cachelab:set-mode", { mode, isPalette: true }]),
  ];
  for (const [command, args] of offered) palette?.addItem({ command, category, args: { ...args } });
}

/** The text of the active cell if it is a code cell. */
function source(panel: NotebookPanel | null): string | null {
  const cell = panel?.content.activeCell;
  return cell?.model.type === "code" ? cell.model.sharedModel.getSource() : null;
}

/** Tell the commands' views that what they show may have changed. */
export function refreshCommands(app: JupyterFrontEnd): void {
  for (const name of ["load", "set-mode", "choose-mode", "record-cell", "open-explorer", "explore-cell"]) app.commands.notifyCommandChanged(`cachelab:${name}`);
}

