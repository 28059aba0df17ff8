// API keys of an account: make, see once, revoke. Administrators use it for other accounts.

import { html, useData, useState } from "../../lib/ui.js";
import * as api from "../../lib/api.js";
import { dateTime, plain, short } from "../../lib/format.js";
import { t } from "../../lib/i18n.js";
import { Button, Dialog, Empty, Field, Loaded, Moment, confirm, notify, useAction } from "../../parts/basics.js";
import { FormEnd, useForm } from "../files/dialogs.js";

const DAY_S = 86_400;

/** A secret that is shown once, with a button that copies it. */
export function Secret({ title, value, hint }) {
  const copy = async () => {
    await navigator.clipboard.writeText(value);
    notify(t("Copied"));
  };
  return html`<div class="server-secret" role="status">
    <strong>${title}</strong>
    <code tabindex="0">${plain(value)}</code>
    <div class="row spread"><span class="dim">${hint}</span><${Button} label=${t("Copy")} icon="copy" kind="small primary" onClick=${copy} /></div>
  </div>`;
}

function NewKey({ path, isAdminsKey, onMade, onClose }) {
  const make = ({ name, days, ...form }) => {
    const scopes = ["read", "write", "admin"].filter((scope) => form[scope] === "on");
    if (scopes.length === 0) throw { message: t("Choose at least one right.") };
    const body = { name: name.trim() || null, scopes };
    if (days) body.expires_in_s = Number(days) * DAY_S;
    return api.data(api.post(path, body));
  };
  const [submit, error, isBusy] = useForm(async (values) => make(values), onMade);
  return html`<${Dialog} title=${t("New API key")} onClose=${onClose}>
    <form class="form" onSubmit=${submit}>
      <${Field} label=${t("Name")} hint=${t("What will use it, so that you know later.")}><input name="name" maxlength="100" autofocus autocomplete="off" /><//>
      <fieldset class="server-scopes">
        <legend>${t("Rights")}</legend>
        <label class="choice"><input type="checkbox" name="read" defaultChecked />${t("read: see runs, files and usage")}</label>
        <label class="choice"><input type="checkbox" name="write" defaultChecked />${t("write: start runs and change things")}</label>
        ${isAdminsKey && html`<label class="choice"><input type="checkbox" name="admin" />${t("admin: accounts, invites and metrics")}</label>`}
      </fieldset>
      <${Field} label=${t("Valid for")} error=${error}>
        <select name="days">
          <option value="30">${t("{n} days", { n: 30 })}</option>
          <option value="90">${t("{n} days", { n: 90 })}</option>
          <option value="365">${t("a year")}</option>
          <option value="">${t("until it is revoked")}</option>
        </select>
      <//>
      <${FormEnd} action=${t("Make the key")} isBusy=${isBusy} onClose=${onClose} />
    </form>
  <//>`;
}

function KeyRow({ path, each, onChanged }) {
  const name = short(each.name || t("no name"), 60);
  const [revoke, isBusy] = useAction(async () => {
    if (!(await confirm(t("Programs that use the key {name} will be refused at once.", { name }), t("Revoke")))) return;
    await api.remove(`${path}/${encodeURIComponent(each.id)}`);
    onChanged();
  });
  const isOver = each.expires_at && Date.parse(each.expires_at) < Date.now();
  return html`<tr>
    <th scope="row" dir="auto">${name}<div class="faint mono">…${plain(each.hint)}</div></th>
    <td>${each.scopes.map(plain).join(", ")}</td>
    <td class="dim"><${Moment} at=${each.created_at} /></td>
    <td class=${isOver ? "problem" : "dim"}>${each.expires_at ? (isOver ? t("expired") : dateTime(each.expires_at)) : t("never")}</td>
    <td class="server-acts"><${Button} kind="small danger" label=${t("Revoke")} aria-label=${t("Revoke {name}", { name })} isBusy=${isBusy} onClick=${revoke} /></td>
  </tr>`;
}

/** `path`: `/api/tokens`, or `/api/users/{id}/tokens` for administrators. */
export function Keys({ path, isAdminsKey }) {
  const keys = useData((abort) => api.data(api.get(path, abort)), [path]);
  const [isMaking, setMaking] = useState(false);
  const [made, setMade] = useState(null);
  const table = (data) => html`<div class="table-frame">
    <table>
      <thead>
        <tr>
          <th scope="col">${t("Key")}</th>
          <th scope="col">${t("Rights")}</th>
          <th scope="col">${t("Made")}</th>
          <th scope="col">${t("Expires")}</th>
          <th scope="col"><span class="visually-hidden">${t("Actions")}</span></th>
        </tr>
      </thead>
      <tbody>${data.map((each) => html`<${KeyRow} key=${each.id} path=${path} each=${each} onChanged=${keys.reload} />`)}</tbody>
    </table>
  </div>`;
  return html`<div class="stack">
    ${made && html`<${Secret} title=${t("The new key")} value=${made.key} hint=${t("It is shown only now. Keep it like a password.")} />`}
    <${Loaded} of=${keys}>
      ${(data) =>
        data.length === 0
          ? html`<${Empty} title=${t("No API keys")}>${t("Programs log in with a key instead of a password. Make one for each program.")}<//>`
          : table(data)}
    <//>
    <div class="row"><${Button} label=${t("New API key")} icon="plus" onClick=${() => setMaking(true)} /></div>
    ${isMaking &&
    html`<${NewKey}
      path=${path}
      isAdminsKey=${isAdminsKey}
      onClose=${() => setMaking(false)}
      onMade=${(key) => {
        setMade(key);
        setMaking(false);
        keys.reload();
      }}
    />`}
  </div>`;
}
