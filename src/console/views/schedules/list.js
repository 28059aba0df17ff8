// All schedules: next run, last run, and what can be done with them.

import { html, useState } from "../../lib/ui.js";
import * as api from "../../lib/api.js";
import { number, plain, short } from "../../lib/format.js";
import { t } from "../../lib/i18n.js";
import { go, href } from "../../lib/router.js";
import { Button, Empty, Moment, PageHead, Status, confirm, notify, useAction } from "../../parts/basics.js";
import { PagedTable, pageOf, usePages } from "../../parts/table.js";
import { NewSchedule } from "./form.js";
import { timingText } from "./timing.js";

const PAGE = 50;
const LIVE_MS = 5_000;

/** Pause, resume, run now, delete. */
export function ScheduleActs({ schedule, onChanged, isSmall = false }) {
  const path = `/v1/schedules/${encodeURIComponent(schedule.id)}`;
  const kind = isSmall ? "quiet small" : "";
  const [pause, isPausing] = useAction(async () => {
    await api.patch(path, { paused: !schedule.paused });
    onChanged();
  });
  const [runNow, isStarting] = useAction(async () => {
    const job = await api.post(`${path}/run`);
    notify(t("A run has begun."));
    if (isSmall) onChanged();
    else go(href("runs", [job.id]));
  });
  const [remove] = useAction(async () => {
    if (!(await confirm(t("The schedule is forgotten; its runs stay."), t("Delete the schedule")))) return;
    await api.remove(path);
    notify(t("The schedule is deleted."));
    onChanged(true);
  });
  return html`<span class="row schedules-acts">
    <${Button} kind=${kind} icon="play" isIconOnly=${isSmall} label=${t("Run now")} isBusy=${isStarting} onClick=${runNow} />
    ${(schedule.next_run_at !== null || schedule.paused) &&
    html`<${Button} kind=${kind} icon=${schedule.paused ? undefined : "pause"} isIconOnly=${isSmall && !schedule.paused} label=${schedule.paused ? t("Resume") : t("Pause")} isBusy=${isPausing} onClick=${pause} />`}
    <${Button} kind="${kind} danger" icon="trash" isIconOnly label=${t("Delete the schedule")} onClick=${remove} />
  </span>`;
}

export function NextRun({ schedule }) {
  if (schedule.paused) return html`<span class="status paused"><span class="dot" aria-hidden="true"></span>${t("paused")}</span>`;
  if (schedule.next_run_at === null) return html`<span class="faint">${t("has ended")}</span>`;
  return html`<${Moment} at=${schedule.next_run_at} />`;
}

export function LastRun({ schedule }) {
  const last = schedule.last_run;
  if (!last) return html`<span class="faint">${t("not yet")}</span>`;
  if (!last.status) return html`<span class="faint"><${Moment} at=${last.at} />, ${t("deleted")}</span>`;
  return html`<a class="over-link schedules-last" href=${href("runs", [last.job_id])}><${Status} status=${last.status} /> <span class="faint"><${Moment} at=${last.at} /></span></a>`;
}

const columns = (reload) => [
  {
    key: "name",
    title: t("Schedule"),
    cell: (each) => html`<a class="row-link" href=${href("schedules", [each.id])}>${each.name ? short(each.name, 64) : plain(each.id)}</a>
      ${each.last_skip && html`<span class="runs-error">${t("skipped: a quota was used up")}</span>`}`,
  },
  { key: "timing", title: t("When"), cell: (each) => html`<span class=${each.cron ? "mono" : ""}>${timingText(each)}</span>` },
  { key: "next", title: t("Next run"), cell: (each) => html`<${NextRun} schedule=${each} />` },
  { key: "last", title: t("Last run"), cell: (each) => html`<${LastRun} schedule=${each} />` },
  { key: "runs", title: t("Runs"), isNumber: true, cell: (each) => number(each.runs) },
  {
    key: "acts",
    title: html`<span class="visually-hidden">${t("Acts")}</span>`,
    cell: (each) => html`<span class="over-link"><${ScheduleActs} schedule=${each} isSmall onChanged=${(isGone) => reload(each, isGone)} /></span>`,
  },
];

export function ScheduleList({ query }) {
  const [isMaking, setMaking] = useState(query.get("new") !== null);
  const loadOne = (schedule, abort) => api.get(`/v1/schedules/${encodeURIComponent(schedule.id)}`, abort);
  const pages = usePages(
    {
      load: async (cursor, abort) => pageOf(await api.get(api.withQuery("/v1/schedules", { limit: PAGE, cursor }), abort)),
      loadOne,
      isSettled: (schedule) => schedule.next_run_at === null,
    },
    [],
    LIVE_MS,
  );
  const reload = (schedule, isGone) => (isGone ? pages.remove(schedule.id) : pages.refresh());
  return html`<div class="page runs-page">
    <${PageHead} title=${t("Schedules")}>
      <${Button} kind="primary" icon="plus" label=${t("New schedule")} onClick=${() => setMaking(true)} />
    <//>
    <${PagedTable} pages=${pages} columns=${columns(reload)} label=${t("Schedules")} name="schedules-table" newLabel=${(n) => t("New schedules: {n}", { n })}>
      <${Empty} title=${t("No schedules yet")}>
        <p>${t("A schedule starts a run at a time, at an interval, or by the calendar. A run that was missed while the server was down is made up for once.")}</p>
      <//>
    <//>
    ${isMaking &&
    html`<${NewSchedule}
      onClose=${() => setMaking(false)}
      onMade=${() => {
        setMaking(false);
        pages.refresh();
      }}
    />`}
  </div>`;
}
