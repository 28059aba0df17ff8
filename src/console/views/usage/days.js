// Days and sums of usage. The server counts by days of UTC.

import { language, t } from "../../lib/i18n.js";

const DAY_MS = 86_400_000;
/** Models that have a colour of their own; the rest are one. */
const MOST_SERIES = 7;

const written = (millis) => new Date(millis).toISOString().slice(0, 10);
export const today = () => written(Date.now());
export const daysAgo = (count) => written(Date.now() - count * DAY_MS);

/** All days from the first to the last. */
export function daysOf(from, to) {
  const days = [];
  for (let at = Date.parse(from); at <= Date.parse(to) && days.length < 4_000; at += DAY_MS) days.push(written(at));
  return days;
}

/** A day as the viewer writes it. */
export function dayText(day) {
  const options = { timeZone: "UTC", day: "numeric", month: "short", weekday: "short" };
  if (!day.startsWith(today().slice(0, 4))) Object.assign(options, { year: "numeric", weekday: undefined });
  return new Intl.DateTimeFormat(language.value, options).format(new Date(day));
}

/** When a day of UTC begins in the viewer's zone, with the zone's name. */
export function localMidnight() {
  const options = { hour: "numeric", minute: "2-digit", timeZoneName: "short" };
  return new Intl.DateTimeFormat(language.value, options).format(new Date(today()));
}

const MEMBERS = ["prompt_tokens", "cached_tokens", "completion_tokens", "reasoning_tokens", "total_tokens", "cost_micros", "jobs"];

/** One row that stands for all. */
export function sumOf(rows) {
  const sum = Object.fromEntries(MEMBERS.map((member) => [member, 0]));
  for (const row of rows) for (const member of MEMBERS) sum[member] += row[member] ?? 0;
  return sum;
}

/** Rows summed by a key: `[[key, rows]]`. */
export function grouped(rows, keyOf) {
  const groups = new Map();
  for (const row of rows) {
    const key = keyOf(row);
    if (!groups.has(key)) groups.set(key, []);
    groups.get(key).push(row);
  }
  return [...groups];
}

/** Series of a plot: a model each, the largest first. */
export function byDayAndModel(rows, days, member) {
  const place = new Map(days.map((day, at) => [day, at]));
  const models = grouped(rows, ({ model }) => model)
    .map(([model, some]) => ({ model, some, sum: sumOf(some)[member] }))
    .sort((a, b) => b.sum - a.sum);
  const named = models.length > MOST_SERIES + 1 ? models.slice(0, MOST_SERIES) : models;
  const rest = models.slice(named.length).flatMap(({ some }) => some);
  const valuesOf = (some) => {
    const values = new Array(days.length).fill(0);
    for (const row of some) if (place.has(row.date)) values[place.get(row.date)] += row[member] ?? 0;
    return values;
  };
  const series = named.map(({ model, some }) => ({ name: model, values: valuesOf(some) }));
  return rest.length > 0 ? [...series, { name: t("other models"), values: valuesOf(rest) }] : series;
}
