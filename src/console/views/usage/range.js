// The time that is shown: 7, 30 or 90 days, or from one day to another.

import { html, useState } from "../../lib/ui.js";
import { number } from "../../lib/format.js";
import { t } from "../../lib/i18n.js";
import { Button } from "../../parts/basics.js";
import { today } from "./days.js";

const CHOICES = [7, 30, 90];

export function RangePicker({ settings, onChange }) {
  const [isOpen, setOpen] = useState(settings.days === null);
  const submit = (event) => {
    event.preventDefault();
    const { from, to } = Object.fromEntries(new FormData(event.currentTarget));
    if (from && to) onChange({ days: null, from: from < to ? from : to, to: from < to ? to : from });
  };
  return html`<div class="usage-range">
    <div class="row" role="group" aria-label=${t("Time")}>
      ${CHOICES.map(
        (days) => html`<${Button}
          kind="small ${settings.days === days ? "usage-chosen" : ""}"
          label=${t("{n} days", { n: number(days) })}
          aria-pressed=${settings.days === days}
          onClick=${() => {
            setOpen(false);
            onChange({ days: String(days), from: null, to: null });
          }}
        />`,
      )}
      <${Button} kind="small ${settings.days === null ? "usage-chosen" : ""}" label=${t("From … to …")} aria-expanded=${isOpen} onClick=${() => setOpen(!isOpen)} />
    </div>
    ${isOpen &&
    html`<form class="usage-custom row" onSubmit=${submit}>
      <input type="date" name="from" aria-label=${t("First day")} defaultValue=${settings.from} max=${today()} required />
      <span aria-hidden="true">–</span>
      <input type="date" name="to" aria-label=${t("Last day")} defaultValue=${settings.to} max=${today()} required />
      <button class="button small primary">${t("Show")}</button>
    </form>`}
  </div>`;
}
