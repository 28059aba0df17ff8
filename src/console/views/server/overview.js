// The state of the server at a glance: checks, load, latency, sandbox, MCP servers.

import { html } from "../../lib/ui.js";
import { bytes, duration, number, plain } from "../../lib/format.js";
import { t } from "../../lib/i18n.js";
import { href } from "../../lib/router.js";
import { Moment } from "../../parts/basics.js";

/** The words for states of models, MCP servers and sandbox levels. */
export function stateWord(state) {
  const words = {
    ok: t("works"),
    ready: t("ready"),
    starting: t("starting"),
    testing: t("being tested"),
    paused: t("pauses"),
    failing: t("fails"),
    failed: t("failed"),
  };
  return words[state] ?? plain(state ?? t("unknown"));
}

export function State({ state }) {
  return html`<span class="status ${state ?? ""}"><span class="dot" aria-hidden="true"></span>${stateWord(state)}</span>`;
}

/** Names of checks in words; others are shown as the server calls them. */
function checkName(name) {
  const words = {
    store: t("Store"),
    disk: t("Disk"),
    workers: t("Workers"),
    python: "Python",
    javascript: "JavaScript",
    sandbox_strict: t("Sandbox: {level}", { level: "strict" }),
    sandbox_standard: t("Sandbox: {level}", { level: "standard" }),
    sandbox_lenient: t("Sandbox: {level}", { level: "lenient" }),
    sandbox_shell: t("Sandbox: {level}", { level: "shell" }),
  };
  return words[name] ?? plain(name);
}

function Checks({ checks }) {
  // What fails stands first.
  const ordered = [...checks].sort((a, b) => Number(a.ok) - Number(b.ok));
  const bad = checks.filter(({ ok }) => !ok).length;
  return html`<section class="server-section" aria-label=${t("Checks")}>
    <h2>${t("Checks")}</h2>
    <p class=${bad > 0 ? "notice" : "dim"} role="status">
      ${bad > 0 ? t("{n} of {total} checks fail.", { n: number(bad), total: number(checks.length) }) : t("All {n} checks pass.", { n: number(checks.length) })}
    </p>
    <ul class="server-checks">
      ${ordered.map(
        ({ name, ok, reason, hint }) => html`<li key=${name}>
          <span class="status ${ok ? "ok" : "failed"}"><span class="dot" aria-hidden="true"></span>${checkName(name)}</span>
          <span>${!ok && html`<strong>${t("failed")}</strong> `}${reason ? plain(reason) : ok && html`<span class="faint">${t("works")}</span>`}</span>
          ${hint && html`<span class="server-hint">${t("What helps: {hint}", { hint: plain(hint) })}</span>`}
        </li>`,
      )}
    </ul>
  </section>`;
}

const millis = (pair, part) => (pair ? duration(pair[part] / 1000) : "–");

/** Half of all are faster than the figure; 99 of 100 faster than the second. */
const latency = (name, pair) => [name, millis(pair, "p50"), pair && t("99 %: {time}", { time: millis(pair, "p99") })];

function Figures({ status }) {
  const { workers, jobs, store } = status;
  const known = (value, write = number) => (value === undefined || value === null ? "–" : write(value));
  const cards = [
    workers && [t("Workers busy"), `${known(workers.busy)} / ${known(workers.total)}`],
    jobs && [t("Runs queued"), known(jobs.queued), jobs.delayed > 0 && t("{n} more wait for their time", { n: number(jobs.delayed) })],
    jobs && [t("Runs running"), known(jobs.running), jobs.waiting > 0 && t("{n} wait for approval", { n: number(jobs.waiting) })],
    status.streams !== undefined && [t("Open streams"), known(status.streams)],
    status.first_token_ms !== undefined && latency(t("First token"), status.first_token_ms),
    status.job_ms !== undefined && latency(t("Length of a run"), status.job_ms),
    store && latency(t("Commit to the disk"), store.commit_ms),
    store && [t("Size of the store"), known(store.bytes, bytes)],
    status.memory_bytes !== undefined && [t("Memory"), known(status.memory_bytes, bytes)],
  ].filter(Boolean);
  if (cards.length === 0) return null;
  return html`<section class="server-section" aria-label=${t("Load")}>
    <div class="row spread">
      <h2>${t("Load")}</h2>
      <a href=${href("runs", [], { status: "queued" })}>${t("Queued runs")}</a>
    </div>
    <div class="cards server-cards">
      ${cards.map(
        ([name, figure, more]) => html`<div class="card" key=${name}>
          <div class="name">${name}</div>
          <div class="figure">${figure}</div>
          ${more && html`<div class="name"><small>${more}</small></div>`}
        </div>`,
      )}
    </div>
  </section>`;
}

function Sandbox({ levels }) {
  return html`<section class="server-section" aria-label=${t("Sandbox")}>
    <h2>${t("Sandbox")}</h2>
    <p class="dim">${t("Programs of models run in one of these levels. A level that fails its own test is not used.")}</p>
    <ul class="server-checks">
      ${levels.map(
        ({ level, state, reason }) => html`<li key=${level}>
          <span class="mono">${plain(level)}</span>
          <span><${State} state=${state} /> ${reason && html`<span class="dim">${plain(reason)}</span>`}</span>
        </li>`,
      )}
    </ul>
  </section>`;
}

function Mcp({ servers }) {
  return html`<section class="server-section" aria-label=${t("MCP servers")}>
    <h2>${t("MCP servers")}</h2>
    ${servers.length === 0
      ? html`<p class="dim">${t("None is configured. Add one with:")} <code>nanoclaw mcp add</code></p>`
      : html`<ul class="server-checks">
          ${servers.map(
            ({ name, state, reason, tools }) => html`<li key=${name}>
              <span class="mono">${plain(name)}</span>
              <span>
                <${State} state=${state} />
                ${state === "ready" && html` <span class="dim">${t("{n} tools", { n: number(tools) })}</span>`}
                ${reason && html` <span class="dim">${plain(reason)}</span>`}
              </span>
            </li>`,
          )}
        </ul>`}
  </section>`;
}

export function Overview({ status }) {
  return html`<div class="server-part">
    <p class="dim">
      ${status.version && t("Version {version}", { version: plain(status.version) })}
      ${status.started_at && html` · ${t("started")} <${Moment} at=${status.started_at} />`}
    </p>
    ${(status.degraded ?? []).map(({ part, reason }) => html`<p class="notice" key=${part}>${plain(part)}: ${plain(reason)}</p>`)}
    <${Figures} status=${status} />
    <div class="server-pair">
      ${status.checks && html`<${Checks} checks=${status.checks} />`}
      <div class="server-part">
        ${status.sandbox?.length > 0 && html`<${Sandbox} levels=${status.sandbox} />`}
        ${status.mcp && html`<${Mcp} servers=${status.mcp} />`}
      </div>
    </div>
  </div>`;
}
