// Batches: the list, or the batch of the address.

import { html } from "../lib/ui.js";
import { BatchPage } from "./batches/batch.js";
import { BatchList } from "./batches/list.js";

export function View({ segments }) {
  const [id] = segments;
  return id ? html`<${BatchPage} key=${id} id=${id} />` : html`<${BatchList} />`;
}
