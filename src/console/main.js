// Starts the console: finds out who uses it, then draws the frame and the view of the address.

import { html, render, useEffect, useSignal, useState } from "./lib/ui.js";
import { language, loadLanguage, t } from "./lib/i18n.js";
import { sessionLost } from "./lib/api.js";
import { hasAccounts, loadSession, session } from "./session.js";
import { Failure } from "./parts/basics.js";
import { Shell, loadFirstView } from "./parts/shell.js";

const FIRST_PAUSE_MS = 400;

/** The login form is a part of its own that most visits do not load. */
function Login() {
  const [View, setView] = useState(null);
  useEffect(() => {
    import("./views/login.js").then((found) => setView(() => found.Login));
  }, []);
  return View && html`<${View} />`;
}

function App() {
  const [current, needsLogin, words] = [useSignal(session), useSignal(hasAccounts), useSignal(language)];
  if (current === null) return html`<p class="loading" role="status">${t("Loading …")}</p>`;
  if (needsLogin && current.account === null) return html`<${Login} key=${words} />`;
  return html`<${Shell} key=${words} />`;
}

/** Asks until the server answers: a page that was opened while it starts needs no reload. */
async function start() {
  const root = document.getElementById("app");
  const parts = Promise.all([loadLanguage(), loadFirstView()]);
  for (let pauseMs = FIRST_PAUSE_MS; ; pauseMs = Math.min(pauseMs * 2, 5000)) {
    try {
      await loadSession();
      await parts;
      break;
    } catch (error) {
      root.replaceChildren();
      render(html`<${Failure} error=${error} />`, root);
      await new Promise((resolve) => setTimeout(resolve, pauseMs));
    }
  }
  root.replaceChildren();
  render(html`<${App} />`, root);
  sessionLost.subscribe((times) => {
    if (times > 0 && session.peek()?.account) session.value = { ...session.peek(), account: null };
  });
}

start();
