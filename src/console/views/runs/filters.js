// The filters of the list of runs. They stand in the address, so that a filtered list can be kept and sent.

import { html, useData, useState } from "../../lib/ui.js";
import * as api from "../../lib/api.js";
import { plain, statusWord } from "../../lib/format.js";
import { t } from "../../lib/i18n.js";
import { Button, Field } from "../../parts/basics.js";

const NAMES = ["status", "model", "conversation", "batch", "schedule", "parent", "metadata", "from", "to"];
const STATUSES = ["queued", "running", "waiting", "succeeded", "failed", "cancelled"];
const HIDDEN = NAMES.slice(2);

/** A local time without zone as the server wants it. */
function moment(local) {
  const date = new Date(local);
  return Number.isNaN(date.getTime()) ? undefined : date.toISOString();
}

/** The filters of an address; in the words of the server, or with `isOfAddress` as they stand there. */
export function filtersOf(query, isOfAddress = false) {
  const found = Object.fromEntries(NAMES.map((name) => [name, query.get(name)]).filter(([, value]) => value));
  if (isOfAddress) return found;
  const { conversation, batch, schedule, from, to, metadata, ...same } = found;
  const filters = {
    ...same,
    conversation_id: conversation,
    batch_id: batch,
    schedule_id: schedule,
    created_from: from && moment(from),
    created_before: to && moment(to),
    // Half-written metadata would be refused.
    metadata: metadata?.includes("=") ? metadata : undefined,
  };
  return Object.fromEntries(Object.entries(filters).filter(([, value]) => value !== undefined));
}

export function Filters({ query, onChange }) {
  const values = filtersOf(query, true);
  const [isOpen, setOpen] = useState(HIDDEN.some((name) => values[name]));
  const models = useData((abort) => api.data(api.get("/api/models", abort)), []);
  const set = (name) => (event) => onChange({ ...values, [name]: event.currentTarget.value.trim() });
  const text = (name, label, rest = {}) =>
    html`<${Field} label=${label}><input name=${name} value=${values[name] ?? ""} onChange=${set(name)} autocomplete="off" spellcheck=${false} ...${rest} /><//>`;
  const count = Object.keys(values).length;
  return html`<form class="runs-filters" role="search" aria-label=${t("Filters")} onSubmit=${(event) => event.preventDefault()}>
    <div class="runs-filters-main">
      <select aria-label=${t("Status")} onChange=${set("status")}>
        <option value="" selected=${!values.status}>${t("Every status")}</option>
        ${STATUSES.map((status) => html`<option value=${status} selected=${values.status === status}>${statusWord(status)}</option>`)}
      </select>
      <select aria-label=${t("Model")} onChange=${set("model")}>
        <option value="" selected=${!values.model}>${t("Every model")}</option>
        ${values.model && !models.data?.some((each) => each.id === values.model) && html`<option selected value=${values.model}>${plain(values.model)}</option>`}
        ${(models.data ?? []).map((each) => html`<option value=${each.id} selected=${values.model === each.id}>${plain(each.name)}</option>`)}
      </select>
      <${Button} kind="quiet" icon="settings" label=${t("More filters")} aria-expanded=${isOpen} onClick=${() => setOpen(!isOpen)} />
      ${count > 0 && html`<${Button} kind="quiet" icon="close" label=${t("Remove filters")} onClick=${() => onChange({})} />`}
    </div>
    ${isOpen &&
    html`<div class="runs-filters-more">
      ${text("from", t("Created from"), { type: "datetime-local" })}
      ${text("to", t("Created before"), { type: "datetime-local" })}
      ${text("metadata", t("Metadata"), { placeholder: t("key=value"), pattern: ".+=.*" })}
      ${text("conversation", t("Conversation"), { placeholder: "conv_…" })}
      ${text("batch", t("Batch"), { placeholder: "batch_…" })}
      ${text("schedule", t("Schedule"), { placeholder: "sched_…" })}
      ${text("parent", t("Parent run"), { placeholder: "job_…" })}
    </div>`}
  </form>`;
}
