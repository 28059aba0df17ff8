// The frame around every view: places, account, language, and the view of the address.

import { html, useEffect, useRef, useSignal, useState } from "../lib/ui.js";
import { LANGUAGES, language, setLanguage, t } from "../lib/i18n.js";
import { href, route } from "../lib/router.js";
import { plain } from "../lib/format.js";
import { hasAccounts, logout, session } from "../session.js";
import { Button, Empty, Failure, Overlays, useAction } from "./basics.js";
import { Icon, iconAddress } from "./icons.js";

/** Places in the order of the list: name, label, module of the view. */
const PLACES = [
  ["chat", () => t("Chat"), () => import("../views/chat.js")],
  ["runs", () => t("Runs"), () => import("../views/runs.js")],
  ["batches", () => t("Batches"), () => import("../views/batches.js")],
  ["schedules", () => t("Schedules"), () => import("../views/schedules.js")],
  ["webhooks", () => t("Webhooks"), () => import("../views/webhooks.js")],
  ["files", () => t("Files"), () => import("../views/files.js")],
  ["usage", () => t("Usage"), () => import("../views/usage.js")],
  ["server", () => t("Server"), () => import("../views/server.js")],
  ["account", () => t("Account"), () => import("../views/account.js")],
];

function Nav({ view, isOpen, onClose }) {
  const [withAccounts, current, words] = [useSignal(hasAccounts), useSignal(session), useSignal(language)];
  const [leave] = useAction(() => logout(false));
  const places = PLACES.filter(([name]) => name !== "account" || withAccounts);
  return html`<nav class="nav ${isOpen ? "is-open" : ""}" aria-label=${t("Places")} onClick=${onClose}>
    <a class="brand" href="#/chat"><img src=${iconAddress()} alt="" />NanoClaw</a>
    ${places.map(
      ([name, label]) => html`<a class="place" href=${href(name)} aria-current=${name === view ? "page" : undefined}>
        <${Icon} name=${name} />${label()}
      </a>`,
    )}
    <div class="fill"></div>
    <div class="foot">
      ${withAccounts && html`<span class="ellipsis">${plain(current.account?.username)}</span>`}
      <select
        aria-label=${t("Language")}
        value=${words}
        onClick=${(event) => event.stopPropagation()}
        onChange=${(event) => setLanguage(event.currentTarget.value)}
      >
        ${LANGUAGES.map(([code, name]) => html`<option value=${code} selected=${code === words}>${name}</option>`)}
      </select>
      ${withAccounts && html`<${Button} label=${t("Log out")} kind="small" onClick=${leave} />`}
    </div>
  </nav>`;
}

/** What the places' modules gave: `{Component, error}` by place. */
const views = new Map();

const loadView = (place) =>
  place[2]().then(
    (found) => views.set(place, { Component: found.View }),
    (error) => views.set(place, { error }),
  );

/** Loads the view of the address before the frame is drawn. */
export const loadFirstView = async () => {
  const place = PLACES.find(([name]) => name === route.peek().view);
  if (place) await loadView(place);
};

/** The view of a place; its module is loaded when it is first opened. */
function View({ place, at }) {
  const [, draw] = useState(0);
  const loaded = views.get(place);
  useEffect(() => {
    if (!views.get(place)?.Component) loadView(place).then(() => draw((old) => old + 1));
  }, [place]);
  if (!loaded) return html`<p class="loading" role="status">${t("Loading …")}</p>`;
  if (loaded.error) {
    // A server of another version does not have this page's modules.
    const error = { status: -1, message: t("The console has changed on the server.") };
    return html`<div class="page"><${Failure} error=${error} onRetry=${() => location.reload()} /></div>`;
  }
  return html`<${loaded.Component} segments=${at.segments} query=${at.query} />`;
}

export function Shell() {
  const at = useSignal(route);
  const [isOpen, setOpen] = useState(false);
  const main = useRef(null);
  const place = PLACES.find(([name]) => name === at.view);
  const label = place?.[1]() ?? t("Not found");
  useEffect(() => {
    document.title = `${label} · NanoClaw`;
    setOpen(false);
  }, [at, label]);
  return html`<div class="shell">
    <a class="skip" href="#content" onClick=${(event) => {
      event.preventDefault();
      main.current.focus();
    }}>${t("Skip to the content")}</a>
    <header class="topbar">
      <${Button} label=${t("Places")} icon="menu" kind="quiet" isIconOnly aria-expanded=${isOpen} onClick=${() => setOpen(!isOpen)} />
      <strong>${label}</strong>
    </header>
    <${Nav} view=${at.view} isOpen=${isOpen} onClose=${() => setOpen(false)} />
    <main ref=${main} id="content" tabindex="-1">
      ${place
        ? html`<${View} place=${place} at=${at} />`
        : html`<div class="page"><${Empty} title=${t("There is no such page")}><a href="#/chat">${t("Go to the chat")}</a><//></div>`}
    </main>
    <${Overlays} />
  </div>`;
}
