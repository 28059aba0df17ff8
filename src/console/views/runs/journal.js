// The log of a run as it is, event by event, with the moments at which this page saw them.

import { useEffect, useRef, useState } from "../../lib/ui.js";
import * as api from "../../lib/api.js";
import { followJob } from "../../lib/stream.js";
import { emptyRun, fold, isOver } from "../../lib/steps.js";

/** Many events become one drawing. */
const DRAW_MS = 60;
/** After this time the page looks whether an ended log goes on. */
const LOOK_AGAIN_MS = 1_500;

/**
 * `{events, seen, connection}`: `seen` has the arrival time of each event that came while the page was
 * open, in unix milliseconds; the log itself carries no times. `onStatus` hears of changes.
 */
export function useJournal(jobId, round, onStatus) {
  const [state, setState] = useState({ events: [], seen: new Map(), connection: "connecting", openedMs: Date.now() });
  useEffect(() => {
    const [events, seen] = [[], new Map()];
    let [stop, isStopped, isScheduled, timer] = [() => {}, false, false, 0];
    let [knownEnd, openedMs] = [Infinity, Date.now()];
    const draw = (connection) => {
      isScheduled = false;
      if (!isStopped) setState((old) => ({ events: events.slice(), seen, openedMs, connection: connection ?? old.connection }));
    };
    const take = (list) => {
      const now = Date.now();
      for (const event of list) {
        if (event.id > knownEnd) seen.set(event.id, now);
        // A frame that a reconnection repeats.
        if (event.id > (events.at(-1)?.id ?? 0) || event.event === "agent_step") events.push(event);
      }
      if (list.some(({ event }) => event !== "process_step" && event !== "agent_step")) onStatus();
      if (isScheduled) return;
      isScheduled = true;
      setTimeout(draw, DRAW_MS);
    };
    const follow = () => {
      stop = followJob(jobId, events.at(-1)?.id ?? 0, { onEvents: take, onState });
    };
    // A retry continues a log behind its end.
    const onState = async (connection) => {
      draw(connection);
      if (connection !== "over") return;
      const job = await api.get(`/v1/jobs/${encodeURIComponent(jobId)}`).catch(() => null);
      if (isStopped || !job || (isOver(job.status) && job.last_event_id <= (events.at(-1)?.id ?? 0))) return;
      timer = setTimeout(follow, LOOK_AGAIN_MS);
    };
    api.get(`/v1/jobs/${encodeURIComponent(jobId)}`).then(
      (job) => {
        [knownEnd, openedMs] = [job.last_event_id, Date.now()];
        if (!isStopped) follow();
      },
      () => !isStopped && follow(),
    );
    return () => {
      isStopped = true;
      clearTimeout(timer);
      stop();
    };
  }, [jobId, round]);
  return state;
}

/** The run that a journal tells of. What a retry continues has not ended: an earlier end does not count. */
export function useRunOf(journal) {
  const kept = useRef({ events: [], run: emptyRun() });
  const { events } = journal;
  const known = kept.current.events;
  // The journal grows at its end, or begins anew.
  const isGrown = known.length <= events.length && known[0] === events[0] && known.at(-1) === events[known.length - 1];
  let run = isGrown ? kept.current.run : emptyRun();
  for (const event of isGrown ? events.slice(known.length) : events) {
    if (event.event === "status" && (run.error || run.done)) run = { ...run, error: null, done: null };
    run = fold(run, event);
  }
  kept.current = { events, run };
  return run;
}

/** The moment in an id of ours, in unix milliseconds: its first ten characters after the prefix. */
export function momentOfId(id) {
  const DIGITS = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";
  const text = id.slice(id.indexOf("_") + 1, id.indexOf("_") + 11);
  let value = 0;
  for (const digit of text) {
    const at = DIGITS.indexOf(digit);
    if (at < 0) return null;
    value = value * 32 + at;
  }
  return text.length === 10 ? value : null;
}
