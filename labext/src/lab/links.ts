/** One link for each open notebook, made when it is first asked for and gone with the notebook. */

import type { NotebookPanel } from "@jupyterlab/notebook";

import { Link } from "./link.js";

const links = new WeakMap<NotebookPanel, Link>();

export function linkOf(panel: NotebookPanel): Link {
  let link = links.get(panel);
  if (!link) {
    const made = new Link(panel.sessionContext);
    panel.disposed.connect(() => made.dispose());
    links.set(panel, made);
    link = made;
  }
  return link;
}
