// The queue at a glance: how many runs have each state, up to a page of them.

import { html, useData } from "../../lib/ui.js";
import * as api from "../../lib/api.js";
import { number } from "../../lib/format.js";
import { t } from "../../lib/i18n.js";

const EVERY_MS = 4_000;
const MOST = 100;

async function countOf(status, abort) {
  const page = await api.get(api.withQuery("/v1/jobs", { status, limit: MOST }), abort);
  return { count: page.data.length, isMore: page.has_more };
}

async function load(abort) {
  const [running, queued, waiting] = await Promise.all(["running", "queued", "waiting"].map((each) => countOf(each, abort)));
  return { running, queued, waiting };
}

const shown = ({ count, isMore }) => `${number(count)}${isMore ? "+" : ""}`;

function Figure({ name, label, value, current, onPick }) {
  const isCurrent = current === name;
  return html`<button type="button" class="runs-figure ${name}" aria-pressed=${isCurrent} onClick=${() => onPick(isCurrent ? "" : name)}>
    <span class="figure">${value ? shown(value) : "–"}</span>
    <span class="name">${label}</span>
  </button>`;
}

/** Figures that filter the list when they are pressed. */
export function Glance({ current, onPick }) {
  const { data } = useData(load, [], EVERY_MS);
  return html`<section class="runs-glance" aria-label=${t("Queue")}>
    <${Figure} name="running" label=${t("running")} value=${data?.running} ...${{ current, onPick }} />
    <${Figure} name="queued" label=${t("queued")} value=${data?.queued} ...${{ current, onPick }} />
    <${Figure} name="waiting" label=${t("wait for approval")} value=${data?.waiting} ...${{ current, onPick }} />
  </section>`;
}
