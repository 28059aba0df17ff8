// A run as people read it: thinking, text, tool calls, approvals, agents, and what happens at the moment.

import { html, useMemo, useState } from "../lib/ui.js";
import * as api from "../lib/api.js";
import { duration, number, plain, pretty, short } from "../lib/format.js";
import { t } from "../lib/i18n.js";
import { href } from "../lib/router.js";
import { isOver, shownSteps } from "../lib/steps.js";
import { Button, useAction } from "./basics.js";
import { Icon } from "./icons.js";
import { Markdown } from "./markdown.js";

/** Lines of a result that are shown at first. */
const SHOWN_LINES = 12;

/** A text in a frame; a long one is folded. */
export function Output({ text, label, language = "" }) {
  const [isWhole, setWhole] = useState(false);
  const lines = useMemo(() => plain(text).split("\n"), [text]);
  const isLong = lines.length > SHOWN_LINES || text.length > 4000;
  const shown = isWhole || !isLong ? lines.join("\n") : lines.slice(0, SHOWN_LINES).join("\n").slice(0, 4000);
  return html`<div class="code">
    <div class="code-head">
      <span>${label}</span>
      <span class="row">
        ${isLong &&
        html`<${Button} kind="quiet small" label=${isWhole ? t("Less") : t("All {n} lines", { n: number(lines.length) })} onClick=${() => setWhole(!isWhole)} />`}
        <${Button} kind="quiet small" label=${t("Copy")} onClick=${() => navigator.clipboard.writeText(text)} />
      </span>
    </div>
    <pre tabindex="0" data-language=${language}><code>${shown}</code></pre>
  </div>`;
}

/** The parts of a tool result: `{"success","data","error","execution_time"}`. */
function readResult(step) {
  if (!step) return null;
  try {
    const { success, data, error, execution_time: seconds } = JSON.parse(step.content);
    return { success, data, error, seconds, isSkipped: step.skipped };
  } catch {
    return { success: undefined, data: step.content, isSkipped: step.skipped };
  }
}

/** Arguments with code in them are shown as code, the rest as JSON. */
function Arguments({ json }) {
  let values;
  try {
    values = JSON.parse(json);
  } catch {
    return html`<${Output} text=${json} label=${t("Arguments")} />`;
  }
  const code = typeof values?.code === "string" ? "code" : typeof values?.command === "string" ? "command" : null;
  if (!code) return html`<${Output} text=${pretty(json)} label=${t("Arguments")} language="json" />`;
  const { [code]: source, ...others } = values;
  return html`
    <${Output} text=${source} label=${code === "code" ? t("Program") : t("Command")} />
    ${Object.keys(others).length > 0 && html`<${Output} text=${JSON.stringify(others, null, 2)} label=${t("Other arguments")} />`}
  `;
}

const SAID_ABOVE = ["strictness", "level", "duration_ms"];

/** The data of a result: what a program wrote as text, the rest as JSON. */
function ResultData({ result }) {
  const { data, error } = result;
  const streams = data && typeof data === "object" ? ["output", "stdout", "stderr"].filter((name) => data[name] && typeof data[name] === "string") : [];
  // Beside an output, the card's head says the rest.
  const isSaid = (name) => streams.includes(name) || (streams.length > 0 && (SAID_ABOVE.includes(name) || data[name] === "ok"));
  const rest =
    data && typeof data === "object" && !Array.isArray(data)
      ? Object.fromEntries(Object.entries(data).filter(([name]) => !isSaid(name)))
      : data;
  const hasRest = rest !== null && rest !== undefined && (typeof rest !== "object" || Object.keys(rest).length > 0);
  return html`
    ${error && html`<p class="problem">${plain(typeof error === "string" ? error : JSON.stringify(error))}</p>`}
    ${streams.map((name) => html`<${Output} text=${data[name]} label=${name} />`)}
    ${hasRest && html`<${Output} text=${typeof rest === "string" ? rest : JSON.stringify(rest, null, 2)} label=${t("Result")} />`}
  `;
}

function callState(result, isWaiting, isRunOver) {
  if (isWaiting) return ["waiting", t("waits for approval")];
  if (!result) return isRunOver ? ["cancelled", t("no result")] : ["running", t("running")];
  if (result.isSkipped) return ["cancelled", t("not run")];
  return result.success === false ? ["failed", t("failed")] : ["succeeded", t("done")];
}

/** A call of a tool as a card: name and state first, the rest when it is opened. */
function ToolCard({ step, isWaiting, isRunOver, agentSteps = [], onDecide }) {
  const result = useMemo(() => readResult(step.result), [step.result]);
  const [state, word] = callState(result, isWaiting, isRunOver);
  const level = result?.data?.strictness ?? result?.data?.level;
  return html`<details class="tool ${state}" open=${isWaiting || undefined}>
    <summary>
      <${Icon} name="tool" />
      <strong class="mono">${plain(step.name)}</strong>
      <span class="ellipsis faint mono">${short(step.arguments, 90)}</span>
      ${level && html`<span class="tag">${plain(level)}</span>`}
      ${result?.seconds !== undefined && html`<span class="faint">${duration(result.seconds)}</span>`}
      <span class="status ${state}"><span class="dot" aria-hidden="true"></span>${word}</span>
    </summary>
    <div class="tool-body">
      <${Arguments} json=${step.arguments} />
      ${agentSteps.length > 0 && html`<${AgentSteps} steps=${agentSteps} />`}
      ${result && html`<${ResultData} result=${result} />`}
      ${isWaiting && onDecide && html`<${Decision} callId=${step.id_ref} onDecide=${onDecide} />`}
    </div>
  </details>`;
}

