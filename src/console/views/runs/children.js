// Runs that a run has started, each with its own below it.

import { html, useData, useState } from "../../lib/ui.js";
import * as api from "../../lib/api.js";
import { duration } from "../../lib/format.js";
import { t } from "../../lib/i18n.js";
import { href } from "../../lib/router.js";
import { isOver } from "../../lib/steps.js";
import { Button, Status } from "../../parts/basics.js";
import { inputStart, runSeconds } from "./list.js";

const SHOWN = 50;
const LIVE_MS = 3_000;
/** Deeper ones are opened on their own page. */
const MOST_DEPTH = 4;

function List({ parent, isLive, depth }) {
  const list = useData((abort) => api.get(api.withQuery("/v1/jobs", { parent, limit: SHOWN }), abort), [parent, isLive], isLive ? LIVE_MS : 0);
  const jobs = list.data?.data ?? [];
  if (jobs.length === 0) return depth === 0 || !list.data ? null : html`<p class="faint">${t("It has started no runs.")}</p>`;
  return html`<ul class="runs-children">
    ${jobs.map((job) => html`<${Child} key=${job.id} job=${job} depth=${depth} />`)}
    ${list.data.has_more && html`<li><a href=${href("runs", [], { parent })}>${t("All of them")}</a></li>`}
  </ul>`;
}

function Child({ job, depth }) {
  const [isOpen, setOpen] = useState(false);
  return html`<li>
    <div class="runs-child">
      ${depth < MOST_DEPTH && html`<${Button} kind="quiet small ${isOpen ? "is-open" : ""}" icon="chevron" isIconOnly label=${t("Runs that it has started")} aria-expanded=${isOpen} onClick=${() => setOpen(!isOpen)} />`}
      <${Status} status=${job.status} />
      <a class="ellipsis" href=${href("runs", [job.id])} dir="auto">${inputStart(job, 120) || job.id}</a>
      <span class="faint number">${duration(runSeconds(job))}</span>
    </div>
    ${isOpen && html`<${List} parent=${job.id} isLive=${!isOver(job.status)} depth=${depth + 1} />`}
  </li>`;
}

/** Nothing at all where there are none. */
export function Children({ job }) {
  const first = useData((abort) => api.get(api.withQuery("/v1/jobs", { parent: job.id, limit: 1 }), abort), [job.id, job.status, job.last_event_id > 0]);
  if (!first.data?.data.length) return null;
  return html`<section class="section">
    <h2>${t("Runs that it has started")}</h2>
    <${List} parent=${job.id} isLive=${!isOver(job.status)} depth=${0} />
  </section>`;
}
