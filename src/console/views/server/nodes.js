// The nodes that share the database: GET /v1/nodes, for administrators.

import { html, useData } from "../../lib/ui.js";
import * as api from "../../lib/api.js";
import { duration, number, plain } from "../../lib/format.js";
import { t } from "../../lib/i18n.js";
import { Loaded, Moment } from "../../parts/basics.js";

const EVERY_MS = 5_000;

function Row({ node }) {
  const isLive = node.state === "live";
  return html`<tr>
    <th scope="row" dir="auto">${plain(node.name)} <span class="faint">${number(node.id)}${node.is_self && ` · ${t("answers this page")}`}</span></th>
    <td><span class="status ${isLive ? "ok" : "failed"}"><span class="dot" aria-hidden="true"></span>${isLive ? t("works") : t("lost")}</span></td>
    <td>${number(node.jobs)}</td>
    <td class="dim">${node.beat_age_ms === null ? "–" : duration(node.beat_age_ms / 1000)}</td>
    <td class="mono">${plain(node.version)}</td>
    <td class="dim"><${Moment} at=${node.started_at} /></td>
  </tr>`;
}

export function Nodes() {
  const nodes = useData((abort) => api.get("/v1/nodes", abort), [], EVERY_MS);
  const heads = [t("Node"), t("State"), t("Runs"), t("Heartbeat age"), t("Version"), t("Started")];
  return html`<section class="server-section" aria-label=${t("Nodes")}>
    <h2>${t("Nodes")}</h2>
    <${Loaded} of=${nodes}>
      ${({ data, warnings }) => html`
        ${warnings.map((warning) => html`<p class="notice" role="status" dir="auto">${plain(warning)}</p>`)}
        <div class="table-frame" tabindex="0" role="region" aria-label=${t("Nodes that share the database")}>
          <table>
            <thead>
              <tr>${heads.map((head) => html`<th scope="col">${head}</th>`)}</tr>
            </thead>
            <tbody>${data.map((node) => html`<${Row} key=${node.id} node=${node} />`)}</tbody>
          </table>
        </div>`}
    <//>
  </section>`;
}
