// The head of a run's page: status, figures, links, and acts.

import { html, useNow, useState } from "../../lib/ui.js";
import * as api from "../../lib/api.js";
import { ago, dateTime, duration, jobCost, number, plain, pretty, short } from "../../lib/format.js";
import { t } from "../../lib/i18n.js";
import { go, href } from "../../lib/router.js";
import { isOver } from "../../lib/steps.js";
import { Button, Moment, Status, confirm, notify, useAction } from "../../parts/basics.js";
import { Output } from "../../parts/run.js";
import { waitText } from "../../parts/wait.js";
import { inputStart, runSeconds } from "./list.js";
import { StartRun } from "./start.js";

/** The command that asks for this run, or makes one like it. */
const curlOf = (job) => `curl -s '${location.origin}/v1/jobs/${job.id}?include=input'`;

async function copy(text, said) {
  await navigator.clipboard.writeText(text);
  notify(said);
}

function Acts({ job, onChanged, onRestarted }) {
  const [again, setAgain] = useState(null);
  const path = `/v1/jobs/${encodeURIComponent(job.id)}`;
  const [cancel, isCancelling] = useAction(async () => {
    await api.post(`${path}/cancel`);
    onChanged();
  });
  const [retry, isRetrying] = useAction(async () => {
    await api.post(`${path}/retry`);
    onRestarted();
  });
  const [remove] = useAction(async () => {
    if (!(await confirm(t("The run with its log and audit will be deleted for good."), t("Delete the run")))) return;
    await api.remove(path);
    notify(t("The run is deleted."));
    go(href("runs"), true);
  });
  const [repeat] = useAction(async () => {
    const whole = await api.get(`${path}?include=input`);
    setAgain({ input: whole.input, model: whole.model, tools: whole.tools, project_id: whole.project_id, metadata: whole.metadata });
  });
  const isLive = !isOver(job.status);
  return html`<div class="actions">
    ${isLive && html`<${Button} icon="stop" label=${t("Cancel")} isBusy=${isCancelling} onClick=${cancel} />`}
    ${job.status === "failed" && html`<${Button} kind="primary" icon="retry" label=${t("Retry")} isBusy=${isRetrying} onClick=${retry} />`}
    <${Button} icon="plus" label=${t("New one like it")} onClick=${repeat} />
    <${Button} kind="quiet" icon="copy" label=${t("Copy as curl")} onClick=${() => copy(curlOf(job), t("The command is copied."))} />
    ${!isLive && html`<${Button} kind="quiet danger" icon="trash" isIconOnly label=${t("Delete the run")} onClick=${remove} />`}
    ${again && html`<${StartRun} request=${again} onClose=${() => setAgain(null)} />`}
  </div>`;
}

/** Calls that wait for a decision; all of them, or one by one. */
function Approval({ job, onChanged }) {
  const { calls = [], expires_at: until } = job.approval ?? {};
  const decide = async (act, body) => {
    try {
      await api.post(`/v1/jobs/${encodeURIComponent(job.id)}/${act}`, body);
    } catch (error) {
      // An older server knows no `always`.
      if (error.status !== 400 || !body.always) throw error;
      await api.post(`/v1/jobs/${encodeURIComponent(job.id)}/${act}`, { calls: body.calls });
      notify(t("Approved once: this server cannot approve always."));
    }
    onChanged();
  };
  const [run, isBusy] = useAction(decide);
  if (job.status !== "waiting" || calls.length === 0) return null;
  return html`<section class="runs-approval" aria-label=${t("Waits for your approval.")}>
    <div class="row spread"><h2>${t("Waits for your approval.")}</h2><span class="dim">${until && t("Counts as denied {when}", { when: ago(until) })}</span></div>
    ${calls.map(
      (call) => html`<div class="runs-approval-call" key=${call.id_ref}>
        <${Output} text=${pretty(call.arguments)} label=${plain(call.name)} />
        <div class="row">
          <${Button} kind="primary" icon="check" label=${t("Approve")} isBusy=${isBusy} onClick=${() => run("approve", { calls: [call.id_ref] })} />
          <${Button} label=${t("Always in this run")} isBusy=${isBusy} onClick=${() => run("approve", { calls: [call.id_ref], always: true })} />
          <${Button} kind="danger" icon="close" label=${t("Deny")} isBusy=${isBusy} onClick=${() => run("deny", { calls: [call.id_ref] })} />
        </div>
      </div>`,
    )}
  </section>`;
}

function Fact({ label, children, title }) {
  return html`<div class="runs-fact"><dt>${label}</dt><dd title=${title}>${children}</dd></div>`;
}

