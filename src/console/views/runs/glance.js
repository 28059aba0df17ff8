// The queue at a glance: how many runs have each state, and how busy the workers are.

import { html, useSignal } from "../../lib/ui.js";
import { number } from "../../lib/format.js";
import { t } from "../../lib/i18n.js";
import { hasAccounts, isAdmin } from "../../session.js";
import { useStatus } from "../server/status.js";

function Figure({ name, label, value, more, current, onPick }) {
  const isCurrent = current === name;
  return html`<button type="button" class="runs-figure ${name}" aria-pressed=${isCurrent} onClick=${() => onPick(isCurrent ? "" : name)}>
    <span class="figure">${value === undefined ? "–" : number(value)}</span>
    <span class="name">${label}</span>
    ${more && html`<span class="faint">${more}</span>`}
  </button>`;
}

function Workers({ workers, more }) {
  return html`<div class="runs-figure workers">
    <span class="figure">${workers ? html`${number(workers.busy)}<span class="faint"> / ${number(workers.total)}</span>` : "–"}</span>
    <span class="name">${t("Workers busy")}</span>
    ${more && html`<span class="faint">${more}</span>`}
    ${workers && html`<span class="runs-meter" aria-hidden="true"><span style=${{ width: `${Math.min(1, workers.busy / Math.max(1, workers.total)) * 100}%` }}></span></span>`}
  </div>`;
}

/** Figures that filter the list when they are pressed. For administrators they count the runs of all users. */
export function Glance({ current, onPick }) {
  const { data } = useStatus();
  const [withAccounts, admin] = [useSignal(hasAccounts), useSignal(isAdmin)];
  const jobs = data?.jobs ?? {};
  const later = jobs.delayed > 0 && t("for later: {n}", { n: number(jobs.delayed) });
  return html`<section class="runs-glance" aria-label=${t("Queue")}>
    <${Figure} name="running" label=${t("running")} value=${jobs.running} ...${{ current, onPick }} />
    <${Figure} name="queued" label=${t("queued")} value=${jobs.queued} more=${later} ...${{ current, onPick }} />
    <${Figure} name="waiting" label=${t("wait for approval")} value=${jobs.waiting} ...${{ current, onPick }} />
    <${Workers} workers=${data?.workers} more=${withAccounts && admin && t("all users together")} />
  </section>`;
}
