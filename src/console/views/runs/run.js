// One run: what it is, what it did, and what can be done with it.

import { html, useData, useEffect, useMemo, useRef, useState } from "../../lib/ui.js";
import * as api from "../../lib/api.js";
import { t } from "../../lib/i18n.js";
import { go, href } from "../../lib/router.js";
import { forgetRun } from "../../lib/runs.js";
import { isOver } from "../../lib/steps.js";
import { Empty, Failure, PageHead, Tabs } from "../../parts/basics.js";
import { RunSteps } from "../../parts/run.js";
import { waitText } from "../../parts/wait.js";
import { Audit } from "./audit.js";
import { Children } from "./children.js";
import { RunHead } from "./head.js";
import { useJournal, useRunOf } from "./journal.js";
import { Log } from "./log.js";
import { Request } from "./request.js";
import { Times } from "./times.js";
import { RunUsage } from "./usage.js";

const LIVE_MS = 2_000;
const BEHIND_MS = 4_000;
const AUDIT_PAGE = 100;
const MOST_AUDIT_LINES = 2_000;

/** The lines of the audit, oldest first. */
async function loadAudit(id, abort) {
  const lines = [];
  let cursor;
  do {
    const page = await api.get(api.withQuery(`/v1/jobs/${encodeURIComponent(id)}/audit`, { limit: cursor && AUDIT_PAGE, cursor }), abort);
    lines.push(...page.data);
    cursor = page.next_cursor;
  } while (cursor && lines.length < MOST_AUDIT_LINES);
  return lines.sort((a, b) => a.time_ms - b.time_ms);
}

/** The answer from the journal, so that a page needs one stream; `useRun` ends at the first failure of a retried run. */
function Answer({ job, journal }) {
  const run = useRunOf(journal);
  const { connection } = journal;
  if (connection === "lost") return html`<p class="notice">${t("Log in again to see the run.")}</p>`;
  return html`<div class="runs-answer"><${RunSteps} run=${run} connection=${connection} jobId=${job.id} waitsFor=${waitText(job)} /></div>`;
}

/** The job with its audit; both are asked again when the log says that something happened. */
function useJob(id) {
  const found = useData((abort) => api.get(`/v1/jobs/${encodeURIComponent(id)}`, abort), [id]);
  const audit = useData((abort) => loadAudit(id, abort), [id]);
  const isLive = found.data !== undefined && !isOver(found.data.status);
  const reload = useRef(() => {});
  reload.current = () => {
    found.reload();
    audit.reload();
  };
  useEffect(() => {
    if (!isLive) return undefined;
    const timer = setInterval(() => document.visibilityState === "visible" && found.reload(), LIVE_MS);
    return () => clearInterval(timer);
  }, [isLive]);
  const timer = useRef(0);
  const changed = useMemo(
    () => () => {
      clearTimeout(timer.current);
      timer.current = setTimeout(() => reload.current(), 150);
    },
    [],
  );
  useEffect(() => () => clearTimeout(timer.current), []);
  return { found, audit, changed };
}

const tabs = () => [
  ["answer", t("Answer")],
  ["timeline", t("Timeline")],
  ["log", t("Log")],
  ["audit", t("Audit")],
  ["usage", t("Usage")],
  ["request", t("Request")],
];

export function RunPage({ id, query }) {
  const [round, setRound] = useState(0);
  const { found, audit, changed } = useJob(id);
  const journal = useJournal(id, round, changed);
  const tab = tabs().some(([key]) => key === query.get("tab")) ? query.get("tab") : "answer";
  // A retry goes on in the same log, which is read again.
  const restarted = () => {
    forgetRun(id);
    setRound((old) => old + 1);
    changed();
  };
  const job = found.data;
  // A dead line is noticed late; the job says earlier that its log has gone on. Once: retention may have cut it.
  const readAgain = useRef(0);
  const isBehind = job !== undefined && isOver(job.status) && (journal.events.at(-1)?.id ?? 0) < job.last_event_id;
  useEffect(() => {
    if (!isBehind || readAgain.current === job.last_event_id) return undefined;
    const timer = setTimeout(() => {
      readAgain.current = job.last_event_id;
      setRound((old) => old + 1);
    }, BEHIND_MS);
    return () => clearTimeout(timer);
  }, [isBehind, round]);
  if (!job) {
    if (!found.error) return html`<p class="loading" role="status">${t("Loading …")}</p>`;
    return html`<div class="page">
      <${PageHead} title=${t("Run")} />
      ${found.error.status === 404
        ? html`<${Empty} title=${t("There is no such run")}>${t("It may have been deleted, or it belongs to somebody else.")} <a href=${href("runs")}>${t("All runs")}</a><//>`
        : html`<${Failure} error=${found.error} onRetry=${found.reload} />`}
    </div>`;
  }
  const lines = audit.data ?? [];
  return html`<div class="page runs-page">
    <${RunHead} job=${job} connection=${journal.connection} isAnswerShown=${tab === "answer"} onChanged=${changed} onRestarted=${restarted} />
    ${found.error && html`<${Failure} error=${found.error} onRetry=${found.reload} />`}
    <${Tabs} tabs=${tabs()} current=${tab} label=${t("Parts of the run")} onChange=${(key) => go(href("runs", [id], { tab: key === "answer" ? "" : key }), true)} />
    <div role="tabpanel" tabindex="-1" aria-label=${tabs().find(([key]) => key === tab)[1]}>
      ${tab === "answer" && html`<${Answer} job=${job} journal=${journal} />`}
      ${tab === "timeline" && html`<${Times} job=${job} journal=${journal} audit=${lines} />`}
      ${tab === "log" && html`<${Log} journal=${journal} />`}
      ${tab === "audit" && html`<${Audit} of=${audit} />`}
      ${tab === "usage" && html`<${RunUsage} job=${job} />`}
      ${tab === "request" && html`<${Request} job=${job} />`}
    </div>
    <${Children} job=${job} />
  </div>`;
}

