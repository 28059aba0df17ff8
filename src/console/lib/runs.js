// Live runs by job id: components that show the same run share one stream.

import { signal, useEffect, useMemo, useSignal } from "./ui.js";
import { followJob } from "./stream.js";
import { emptyRun, fold, isOver } from "./steps.js";

/** How long a run stays known after its last component has gone. */
const KEEP_MS = 60_000;
const live = new Map();

function open(jobId) {
  const entry = { run: signal(emptyRun()), connection: signal("connecting"), users: 0, timer: 0, stop: () => {} };
  let waiting = [];
  let isScheduled = false;
  // Many events become one drawing.
  const flush = () => {
    isScheduled = false;
    const events = waiting;
    waiting = [];
    entry.run.value = events.reduce(fold, entry.run.peek());
  };
  entry.stop = followJob(jobId, 0, {
    onEvents: (events) => {
      waiting.push(...events);
      if (isScheduled) return;
      isScheduled = true;
      // A hidden page has no frames, but its run goes on.
      if (document.visibilityState === "visible") requestAnimationFrame(flush);
      else setTimeout(flush, 200);
    },
    onState: (state) => (entry.connection.value = state),
  });
  live.set(jobId, entry);
  return entry;
}

function retain(jobId) {
  const entry = live.get(jobId) ?? open(jobId);
  entry.users += 1;
  clearTimeout(entry.timer);
  return entry;
}

function release(jobId, entry) {
  entry.users -= 1;
  if (entry.users > 0) return;
  entry.timer = setTimeout(() => {
    entry.stop();
    if (live.get(jobId) === entry) live.delete(jobId);
  }, isOver(entry.run.peek().status) ? 0 : KEEP_MS);
}

/** Forgets a run, because a retry continues it: the next component follows it again. */
export function forgetRun(jobId) {
  live.get(jobId)?.stop();
  live.delete(jobId);
}

/** `{run, connection}` of a job, followed as long as the component is there. */
export function useRun(jobId) {
  const entry = useMemo(() => live.get(jobId) ?? open(jobId), [jobId]);
  useEffect(() => {
    const held = retain(jobId);
    return () => release(jobId, held);
  }, [jobId]);
  return { run: useSignal(entry.run), connection: useSignal(entry.connection) };
}
