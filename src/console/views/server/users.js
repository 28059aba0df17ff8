// Accounts, for administrators: list, make, change role, quota and password, block, keys.

import { html, useData, useRef, useSignal, useState } from "../../lib/ui.js";
import * as api from "../../lib/api.js";
import { plain, short } from "../../lib/format.js";
import { t } from "../../lib/i18n.js";
import { session } from "../../session.js";
import { Button, Dialog, Empty, Field, Loaded, Moment, confirm, notify, useAction } from "../../parts/basics.js";
import { FormEnd, useForm } from "../files/dialogs.js";
import { Keys } from "./keys.js";
import { QuotaFields, quotaOf, quotaText } from "./quota.js";

const PAGE = 50;
const SEARCH_PAUSE_MS = 200;
const userPath = (user) => `/api/users/${encodeURIComponent(user.id)}`;

function useUsers() {
  const [search, setSearch] = useState("");
  const [count, setCount] = useState(PAGE);
  const load = (abort) => api.pages("/api/users", { limit: PAGE, username: search }, count, abort);
  return { list: useData(load, [search, count]), search, setSearch, more: () => setCount((old) => old + PAGE) };
}

/** Role of an account as a choice. */
const RoleSelect = ({ role }) => html`<select name="role">
  <option value="user" selected=${role !== "admin"}>${t("user")}</option>
  <option value="admin" selected=${role === "admin"}>${t("administrator")}</option>
</select>`;

function NewUser({ onDone, onClose }) {
  const [submit, error, isBusy] = useForm(
    ({ username, password, email, role }) =>
      api.data(api.post("/api/users", { username: username.trim(), password, role, ...(email ? { email } : {}) })),
    onDone,
  );
  return html`<${Dialog} title=${t("New user")} onClose=${onClose}>
    <form class="form" onSubmit=${submit}>
      <div class="pair">
        <${Field} label=${t("User name")}><input name="username" required minlength="2" maxlength="50" autofocus autocomplete="off" autocapitalize="none" /><//>
        <${Field} label=${t("Role")}><${RoleSelect} /><//>
      </div>
      <${Field} label=${t("E-mail (optional)")}><input name="email" type="email" maxlength="120" autocomplete="off" /><//>
      <${Field} label=${t("Password")} hint=${t("At least 8 characters.")} error=${error}>
        <input name="password" type="password" required minlength="8" maxlength="1024" autocomplete="new-password" />
      <//>
      <${FormEnd} action=${t("Make the user")} isBusy=${isBusy} onClose=${onClose} />
    </form>
  <//>`;
}

function EditUser({ user, isMe, onDone, onClose }) {
  const save = (form) => {
    const change = { quota: quotaOf(form) };
    if (!isMe && form.role !== user.role) change.role = form.role;
    return api.patch(userPath(user), change);
  };
  const [submit, error, isBusy] = useForm(async (form) => save(form), onDone);
  return html`<${Dialog} title=${t("Edit {name}", { name: short(user.username, 60) })} onClose=${onClose}>
    <form class="form" onSubmit=${submit}>
      ${!isMe && html`<${Field} label=${t("Role")}><${RoleSelect} role=${user.role} /><//>`}
      <${QuotaFields} quota=${user.quota} />
      ${error && html`<p class="problem" role="alert">${plain(error)}</p>`}
      <${FormEnd} action=${t("Save")} isBusy=${isBusy} onClose=${onClose} />
    </form>
  <//>`;
}

function ResetPassword({ user, onDone, onClose }) {
  const [submit, error, isBusy] = useForm(({ password }) => api.patch(userPath(user), { password }), onDone);
  return html`<${Dialog} title=${t("New password for {name}", { name: short(user.username, 60) })} onClose=${onClose}>
    <form class="form" onSubmit=${submit}>
      <p class="dim">${t("All sessions of the account end.")}</p>
      <${Field} label=${t("Password")} hint=${t("At least 8 characters.")} error=${error}>
        <input name="password" type="password" required minlength="8" maxlength="1024" autofocus autocomplete="new-password" />
      <//>
      <${FormEnd} action=${t("Set the password")} isBusy=${isBusy} onClose=${onClose} />
    </form>
  <//>`;
}

