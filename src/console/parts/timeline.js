// Spans of time as a table with bars: what a bar shows stands as text in the same row.

import { html, useState } from "../lib/ui.js";
import { dateTime, duration, number } from "../lib/format.js";
import { t } from "../lib/i18n.js";
import { Icon } from "./icons.js";

/** Ticks that the axis has at most. */
const MOST_TICKS = 5;

/** Distances that are round on a clock. */
const CLOCK_S = [15, 30, 60, 120, 300, 600, 900, 1_800, 3_600, 7_200, 14_400, 21_600, 43_200, 86_400];

/** A round distance of ticks in milliseconds. */
function tickMs(totalMs) {
  const wish = totalMs / MOST_TICKS;
  const power = 10 ** Math.floor(Math.log10(wish));
  const decimal = [1, 2, 5, 10].map((each) => each * power).find((each) => each >= wish);
  if (decimal <= 10_000) return decimal;
  return CLOCK_S.map((each) => each * 1000).find((each) => each >= wish) ?? decimal;
}

function Axis({ from, to }) {
  const [total, step] = [to - from, tickMs(to - from)];
  // A label at the very end would be cut off.
  const ticks = Array.from({ length: Math.floor((total * 0.9) / step) + 1 }, (_, at) => at * step);
  return html`<span class="timeline-axis" aria-hidden="true">
    ${ticks.map((tick) => html`<span style=${{ left: `${(tick / total) * 100}%` }}>${tick === 0 ? "0" : duration(tick / 1000).replace(/ 0 (?:s|min)$/, "")}</span>`)}
  </span>`;
}

/** The bar or the point of a row; numbers and words beside it say the same. */
function Bar({ row, from, to, nowMs }) {
  const total = to - from;
  const left = Math.max(0, ((row.from - from) / total) * 100);
  if (row.isMark) return html`<span class="timeline-mark kind-${row.kind}" aria-hidden="true" style=${{ left: `${Math.min(left, 100)}%` }}></span>`;
  const width = Math.max(0, (((row.to ?? nowMs) - Math.max(row.from, from)) / total) * 100);
  const looks = `timeline-bar kind-${row.kind} is-${row.state}`;
  return html`<span class=${looks} aria-hidden="true" style=${{ left: `${Math.min(left, 99.6)}%`, width: `max(3px, ${Math.min(width, 100 - left)}%)` }}></span>`;
}

function Row({ row, from, to, nowMs, tick }) {
  const [isOpen, setOpen] = useState(false);
  const about = row.isExact ? "" : "≈ ";
  const length = row.isMark ? "" : `${about}${duration(((row.to ?? nowMs) - row.from) / 1000)}`;
  return html`
    <tr class="timeline-row ${row.isMark ? "is-mark" : ""} ${row.depth ? "is-nested" : ""}">
      <th scope="row">
        ${row.detail
          ? html`<button type="button" class="timeline-label" aria-expanded=${isOpen} onClick=${() => setOpen(!isOpen)}>
              <${Icon} name="chevron" /><span class="ellipsis">${row.label}</span>
            </button>`
          : html`<span class="timeline-label"><span class="ellipsis">${row.label}</span></span>`}
      </th>
      <td class="timeline-track" style=${{ "--tick": `${tick}%` }}><${Bar} ...${{ row, from, to, nowMs }} /></td>
      <td class="number timeline-start" title=${dateTime(row.from / 1000)}>${about}${duration(Math.max(0, row.from - from) / 1000)}</td>
      <td class="number">${length}</td>
      <td class="timeline-state" title=${row.isMark && row.word ? row.word : undefined}>
        ${row.isMark ? row.word : html`<span class="status ${row.state}"><span class="dot" aria-hidden="true"></span>${row.word}</span>`}
      </td>
    </tr>
    ${isOpen && html`<tr class="timeline-detail"><td colspan="5">${row.detail}</td></tr>`}
  `;
}

/**
 * `rows`: `{key, kind, label, from, to, state, word, isExact, isMark, depth, detail}`, times in unix
 * milliseconds, `to` null while it goes on.
 */
export function Timeline({ rows, from, to, nowMs, label }) {
  const tick = (tickMs(to - from) / (to - from)) * 100;
  return html`<div class="table-frame"><table class="timeline">
    <caption class="visually-hidden">${label} ${t("{n} rows, {length} in all", { n: number(rows.length), length: duration((to - from) / 1000) })}</caption>
    <thead><tr>
      <th scope="col">${t("What")}</th>
      <th scope="col" class="timeline-track-head"><span class="visually-hidden">${t("Bar")}</span><${Axis} from=${from} to=${to} /></th>
      <th scope="col" class="number timeline-start">${t("Begins at")}</th>
      <th scope="col" class="number">${t("Takes")}</th>
      <th scope="col" class="timeline-state">${t("State")}</th>
    </tr></thead>
    <tbody>${rows.map((row) => html`<${Row} key=${row.key} row=${row} ...${{ from, to, nowMs, tick }} />`)}</tbody>
  </table></div>`;
}
