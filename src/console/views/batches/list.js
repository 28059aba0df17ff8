// All batches, and the place where a file becomes one.

import { html } from "../../lib/ui.js";
import * as api from "../../lib/api.js";
import { number, percent } from "../../lib/format.js";
import { t } from "../../lib/i18n.js";
import { href } from "../../lib/router.js";
import { Empty, Moment, PageHead, Status } from "../../parts/basics.js";
import { PagedTable, pageOf, usePages } from "../../parts/table.js";
import { Upload } from "./upload.js";

const PAGE = 50;
const LIVE_MS = 3_000;

export const isBatchOver = (batch) => ["completed", "cancelled", "expired", "failed"].includes(batch.status);

/** How much of a batch has succeeded, failed, and is left. */
export function Progress({ counts, isBig = false }) {
  const { total, completed, failed } = counts;
  const width = (count) => ({ width: `${total ? (count / total) * 100 : 0}%` });
  const ended = completed + failed;
  const text = t("{ended} of {total} lines have ended, {failed} failed", { ended: number(ended), total: number(total), failed: number(failed) });
  return html`<span class="batches-bar ${isBig ? "is-big" : ""}" role="img" aria-label=${text} title=${text}>
    <span class="good" style=${width(completed)}></span><span class="bad" style=${width(failed)}></span>
  </span>`;
}

const columns = () => [
  { key: "status", title: t("Status"), cell: (batch) => html`<${Status} status=${batch.status} />` },
  { key: "id", title: t("Batch"), cell: (batch) => html`<a class="row-link mono" href=${href("batches", [batch.id])}>${batch.id}</a>` },
  { key: "progress", title: t("Progress"), cell: ({ request_counts: counts }) => html`<${Progress} counts=${counts} />` },
  {
    key: "share",
    title: t("Ended"),
    isNumber: true,
    cell: ({ request_counts: { total, completed, failed } }) => (total ? percent(Math.floor(((completed + failed) / total) * 100) / 100) : "–"),
  },
  { key: "total", title: t("Lines"), isNumber: true, cell: (batch) => number(batch.request_counts.total) },
  {
    key: "failed",
    title: t("Failed"),
    isNumber: true,
    cell: ({ request_counts: { failed } }) => (failed ? html`<span class="batches-failed">${number(failed)}</span>` : "0"),
  },
  { key: "when", title: t("Created"), cell: (batch) => html`<${Moment} at=${batch.created_at} />` },
];

export function BatchList() {
  const pages = usePages(
    {
      load: async (cursor, abort) => pageOf(await api.get(api.withQuery("/v1/batches", { limit: PAGE, cursor }), abort)),
      loadOne: (batch, abort) => api.get(`/v1/batches/${encodeURIComponent(batch.id)}`, abort),
      isSettled: isBatchOver,
    },
    [],
    LIVE_MS,
  );
  return html`<div class="page runs-page">
    <${PageHead} title=${t("Batches")} />
    <${Upload} />
    <section class="section">
      <h2 class="visually-hidden">${t("All batches")}</h2>
      <${PagedTable} pages=${pages} columns=${columns()} label=${t("Batches")} name="batches-table" newLabel=${(n) => t("New batches: {n}", { n })}>
        <${Empty} title=${t("No batches yet")}>${t("Drop a file above: a line for each run. Results come as they are ready.")}<//>
      <//>
    </section>
  </div>`;
}
