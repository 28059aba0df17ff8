// What the conditions of a run show in its timeline: the wait for other runs, and the time that is left.

import { useData } from "../../lib/ui.js";
import * as api from "../../lib/api.js";
import { isOver } from "../../lib/steps.js";

const isHeld = (job) => job.waits_for?.reason === "predecessor";

/** When the last of the runs that this one comes after ended, unix milliseconds; null if that is unknown. */
export function usePredecessorsEnd(job) {
  const ids = isHeld(job) ? [] : (job.after ?? []);
  const load = (abort) => Promise.all(ids.map((id) => api.get(`/v1/jobs/${encodeURIComponent(id)}`, abort).catch(() => null)));
  const { data = [] } = useData(load, [job.id, ids.length]);
  const isKnown = data.length > 0 && data.length === ids.length && data.every((before) => before?.finished_at);
  return isKnown ? Math.max(...data.map((before) => before.finished_at)) * 1000 : null;
}

/** The spans of a run, with the wait for other runs apart from the wait for a worker. */
export function withPredecessors(spans, job, endMs) {
  const [first, ...rest] = spans;
  if (first?.kind !== "queued" || (job.after ?? []).length === 0) return spans;
  if (isHeld(job)) return [{ ...first, kind: "predecessor" }, ...rest];
  if (endMs === null || endMs <= first.from) return spans;
  // A run that ended again after a retry was not waited for so long.
  const end = Math.min(endMs, first.to ?? endMs);
  const wait = { ...first, kind: "predecessor", to: end, state: "succeeded", isExact: false };
  return [wait, { ...first, from: end, isExact: false }, ...rest];
}

/** Until when an unfinished run has to begin and to end, as spans from now on. */
export function timeLeft(job, nowMs) {
  if (isOver(job.status)) return [];
  const until = { deadline: job.deadline_at, expiry: job.started_at ? null : job.expires_at };
  return Object.entries(until)
    .filter(([, at]) => at && at * 1000 > nowMs)
    .map(([kind, at]) => ({ kind, from: nowMs, to: at * 1000, state: "waiting", isExact: true }));
}

/** The deadline of a run that has ended. */
export function pastDeadline(job) {
  if (!isOver(job.status) || !job.deadline_at) return [];
  return [{ kind: "deadline", at: job.deadline_at * 1000, text: null, isExact: true }];
}
