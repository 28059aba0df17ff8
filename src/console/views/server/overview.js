// The state of the server at a glance: checks, load, latency, sandbox, MCP servers.

import { html } from "../../lib/ui.js";
import { bytes, duration, number, plain } from "../../lib/format.js";
import { t } from "../../lib/i18n.js";
import { href } from "../../lib/router.js";
import { Moment } from "../../parts/basics.js";
import { Nodes } from "./nodes.js";

/** States of models, MCP servers and sandbox levels: the kind of their sign, and the word for it. */
const KINDS = {
  ok: ["ok", () => t("works")],
  running: ["ok", () => t("works")],
  starting: ["testing", () => t("starting")],
  testing: ["testing", () => t("being tested")],
  cooling_down: ["warn", () => t("pauses")],
  failing: ["failed", () => t("fails")],
  unreachable: ["failed", () => t("cannot be reached")],
  down: ["failed", () => t("does not run")],
  failed: ["failed", () => t("failed")],
  unknown: ["", () => t("not used yet")],
};

export function State({ state }) {
  const [kind, word] = KINDS[state] ?? ["", () => plain(state)];
  return html`<span class="status ${kind}"><span class="dot" aria-hidden="true"></span>${word()}</span>`;
}

/** Names of checks in words; others are shown as the server calls them. */
function checkName(name) {
  const words = {
    store: t("Store"),
    disk: t("Disk"),
    workers: t("Workers"),
    node: t("Node"),
    files: t("Files"),
    python: "Python",
    mcp: t("MCP servers"),
    sandbox_strict: t("Sandbox: {level}", { level: "strict" }),
    sandbox_standard: t("Sandbox: {level}", { level: "standard" }),
    sandbox_lenient: t("Sandbox: {level}", { level: "lenient" }),
    sandbox_shell: t("Sandbox: {level}", { level: "shell" }),
  };
  return words[name] ?? plain(name);
}

function Checks({ checks }) {
  // What fails stands first, then what works with limits.
  const rank = ({ ok, reason }) => (ok ? 1 : 0) + (reason ? 0 : 1);
  const ordered = [...checks].sort((a, b) => rank(a) - rank(b));
  const bad = checks.filter(({ ok }) => !ok).length;
  return html`<section class="server-section" aria-label=${t("Checks")}>
    <h2>${t("Checks")}</h2>
    <p class=${bad > 0 ? "notice" : "dim"} role="status">
      ${bad > 0 ? t("{n} of {total} checks fail.", { n: number(bad), total: number(checks.length) }) : t("All {n} checks pass.", { n: number(checks.length) })}
    </p>
    <ul class="server-checks">
      ${ordered.map(
        ({ name, ok, reason, hint }) => html`<li key=${name}>
          <span class="status ${ok ? (reason ? "warn" : "ok") : "failed"}"><span class="dot" aria-hidden="true"></span>${checkName(name)}</span>
          <span>${!ok && html`<strong>${t("failed")}</strong> `}${reason ? plain(reason) : ok && html`<span class="faint">${t("works")}</span>`}</span>
          ${hint && html`<span class="server-hint">${t("What helps: {hint}", { hint: plain(hint) })}</span>`}
        </li>`,
      )}
    </ul>
  </section>`;
}

function millis(pair, part) {
  if (!pair) return "–";
  return pair[part] < 10 ? `${number(pair[part], 1)} ms` : duration(pair[part] / 1000);
}

/** Half of all are faster than the figure; 99 of 100 faster than the second. */
const latency = (name, pair) => [name, millis(pair, "p50"), pair && t("99 %: {time}", { time: millis(pair, "p99") })];

function Figures({ status }) {
  const { workers, jobs, store } = status;
  const known = (value, write = number) => (value === undefined || value === null ? "–" : write(value));
  // Users see the workers and their own runs.
  const figures = status.checks !== null && [
    [t("Open streams"), known(status.streams)],
    latency(t("First token"), status.first_token_ms),
    latency(t("Length of a run"), status.job_ms),
    latency(t("Commit to the disk"), store?.commit_ms),
    [t("Size of the store"), known(store?.bytes, bytes)],
    [t("Memory"), known(status.memory_bytes, bytes)],
  ];
  const cards = [
    [t("Workers busy"), `${number(workers.busy)} / ${number(workers.total)}`],
    [t("Runs queued"), known(jobs?.queued), jobs?.delayed > 0 && t("for later: {n}", { n: number(jobs.delayed) })],
    [t("Runs running"), known(jobs?.running), jobs?.waiting > 0 && t("{n} wait for approval", { n: number(jobs.waiting) })],
    ...(figures || []),
  ];
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
                ${state === "running" && html` <span class="dim">${t("{n} tools", { n: number(tools) })}</span>`}
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
      ${t("Version {version}", { version: plain(status.version) })}
      ${status.started_at && html` · ${t("started")} <${Moment} at=${status.started_at} />`}
    </p>
    <${Figures} status=${status} />
    ${
      // Only a server that shares a database has this check.
      status.checks?.some(({ name }) => name === "node") && html`<${Nodes} />`
    }
    <div class="server-pair">
      ${status.checks && html`<${Checks} checks=${status.checks} />`}
      <div class="server-part">
        <${Sandbox} levels=${status.sandbox} />
        ${status.mcp && html`<${Mcp} servers=${status.mcp} />`}
      </div>
    </div>
  </div>`;
}
