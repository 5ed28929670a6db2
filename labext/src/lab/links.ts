/** One link for each open notebook or console, made when it is first asked for and gone with it. */

import type { ISessionContext } from "@jupyterlab/apputils";

import { Link } from "./link.js";

/** A notebook panel or a console panel, as far as a link needs to know. */
export interface Connected {
  readonly sessionContext: ISessionContext;
}

const links = new WeakMap<ISessionContext, Link>();

export function linkOf({ sessionContext }: Connected): Link {
  let link = links.get(sessionContext);
  if (!link) {
    const made = new Link(sessionContext);
    // Two views of one notebook share their context.
    sessionContext.disposed.connect(() => made.dispose());
    links.set(sessionContext, made);
    link = made;
  }
  return link;
}
