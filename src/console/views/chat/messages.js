// Questions and answers of a conversation.

import { html, useData, useEffect, useMemo, useRef, useState } from "../../lib/ui.js";
import * as api from "../../lib/api.js";
import { number, plain, shortTime } from "../../lib/format.js";
import { t } from "../../lib/i18n.js";
import { href } from "../../lib/router.js";
import { forgetRun, useRun } from "../../lib/runs.js";
import { emptyRun, isOver } from "../../lib/steps.js";
import { Button, confirm, notify, useAction } from "../../parts/basics.js";
import { Icon } from "../../parts/icons.js";
import { RunSteps } from "../../parts/run.js";
import { waitText } from "../../parts/wait.js";

/** How often a waiting run is asked what it waits for. */
const WAIT_MS = 3_000;

function Attachments({ files }) {
  if (!files || files.length === 0) return null;
  return html`<ul class="attachments" aria-label=${t("Attached files")}>
    ${files.map((file) => html`<li class="attachment"><${Icon} name="file" />${plain(file.name)}</li>`)}
  </ul>`;
}

/** A question; with an answer behind it, it can be edited and asked again. */
export function Question({ message, answer, isWaiting, onEdit, onRemove }) {
  const [isEditing, setEditing] = useState(false);
  const [edit, isBusy] = useAction(onEdit ?? (async () => {}));
  const [remove] = useAction(async () => {
    if (await confirm(t("The question and its answer will be deleted."), t("Delete"))) await onRemove();
  });
  const canChange = answer?.role === "assistant" && isOver(answer.status);
  const submit = async (event) => {
    event.preventDefault();
    const text = new FormData(event.currentTarget).get("text");
    const later = t("This answer and all that follows will be replaced.");
    if (!(await confirm(later, t("Ask again")))) return;
    await edit(text);
    setEditing(false);
  };
  return html`<li class="message user">
    <div class="who"><strong>${t("You")}</strong>${message.created_at && html`<span>${shortTime(message.created_at)}</span>`}
      ${isWaiting && html`<span role="status">${t("waits for the connection")}</span>`}</div>
    <${Attachments} files=${message.attachments} />
    ${isEditing
      ? html`<form class="stack" onSubmit=${submit}>
          <textarea name="text" rows="4" aria-label=${t("Question")} ref=${(area) => area?.focus()}>${message.text}</textarea>
          <div class="row">
            <button class="button primary" disabled=${isBusy}>${t("Ask again")}</button>
            <${Button} label=${t("Keep")} onClick=${() => setEditing(false)} />
          </div>
        </form>`
      : message.text && html`<div class="said" dir="auto">${plain(message.text)}</div>`}
    ${canChange &&
    !isEditing &&
    html`<div class="tools">
      <${Button} kind="quiet small" icon="edit" isIconOnly label=${t("Edit and ask again")} onClick=${() => setEditing(true)} />
      <${Button} kind="quiet small" icon="trash" isIconOnly label=${t("Delete question and answer")} onClick=${remove} />
    </div>`}
  </li>`;
}

/** An ended answer as a run: its stored steps. */
function storedRun(message) {
  const error = message.error ?? null;
  return { ...emptyRun(), status: message.status, steps: message.process_steps, error: error && { content: error.message, code: error.code } };
}

export function Answer({ message, onAgain, onEnd }) {
  const [again, isBusy] = useAction(onAgain);
  const isLive = !isOver(message.status);
  const follows = useFollowing(message.job_id, isLive);
  const copy = async () => {
    await navigator.clipboard.writeText(message.text);
    notify(t("Copied"));
  };
  return html`<li class="message assistant" aria-busy=${isLive}>
    <div class="who"><strong>${plain(message.model)}</strong><span>${shortTime(message.created_at)}</span></div>
    ${follows ? html`<${LiveRun} key=${follows} message=${message} onEnd=${onEnd} />` : html`<${EndedRun} message=${message} />`}
    ${!isLive &&
    html`<div class="tools">
      <${Button} kind="quiet small" icon="copy" isIconOnly label=${t("Copy the answer")} onClick=${copy} />
      <${Button} kind="quiet small" icon="retry" isIconOnly label=${t("Answer again")} isBusy=${isBusy} onClick=${again} />
      <a href=${href("runs", [message.job_id])}>${t("Run")}</a>
      ${message.token_count > 0 && html`<span>${t("{n} tokens", { n: number(message.token_count) })}</span>`}
    </div>`}
  </li>`;
}

/**
 * A key for the run that the answer follows, or null if it had ended when it was first shown. An answer that
 * was seen to the end stays as it was drawn; one that goes on, because its run is retried, is followed anew.
 */
function useFollowing(jobId, isLive) {
  const state = useRef({ key: null, isLive: false, times: 0 });
  const { current } = state;
  if (isLive && !current.isLive) {
    if (current.key) forgetRun(jobId);
    current.times += 1;
    current.key = `${jobId} ${current.times}`;
  }
  current.isLive = isLive;
  return current.key?.startsWith(`${jobId} `) ? current.key : null;
}

function EndedRun({ message }) {
  const run = useMemo(() => storedRun(message), [message]);
  return html`<${RunSteps} run=${run} jobId=${message.job_id} />`;
}

/** What a run that is not running waits for, as its job object says; asked again while it lasts. */
function useWaitText(jobId, status) {
  const isWaiting = status === "queued" || status === "retrying";
  const load = (abort) => (isWaiting ? api.get(`/v1/jobs/${jobId}`, abort) : Promise.resolve(null));
  const { data } = useData(load, [jobId, isWaiting], isWaiting ? WAIT_MS : 0);
  return isWaiting && data ? waitText(data) : undefined;
}

function LiveRun({ message, onEnd }) {
  const jobId = message.job_id;
  const { run, connection } = useRun(jobId);
  const waitsFor = useWaitText(jobId, run.lastId > 0 ? run.status : "running");
  const hasEnded = isOver(run.status) || connection === "gone";
  useEffect(() => {
    if (hasEnded) onEnd();
  }, [hasEnded]);
  // The events were removed: the message has kept its text.
  if (connection === "gone" && isOver(message.status)) return html`<${EndedRun} message=${message} />`;
  return html`<${RunSteps} run=${run} connection=${connection} jobId=${jobId} waitsFor=${waitsFor} />`;
}
