// All runs, newest first, with filters that stand in the address.

import { html, useMemo, useSignal, useState } from "../../lib/ui.js";
import * as api from "../../lib/api.js";
import { duration, jobCost, number, plain, short } from "../../lib/format.js";
import { language, t } from "../../lib/i18n.js";
import { go, href } from "../../lib/router.js";
import { isOver } from "../../lib/steps.js";
import { Button, Empty, Moment, PageHead, Status } from "../../parts/basics.js";
import { PagedTable, pageOf, usePages } from "../../parts/table.js";
import { conditionTexts } from "../../parts/wait.js";
import { Filters, filtersOf } from "./filters.js";
import { Glance } from "./glance.js";
import { StartRun } from "./start.js";

const PAGE = 100;
const LIVE_MS = 2_000;

/** Seconds that a run took, or takes until now. */
export function runSeconds(job, nowMs = Date.now()) {
  if (!job.started_at) return null;
  return Math.max(0, (job.finished_at ?? nowMs / 1000) - job.started_at);
}

/** The beginning of what was asked. */
export function inputStart(job, most = 120) {
  if (typeof job.input === "string") return short(job.input, most);
  return job.input === null ? t("(deleted)") : short(JSON.stringify(job.input), most);
}

/** The input, and what bounds an unfinished run; both are cut to share the line. */
function Input({ job }) {
  const texts = isOver(job.status) ? [] : conditionTexts(job);
  const link = html`<a class="row-link" href=${href("runs", [job.id])} dir="auto">${inputStart(job) || job.id}</a>`;
  if (texts.length === 0) return link;
  const text = texts.join(" · ");
  return html`<div class="runs-input">${link}<span class="runs-conditions" title=${text}>${text}</span></div>`;
}

const columns = [
  { key: "status", cell: (job) => html`<${Status} status=${job.status} />` },
  {
    key: "input",
    cell: (job) => html`<${Input} job=${job} />
      ${job.error && html`<span class="runs-error">${short(job.error.message, 120)}</span>`}`,
  },
  { key: "model", cell: (job) => plain(job.model) },
  { key: "when", cell: (job) => html`<${Moment} at=${job.created_at} />` },
  { key: "duration", isNumber: true, cell: (job) => duration(runSeconds(job)) },
  { key: "tokens", isNumber: true, cell: (job) => (job.usage.total_tokens ? number(job.usage.total_tokens) : "–") },
  { key: "cost", isNumber: true, cell: jobCost },
];

/** The columns with titles in the language. */
function useColumns() {
  const words = useSignal(language);
  return useMemo(() => {
    const titles = [t("Status"), t("Input"), t("Model"), t("Created"), t("Duration"), t("Tokens"), t("Cost")];
    return columns.map((column, at) => ({ ...column, title: titles[at] }));
  }, [words]);
}

/** A list of runs under fixed filters; other views show their runs with it. */
export function RunTable({ filters, label, everyMs = LIVE_MS, children }) {
  const titled = useColumns();
  const pages = usePages(
    {
      load: async (cursor, abort) => pageOf(await api.get(api.withQuery("/v1/jobs", { ...filters, limit: PAGE, cursor }), abort)),
      loadOne: (job, abort) => api.get(`/v1/jobs/${encodeURIComponent(job.id)}`, abort),
      isSettled: (job) => isOver(job.status),
    },
    [JSON.stringify(filters)],
    everyMs,
  );
  const newLabel = (n) => t("New runs: {n}", { n });
  return html`<${PagedTable} pages=${pages} columns=${titled} label=${label} name="runs-table" newLabel=${newLabel}>${children}<//>`;
}

export function RunList({ query }) {
  const [isStarting, setStarting] = useState(query.get("new") !== null);
  const filters = filtersOf(query);
  const isFiltered = Object.keys(filters).length > 0;
  const change = (next) => go(href("runs", [], next), true);
  const close = () => {
    setStarting(false);
    if (query.get("new") !== null) change(filtersOf(query, true));
  };
  return html`<div class="page runs-page">
    <${PageHead} title=${t("Runs")}>
      <${Button} kind="primary" icon="plus" label=${t("Start a run")} onClick=${() => setStarting(true)} />
    <//>
    <${Glance} current=${query.get("status") ?? ""} onPick=${(status) => change({ ...filtersOf(query, true), status })} />
    <${Filters} query=${query} onChange=${change} />
    <${RunTable} filters=${filters} label=${t("Runs")}>
      ${isFiltered
        ? html`<${Empty} title=${t("No run fits these filters")}><${Button} label=${t("Show all runs")} onClick=${() => change({})} /><//>`
        : html`<${Empty} title=${t("No runs yet")}>
            <p>${t("A run is a question or task that a model works on. Start one here, in the chat, or with POST /v1/jobs.")}</p>
          <//>`}
    <//>
    ${isStarting && html`<${StartRun} onClose=${close} />`}
  </div>`;
}
