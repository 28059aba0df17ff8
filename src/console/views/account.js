// My account: profile, quota and use, password, sessions, API keys.

import { html, useData, useSignal, useState } from "../lib/ui.js";
import * as api from "../lib/api.js";
import { bytes, cost, dateTime, number, plain } from "../lib/format.js";
import { t } from "../lib/i18n.js";
import { href } from "../lib/router.js";
import { loadSession, logout, session } from "../session.js";
import { Button, Field, Loaded, PageHead, confirm, notify, useAction } from "../parts/basics.js";
import { useForm } from "./files/dialogs.js";
import { Keys } from "./server/keys.js";

function Profile({ account, onChanged }) {
  const save = ({ email }) => api.patch("/api/auth/profile", { email: email.trim() || null });
  const [isBusy, setBusy] = useState(0);
  const [submit, error, isSaving] = useForm(async (form) => save(form), () => {
    notify(t("Saved."));
    setBusy(isBusy + 1); // a new form: its values are those of the account
    onChanged();
  });
  return html`<section class="section">
    <h2>${t("Profile")}</h2>
    <dl class="facts">
      <dt>${t("User name")}</dt><dd>${plain(account.username)}</dd>
      <dt>${t("Role")}</dt><dd>${account.role === "admin" ? t("administrator") : t("user")}</dd>
      <dt>${t("Member since")}</dt><dd>${dateTime(account.created_at)}</dd>
      <dt>${t("Last login")}</dt><dd>${dateTime(account.last_login_at)}</dd>
    </dl>
    <form class="form" key=${isBusy} onSubmit=${submit}>
      <${Field} label=${t("E-mail (optional)")} error=${error}>
        <input name="email" type="email" maxlength="120" autocomplete="email" defaultValue=${account.email ?? ""} />
      <//>
      <div class="row"><button class="button" disabled=${isSaving}>${t("Save")}</button></div>
    </form>
  </section>`;
}

/** What is used of one limit, if there is one. */
function Limit({ label, used, limit, write }) {
  const hasLimit = limit !== null && limit !== undefined;
  return html`<div>
    <span>${label}: <strong>${hasLimit ? t("{used} of {limit}", { used: write(used), limit: write(limit) }) : write(used)}</strong>
      ${!hasLimit && html` <span class="faint">${t("no limit of its own")}</span>`}</span>
    ${hasLimit && html`<progress aria-label=${label} max=${Math.max(limit, 1)} value=${Math.min(used, limit)}></progress>`}
  </div>`;
}

function Use() {
  const use = useData((abort) => api.data(api.get("/api/auth/profile?include=used", abort)), [], 30_000);
  return html`<section class="section">
    <h2>${t("Quota and use")}</h2>
    <${Loaded} of=${use}>
      ${({ quota, used }) => html`<div class="account-quota">
        <${Limit} label=${t("Tokens today (UTC)")} used=${used.tokens_today} limit=${quota.tokens_per_day} write=${number} />
        <${Limit} label=${t("Cost today (UTC)")} used=${used.cost_micros_today} limit=${quota.cost_micros_per_day} write=${cost} />
        <${Limit} label=${t("Unfinished runs")} used=${used.unfinished_jobs} limit=${quota.unfinished_jobs} write=${number} />
        <${Limit} label=${t("Files of projects")} used=${used.project_bytes} limit=${quota.project_bytes} write=${bytes} />
        <${Limit} label=${t("Runs and conversations")} used=${used.stored_bytes} limit=${quota.stored_bytes} write=${bytes} />
      </div>`}
    <//>
    <p><a href=${href("usage")}>${t("All usage")}</a></p>
  </section>`;
}

/** Ends all sessions, for a browser that somebody else has. */
function Sessions() {
  const [leave, isBusy] = useAction(async () => {
    const text = t("All sessions of your account end, this one too. API keys stay valid.");
    if (await confirm(text, t("Log out everywhere"))) await logout(true);
  });
  return html`<section class="section">
    <h2>${t("Sessions")}</h2>
    <p class="dim">${t("You stay logged in on every device until you log out there.")}</p>
    <div class="row"><${Button} label=${t("Log out everywhere")} kind="danger" isBusy=${isBusy} onClick=${leave} /></div>
  </section>`;
}

function Password({ account }) {
  const [round, setRound] = useState(0);
  const change = async ({ current, password, again }) => {
    if (password !== again) throw { message: t("The two new passwords are not the same.") };
    await api.patch("/api/auth/profile", { password, current_password: current });
  };
  const [submit, error, isBusy] = useForm(change, () => {
    notify(t("The password is changed. All other sessions have ended."));
    setRound(round + 1);
  });
  return html`<section class="section">
    <h2>${t("Password")}</h2>
    <form class="form" key=${round} onSubmit=${submit}>
      <input name="username" autocomplete="username" value=${account.username} readonly hidden />
      <${Field} label=${t("Present password")} error=${error}>
        <input name="current" type="password" required autocomplete="current-password" />
      <//>
      <div class="pair">
        <${Field} label=${t("New password")} hint=${t("At least 8 characters.")}>
          <input name="password" type="password" required minlength="8" maxlength="1024" autocomplete="new-password" />
        <//>
        <${Field} label=${t("New password again")}>
          <input name="again" type="password" required minlength="8" maxlength="1024" autocomplete="new-password" />
        <//>
      </div>
      <div class="row"><button class="button primary" disabled=${isBusy}>${t("Change the password")}</button></div>
    </form>
  </section>`;
}

export function View() {
  const account = useSignal(session)?.account;
  const reload = () => loadSession().catch(() => {});
  if (!account) return null;
  return html`<div class="page account">
    <${PageHead} title=${t("Account")} />
    <${Profile} account=${account} onChanged=${reload} />
    <${Use} />
    <${Password} account=${account} />
    <${Sessions} />
    <section class="section">
      <h2>${t("API keys")}</h2>
      <${Keys} path="/api/tokens" isAdminsKey=${account.role === "admin"} />
    </section>
  </div>`;
}
