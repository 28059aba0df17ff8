// Login, and registration with an invite: that of an administrator, or the set-up invite of a server that has no
// account yet.

import { html, useEffect, useNow, useSignal, useState } from "../lib/ui.js";
import * as api from "../lib/api.js";
import { duration, plain } from "../lib/format.js";
import { LANGUAGES, language, setLanguage, t } from "../lib/i18n.js";
import { go, href, route } from "../lib/router.js";
import { loadSession, login, session } from "../session.js";
import { Field } from "../parts/basics.js";
import { Icon, iconAddress } from "../parts/icons.js";

/** What went wrong, in the server's words where it has some. */
function textOf(error, leftS) {
  if (error.status === 0) return t("The server cannot be reached. Try again.");
  if (error.status === 429 && leftS > 0) return t("Too many tries. Wait {time}, then try again.", { time: duration(leftS) });
  if (error.status === 429) return t("You can try again now.");
  if (error.status === 401) return t("The user name or the password is wrong.");
  return plain(error.message);
}

function Problem({ failure }) {
  const untilMs = failure.atMs + (failure.error.retryAfterS ?? 0) * 1000;
  const now = useNow(failure.error.status === 429, 1000);
  const leftS = Math.max(0, Math.ceil((untilMs - now) / 1000));
  // The countdown would be read out each second: it is said once.
  return html`<div class="failure" role=${leftS > 0 ? undefined : "alert"}>
    <${Icon} name="warning" /><p>${textOf(failure.error, leftS)}</p>
    ${failure.error.status === 429 && html`<span class="visually-hidden" role="alert">${t("Too many tries. Wait, then try again.")}</span>`}
  </div>`;
}

function Fields({ isNew, isSetup, invite }) {
  const hint = isSetup
    ? t("The server prints it at its start, and it is valid for 24 hours. A new one, on the server: nanoclaw user setup-link")
    : t("You get it from an administrator, mostly as a link.");
  return html`
    ${isNew &&
    html`<${Field} label=${isSetup ? t("Set-up invite") : t("Invite")} hint=${hint}>
      <input name="invite" defaultValue=${invite} required autocomplete="off" spellcheck=${false} />
    <//>`}
    <${Field} label=${t("User name")}>
      <input name="username" required minlength="2" maxlength="50" autocomplete="username" autocapitalize="none" spellcheck=${false} autofocus />
    <//>
    <${Field} label=${t("Password")} hint=${isNew ? t("At least 8 characters.") : undefined}>
      <input name="password" type="password" required minlength=${isNew ? 8 : undefined} maxlength="1024" autocomplete=${isNew ? "new-password" : "current-password"} />
    <//>
  `;
}

export function Login() {
  const [at, words, isSetup] = [useSignal(route), useSignal(language), !useSignal(session).isSetUp];
  // A set-up link that was used leads to the login.
  const invite = (at.view !== "setup" || isSetup) && (at.query.get("invite") ?? "");
  const [isInvited, setInvited] = useState(Boolean(invite));
  const isNew = isSetup || isInvited;
  const title = isSetup ? t("Create the administrator") : isNew ? t("Make an account") : t("Log in");
  const [failure, setFailure] = useState(null);
  const [isBusy, setBusy] = useState(false);
  useEffect(() => {
    if (invite) setInvited(true);
  }, [invite]);
  useEffect(() => {
    document.title = `${title} · NanoClaw`;
  }, [title]);
  const submit = async (event) => {
    event.preventDefault();
    const form = Object.fromEntries(new FormData(event.currentTarget));
    setBusy(true);
    setFailure(null);
    try {
      const name = form.username.trim();
      if (isNew) {
        const registration = { username: name, password: form.password, invite: form.invite.trim() };
        await api.post("/api/auth/register", registration, { isLogin: true });
        await loadSession();
      } else await login(name, form.password);
      // The address of an invite leads nowhere for somebody who is logged in.
      if (["login", "setup"].includes(at.view)) go(href("chat"), true);
    } catch (error) {
      // Somebody else may have made the first account meanwhile.
      if (isSetup && error.status === 403) await loadSession().catch(() => {});
      setFailure({ error, atMs: Date.now() });
      setBusy(false);
    }
  };
  const change = () => {
    setFailure(null);
    setInvited(!isInvited);
  };
  return html`<main class="login">
    <div class="login-box">
      <div class="login-head"><img src=${iconAddress()} alt="" /><h1>NanoClaw</h1></div>
      <form class="form" key=${`${isNew} ${invite}`} onSubmit=${submit} aria-label=${title}>
        ${isNew && html`<p class="dim">${isSetup ? t("There is no account yet. The first one is the administrator's.") : t("You are invited. Choose a user name and a password.")}</p>`}
        <${Fields} isNew=${isNew} isSetup=${isSetup} invite=${invite || ""} />
        ${failure && html`<${Problem} failure=${failure} />`}
        <button class="button primary" disabled=${isBusy} aria-busy=${isBusy}>${isNew ? t("Make the account") : t("Log in")}</button>
      </form>
      <div class="login-foot">
        ${!isSetup && html`<button type="button" class="button quiet small" onClick=${change}>${isNew ? t("I have an account") : t("I have an invite")}</button>`}
        <select aria-label=${t("Language")} value=${words} onChange=${(event) => setLanguage(event.currentTarget.value)}>
          ${LANGUAGES.map(([code, name]) => html`<option value=${code} selected=${code === words}>${name}</option>`)}
        </select>
      </div>
    </div>
  </main>`;
}
