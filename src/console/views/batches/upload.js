// A dropped or chosen file: checked first, then sent.

import { html, useEffect, useRef, useState } from "../../lib/ui.js";
import * as api from "../../lib/api.js";
import { bytes, number, percent, plain, short } from "../../lib/format.js";
import { t } from "../../lib/i18n.js";
import { go, href } from "../../lib/router.js";
import { Button, Field, notifyError, useAction } from "../../parts/basics.js";
import { Icon } from "../../parts/icons.js";
import { check, sendFile } from "./check.js";

const EXAMPLE = '{"custom_id": "a", "body": {"input": "one"}}';

function Faults({ result }) {
  if (result.faults.length === 0) return null;
  return html`<div class="table-frame batches-faults" tabindex="0" role="region" aria-label=${t("What is wrong")}>
    <table>
      <thead><tr><th scope="col" class="number">${t("Line")}</th><th scope="col">custom_id</th><th scope="col">${t("What is wrong")}</th><th scope="col">${t("Member")}</th></tr></thead>
      <tbody>
        ${result.faults.map(
          (fault) => html`<tr>
            <td class="number">${fault.line === null ? t("file") : number(fault.line)}</td>
            <td class="mono">${fault.custom_id ? short(fault.custom_id, 40) : "–"}</td>
            <td>${plain(fault.message)}</td>
            <td class="mono">${fault.param ? plain(fault.param) : "–"}</td>
          </tr>`,
        )}
      </tbody>
    </table>
    ${result.faults_cut && html`<p class="faint">${t("There are more; these are the first.")}</p>`}
  </div>`;
}

function Figures({ result }) {
  const wrong = result.lines - result.valid;
  const figure = (value, name, kind = "") => html`<div class="card"><div class="figure ${kind}">${number(value)}</div><div class="name">${name}</div></div>`;
  return html`<div class="cards batches-figures" role="status">
    ${figure(result.lines, t("lines"))}${figure(result.valid, t("valid"))}${figure(wrong, t("faulty"), wrong > 0 ? "batches-failed" : "")}
  </div>`;
}

/** What is being done with the file, and how much of it has been sent. */
function Sending({ share, label }) {
  // Behind the last byte the server still works.
  return html`<div class="files-progress">
    <span class="faint" role="status">${label}</span>
    <progress aria-label=${label} max="1" value=${share < 1 ? share : undefined}></progress>
    <span class="number">${percent(share)}</span>
  </div>`;
}

/** The chosen file with what the check says, and the button that sends it. */
function Chosen({ file, result, checked, onDone }) {
  const [concurrency, setConcurrency] = useState("");
  const [webhook, setWebhook] = useState("");
  const [progress, setProgress] = useState(null);
  const [send, isBusy] = useAction(async () => {
    const path = api.withQuery("/v1/batches", { concurrency, webhook_url: webhook });
    setProgress(0);
    try {
      const headers = { "Idempotency-Key": api.newKey() };
      const batch = await sendFile(path, file, { headers, onProgress: setProgress });
      go(href("batches", [batch.id]));
    } finally {
      setProgress(null);
    }
  });
  const isFine = result && result.lines > 0 && result.faults.length === 0;
  const submit = (event) => {
    event.preventDefault();
    send();
  };
  return html`<form class="batches-chosen" onSubmit=${submit}>
    <div class="row spread">
      <span class="row"><${Icon} name="file" /><strong>${plain(file.name)}</strong><span class="faint">${bytes(file.size)}</span></span>
      <${Button} kind="quiet small" icon="close" label=${t("Another file")} onClick=${onDone} />
    </div>
    ${!result ? html`<${Sending} share=${checked} label=${t("The lines are being checked …")} />` : html`<${Figures} result=${result} /><${Faults} result=${result} />`}
    ${result && !isFine && html`<p class="dim">${t("One faulty line refuses the whole batch. Nothing was stored: change the file and choose it again.")}</p>`}
    <div class="row batches-send">
      <${Field} label=${t("Runs at the same time")}><input type="number" min="1" max="1000" placeholder=${t("the server's choice")} value=${concurrency} onInput=${(event) => setConcurrency(event.currentTarget.value)} /><//>
      <${Field} label=${t("Webhook at the end")}><input type="url" placeholder="https://" value=${webhook} onInput=${(event) => setWebhook(event.currentTarget.value)} /><//>
      <button class="button primary" disabled=${!isFine || isBusy} aria-busy=${isBusy}>
        <${Icon} name="send" /><span>${isFine ? t("Send {n} lines", { n: number(result.lines) }) : t("Send")}</span>
      </button>
    </div>
    ${progress !== null && html`<${Sending} share=${progress} label=${t("The file is being sent …")} />`}
  </form>`;
}

export function Upload() {
  const [file, setFile] = useState(null);
  const [result, setResult] = useState(null);
  const [isOver, setOver] = useState(false);
  const picker = useRef(null);
  const [checked, setChecked] = useState(0);
  const latest = useRef(null);
  const leave = () => latest.current?.abort();
  useEffect(() => leave, []);
  const choose = async (next) => {
    if (!next) return;
    leave();
    const { signal } = (latest.current = new AbortController());
    setFile(next);
    setResult(null);
    setChecked(0);
    try {
      setResult(await check(next, { onProgress: setChecked, signal }));
    } catch (error) {
      if (signal.aborted) return;
      notifyError(error);
      setFile(null);
    }
  };
  const done = () => {
    leave();
    setFile(null);
  };
  const drop = (event) => {
    event.preventDefault();
    setOver(false);
    choose(event.dataTransfer.files[0]);
  };
  const over = (event) => {
    event.preventDefault();
    setOver(true);
  };
  return html`<section class="batches-drop ${isOver ? "is-over" : ""}" aria-label=${t("New batch")} onDrop=${drop} onDragOver=${over} onDragLeave=${() => setOver(false)}>
    <input ref=${picker} type="file" accept=".jsonl,.ndjson,application/jsonl" hidden onChange=${(event) => {
      choose(event.currentTarget.files[0]);
      event.currentTarget.value = "";
    }} />
    ${file
      ? html`<${Chosen} key=${`${file.name}-${file.lastModified}`} file=${file} result=${result} checked=${checked} onDone=${done} />`
      : html`<div class="batches-invite">
          <${Button} kind="primary" icon="plus" label=${t("Choose a JSONL file")} onClick=${() => picker.current.click()} />
          <span class="dim">${t("or drop it here. A line for each run:")}</span>
          <code>${EXAMPLE}</code>
        </div>`}
  </section>`;
}
