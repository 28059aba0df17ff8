// The tab with a run's course over time.

import { html, useMemo, useNow, useState } from "../../lib/ui.js";
import { dateTime, plain, pretty, short } from "../../lib/format.js";
import { t } from "../../lib/i18n.js";
import { isOver } from "../../lib/steps.js";
import { Output } from "../../parts/run.js";
import { Timeline } from "../../parts/timeline.js";
import { pastDeadline, timeLeft, usePredecessorsEnd, withPredecessors } from "./conditions.js";
import { spansOf } from "./spans.js";

/** More rows than this are cut; the log has them all. */
const MOST_ROWS = 400;

function spanLabel(span) {
  switch (span.kind) {
    case "queued":
      return t("Waits for a worker");
    case "predecessor":
      return t("Waits for other runs");
    case "deadline":
      return t("Time until the deadline");
    case "expiry":
      return t("Time until it has to begin");
    case "model":
      return t("Model call {n}", { n: span.number });
    case "pause":
      return t("Pause and next try");
    case "approval":
      return t("Waits for approval");
    default:
      return plain(span.name);
  }
}

function markLabel(mark) {
  const labels = {
    crash: t("The server ended"),
    resume: t("Resumed"),
    again: t("Queued again"),
    retry: t("A try failed"),
    summary: t("Old messages were summarized"),
    gap: t("Older events were removed"),
    deadline: t("Deadline"),
    succeeded: t("Succeeded"),
    failed: t("Failed"),
    cancelled: t("Cancelled"),
  };
  return labels[mark.kind];
}

const stateWord = (span) => {
  if (span.kind === "deadline" || span.kind === "expiry") return t("left");
  if (span.to === null) return span.kind === "approval" ? t("waits") : t("goes on");
  return { succeeded: t("done"), failed: t("failed"), cancelled: span.kind === "tool" || span.kind === "agent" ? t("not run") : t("cut off"), waiting: t("done"), running: t("done") }[span.state];
};

const MARK_STATES = { crash: "failed", retry: "failed", failed: "failed", succeeded: "succeeded", cancelled: "cancelled" };

function spanRow(span, at) {
  const detail =
    span.text || span.level
      ? html`${span.level && html`<p class="faint">${t("Sandbox level: {level}", { level: plain(span.level) })}</p>`}
          ${span.kind === "tool" ? html`<${Output} text=${pretty(span.text)} label=${t("Arguments")} />` : span.text && html`<p>${plain(span.text)}</p>`}`
      : null;
  const state = span.to !== null && span.state === "running" ? "succeeded" : span.state;
  return { ...span, key: `${span.kind}-${span.callId ?? ""}-${span.eventId ?? at}`, state, label: spanLabel(span), word: stateWord(span), depth: span.kind === "agent" ? 1 : 0, detail };
}

const markRow = (mark) => ({
  key: `mark-${mark.kind}-${mark.eventId}`,
  eventId: mark.eventId,
  kind: mark.kind,
  label: markLabel(mark),
  from: mark.at,
  to: mark.at,
  state: MARK_STATES[mark.kind] ?? "",
  word: mark.text ? short(mark.text, 60) : "",
  isExact: mark.isExact,
  isMark: true,
  detail: mark.text && html`<p>${plain(mark.text)}</p>`,
});

/** By time; what the log has first stands first, and why something began stands before it. */
const inOrder = (a, b) => a.from - b.from || (a.eventId ?? Infinity) - (b.eventId ?? Infinity) || Number(Boolean(b.isMark)) - Number(Boolean(a.isMark));

const KINDS = ["queued", "predecessor", "model", "tool", "agent", "approval", "pause"];

function Legend() {
  const words = {
    queued: t("queue"),
    predecessor: t("other runs"),
    model: t("model"),
    tool: t("tool"),
    agent: t("tool of an agent"),
    approval: t("approval"),
    pause: t("pause after a failure"),
  };
  return html`<ul class="timeline-legend" aria-hidden="true">
    ${KINDS.map((kind) => html`<li><span class="timeline-bar kind-${kind}"></span>${words[kind]}</li>`)}
  </ul>`;
}

export function Times({ job, journal, audit }) {
  const isLive = !isOver(job.status);
  const nowMs = useNow(isLive, 500);
  const [isShort, setShort] = useState(false);
  const limit = isLive ? nowMs : job.finished_at * 1000;
  const found = useMemo(() => spansOf(job, journal, audit, limit), [job, journal, audit, isLive ? nowMs : 0]);
  const predecessorsEnd = usePredecessorsEnd(job);
  if (journal.events.length === 0) return html`<p class="loading" role="status">${t("Loading …")}</p>`;
  const spans = withPredecessors(found.spans, job, predecessorsEnd);
  const left = timeLeft(job, limit);
  const all = [...[...spans, ...left].map(spanRow), ...[...found.marks, ...pastDeadline(job)].map(markRow)].sort(inOrder);
  const begin = spans.findIndex((span) => span.kind !== "queued" && span.kind !== "predecessor");
  const queueEnd = begin > 0 ? spans[begin - 1].to : null;
  const isQueueLong = queueEnd !== null && queueEnd - found.from > (found.to - found.from) / 3;
  const from = isShort && isQueueLong ? queueEnd : found.from;
  // The future takes at most half of the axis.
  const to = Math.max(found.to, ...left.map((span) => Math.min(span.to, 2 * found.to - from)));
  const rows = (isShort && isQueueLong ? all.slice(begin) : all).slice(0, MOST_ROWS);
  const hasEstimate = rows.some((row) => !row.isExact);
  return html`<div class="stack">
    <div class="row spread">
      <${Legend} />
      <span class="faint">${t("Began {time}", { time: dateTime(from / 1000) })}</span>
    </div>
    ${isQueueLong &&
    html`<label class="choice"><input type="checkbox" checked=${isShort} onChange=${(event) => setShort(event.currentTarget.checked)} />${t("Leave out the wait for the first worker")}</label>`}
    <${Timeline} rows=${rows} from=${from} to=${Math.max(to, from + 1)} nowMs=${limit} label=${t("Timeline")} />
    ${all.length > MOST_ROWS && html`<p class="faint">${t("Only the first {n} rows are shown; the log has all events.", { n: MOST_ROWS })}</p>`}
    ${hasEstimate &&
    html`<p class="faint">${t("≈ marks an estimate: the log carries no times. Exact are the creation, tool calls (from the audit) and what this page saw happen; start and end are known to the second, and the rest lies between its neighbours.")}</p>`}
  </div>`;
}