function Links({ job }) {
  const { conversation_id: conversation, parent_id: parent, project_id: project, batch_id: batch, schedule_id: schedule, metadata } = job;
  const pairs = Object.entries(metadata ?? {});
  const after = job.after ?? [];
  if (!conversation && !parent && !project && !batch && !schedule && pairs.length === 0 && after.length === 0) return null;
  return html`<ul class="runs-links" aria-label=${t("What the run belongs to")}>
    ${conversation && html`<li><a href=${href("chat", [conversation])}>${t("Conversation")}</a></li>
      <li><a href=${href("runs", [], { conversation })}>${t("Runs of the conversation")}</a></li>`}
    ${after.map((id) => html`<li><a class="mono" href=${href("runs", [id])} title=${t("A run that it comes after")}>${t("After {run}", { run: short(id, 16) })}</a></li>`)}
    ${parent && html`<li><a href=${href("runs", [parent])}>${t("Parent run")}</a></li>`}
    ${batch && html`<li><a href=${href("batches", [batch])}>${t("Batch")}</a></li>`}
    ${schedule && html`<li><a href=${href("schedules", [schedule])}>${t("Schedule")}</a></li>`}
    ${project && html`<li><a href=${href("files", [project])}>${t("Files of the project")}</a></li>`}
    ${pairs.map(
      ([key, value]) => html`<li><a class="tag" href=${href("runs", [], { metadata: `${key}=${value}` })} title=${t("Runs with the same metadata")}>${short(key, 40)}=${short(value, 60)}</a></li>`,
    )}
  </ul>`;
}

export function RunHead({ job, connection, isAnswerShown, onChanged, onRestarted }) {
  const isLive = !isOver(job.status);
  const nowMs = useNow(isLive);
  const queuedS = job.started_at ? job.started_at - job.created_at : isLive ? nowMs / 1000 - job.created_at : null;
  // The answer says it, too.
  const isSaidBelow = isAnswerShown && !job.waits_for?.after_job;
  const waits = isLive && job.status !== "running" && !isSaidBelow ? waitText(job) : null;
  // The answer asks at the calls themselves, except for calls of sub-agents.
  const isAskedBelow = isAnswerShown && (job.approval?.calls ?? []).every((call) => !call.id_ref.includes("/"));
  return html`<header class="runs-head">
    <nav aria-label=${t("Path")}><a href=${href("runs")}>${t("Runs")}</a> <span aria-hidden="true">/</span> <span class="mono faint">${job.id}</span>
      <${Button} kind="quiet small" icon="copy" isIconOnly label=${t("Copy the id")} onClick=${() => copy(job.id, t("The id is copied."))} /></nav>
    <div class="page-head">
      <h1 class="runs-title" dir="auto">${inputStart(job, 160) || t("Run")}</h1>
      <${Acts} job=${job} onChanged=${onChanged} onRestarted=${onRestarted} />
    </div>
    <dl class="runs-facts">
      <${Fact} label=${t("Status")}><${Status} status=${job.status} /><//>
      <${Fact} label=${t("Model")}>${plain(job.model)}<//>
      <${Fact} label=${t("Created")} title=${dateTime(job.created_at)}><${Moment} at=${job.created_at} /><//>
      <${Fact} label=${t("Queued for")}>${queuedS === null ? "–" : duration(Math.max(0, Math.floor(queuedS)))}<//>
      <${Fact} label=${t("Duration")} title=${job.finished_at ? dateTime(job.finished_at) : undefined}>${duration(runSeconds(job, nowMs))}<//>
      <${Fact} label=${t("Attempt")}>${number(job.attempt)}<//>
      <${Fact} label=${t("Tokens")}>${number(job.usage.total_tokens)}<//>
      <${Fact} label=${t("Cost")}>${jobCost(job)}<//>
      ${job.deadline_at && html`<${Fact} label=${t("Deadline")} title=${dateTime(job.deadline_at)}><${Moment} at=${job.deadline_at} /><//>`}
      ${job.expires_at && !job.started_at && html`<${Fact} label=${t("Expires")} title=${dateTime(job.expires_at)}><${Moment} at=${job.expires_at} /><//>`}
    </dl>
    <${Links} job=${job} />
    ${waits && html`<p class="now" role="status">${waits}${job.waits_for?.after_job && html` <a href=${href("runs", [job.waits_for.after_job])}>${t("Open that run")}</a>`}</p>`}
    ${isLive && connection === "reconnecting" && html`<p class="now" role="status">${t("Connection lost. The run goes on at the server; the page joins it again.")}</p>`}
    ${!isAskedBelow && html`<${Approval} job=${job} onChanged=${onChanged} />`}
  </header>`;
}
