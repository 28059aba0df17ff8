// When a schedule runs: in words, and its next runs while it is being written.

import { useEffect, useState } from "../../lib/ui.js";
import * as api from "../../lib/api.js";
import { dateTime, plain } from "../../lib/format.js";
import { language, t } from "../../lib/i18n.js";

const PAUSE_MS = 250;
const SHOWN = 5;
const UNITS = [
  ["days", 86_400],
  ["hours", 3_600],
  ["minutes", 60],
  ["seconds", 1],
];

export const unitWord = (unit) => ({ days: t("days"), hours: t("hours"), minutes: t("minutes"), seconds: t("seconds") })[unit];

/** A number of seconds in the largest unit that fits: `[amount, unit]`. */
function inUnit(seconds) {
  const [unit, each] = UNITS.find(([, span]) => seconds % span === 0 && seconds >= span) ?? UNITS[3];
  return [seconds / each, unit];
}

export const unitSeconds = (unit) => UNITS.find(([name]) => name === unit)[1];

/** "every 15 minutes", "30 7 * * MON-FRI (Europe/Berlin)". */
export function timingText(schedule) {
  if (schedule.cron) return `${plain(schedule.cron)} (${plain(schedule.tz)})`;
  if (schedule.every_s) {
    const [amount, unit] = inUnit(schedule.every_s);
    const length = new Intl.NumberFormat(language.peek(), { style: "unit", unit: unit.slice(0, -1), unitDisplay: "long" });
    return t("every {length}", { length: length.format(amount) });
  }
  return t("once, {time}", { time: dateTime(schedule.at) });
}

/** The server's next runs, unix seconds. */
const nextRuns = async (timing, abort) => (await api.post("/v1/schedules/preview", timing, { signal: abort })).data;

/** `{runs, error}` for a timing `{cron, tz}`, `{every_s}` or `{at}`, a moment after the last key. */
export function useNextRuns(timing) {
  const [state, setState] = useState({ runs: null, error: null, isAsking: false });
  const written = JSON.stringify(timing);
  useEffect(() => {
    if (!timing) {
      setState({ runs: null, error: null, isAsking: false });
      return undefined;
    }
    const control = new AbortController();
    setState((old) => ({ ...old, isAsking: true }));
    const timer = setTimeout(() => {
      nextRuns(timing, control.signal).then(
        (runs) => setState({ runs: runs?.slice(0, SHOWN) ?? null, error: null, isAsking: false }),
        (error) => error.name === "AbortError" || setState({ runs: null, error, isAsking: false }),
      );
    }, PAUSE_MS);
    return () => {
      clearTimeout(timer);
      control.abort();
    };
  }, [written]);
  return state;
}
