// The tab with what was asked: whole input, tools, settings.

import { html, useData } from "../../lib/ui.js";
import * as api from "../../lib/api.js";
import { dateTime, plain } from "../../lib/format.js";
import { t } from "../../lib/i18n.js";
import { Loaded } from "../../parts/basics.js";
import { Output } from "../../parts/run.js";
import { inputText } from "./fields.js";

function toolsText(tools) {
  if (tools === true) return t("All tools");
  if (tools === false) return t("No tools");
  return Array.isArray(tools) ? tools.map(plain).join(", ") || t("No tools") : t("Usual tools");
}

export function Request({ job }) {
  const whole = useData((abort) => api.get(`/v1/jobs/${encodeURIComponent(job.id)}?include=input`, abort), [job.id, job.status]);
  return html`<${Loaded} of=${whole}>
    ${(found) => html`<div class="stack">
      ${found.input === null
        ? html`<p class="notice">${t("The input was deleted with its message.")}</p>`
        : html`<${Output} text=${inputText(found.input)} label=${t("Input")} />`}
      <dl class="facts">
        <dt>${t("Model")}</dt><dd>${plain(found.model)}</dd>
        <dt>${t("Tools")}</dt><dd>${toolsText(found.tools)}</dd>
        <dt>${t("Created")}</dt><dd>${dateTime(found.created_at)}</dd>
        <dt>${t("Started")}</dt><dd>${dateTime(found.started_at)}</dd>
        <dt>${t("Ended")}</dt><dd>${dateTime(found.finished_at)}</dd>
        <dt>${t("Last event")}</dt><dd>${found.last_event_id}</dd>
        ${Object.entries(found.metadata ?? {}).map(([key, value]) => html`<dt class="mono">${plain(key)}</dt><dd>${plain(value)}</dd>`)}
      </dl>
      <details class="runs-more"><summary>${t("The job as JSON")}</summary><${Output} text=${JSON.stringify(found, null, 2)} label="GET /v1/jobs/${job.id}" /></details>
    </div>`}
  <//>`;
}
