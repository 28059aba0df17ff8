// Dates, numbers and hostile text in the form that people read.

import { language, t } from "./i18n.js";

const [DAY_AND_TIME, DAY_AND_MINUTE] = [{ dateStyle: "medium", timeStyle: "medium" }, { dateStyle: "medium", timeStyle: "short" }];
const [MINUTE, NEAR, SHARE] = [{ timeStyle: "short" }, { numeric: "auto" }, { style: "percent", maximumFractionDigits: 0 }];
const DIGITS = [0, 1, 2, 3, 4].map((digits) => ({ maximumFractionDigits: digits }));
const cache = new Map();

/** A formatter of `Intl`, made once for each language and options: to make one takes long. */
function formatter(Kind, options) {
  const made = cache.get(options);
  if (made?.language === language.value) return made.formatter;
  const next = new Kind(language.value, options);
  cache.set(options, { language: language.value, formatter: next });
  return next;
}

/** A moment from unix seconds, an ISO text or milliseconds with `isMillis`. */
function toDate(moment) {
  return typeof moment === "number" ? new Date(moment * 1000) : new Date(moment);
}

/** A date and time in the viewer's zone. */
export function dateTime(moment) {
  if (moment === null || moment === undefined) return "–";
  return formatter(Intl.DateTimeFormat, DAY_AND_TIME).format(toDate(moment));
}

/** The time alone, with the date if it is another day. */
export function shortTime(moment) {
  if (moment === null || moment === undefined) return "–";
  const date = toDate(moment);
  const isToday = date.toDateString() === new Date().toDateString();
  return formatter(Intl.DateTimeFormat, isToday ? MINUTE : DAY_AND_MINUTE).format(date);
}

const SPANS = [
  ["day", 86_400],
  ["hour", 3_600],
  ["minute", 60],
  ["second", 1],
];

/** "3 minutes ago", "in 2 hours". */
export function ago(moment, nowMs = Date.now()) {
  const seconds = (toDate(moment).getTime() - nowMs) / 1000;
  const [unit, span] = SPANS.find(([, each]) => Math.abs(seconds) >= each) ?? SPANS[3];
  return formatter(Intl.RelativeTimeFormat, NEAR).format(Math.round(seconds / span), unit);
}

/** A length of time from seconds: "180 ms", "2.4 s", "3 min 20 s". */
export function duration(seconds) {
  if (seconds === null || seconds === undefined || Number.isNaN(seconds)) return "–";
  if (seconds < 1) return `${Math.round(seconds * 1000)} ms`;
  if (seconds < 60) return `${number(seconds, 1)} s`;
  if (seconds < 3_600) return `${Math.floor(seconds / 60)} min ${Math.round(seconds % 60)} s`;
  return `${Math.floor(seconds / 3_600)} h ${Math.round((seconds % 3_600) / 60)} min`;
}

export const number = (value, digits = 0) => formatter(Intl.NumberFormat, DIGITS[digits]).format(value ?? 0);

export const percent = (share) => formatter(Intl.NumberFormat, SHARE).format(share);

const UNITS = ["B", "KiB", "MiB", "GiB", "TiB"];

export function bytes(count) {
  let [value, unit] = [count ?? 0, 0];
  while (value >= 1024 && unit < UNITS.length - 1) [value, unit] = [value / 1024, unit + 1];
  return `${number(value, value < 10 && unit > 0 ? 1 : 0)} ${UNITS[unit]}`;
}

/** Millionths of the currency of the prices, which the server does not know by name. */
export const cost = (micros) => (micros ? number(micros / 1e6, micros < 1e5 ? 4 : 2) : "–");

/** What a run has cost, and of how much it may cost at most. */
export function jobCost({ usage, max_cost_micros: limit }) {
  return limit ? t("{used} of {limit}", { used: cost(usage.cost_micros), limit: cost(limit) }) : cost(usage.cost_micros);
}

const CONTROL = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g;
const ANSI = /\u001b(?:\[[0-?]*[ -/]*[@-~]|\][^\u0007\u001b]*(?:\u0007|\u001b\\)?|[@-Z\\-_])/g;

/**
 * Text of models, tools and users without what could deceive a reader: colours and cursor moves of
 * terminals go, other invisible characters are shown as ␀-like marks.
 */
export function plain(text) {
  return String(text ?? "")
    .replace(ANSI, "")
    .replace(CONTROL, (c) => {
      const code = c.codePointAt(0);
      return code < 0x20 ? String.fromCodePoint(0x2400 + code) : `⟨U+${code.toString(16).toUpperCase().padStart(4, "0")}⟩`;
    });
}

/** One line of at most `most` characters. */
export function short(text, most = 80) {
  const line = plain(text).replace(/\s+/g, " ").trim();
  return line.length > most ? `${line.slice(0, most - 1)}…` : line;
}

/** JSON text with indentation, or the text itself if it is none. */
export function pretty(json) {
  try {
    return JSON.stringify(JSON.parse(json), null, 2);
  } catch {
    return String(json ?? "");
  }
}

/** The word for a status. */
export function statusWord(status) {
  const words = {
    queued: t("queued"),
    running: t("running"),
    waiting: t("waits for approval"),
    waiting_approval: t("waits for approval"),
    retrying: t("tries again"),
    succeeded: t("succeeded"),
    failed: t("failed"),
    cancelled: t("cancelled"),
    validating: t("being checked"),
    in_progress: t("running"),
    finalizing: t("finishing"),
    cancelling: t("being cancelled"),
    completed: t("completed"),
    expired: t("expired"),
    pending: t("pending"),
    delivered: t("delivered"),
    dead: t("given up"),
  };
  return words[status] ?? plain(status);
}
