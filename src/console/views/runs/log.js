// The tab with every event of a run: number, name and data.

import { html, useMemo, useRef, useState } from "../../lib/ui.js";
import { dateTime, number, plain, short } from "../../lib/format.js";
import { t } from "../../lib/i18n.js";
import { Button } from "../../parts/basics.js";
import { Output } from "../../parts/run.js";
import { useWindow } from "../../parts/table.js";

const isPiece = ({ event, data }) => event === "process_step" && data.delta !== undefined;

/** Neighbouring pieces of the same step as one row. */
function joined(events) {
  const rows = [];
  for (const event of events) {
    const last = rows.at(-1);
    if (last && isPiece(event) && isPiece(last) && last.data.id === event.data.id && event.data.offset !== 0) {
      rows[rows.length - 1] = { ...last, until: event.id, count: (last.count ?? 1) + 1, parts: last.parts };
      last.parts.push(event.data.delta);
    } else rows.push(isPiece(event) ? { ...event, parts: [event.data.delta] } : event);
  }
  return rows;
}

const dataOf = ({ data, parts }) => (parts ? { ...data, delta: parts.join("") } : data);

/** What a row is about, for the filter. */
const kindOf = ({ event, data }) => (event === "process_step" ? data.type : event);

function Line({ event, at, isChosen, onChoose }) {
  const data = event.parts ? { ...event.data, delta: event.parts.slice(0, 40).join("") } : event.data;
  return html`<tr data-row class=${isChosen ? "is-chosen" : ""} aria-rowindex=${at + 2}>
    <td class="number mono faint">${event.until ? `${event.id}–${event.until}` : event.id}</td>
    <td class="mono">${plain(event.event)}${event.event === "process_step" && html` <span class="faint">${plain(event.data.type)}</span>`}</td>
    <td><button type="button" class="log-data mono ellipsis" aria-pressed=${isChosen} onClick=${() => onChoose(event.id)}>${short(JSON.stringify(data), 300)}</button></td>
  </tr>`;
}

/** Up and down move the choice, as in a list. */
function useChoice(rows) {
  const [chosen, choose] = useState(null);
  const move = (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    const at = rows.findIndex((row) => row.id === chosen);
    if (!step || at < 0 || !rows[at + step]) return;
    event.preventDefault();
    choose(rows[at + step].id);
    const row = event.target.closest("tr");
    (step > 0 ? row?.nextElementSibling : row?.previousElementSibling)?.querySelector("button")?.focus();
  };
  return { chosen, choose, move };
}

export function Log({ journal }) {
  const [isJoined, setJoined] = useState(true);
  const [kind, setKind] = useState("");
  const frame = useRef(null);
  const { events, seen } = journal;
  const kinds = useMemo(() => [...new Set(events.map(kindOf))].sort(), [events]);
  const rows = useMemo(() => {
    const wanted = kind ? events.filter((event) => kindOf(event) === kind) : events;
    return isJoined ? joined(wanted) : wanted;
  }, [events, kind, isJoined]);
  const { body, start, end, above, below } = useWindow(rows.length, 27, frame);
  const { chosen, choose, move } = useChoice(rows);
  const current = rows.find((row) => row.id === chosen);
  const spacer = (heightPx) => heightPx > 0 && html`<tr aria-hidden="true" class="spacer"><td colspan="3" style=${{ height: `${heightPx}px` }}></td></tr>`;
  return html`<div class="stack">
    <div class="row">
      <label class="choice"><span class="dim">${t("Events")}</span>
        <select class="log-kinds" onChange=${(event) => setKind(event.currentTarget.value)}>
          <option value="">${t("all")}</option>
          ${kinds.map((each) => html`<option value=${each} selected=${each === kind}>${plain(each)}</option>`)}
        </select></label>
      <label class="choice"><input type="checkbox" checked=${isJoined} onChange=${(event) => setJoined(event.currentTarget.checked)} />${t("Join pieces of text")}</label>
      <span class="faint">${t("{n} events", { n: number(events.length) })}</span>
    </div>
    <div class="log ${current ? "has-detail" : ""}">
      <div class="log-frame" ref=${frame} tabindex="0" role="region" aria-label=${t("Log")}>
        <table aria-rowcount=${rows.length + 1}>
          <thead><tr><th scope="col" class="number">${t("Number")}</th><th scope="col">${t("Event")}</th><th scope="col">${t("Data")}</th></tr></thead>
          <tbody ref=${body} onKeyDown=${move}>
            ${spacer(above)}
            ${rows.slice(start, end).map((event, at) => html`<${Line} key=${`${event.id}-${start + at}`} event=${event} at=${start + at} isChosen=${event.id === chosen} onChoose=${choose} />`)}
            ${spacer(below)}
          </tbody>
        </table>
      </div>
      ${current &&
      html`<aside class="log-detail" aria-label=${t("Event {n}", { n: current.id })}>
        <div class="row spread">
          <strong>${t("Event {n}", { n: current.until ? `${current.id}–${current.until}` : current.id })}</strong>
          <${Button} kind="quiet small" icon="close" isIconOnly label=${t("Close")} onClick=${() => choose(null)} />
        </div>
        <p class="faint">${seen.has(current.id) ? t("Seen at {time}", { time: dateTime(seen.get(current.id) / 1000) }) : t("It happened before this page was opened.")}</p>
        <${Output} key=${current.id} text=${JSON.stringify(dataOf(current), null, 2)} label=${plain(current.event)} />
      </aside>`}
    </div>
  </div>`;
}
