// One schedule: when, what, and its runs.

import { html, useData } from "../../lib/ui.js";
import * as api from "../../lib/api.js";
import { dateTime, number, plain } from "../../lib/format.js";
import { t } from "../../lib/i18n.js";
import { go, href } from "../../lib/router.js";
import { Empty, Failure, Moment, PageHead } from "../../parts/basics.js";
import { Output } from "../../parts/run.js";
import { inputText } from "../runs/fields.js";
import { RunTable } from "../runs/list.js";
import { LastRun, NextRun, ScheduleActs } from "./list.js";
import { timingText } from "./timing.js";

const LIVE_MS = 5_000;

export function SchedulePage({ id }) {
  const found = useData((abort) => api.get(`/v1/schedules/${encodeURIComponent(id)}`, abort), [id], LIVE_MS);
  const schedule = found.data;
  if (!schedule) {
    if (!found.error) return html`<p class="loading" role="status">${t("Loading …")}</p>`;
    return html`<div class="page">
      <${PageHead} title=${t("Schedule")} />
      ${found.error.status === 404
        ? html`<${Empty} title=${t("There is no such schedule")}><a href=${href("schedules")}>${t("All schedules")}</a><//>`
        : html`<${Failure} error=${found.error} onRetry=${found.reload} />`}
    </div>`;
  }
  const { input, ...settings } = schedule.job ?? {};
  const fact = (label, value) => html`<div class="runs-fact"><dt>${label}</dt><dd>${value}</dd></div>`;
  return html`<div class="page runs-page">
    <header class="runs-head">
      <nav aria-label=${t("Path")}><a href=${href("schedules")}>${t("Schedules")}</a> <span aria-hidden="true">/</span> <span class="mono faint">${schedule.id}</span></nav>
      <div class="page-head">
        <h1 class="runs-title" dir="auto">${schedule.name ? plain(schedule.name) : t("Schedule")}</h1>
        <div class="actions"><${ScheduleActs} schedule=${schedule} onChanged=${(isGone) => (isGone ? go(href("schedules"), true) : found.reload())} /></div>
      </div>
      ${found.error && html`<${Failure} error=${found.error} onRetry=${found.reload} />`}
      <dl class="runs-facts">
        ${fact(t("When"), timingText(schedule))}
        ${fact(t("Next run"), html`<${NextRun} schedule=${schedule} />`)}
        ${fact(t("Last run"), html`<${LastRun} schedule=${schedule} />`)}
        ${fact(t("Runs"), number(schedule.runs))}
        ${fact(t("Created"), html`<${Moment} at=${schedule.created_at} />`)}
      </dl>
      ${schedule.last_skip &&
      html`<p class="notice">${t("The run of {time} was skipped: the quota “{quota}” was used up.", { time: dateTime(schedule.last_skip.at), quota: plain(schedule.last_skip.quota) })}</p>`}
      ${schedule.clock_went_back_at &&
      html`<p class="notice">${t("The server's clock went back {time}; the next run was computed again.", { time: dateTime(schedule.clock_went_back_at) })}</p>`}
    </header>
    <${Output} text=${inputText(input)} label=${t("Input")} />
    ${Object.keys(settings).length > 0 &&
    html`<details class="runs-more"><summary>${t("Settings of the request")}</summary><${Output} text=${JSON.stringify(settings, null, 2)} label="JSON" /></details>`}
    <section class="section"><h2>${t("Runs of the schedule")}</h2>
      <${RunTable} filters=${{ schedule_id: id }} label=${t("Runs of the schedule")} everyMs=${LIVE_MS}>
        <p class="faint">${t("It has not run yet.")}</p>
      <//>
    </section>
  </div>`;
}
