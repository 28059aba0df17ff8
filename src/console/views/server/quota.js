// Quotas of an account: fields for administrators, and words.

import { html } from "../../lib/ui.js";
import { bytes, cost, number } from "../../lib/format.js";
import { t } from "../../lib/i18n.js";
import { Field } from "../../parts/basics.js";

const MIB = 1024 * 1024;

/** Members of a quota: key, label, factor between the field and the server. */
const MEMBERS = [
  ["tokens_per_day", () => t("Tokens a day"), 1],
  ["cost_micros_per_day", () => t("Cost a day"), 1_000_000],
  ["unfinished_jobs", () => t("Unfinished runs"), 1],
  ["project_bytes", () => t("Files of projects, MiB"), MIB],
  ["stored_bytes", () => t("Runs and conversations, MiB"), MIB],
];

export function QuotaFields({ quota }) {
  const shown = (key, factor) => (quota[key] === null || quota[key] === undefined ? "" : String(quota[key] / factor));
  return html`<fieldset class="server-scopes">
    <legend>${t("Quota; an empty field means no limit of its own.")}</legend>
    <div class="form">
      ${MEMBERS.map(
        ([key, label, factor]) => html`<${Field} key=${key} label=${label()}>
          <input name=${key} type="number" min="0" step=${factor === 1 ? "1" : "any"} inputmode="numeric" defaultValue=${shown(key, factor)} />
        <//>`,
      )}
    </div>
  </fieldset>`;
}

/** The quota of the fields of a form. */
export function quotaOf(form) {
  const values = MEMBERS.map(([key, , factor]) => [key, form[key] === "" ? null : Math.round(Number(form[key]) * factor)]);
  return Object.fromEntries(values);
}

/** What is limited, in a few words. */
export function quotaText(quota) {
  const parts = [
    quota.tokens_per_day !== null && t("{n} tokens a day", { n: number(quota.tokens_per_day) }),
    quota.cost_micros_per_day !== null && t("{cost} a day", { cost: cost(quota.cost_micros_per_day) }),
    quota.unfinished_jobs !== null && t("{n} unfinished runs", { n: number(quota.unfinished_jobs) }),
    quota.project_bytes !== null && t("{size} of files", { size: bytes(quota.project_bytes) }),
    quota.stored_bytes !== null && t("{size} of runs", { size: bytes(quota.stored_bytes) }),
  ].filter(Boolean);
  return parts.length > 0 ? parts.join(", ") : t("no limit");
}
