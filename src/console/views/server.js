// The server: its state, models, tools; with accounts and for administrators also users and invites.

import { html, useSignal } from "../lib/ui.js";
import { t } from "../lib/i18n.js";
import { go, href } from "../lib/router.js";
import { hasAccounts, isAdmin } from "../session.js";
import { Button, Loaded, PageHead, Tabs } from "../parts/basics.js";
import { Invites } from "./server/invites.js";
import { Models } from "./server/models.js";
import { Overview } from "./server/overview.js";
import { useStatus } from "./server/status.js";
import { Tools } from "./server/tools.js";
import { Users } from "./server/users.js";

export function View({ segments }) {
  const [withAccounts, admin] = [useSignal(hasAccounts), useSignal(isAdmin)];
  const status = useStatus();
  const tabs = [
    ["overview", t("Overview")],
    ["models", t("Models")],
    ["tools", t("Tools")],
    ...(withAccounts && admin ? [["users", t("Users")], ["invites", t("Invites")]] : []),
  ];
  const current = tabs.some(([key]) => key === segments[0]) ? segments[0] : "overview";
  const parts = {
    overview: () => html`<${Loaded} of=${status}>${(data) => html`<${Overview} status=${data} />`}<//>`,
    models: () => html`<${Loaded} of=${status}>${(data) => html`<${Models} models=${data.models} />`}<//>`,
    tools: () => html`<${Tools} />`,
    users: () => html`<${Users} />`,
    invites: () => html`<${Invites} />`,
  };
  return html`<div class="page server">
    <${PageHead} title=${t("Server")}>
      ${(current === "overview" || current === "models") && html`<${Button} label=${t("Read again")} icon="retry" kind="quiet small" onClick=${status.reload} />`}
    <//>
    <${Tabs} label=${t("Parts of the page")} tabs=${tabs} current=${current} onChange=${(key) => go(href("server", key === "overview" ? [] : [key]))} />
    ${parts[current]()}
  </div>`;
}