/** Approve or deny a waiting call. */
function Decision({ callId, onDecide }) {
  const [run, isBusy] = useAction(onDecide);
  return html`<div class="row decision">
    <${Button} kind="primary" icon="check" label=${t("Approve")} isBusy=${isBusy} onClick=${() => run("approve", { calls: [callId] })} />
    <${Button} label=${t("Always in this run")} isBusy=${isBusy} onClick=${() => run("approve", { calls: [callId], always: true })} />
    <${Button} kind="danger" icon="close" label=${t("Deny")} isBusy=${isBusy} onClick=${() => run("deny", { calls: [callId] })} />
  </div>`;
}

/** What a sub-agent did, one below the other. */
function AgentSteps({ steps }) {
  return html`<details class="agent" open>
    <summary>${t("Agent {name}: {n} steps", { name: plain(steps[0].agent), n: steps.length })}</summary>
    <ol>
      ${steps.map((step) => {
        if (step.type === "text") return html`<li><${Markdown} text=${step.content} /></li>`;
        if (step.type === "thinking") return html`<li class="dim">${short(step.content, 400)}</li>`;
        if (step.type === "tool_call") return html`<li class="mono">${plain(step.name)} ${short(step.arguments, 200)}</li>`;
        return html`<li class="mono faint">→ ${short(step.content, 200)}</li>`;
      })}
    </ol>
  </details>`;
}

function Thinking({ text, isFinished }) {
  const [isOpen, setOpen] = useState(false);
  return html`<details class="thinking" onToggle=${(event) => setOpen(event.currentTarget.open)}>
    <summary><${Icon} name="think" />${isFinished ? t("Thoughts") : t("Thinking …")}<span class="ellipsis faint">${short(text.slice(-160), 120)}</span></summary>
    <div class="thinking-text">${isOpen && plain(text)}</div>
  </details>`;
}

/** What the run waits for, or does, in a line. */
function Now({ run, connection, waitsFor }) {
  if (connection === "reconnecting") {
    return html`<p class="now" role="status"><${Icon} name="retry" />${t("Connection lost. The run goes on at the server; the page joins it again.")}</p>`;
  }
  if (run.status === "queued") {
    return html`<p class="now" role="status">${waitsFor ?? (run.reason ? plain(run.reason) : t("Waits for a free worker."))}</p>`;
  }
  if (run.status === "retrying") {
    return html`<p class="now" role="status">${t("Tries again")}${run.reason ? `: ${plain(run.reason)}` : ""}</p>`;
  }
  if (run.status === "waiting_approval") {
    return html`<p class="now" role="status">${t("Waits for your approval.")}</p>`;
  }
  return html`<p class="now" role="status"><span class="dots" aria-hidden="true"></span><span class="visually-hidden">${t("running")}</span></p>`;
}

/** The answer of a run with all that led to it. `jobId` allows decisions about calls that wait. */
export function RunSteps({ run, connection = "over", jobId, waitsFor }) {
  const steps = shownSteps(run);
  const isRunOver = isOver(run.status);
  const last = steps.length - 1;
  const decide = (act, body) => api.post(`/v1/jobs/${jobId}/${act}`, body);
  return html`<div class="run">
    ${run.gap && html`<p class="faint">${t("Older parts of this run were removed by the server's retention.")}</p>`}
    ${steps.map((step, at) => {
      const isFinished = isRunOver || at < last;
      if (step.type === "thinking") {
        return html`<${Thinking} key=${step.id} text=${step.content} isFinished=${isFinished} />`;
      }
      if (step.type === "text") {
        return html`<${Markdown} key=${step.id} text=${step.content} isFinished=${isFinished} />`;
      }
      const isWaiting = run.waitingCalls.includes(step.id_ref) && !step.result;
      return html`<${ToolCard}
        key=${step.id}
        step=${step}
        isWaiting=${isWaiting}
        isRunOver=${isRunOver}
        agentSteps=${run.agentSteps[step.id_ref]}
        onDecide=${jobId && decide}
      />`;
    })}
    ${!isRunOver && html`<${Now} run=${run} connection=${connection} waitsFor=${waitsFor} />`}
    ${run.error && html`<${RunError} error=${run.error} jobId=${jobId} />`}
    ${run.done?.finish_reason === "length" && html`<p class="notice">${t("The answer was cut off at the largest number of tokens.")}</p>`}
    ${run.done?.finish_reason === "max_steps" && html`<p class="notice">${t("The run has reached its largest number of steps.")}</p>`}
  </div>`;
}

function RunError({ error, jobId }) {
  if (error.code === "cancelled") return html`<p class="faint">${t("Cancelled.")}</p>`;
  return html`<div class="failure" role="alert">
    <${Icon} name="warning" />
    <p>${plain(error.content)} <span class="faint mono">${plain(error.code)}</span></p>
    ${jobId && html`<a href=${href("runs", [jobId])}>${t("Open the run")}</a>`}
  </div>`;
}
