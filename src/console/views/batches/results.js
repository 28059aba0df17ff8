// The results of a batch as they come, failures first.

import { html, useEffect, useMemo, useState } from "../../lib/ui.js";
import { cost, duration, number, short } from "../../lib/format.js";
import { t } from "../../lib/i18n.js";
import { href } from "../../lib/router.js";
import { Status } from "../../parts/basics.js";
import { useWindow } from "../../parts/table.js";
import { runSeconds } from "../runs/list.js";

const KEPT_TEXT = 240;
const FIRST_PAUSE_MS = 500;
const LONGEST_PAUSE_MS = 8_000;

/** The text of an answer in any of the forms of a line. */
function textOf(body) {
  if (!body) return "";
  if (typeof body.output_text === "string") return body.output_text;
  const content = body.choices?.[0]?.message?.content;
  if (typeof content === "string") return content;
  const parts = (Array.isArray(body.output) ? body.output : []).flatMap((item) => item.content ?? []);
  return parts.map((part) => part.text ?? "").join("");
}

/** The little that a row shows of a line; the rest is on the page of its run. */
function compact(line) {
  const body = line.response?.body ?? null;
  const error = line.error ?? body?.error ?? null;
  const isFailed = Boolean(error) || (line.response?.status_code ?? 200) >= 400;
  const jobId = [line.request_id, body?.id, line.id?.replace(/^batch_req_/, "job_")].find((id) => /^job_[0-9A-Z]{26}$/.test(id ?? ""));
  return {
    id: line.id,
    customId: short(line.custom_id, 80),
    jobId,
    isFailed,
    status: body?.object === "job" ? body.status : isFailed ? "failed" : "succeeded",
    text: short(isFailed ? (error?.message ?? textOf(body)) : textOf(body), KEPT_TEXT),
    seconds: body?.object === "job" ? runSeconds(body) : null,
    tokens: body?.usage?.total_tokens ?? null,
    cost: body?.usage?.cost_micros ?? 0,
  };
}

/** Reads the stream once, behind `skip` lines. Returns whether it came to its end. */
async function readLines(batchId, skip, abort, onLines) {
  const path = `/v1/batches/${encodeURIComponent(batchId)}/results?follow=true&after=${skip}`;
  const response = await fetch(path, { signal: abort, headers: { Accept: "application/jsonl" } });
  if (!response.ok) return response.status < 500 && response.status !== 429;
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return true;
    const lines = (rest + value).split("\n");
    rest = lines.pop();
    onLines(lines.filter((line) => line.startsWith("{")));
  }
}

/** `{failed, others, isOpen}`; a lost connection goes on behind the last line. */
function useResults(batchId) {
  const [state, setState] = useState({ failed: [], others: [], isOpen: true });
  useEffect(() => {
    const control = new AbortController();
    let [failed, others, count, isScheduled, pauseMs, wake] = [[], [], 0, false, FIRST_PAUSE_MS, () => {}];
    const draw = (isOpen) => control.signal.aborted || setState({ failed: failed.slice(), others: others.slice(), isOpen });
    const take = (lines) => {
      for (const line of lines) {
        count += 1;
        const row = compact(JSON.parse(line));
        (row.isFailed ? failed : others).push(row);
      }
      pauseMs = FIRST_PAUSE_MS;
      if (isScheduled || lines.length === 0) return;
      isScheduled = true;
      setTimeout(() => {
        isScheduled = false;
        draw(true);
      }, 250);
    };
    const run = async () => {
      while (!control.signal.aborted) {
        const isDone = await readLines(batchId, count, control.signal, take).catch(() => false);
        if (isDone) return draw(false);
        await new Promise((resolve) => {
          wake = resolve;
          setTimeout(resolve, pauseMs);
        });
        pauseMs = Math.min(pauseMs * 2, LONGEST_PAUSE_MS);
      }
      return undefined;
    };
    run();
    return () => {
      control.abort();
      wake();
    };
  }, [batchId]);
  return state;
}

function Row({ row, at }) {
  return html`<tr data-row class="link" role="row" aria-rowindex=${at + 2}>
    <td class="cell-status" role="cell"><${Status} status=${row.status} /></td>
    <td class="cell-custom mono" role="cell">${row.jobId ? html`<a class="row-link" href=${href("runs", [row.jobId])}>${row.customId}</a>` : row.customId}</td>
    <td class="cell-text ${row.isFailed ? "runs-bad" : ""}" role="cell" dir="auto">${row.text || "–"}</td>
    <td class="cell-duration number" role="cell">${duration(row.seconds)}</td>
    <td class="cell-tokens number" role="cell">${row.tokens === null ? "–" : number(row.tokens)}</td>
    <td class="cell-cost number" role="cell">${cost(row.cost)}</td>
  </tr>`;
}

export function Results({ batch, isOver }) {
  const { failed, others, isOpen } = useResults(batch.id);
  const [onlyFailed, setOnlyFailed] = useState(false);
  const rows = useMemo(() => (onlyFailed ? failed : [...failed, ...others]), [failed, others, onlyFailed]);
  const { body, start, end, above, below } = useWindow(rows.length, 37);
  const spacer = (heightPx) => heightPx > 0 && html`<tr aria-hidden="true" class="spacer"><td colspan="6" style=${{ height: `${heightPx}px` }}></td></tr>`;
  const micros = [...failed, ...others].reduce((sum, row) => sum + row.cost, 0);
  const facts = [t("{n} results", { n: number(failed.length + others.length) }), t("{n} failed", { n: number(failed.length) }), micros > 0 && t("cost {cost}", { cost: cost(micros) })];
  return html`<section class="section">
    <div class="row spread">
      <h2>${t("Results")}</h2>
      <span class="row">
        <span class="dim">${facts.filter(Boolean).join(" · ")}</span>
        ${failed.length > 0 && html`<label class="choice"><input type="checkbox" checked=${onlyFailed} onChange=${(event) => setOnlyFailed(event.currentTarget.checked)} />${t("Failures only")}</label>`}
      </span>
    </div>
    ${rows.length === 0
      ? html`<p class="faint">${isOpen && !isOver ? t("Results stand here as soon as the first line has ended.") : isOpen ? t("Loading …") : t("There are no results.")}</p>`
      : html`<div class="paged batches-results"><table role="table" aria-label=${t("Results")} aria-rowcount=${rows.length + 1}>
          <thead role="rowgroup"><tr role="row">
            <th scope="col" role="columnheader" class="cell-status">${t("Status")}</th><th scope="col" role="columnheader" class="cell-custom">${t("Line")}</th>
            <th scope="col" role="columnheader" class="cell-text">${t("Answer or error")}</th><th scope="col" role="columnheader" class="cell-duration number">${t("Duration")}</th>
            <th scope="col" role="columnheader" class="cell-tokens number">${t("Tokens")}</th><th scope="col" role="columnheader" class="cell-cost number">${t("Cost")}</th>
          </tr></thead>
          <tbody ref=${body} role="rowgroup">
            ${spacer(above)}
            ${rows.slice(start, end).map((row, at) => html`<${Row} key=${row.id} row=${row} at=${start + at} />`)}
            ${spacer(below)}
          </tbody>
        </table></div>`}
  </section>`;
}
