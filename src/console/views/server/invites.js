// Invites: links with which people make their own accounts.

import { html, useState } from "../../lib/ui.js";
import * as api from "../../lib/api.js";
import { dateTime } from "../../lib/format.js";
import { t } from "../../lib/i18n.js";
import { Button, useAction } from "../../parts/basics.js";
import { Secret } from "./keys.js";

const DAY_S = 86_400;
const linkOf = (code) => `${location.origin}${location.pathname}#/login?invite=${encodeURIComponent(code)}`;

export function Invites() {
  const [made, setMade] = useState(null);
  const [days, setDays] = useState("7");
  const [make, isBusy] = useAction(async () => {
    setMade(await api.data(api.post("/api/invites", { expires_in_s: Number(days) * DAY_S })));
  });
  return html`<div class="server-part">
    <div class="server-section">
      <p class="dim">${t("The link makes one account. Send it to one person.")}</p>
      <div class="server-filter">
        <select aria-label=${t("Valid for")} value=${days} onChange=${(event) => setDays(event.currentTarget.value)}>
          ${["1", "7", "30"].map((each) => html`<option value=${each} selected=${each === days}>${each === "1" ? t("valid for a day") : t("valid for {n} days", { n: each })}</option>`)}
        </select>
        <${Button} label=${t("New invite")} icon="plus" kind="primary" isBusy=${isBusy} onClick=${make} />
      </div>
      ${made && html`<${Secret} title=${t("The link of the invite")} value=${linkOf(made.code)} hint=${t("It is shown only now, and valid until {time}.", { time: dateTime(made.expires_at) })} />`}
    </div>
  </div>`;
}
