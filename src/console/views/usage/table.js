// Usage as a table, summed by day, model, conversation or user.

import { html, useMemo, useState } from "../../lib/ui.js";
import { cost, number, percent, plain, short } from "../../lib/format.js";
import { t } from "../../lib/i18n.js";
import { href } from "../../lib/router.js";
import { Button, Empty } from "../../parts/basics.js";
import { dayText, grouped, sumOf } from "./days.js";

const PAGE = 100;

/** For each grouping: the head of the first column, the key of a row, and how it is shown. */
const KINDS = {
  day: {
    head: () => t("Day (UTC)"),
    key: (row) => row.date,
    name: ({ date }) => html`<time datetime=${date}>${dayText(date)}</time>`,
  },
  model: { head: () => t("Model"), key: (row) => row.model, name: ({ model }) => plain(model) },
  conversation: {
    head: () => t("Conversation"),
    key: (row) => row.conversation_id,
    name: (row) => html`<a href=${href("chat", [row.conversation_id])} dir="auto">${short(row.title || row.conversation_id, 80)}</a>`,
  },
  user: { head: () => t("User"), key: (row) => row.user_id, name: (row) => plain(row.username ?? String(row.user_id)) },
};

function useGroups(rows, by) {
  return useMemo(() => {
    const groups = grouped(rows, KINDS[by].key).map(([key, some]) => ({ key, first: some[0], ...sumOf(some) }));
    // Days in their order, the newest first; everything else by its share.
    const order = by === "day" ? (a, b) => (a.key < b.key ? 1 : -1) : (a, b) => b.total_tokens - a.total_tokens;
    return groups.sort(order);
  }, [rows, by]);
}

export function UsageTable({ rows, by }) {
  const [shown, setShown] = useState(PAGE);
  const groups = useGroups(rows, by);
  const all = sumOf(rows);
  if (groups.length === 0) return html`<${Empty} title=${t("Nothing was used in this time")}>${t("Choose a longer time.")}<//>`;
  const cells = (sum) => html`
    <td class="number">${number(sum.prompt_tokens)}</td>
    <td class="number dim">${number(sum.cached_tokens)}</td>
    <td class="number">${number(sum.completion_tokens)}</td>
    <td class="number">${number(sum.total_tokens)}</td>
    <td class="number dim">${all.total_tokens > 0 ? percent(sum.total_tokens / all.total_tokens) : "–"}</td>
    <td class="number">${cost(sum.cost_micros)}</td>
    <td class="number">${number(sum.jobs)}</td>
  `;
  return html`
    <div class="table-frame" tabindex="0" role="region" aria-label=${t("Usage")}>
      <table class="usage-table">
        <thead>
          <tr>
            <th scope="col">${KINDS[by].head()}</th>
            ${[t("Input"), t("Cached"), t("Output"), t("Total"), t("Share"), t("Cost"), t("Runs")].map(
              (head) => html`<th scope="col" class="number">${head}</th>`,
            )}
          </tr>
        </thead>
        <tbody>
          ${groups.slice(0, shown).map((each) => html`<tr key=${each.key}><th scope="row">${KINDS[by].name(each.first)}</th>${cells(each)}</tr>`)}
        </tbody>
        <tfoot><tr><th scope="row">${t("Total")}</th>${cells(all)}</tr></tfoot>
      </table>
    </div>
    ${groups.length > shown && html`<p class="row files-more"><${Button} label=${t("Show more")} onClick=${() => setShown(shown + PAGE)} /></p>`}
  `;
}
