// The tab with a run's tokens and cost.

import { html } from "../../lib/ui.js";
import { cost, number, percent } from "../../lib/format.js";
import { t } from "../../lib/i18n.js";

export function RunUsage({ job }) {
  const { prompt_tokens: prompt = 0, completion_tokens: completion = 0, total_tokens: total = 0 } = job.usage;
  const { cached_tokens: cached = 0, reasoning_tokens: reasoning = 0, cost_micros: micros } = job.usage;
  const rows = [
    [t("Prompt"), prompt, "prompt", 0],
    [t("of these from the provider's cache"), cached, "cached", 1],
    [t("Answer"), completion, "completion", 0],
    [t("of these thinking"), reasoning, "reasoning", 1],
    [t("Total"), total, "total", 0],
  ];
  return html`<div class="stack runs-usage">
    <table>
      <caption class="visually-hidden">${t("Tokens by kind")}</caption>
      <thead><tr><th scope="col">${t("Tokens")}</th><th scope="col" class="number">${t("Number")}</th><th scope="col"><span class="visually-hidden">${t("Share")}</span></th></tr></thead>
      <tbody>
        ${rows.map(
          ([label, count, kind, depth]) => html`<tr class=${depth ? "dim is-nested" : ""}>
            <th scope="row">${label}</th>
            <td class="number">${number(count)}</td>
            <td class="runs-share"><span class="runs-share-bar ${kind}" aria-hidden="true" style=${{ width: `${total ? Math.min(100, (count / total) * 100) : 0}%` }}></span>
              <span class="faint">${total ? percent(count / total) : "–"}</span></td>
          </tr>`,
        )}
      </tbody>
    </table>
    <p><strong>${t("Cost")}: ${cost(micros)}</strong>
      ${!micros && html` <span class="faint">${t("The configuration has no price for this model (price under models).")}</span>`}</p>
    <p class="faint">${t("Numbers are the provider's; where it reports none, they are estimates. Calls of sub-agents count with the run.")}</p>
  </div>`;
}