function Row({ user, isMe, onChanged }) {
  const [dialog, setDialog] = useState(null);
  const name = short(user.username, 60);
  const close = () => setDialog(null);
  const done = () => {
    close();
    notify(t("{name} is changed.", { name }));
    onChanged();
  };
  const [setActive, isBusy] = useAction(async (isActive) => {
    const text = t("{name} can no longer log in, and its keys are refused. Its data stay.", { name });
    if (!isActive && !(await confirm(text, t("Disable")))) return;
    await api.patch(userPath(user), { is_active: isActive });
    onChanged();
  });
  const dialogs = {
    edit: () => html`<${EditUser} user=${user} isMe=${isMe} onDone=${done} onClose=${close} />`,
    password: () => html`<${ResetPassword} user=${user} onDone=${done} onClose=${close} />`,
    keys: () => html`<${Dialog} title=${t("API keys of {name}", { name })} onClose=${close}><${Keys} path=${`${userPath(user)}/tokens`} isAdminsKey=${user.role === "admin"} /><//>`,
  };
  const act = (label, onClick, kind = "") => html`<${Button} kind="small ${kind}" label=${label} aria-label="${label}: ${name}" onClick=${onClick} isBusy=${isBusy} />`;
  return html`<tr>
    <th scope="row"><span dir="auto">${name}</span>${isMe && html` <span class="tag">${t("you")}</span>`}${user.email && html`<div class="faint">${short(user.email, 80)}</div>`}</th>
    <td>${user.role === "admin" ? t("administrator") : t("user")}</td>
    <td><span class="status ${user.is_active ? "ok" : "cancelled"}"><span class="dot" aria-hidden="true"></span>${user.is_active ? t("active") : t("disabled")}</span></td>
    <td class="dim">${quotaText(user.quota)}</td>
    <td class="dim">${user.last_login_at ? html`<${Moment} at=${user.last_login_at} />` : t("never")}</td>
    <td class="server-acts">
      <div class="row">
        ${act(t("Edit"), () => setDialog("edit"))}${act(t("Password"), () => setDialog("password"))}${act(t("Keys"), () => setDialog("keys"))}
        ${!isMe && (user.is_active ? act(t("Disable"), () => setActive(false), "danger") : act(t("Enable"), () => setActive(true)))}
      </div>
      ${dialog && dialogs[dialog]()}
    </td>
  </tr>`;
}

export function Users() {
  const { list, search, setSearch, more } = useUsers();
  const me = useSignal(session)?.account?.id;
  const [isMaking, setMaking] = useState(false);
  const timer = useRef(0);
  const type = (event) => {
    const words = event.currentTarget.value.trim();
    clearTimeout(timer.current);
    timer.current = setTimeout(() => setSearch(words), SEARCH_PAUSE_MS);
  };
  const heads = [t("User"), t("Role"), t("State"), t("Quota"), t("Last login")];
  return html`<div class="server-part">
    <div class="row spread">
      <div class="server-filter"><input type="search" aria-label=${t("Exact user name")} placeholder=${t("Exact user name")} onInput=${type} /></div>
      <${Button} label=${t("New user")} icon="plus" kind="primary" onClick=${() => setMaking(true)} />
    </div>
    <${Loaded} of=${list}>
      ${(data) =>
        data.items.length === 0
          ? html`<${Empty} title=${t("Nothing found")}>${search ? t("No user has this name.") : t("Make the first user.")}<//>`
          : html`<div class="table-frame" tabindex="0" role="region" aria-label=${t("Users")}>
                <table>
                  <thead>
                    <tr>
                      ${heads.map((head) => html`<th scope="col">${head}</th>`)}
                      <th scope="col"><span class="visually-hidden">${t("Actions")}</span></th>
                    </tr>
                  </thead>
                  <tbody>
                    ${data.items.map((user) => html`<${Row} key=${user.id} user=${user} isMe=${user.id === me} onChanged=${list.reload} />`)}
                  </tbody>
                </table>
              </div>
              ${data.hasMore && html`<p class="row files-more"><${Button} label=${t("Show more")} onClick=${more} /></p>`}`}
    <//>
    ${isMaking &&
    html`<${NewUser}
      onClose=${() => setMaking(false)}
      onDone=${() => {
        setMaking(false);
        list.reload();
      }}
    />`}
  </div>`;
}
