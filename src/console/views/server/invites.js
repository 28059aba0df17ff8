// Invites: links with which people make their own accounts, and those that nobody has used yet.

import { html, useData, useSignal, useState } from "../../lib/ui.js";
import * as api from "../../lib/api.js";
import { dateTime, plain } from "../../lib/format.js";
import { t } from "../../lib/i18n.js";
import { session } from "../../session.js";
import { Button, Empty, Loaded, Moment, confirm, useAction } from "../../parts/basics.js";
import { Secret } from "./keys.js";

const DAY_S = 86_400;
const MOST_ROWS = 500;
const linkOf = (code) => `${location.origin}${location.pathname}#/login?invite=${encodeURIComponent(code)}`;

/** Invites, the newest first, and the names of accounts by number. */
async function load(abort) {
  const [{ items }, users] = await Promise.all(
    ["/api/invites", "/api/users"].map((path) => api.pages(path, { limit: 100 }, MOST_ROWS, abort)),
  );
  items.sort((a, b) => (b.created_at ?? "").localeCompare(a.created_at ?? ""));
  return { items, names: new Map(users.items.map(({ id, username }) => [id, username])) };
}

function Row({ each, name, onChanged }) {
  const [revoke, isBusy] = useAction(async () => {
    if (!(await confirm(t("The link of this invite will no longer work."), t("Revoke")))) return;
    await api.remove(`/api/invites/${encodeURIComponent(each.id)}`);
    onChanged();
  });
  const end = `…${plain(each.id.slice(-6))}`;
  return html`<tr>
    <th scope="row" class="mono">${end}</th>
    <td class="dim"><${Moment} at=${each.created_at} /></td>
    <td dir="auto">${name}</td>
    <td class="dim">${dateTime(each.expires_at)}</td>
    <td class="server-acts"><${Button} kind="small danger" label=${t("Revoke")} aria-label=${t("Revoke {name}", { name: end })} isBusy=${isBusy} onClick=${revoke} /></td>
  </tr>`;
}

function Pending({ list }) {
  const me = useSignal(session)?.account?.id;
  const nameOf = (id, names) => (id === me ? t("you") : plain(names.get(id) ?? "–"));
  const heads = [t("Invite"), t("Made"), t("By"), t("Expires")];
  const table = ({ items, names }) => html`<div class="table-frame" tabindex="0" role="region" aria-label=${t("Unused invites")}>
    <table>
      <thead>
        <tr>${heads.map((head) => html`<th scope="col">${head}</th>`)}<th scope="col"><span class="visually-hidden">${t("Actions")}</span></th></tr>
      </thead>
      <tbody>${items.map((each) => html`<${Row} key=${each.id} each=${each} name=${nameOf(each.created_by, names)} onChanged=${list.reload} />`)}</tbody>
    </table>
  </div>`;
  return html`<${Loaded} of=${list}>
    ${(data) => (data.items.length === 0 ? html`<${Empty} title=${t("No unused invites")}>${t("An invite that was used or has expired is not shown.")}<//>` : table(data))}
  <//>`;
}

export function Invites() {
  const [made, setMade] = useState(null);
  const [days, setDays] = useState("7");
  const list = useData(load, []);
  const [make, isBusy] = useAction(async () => {
    setMade(await api.data(api.post("/api/invites", { expires_in_s: Number(days) * DAY_S })));
    list.reload();
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
    <${Pending} list=${list} />
  </div>`;
}
