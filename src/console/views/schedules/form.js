// A new schedule: when, and what.

import { html, useMemo, useState } from "../../lib/ui.js";
import * as api from "../../lib/api.js";
import { ago, dateTime, plain } from "../../lib/format.js";
import { language, t } from "../../lib/i18n.js";
import { Dialog, Field, notify, useAction } from "../../parts/basics.js";
import { JobFields, readJob } from "../runs/fields.js";
import { unitSeconds, unitWord, useNextRuns } from "./timing.js";

const viewerZone = () => Intl.DateTimeFormat().resolvedOptions().timeZone || "UTC";
const zones = () => ["UTC", ...(Intl.supportedValuesOf?.("timeZone") ?? [])];

/** Now and a little, in the form of a field for local times. */
function soon() {
  const date = new Date(Date.now() + 3_600_000 - new Date().getTimezoneOffset() * 60_000);
  return date.toISOString().slice(0, 16);
}

/** The timing in the words of the server; null while it is incomplete. */
function timingOf({ kind, cron, tz, amount, unit, at }) {
  if (kind === "cron") return cron.trim() ? { cron: cron.trim(), tz } : null;
  if (kind === "every") return Number(amount) > 0 ? { every_s: Math.round(Number(amount) * unitSeconds(unit)) } : null;
  const date = new Date(at);
  return Number.isNaN(date.getTime()) ? null : { at: date.toISOString() };
}

function NextRuns({ timing, tz }) {
  const { runs, error } = useNextRuns(timing);
  if (error) return html`<p class="problem" role="alert">${plain(error.message)}</p>`;
  if (!timing) return html`<p class="faint">${t("The next runs stand here as soon as the time is complete.")}</p>`;
  if (!runs) return html`<p class="faint">${t("The next run is shown when the schedule is stored.")}</p>`;
  const inZone = (at) => new Intl.DateTimeFormat(language.peek(), { timeStyle: "short", timeZone: tz }).format(new Date(at * 1000));
  const isElsewhere = timing.cron && tz !== viewerZone();
  return html`<div class="schedules-next" aria-live="polite">
    <span class="dim">${t("Next runs, in your time zone")}</span>
    <ol>
      ${runs.map((at) => html`<li><span>${dateTime(at)}</span> <span class="faint">${ago(at)}${isElsewhere ? ` · ${inZone(at)} ${plain(tz)}` : ""}</span></li>`)}
    </ol>
    ${runs.length === 0 && html`<span class="problem">${t("It never runs.")}</span>`}
  </div>`;
}

function TimingFields({ value, set }) {
  const change = (name) => (event) => set({ ...value, [name]: event.currentTarget.value });
  const kinds = [
    ["cron", t("Calendar")],
    ["every", t("Interval")],
    ["at", t("Once")],
  ];
  const units = ["minutes", "hours", "days", "seconds"];
  const allZones = useMemo(zones, []);
  return html`<fieldset class="schedules-timing">
    <legend>${t("When")}</legend>
    <div class="schedules-kinds">
      ${kinds.map(([kind, label]) => html`<label class="choice"><input type="radio" name="kind" value=${kind} checked=${value.kind === kind} onChange=${change("kind")} />${label}</label>`)}
    </div>
    ${value.kind === "cron" &&
    html`<div class="pair">
      <${Field} label=${t("Cron line")} hint=${t("minute hour day month weekday, or @daily")}><input class="mono" value=${value.cron} onInput=${change("cron")} placeholder="30 7 * * MON-FRI" required spellcheck=${false} autocomplete="off" /><//>
      <${Field} label=${t("Time zone")}><input list="schedules-zones" value=${value.tz} onInput=${change("tz")} required spellcheck=${false} autocomplete="off" />
        <datalist id="schedules-zones">${allZones.map((zone) => html`<option value=${zone}></option>`)}</datalist><//>
    </div>`}
    ${value.kind === "every" &&
    html`<div class="pair">
      <${Field} label=${t("Every")}><input type="number" min="1" step="1" value=${value.amount} onInput=${change("amount")} required /><//>
      <${Field} label=${t("Unit")}><select onChange=${change("unit")}>${units.map((unit) => html`<option value=${unit} selected=${unit === value.unit}>${unitWord(unit)}</option>`)}</select><//>
    </div>`}
    ${value.kind === "at" && html`<${Field} label=${t("Time")} hint=${t("In your time zone.")}><input type="datetime-local" value=${value.at} onInput=${change("at")} required /><//>`}
  </fieldset>`;
}

/** Whether a zone exists, so that a half-written one does no harm. */
function isZone(tz) {
  try {
    return Boolean(new Intl.DateTimeFormat("en", { timeZone: tz }));
  } catch {
    return false;
  }
}

export function NewSchedule({ onClose, onMade }) {
  const [when, setWhen] = useState({ kind: "cron", cron: "", tz: viewerZone(), amount: "15", unit: "minutes", at: soon() });
  const timing = when.kind === "cron" && !isZone(when.tz) ? null : timingOf(when);
  const [make, isBusy] = useAction(async (form) => {
    const name = new FormData(form).get("name").trim();
    const job = readJob(form);
    // The server remembers no keys of schedules, so this is sent once.
    await api.post("/v1/schedules", { ...(name && { name }), ...timing, job });
    notify(t("The schedule is stored."));
    onMade();
  });
  const submit = (event) => {
    event.preventDefault();
    make(event.currentTarget);
  };
  return html`<${Dialog} title=${t("New schedule")} onClose=${onClose}>
    <form class="form" onSubmit=${submit}>
      <${Field} label=${t("Name")}><input name="name" maxlength="64" autocomplete="off" autofocus /><//>
      <${TimingFields} value=${when} set=${setWhen} />
      <div class="schedules-frame"><${NextRuns} timing=${timing} tz=${when.tz} /></div>
      <${JobFields} />
      <div class="actions end"><button class="button primary" disabled=${isBusy || !timing} aria-busy=${isBusy}>${t("Store the schedule")}</button></div>
    </form>
  <//>`;
}
