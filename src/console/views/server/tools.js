// The tools that models may call: where they come from, whether they ask, and their parameters.

import { html, useData, useState } from "../../lib/ui.js";
import * as api from "../../lib/api.js";
import { number, plain, short } from "../../lib/format.js";
import { t } from "../../lib/i18n.js";
import { Empty, Loaded } from "../../parts/basics.js";
import { Icon } from "../../parts/icons.js";

function originText(origin) {
  const words = {
    built_in: () => t("built in"),
    java_script: () => t("file {name}", { name: plain(origin.file) }),
    command: () => t("command of the configuration"),
    mcp: () => t("MCP server {name}", { name: plain(origin.server) }),
  };
  return words[origin.kind]?.() ?? plain(origin.kind);
}

/** The type of a parameter in a few words. */
function typeText(schema) {
  if (Array.isArray(schema.enum)) return schema.enum.map((value) => JSON.stringify(value)).join(" | ");
  const type = Array.isArray(schema.type) ? schema.type.join(" | ") : (schema.type ?? "");
  return type === "array" && schema.items?.type ? `array of ${schema.items.type}` : String(type);
}

function Parameters({ schema }) {
  const properties = Object.entries(schema?.properties ?? {}).filter(([, each]) => each && typeof each === "object");
  if (properties.length === 0) return html`<p class="dim">${t("It takes no parameters.")}</p>`;
  const required = new Set(schema.required ?? []);
  return html`<div class="table-frame">
    <table>
      <thead><tr><th scope="col">${t("Parameter")}</th><th scope="col">${t("Type")}</th><th scope="col">${t("Meaning")}</th></tr></thead>
      <tbody>
        ${properties.map(
          ([name, each]) => html`<tr key=${name}>
            <th scope="row"><code>${plain(name)}</code>${required.has(name) && html` <span class="faint">${t("required")}</span>`}</th>
            <td class="mono dim">${short(typeText(each), 160)}</td>
            <td>${plain(each.description)}</td>
          </tr>`,
        )}
      </tbody>
    </table>
  </div>`;
}

function ToolRow({ tool }) {
  const [isOpen, setOpen] = useState(false);
  return html`<details class="server-tool" onToggle=${(event) => setOpen(event.currentTarget.open)}>
    <summary>
      <${Icon} name="chevron" />
      <strong class="mono">${plain(tool.name)}</strong>
      <span class="ellipsis dim server-tool-text" dir="auto">${short(tool.description, 140)}</span>
      <span class="row">
        ${tool.unavailable && html`<span class="tag server-tag-bad">${t("not available")}</span>`}
        ${tool.needs_approval && html`<span class="tag server-tag-warn">${t("asks first")}</span>`}
        ${tool.group && html`<span class="tag">${plain(tool.group)}</span>`}
      </span>
    </summary>
    ${isOpen &&
    html`<div class="server-tool-body">
      <p dir="auto">${plain(tool.description)}</p>
      ${tool.unavailable && html`<p class="notice">${plain(tool.unavailable)}</p>`}
      <dl class="facts">
        <dt>${t("Origin")}</dt><dd>${originText(tool.origin)}</dd>
        <dt>${t("Approval")}</dt><dd>${tool.needs_approval ? t("each call waits for an approval") : t("not needed")}</dd>
        <dt>${t("Without a choice")}</dt><dd>${tool.is_default ? t("offered to the model") : t("only if a run names it")}</dd>
        <dt>${t("After a crash")}</dt><dd>${tool.idempotent ? t("may be called again") : t("is not called twice")}</dd>
      </dl>
      <${Parameters} schema=${tool.parameters} />
    </div>`}
  </details>`;
}

/** Whether a tool is one that the words and the choice mean. */
const isMeant = (tool, words, choice) => {
  const text = `${tool.name} ${tool.description} ${tool.group ?? ""} ${tool.origin.server ?? ""}`.toLowerCase();
  const isChosen = { all: true, approval: tool.needs_approval, unavailable: Boolean(tool.unavailable) }[choice];
  return isChosen && words.toLowerCase().split(/\s+/).every((word) => text.includes(word));
};

export function Tools() {
  const tools = useData((abort) => api.get("/v1/tools", abort).then(({ data }) => data), [], 30_000);
  const [words, setWords] = useState("");
  const [choice, setChoice] = useState("all");
  return html`<div class="server-part">
    <div class="server-filter">
      <input type="search" aria-label=${t("Search tools")} placeholder=${t("Search tools")} value=${words} onInput=${(event) => setWords(event.currentTarget.value)} />
      <select aria-label=${t("Which tools")} value=${choice} onChange=${(event) => setChoice(event.currentTarget.value)}>
        <option value="all">${t("all tools")}</option>
        <option value="approval">${t("those that ask first")}</option>
        <option value="unavailable">${t("those not available")}</option>
      </select>
    </div>
    <${Loaded} of=${tools}>
      ${(data) => {
        const shown = data.filter((tool) => isMeant(tool, words.trim(), choice));
        return html`
          <p class="dim" role="status">${t("{n} of {total} tools", { n: number(shown.length), total: number(data.length) })}</p>
          ${shown.length === 0
            ? html`<${Empty} title=${t("Nothing found")}>${t("No tool has these words. Change the search or the choice.")}<//>`
            : html`<div class="server-tools">${shown.map((tool) => html`<${ToolRow} key=${tool.name} tool=${tool} />`)}</div>`}
        `;
      }}
    <//>
  </div>`;
}
