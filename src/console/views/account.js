// My account: profile, quota and use, password, API keys.

import { html, useData, useSignal, useState } from "../lib/ui.js";
import * as api from "../lib/api.js";
import { bytes, dateTime, number, plain } from "../lib/format.js";
import { t } from "../lib/i18n.js";
import { href } from "../lib/router.js";
import { loadSession, session } from "../session.js";
import { Field, Loaded, PageHead, notify } from "../parts/basics.js";
import { useForm } from "./files/dialogs.js";
import { Keys } from "./server/keys.js";
import { today } from "./usage/days.js";

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

/** One limit with what is used of it; `used` may be unknown. */
function Limit({ label, used, limit, write = number }) {
  const isKnown = used !== undefined && used !== null;
  if (limit === null || limit === undefined) {
    return html`<div><span>${label}: <strong>${isKnown ? write(used) : "–"}</strong> <span class="faint">${t("no limit of its own")}</span></span></div>`;
  }
  return html`<div>
    <span>${label}: <strong>${isKnown ? t("{used} of {limit}", { used: write(used), limit: write(limit) }) : t("at most {limit}", { limit: write(limit) })}</strong></span>
    ${isKnown && html`<progress aria-label=${label} max=${Math.max(limit, 1)} value=${Math.min(used, limit)}></progress>`}
  </div>`;
}

/** What is known of the use: tokens of today. */
async function readUse(abort) {
  const day = today();
  const usage = await api.get(api.withQuery("/v1/usage", { from: day, to: day }), abort);
  const tokens = usage.data.reduce((sum, row) => sum + row.total_tokens, 0);
  return { tokens };
}

function Use({ account }) {
  const use = useData(readUse, [], 30_000);
  const quota = account.quota ?? {};
  return html`<section class="section">
    <h2>${t("Quota and use")}</h2>
    <${Loaded} of=${use}>
      ${({ tokens }) => html`<div class="account-quota">
        <${Limit} label=${t("Tokens today (UTC)")} used=${tokens} limit=${quota.tokens_per_day} />
        ${quota.unfinished_jobs && html`<${Limit} label=${t("Unfinished runs")} limit=${quota.unfinished_jobs} />`}
        ${quota.project_bytes && html`<${Limit} label=${t("Files of projects")} used=${account.used?.project_bytes} limit=${quota.project_bytes} write=${bytes} />`}
        ${quota.stored_bytes && html`<${Limit} label=${t("Runs and conversations")} used=${account.used?.stored_bytes} limit=${quota.stored_bytes} write=${bytes} />`}
      </div>`}
    <//>
    <p><a href=${href("usage")}>${t("All usage")}</a></p>
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
    <${Use} account=${account} />
    <${Password} account=${account} />
    <section class="section">
      <h2>${t("API keys")}</h2>
      <${Keys} path="/api/tokens" isAdminsKey=${account.role === "admin"} />
    </section>
  </div>`;
}
