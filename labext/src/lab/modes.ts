/** The modes that the switch, the menu and the palette offer, in groups, with the names that people read. */

import type { TranslationBundle } from "@jupyterlab/translation";

export interface ModeGroup {
  title: string;
  modes: readonly { value: string; text: string }[];
}

const named = (...values: string[]): ModeGroup["modes"] => values.map((value) => ({ value, text: value.replace("per_example", "per-example") }));

export function modeGroups(trans: TranslationBundle): readonly ModeGroup[] {
  return [
    { title: "", modes: [{ value: "off", text: trans.__("off") }] },
    { title: trans.__("live"), modes: named("run", "memo", "feed") },
    { title: trans.__("live in a new cachelab.Session, and replay after the cell"), modes: named("variable", "handle") },
    { title: trans.__("replay after the cell"), modes: named("partial_run", "joint", "per_example") },
  ];
}

/** Why a kernel's mode can't be set now; empty if it can. */
export function obstacle(state: { link: string; why?: string }, trans: TranslationBundle): string {
  if (state.link === "ready") return "";
  if (state.why === "busy") return trans.__("The kernel has not answered yet; it may be busy.");
  if (state.link === "none") return trans.__("No kernel is connected.");
  if (state.why === "language") return trans.__("This kernel does not run Python.");
  if (state.why === "missing") return trans.__("CacheLab is not installed in this kernel.");
  return trans.__("CacheLab is not loaded in this kernel.");
}

/** Whether loading CacheLab may help. */
export const loadable = (state: { link: string; why?: string }): boolean => state.link === "absent" && state.why !== "language";
