// The tab with what became of a run's calls of tools.

import { html, useState } from "../../lib/ui.js";
import { dateTime, duration, plain, pretty, short } from "../../lib/format.js";
import { t } from "../../lib/i18n.js";
import { Empty, Loaded } from "../../parts/basics.js";
import { Icon } from "../../parts/icons.js";
import { Output } from "../../parts/run.js";

const SHOWN = 200;

function skippedWord(reason) {
  const words = {
    refused: t("refused"),
    duplicate: t("a repetition"),
    cached: t("from the cache"),
    cancelled: t("cancelled"),
    denied: t("denied"),
    interrupted: t("the server ended meanwhile"),
  };
  return words[reason] ?? plain(reason);
}

function Line({ line }) {
  const [isOpen, setOpen] = useState(false);
  const state = line.skipped ? "cancelled" : line.success ? "succeeded" : "failed";
  const word = line.skipped ? skippedWord(line.skipped) : line.success ? t("done") : t("failed");
  const written = typeof line.arguments === "string" ? line.arguments : JSON.stringify(line.arguments);
  return html`<tr>
      <td class="mono"><button type="button" class="timeline-label" aria-expanded=${isOpen} onClick=${() => setOpen(!isOpen)}><${Icon} name="chevron" />${plain(line.tool)}</button></td>
      <td><span class="status ${state}"><span class="dot" aria-hidden="true"></span>${word}</span></td>
      <td class="number">${duration(line.duration_ms / 1000)}</td>
      <td class="wide-only">${line.level ? plain(line.level) : "–"}</td>
      <td class="wide-only">${dateTime(line.time_ms / 1000)}</td>
      <td class="mono faint wide-only">${short(line.id_ref, 40)}</td>
    </tr>
    ${isOpen &&
    html`<tr class="timeline-detail"><td colspan="6"><div class="stack">
      <p class="faint">${dateTime(line.time_ms / 1000)}${line.level ? ` · ${plain(line.level)}` : ""} · <span class="mono">${short(line.id_ref, 80)}</span></p>
      <${Output} text=${pretty(written)} label=${t("Arguments")} />
      <${Output} text=${pretty(line.result)} label=${t("Result, at most 1,000 characters")} />
    </div></td></tr>`}`;
}

export function Audit({ of }) {
  const [count, setCount] = useState(SHOWN);
  return html`<${Loaded} of=${of}>
    ${(lines) =>
      lines.length === 0
        ? html`<${Empty} title=${t("No calls of tools")}>${t("Every call of a tool leaves a line here, with secrets masked.")}<//>`
        : html`<div class="table-frame" tabindex="0" role="region" aria-label=${t("Audit")}><table class="runs-audit">
              <thead><tr>
                <th scope="col">${t("Tool")}</th><th scope="col">${t("Outcome")}</th><th scope="col" class="number">${t("Duration")}</th>
                <th scope="col" class="wide-only">${t("Sandbox level")}</th><th scope="col" class="wide-only">${t("Ended")}</th><th scope="col" class="wide-only">${t("Call")}</th>
              </tr></thead>
              <tbody>${lines.slice(0, count).map((line) => html`<${Line} key=${`${line.id_ref}-${line.time_ms}`} line=${line} />`)}</tbody>
            </table></div>
            ${lines.length > count && html`<button type="button" class="button small" onClick=${() => setCount(count + SHOWN)}>${t("Show more")}</button>`}`}
  <//>`;
}
