// Runs: the list, or the run of the address.

import { html } from "../lib/ui.js";
import { RunList } from "./runs/list.js";
import { RunPage } from "./runs/run.js";

export function View({ segments, query }) {
  const [id] = segments;
  return id ? html`<${RunPage} key=${id} id=${id} query=${query} />` : html`<${RunList} query=${query} />`;
}
