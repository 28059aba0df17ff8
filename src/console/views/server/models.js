// The configured models and how they do.

import { html, useNow } from "../../lib/ui.js";
import { duration, number, percent, plain } from "../../lib/format.js";
import { t } from "../../lib/i18n.js";
import { Empty } from "../../parts/basics.js";
import { State } from "./overview.js";

function Health({ model }) {
  const now = useNow(Boolean(model.until));
  const leftS = model.until ? model.until - now / 1000 : 0;
  return html`
    <${State} state=${model.state} />
    ${leftS > 0 && html`<div class="dim">${t("asked again in {time}", { time: duration(Math.ceil(leftS)) })}</div>`}
    ${model.reason && html`<div class="dim">${plain(model.reason)}</div>`}
  `;
}

function abilities(model) {
  const words = [model.agent && t("tools"), model.vision && t("pictures")].filter(Boolean);
  return words.length > 0 ? words.join(", ") : "–";
}

export function Models({ models }) {
  if (models.length === 0) {
    return html`<${Empty} title=${t("No model is configured")}>${t("Name one under models: in the configuration and start the server again.")}<//>`;
  }
  const hasNumbers = models.some(({ calls }) => calls !== null);
  return html`<div class="table-frame" tabindex="0" role="region" aria-label=${t("Models")}>
    <table>
      <thead>
        <tr>
          <th scope="col">${t("Model")}</th>
          <th scope="col">${t("Health")}</th>
          <th scope="col">${t("Can use")}</th>
          <th scope="col" class="number">${t("Context")}</th>
          ${hasNumbers &&
          html`<th scope="col" class="number">${t("Calls")}</th>
            <th scope="col" class="number">${t("Failures")}</th>`}
        </tr>
      </thead>
      <tbody>
        ${models.map(
          (model) => html`<tr key=${model.id}>
            <th scope="row">
              ${plain(model.name ?? model.id)}
              <div class="faint mono">${plain(model.id)}${model.provider ? ` · ${plain(model.provider)}` : ""}</div>
            </th>
            <td><${Health} model=${model} /></td>
            <td>${abilities(model)}</td>
            <td class="number">${model.context_window ? number(model.context_window) : "–"}</td>
            ${hasNumbers &&
            html`<td class="number">${number(model.calls)}</td>
              <td class="number">${number(model.failures)}${model.calls > 0 && model.failures > 0 ? ` (${percent(model.failures / model.calls)})` : ""}</td>`}
          </tr>`,
        )}
      </tbody>
    </table>
  </div>`;
}
