// One batch: progress, acts, results.

import { html, useData, useEffect } from "../../lib/ui.js";
import * as api from "../../lib/api.js";
import { dateTime, duration, number, percent, plain } from "../../lib/format.js";
import { t } from "../../lib/i18n.js";
import { go, href } from "../../lib/router.js";
import { Button, Empty, Failure, Moment, PageHead, Status, confirm, notify, useAction } from "../../parts/basics.js";
import { Icon } from "../../parts/icons.js";
import { Progress, isBatchOver } from "./list.js";
import { Results } from "./results.js";

const LIVE_MS = 1_500;

function Acts({ batch, onChanged }) {
  const path = `/v1/batches/${encodeURIComponent(batch.id)}`;
  const [cancel, isBusy] = useAction(async () => {
    if (!(await confirm(t("No further line begins, and running ones are stopped. Results that are there stay."), t("Cancel the batch")))) return;
    await api.post(`${path}/cancel`);
    onChanged();
  });
  const [remove] = useAction(async () => {
    if (!(await confirm(t("The batch is forgotten; its runs stay."), t("Delete the batch")))) return;
    await api.remove(path);
    notify(t("The batch is deleted."));
    go(href("batches"), true);
  });
  const isOver = isBatchOver(batch);
  return html`<div class="actions">
    ${batch.status === "in_progress" && html`<${Button} icon="stop" label=${t("Cancel")} isBusy=${isBusy} onClick=${cancel} />`}
    <a class="button" href=${href("runs", [], { batch: batch.id })}>${t("Runs")}</a>
    <a class="button" href="${path}/results" download="${batch.id}.jsonl"><${Icon} name="download" /><span>${t("Download results")}</span></a>
    ${isOver && html`<${Button} kind="quiet danger" icon="trash" isIconOnly label=${t("Delete the batch")} onClick=${remove} />`}
  </div>`;
}

/** Why a file was refused. */
function FileFaults({ faults }) {
  if (!faults?.data?.length) return null;
  return html`<section class="section"><h2>${t("The file was refused")}</h2>
    <table><thead><tr><th scope="col" class="number">${t("Line")}</th><th scope="col">${t("What is wrong")}</th></tr></thead>
    <tbody>${faults.data.map((fault) => html`<tr><td class="number">${fault.line ?? "–"}</td><td>${plain(fault.message)}</td></tr>`)}</tbody></table>
  </section>`;
}

const quotaWord = (quota) => plain(String(quota).replaceAll("_", " "));

export function BatchPage({ id }) {
  const found = useData((abort) => api.get(`/v1/batches/${encodeURIComponent(id)}`, abort), [id]);
  const batch = found.data;
  const isOver = batch !== undefined && isBatchOver(batch);
  useEffect(() => {
    if (isOver) return undefined;
    const timer = setInterval(() => document.visibilityState === "visible" && found.reload(), LIVE_MS);
    return () => clearInterval(timer);
  }, [isOver]);
  if (!batch) {
    if (!found.error) return html`<p class="loading" role="status">${t("Loading …")}</p>`;
    return html`<div class="page">
      <${PageHead} title=${t("Batch")} />
      ${found.error.status === 404
        ? html`<${Empty} title=${t("There is no such batch")}><a href=${href("batches")}>${t("All batches")}</a><//>`
        : html`<${Failure} error=${found.error} onRetry=${found.reload} />`}
    </div>`;
  }
  const { total, completed, failed } = batch.request_counts;
  const ended = completed + failed;
  const endAt = batch.completed_at ?? batch.cancelled_at ?? batch.expired_at ?? batch.failed_at;
  const seconds = (endAt ?? Date.now() / 1000) - (batch.in_progress_at ?? batch.created_at);
  const left = !isOver && ended > 0 ? ((total - ended) * seconds) / ended : null;
  const card = (label, value) => html`<div class="runs-fact"><dt>${label}</dt><dd>${value}</dd></div>`;
  return html`<div class="page runs-page">
    <header class="runs-head">
      <nav aria-label=${t("Path")}><a href=${href("batches")}>${t("Batches")}</a> <span aria-hidden="true">/</span> <span class="mono faint">${batch.id}</span></nav>
      <div class="page-head"><h1 class="runs-title">${t("Batch of {time}", { time: dateTime(batch.created_at) })}</h1><${Acts} batch=${batch} onChanged=${found.reload} /></div>
      ${found.error && html`<${Failure} error=${found.error} onRetry=${found.reload} />`}
      <div class="batches-progress">
        <${Progress} counts=${batch.request_counts} isBig />
        <strong class="number">${total ? percent(Math.floor((ended / total) * 100) / 100) : "–"}</strong>
      </div>
      <dl class="runs-facts">
        ${card(t("Status"), html`<${Status} status=${batch.status} />`)}
        ${card(t("Lines"), number(total))}
        ${card(t("Succeeded"), number(completed))}
        ${card(t("Failed"), failed ? html`<span class="batches-failed">${number(failed)}</span>` : "0")}
        ${card(t("Left"), number(total - ended))}
        ${card(isOver ? t("Took") : t("Runs since"), duration(Math.max(0, Math.round(seconds))))}
        ${isOver ? card(t("Ended"), html`<span title=${dateTime(endAt)}><${Moment} at=${endAt} /></span>`) : card(t("About left"), left === null ? "–" : `≈ ${duration(Math.round(left))}`)}
        ${card(t("At the same time"), number(batch.concurrency))}
      </dl>
      ${batch.waiting_for && html`<p class="notice" role="status">${t("The remaining lines wait: the quota “{quota}” is used up.", { quota: quotaWord(batch.waiting_for) })}</p>`}
    </header>
    <${FileFaults} faults=${batch.errors} />
    <${Results} batch=${batch} isOver=${isOver} />
  </div>`;
}
