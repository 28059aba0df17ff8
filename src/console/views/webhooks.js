// Deliveries of webhooks: what was tried, what the receiver said, and a new try.

import { html } from "../lib/ui.js";
import * as api from "../lib/api.js";
import { number, plain, short } from "../lib/format.js";
import { t } from "../lib/i18n.js";
import { go, href } from "../lib/router.js";
import { Button, Empty, Moment, PageHead, Status, notify, useAction } from "../parts/basics.js";
import { PagedTable, pageOf, usePages } from "../parts/table.js";

const PAGE = 100;
const LIVE_MS = 4_000;
const EXAMPLE = `curl -s ${location.origin}/v1/jobs -d '{"input": "Hello", "webhook_url": "https://example.org/hook"}'`;

const states = () => [
  ["", t("All")],
  ["pending", t("Pending")],
  ["delivered", t("Delivered")],
  ["dead", t("Given up")],
];

/** The page of what a delivery is about; null where it has none. */
function subjectOf(subject) {
  const id = String(subject);
  if (id.startsWith("batch_")) return href("batches", [id]);
  if (id.startsWith("job_")) return href("runs", [id]);
  // A response has its job's number.
  return /^resp_[0-9A-Z]{26}$/.test(id) ? href("runs", [id.replace("resp_", "job_")]) : null;
}

function Subject({ delivery }) {
  const address = subjectOf(delivery.subject);
  const text = short(delivery.subject, 40);
  return address ? html`<a class="mono" href=${address}>${text}</a>` : html`<span class="mono">${text}</span>`;
}

/** What the receiver said at last. */
function Answer({ delivery }) {
  const { last_status: status, last_error: error } = delivery;
  if (status === null && error === null) return html`<span class="faint">${t("not tried yet")}</span>`;
  return html`<span class=${delivery.state === "delivered" ? "" : "webhooks-bad"} title=${error ? plain(error) : undefined}>
    ${status !== null && html`<strong class="number">${status}</strong> `}${error && short(error, 140)}
  </span>`;
}

function Retry({ delivery, onChanged }) {
  const [retry, isBusy] = useAction(async () => {
    await api.post(`/v1/webhooks/${encodeURIComponent(delivery.id)}/retry`);
    notify(t("The delivery is tried now."));
    onChanged();
  });
  if (delivery.state === "delivered") return null;
  return html`<${Button} kind="quiet small" icon="retry" label=${t("Try now")} isBusy=${isBusy} onClick=${retry} />`;
}

const columns = (onChanged) => [
  { key: "state", title: t("State"), cell: (each) => html`<${Status} status=${each.state} />` },
  { key: "subject", title: t("About"), cell: (each) => html`<${Subject} delivery=${each} />` },
  { key: "url", title: t("Receiver"), cell: (each) => html`<span title=${plain(each.url)}>${short(each.url, 120)}</span>` },
  { key: "answer", title: t("Last answer"), cell: (each) => html`<${Answer} delivery=${each} />` },
  { key: "tries", title: t("Tries"), isNumber: true, cell: (each) => number(each.tries) },
  { key: "next", title: t("Next try"), cell: (each) => html`<${Moment} at=${each.next_try_at} />` },
  { key: "when", title: t("Created"), cell: (each) => html`<${Moment} at=${each.created_at} />` },
  { key: "acts", title: html`<span class="visually-hidden">${t("Acts")}</span>`, cell: (each) => html`<${Retry} delivery=${each} onChanged=${onChanged} />` },
];

function None({ state }) {
  if (state) {
    return html`<${Empty} title=${t("No delivery has this state")}><a href=${href("webhooks")}>${t("Show all deliveries")}</a><//>`;
  }
  return html`<${Empty} title=${t("No webhooks yet")}>
    <p>${t("The server can post a run or a batch to an address of yours when it has ended. Name the address with the request:")}</p>
    <div class="code"><pre tabindex="0"><code>${EXAMPLE}</code></pre></div>
    <p>${t("It is tried up to ten times over three days until the receiver answers with 2xx. Addresses that are not public must be allowed in the configuration (webhooks.allow_private_addresses). Every post is signed; the key is the file webhook_secret in the data directory.")}</p>
  <//>`;
}

export function View({ query }) {
  const state = states().some(([key]) => key === query.get("state")) ? query.get("state") : "";
  const pages = usePages(
    {
      load: async (cursor, abort) => pageOf(await api.get(api.withQuery("/v1/webhooks", { state, limit: PAGE, cursor }), abort)),
      loadOne: (delivery, abort) => api.get(`/v1/webhooks/${encodeURIComponent(delivery.id)}`, abort),
      isSettled: (delivery) => delivery.state !== "pending",
    },
    [state],
    LIVE_MS,
  );
  return html`<div class="page runs-page">
    <${PageHead} title=${t("Webhooks")}>
      <div class="webhooks-states" role="group" aria-label=${t("State")}>
        ${states().map(([key, label]) => html`<button type="button" class="button small" aria-pressed=${key === state} onClick=${() => go(href("webhooks", [], { state: key }), true)}>${label}</button>`)}
      </div>
    <//>
    <${PagedTable} key=${state} pages=${pages} columns=${columns(() => pages.refresh())} label=${t("Deliveries")} name="webhooks-table" newLabel=${(n) => t("New deliveries: {n}", { n })}>
      <${None} state=${state} />
    <//>
  </div>`;
}
