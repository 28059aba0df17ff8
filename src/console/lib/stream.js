// Follows the events of a job. After a lost connection it goes on behind the last event that it has seen:
// event numbers are the server's log, so nothing is missing and nothing comes twice.

/** A line that is silent for longer is dead: the server sends a heartbeat every 15 s. */
const SILENCE_MS = 40_000;
const FIRST_PAUSE_MS = 300;
const LONGEST_PAUSE_MS = 5_000;
const TERMINAL = new Set(["done", "error"]);

/**
 * Reads `/v1/jobs/{id}/events` after an event.
 * - `onEvents(list)`: events `{id, event, data}` in order, many at a time.
 * - `onState(state)`: `live`, `reconnecting`, `over`, `gone` (404, 410) or `lost` (401).
 * Returns a function that stops it.
 */
export function followJob(jobId, after, { onEvents, onState }) {
  let cursor = after;
  let pauseMs = FIRST_PAUSE_MS;
  let control = null;
  let hasEnd = false;
  let wake = () => {};
  let isStopped = false;

  const changeState = (state) => isStopped || onState(state);

  const take = (lines) => {
    const events = [];
    for (const line of lines) {
      if (!line.startsWith("{")) continue;
      const event = JSON.parse(line);
      if (event.id < cursor) continue;
      cursor = event.id;
      events.push(event);
    }
    if (events.length === 0) return;
    hasEnd = TERMINAL.has(events.at(-1).event);
    if (!isStopped) onEvents(events);
  };

  const connect = async () => {
    control = new AbortController();
    const before = cursor;
    let silence = setTimeout(() => control.abort(), SILENCE_MS);
    try {
      const path = `/v1/jobs/${jobId}/events?format=delta&after=${cursor}`;
      const headers = { Accept: "application/x-ndjson" };
      const response = await fetch(path, { headers, signal: control.signal });
      if (response.status === 204) return "over";
      if (response.status === 401 || response.status === 403) return "lost";
      if (response.status === 404 || response.status === 410) return "gone";
      if (!response.ok) return "reconnecting";
      changeState("live");
      const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
      let rest = "";
      for (;;) {
        const { value, done } = await reader.read();
        // Behind an end the log goes on only if the job is retried; the next answer says so.
        if (done && hasEnd) return cursor === before ? "over" : "ended";
        if (done) return "reconnecting";
        clearTimeout(silence);
        silence = setTimeout(() => control.abort(), SILENCE_MS);
        pauseMs = FIRST_PAUSE_MS;
        const lines = (rest + value).split("\n");
        rest = lines.pop();
        take(lines);
      }
    } catch {
      return "reconnecting"; // the network or the server went away
    } finally {
      clearTimeout(silence);
      control.abort();
    }
  };

  const pause = () =>
    new Promise((resolve) => {
      const timer = setTimeout(resolve, pauseMs * (0.75 + Math.random() / 2));
      wake = () => {
        clearTimeout(timer);
        resolve();
      };
      pauseMs = Math.min(pauseMs * 2, LONGEST_PAUSE_MS);
    });

  const run = async () => {
    while (!isStopped) {
      const state = await connect();
      if (state === "ended") continue;
      changeState(state);
      if (state !== "reconnecting") return;
      await pause();
    }
  };

  // A laptop that wakes up and a network that is back need no pause.
  const hurry = () => {
    if (document.visibilityState === "visible") wake();
  };
  addEventListener("online", hurry);
  document.addEventListener("visibilitychange", hurry);
  run();
  return () => {
    isStopped = true;
    removeEventListener("online", hurry);
    document.removeEventListener("visibilitychange", hurry);
    control?.abort();
    wake();
  };
}
