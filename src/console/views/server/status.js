// What the server says of itself: /readyz, /api/models, and /metrics for administrators.

import { useData } from "../../lib/ui.js";
import * as api from "../../lib/api.js";

const EVERY_MS = 5_000;

/** Samples of Prometheus' text format: `[{name, labels, value}]`. */
export function readMetrics(text) {
  const samples = [];
  for (const line of text.split("\n")) {
    const found = /^([a-z_]+)(?:\{(.*)\})? (\S+)$/.exec(line);
    if (!found) continue;
    const labels = Object.fromEntries([...(found[2] ?? "").matchAll(/(\w+)="((?:[^"\\]|\\.)*)"/g)].map(([, key, value]) => [key, value]));
    samples.push({ name: found[1], labels, value: Number(found[3]) });
  }
  return samples;
}

/** A share of a histogram in milliseconds: the upper end of its bucket. Null while nothing was counted. */
function share(samples, name, part) {
  const buckets = new Map();
  for (const sample of samples) {
    if (sample.name !== `${name}_bucket`) continue;
    const end = sample.labels.le === "+Inf" ? Infinity : Number(sample.labels.le);
    buckets.set(end, (buckets.get(end) ?? 0) + sample.value);
  }
  const ends = [...buckets].sort(([a], [b]) => a - b);
  const total = ends.at(-1)?.[1] ?? 0;
  if (total === 0) return null;
  const end = ends.find(([, count]) => count >= total * part)[0];
  return Number.isFinite(end) ? end * 1000 : ends.at(-2)[0] * 1000;
}

const shares = (samples, name) => {
  const p50 = share(samples, name, 0.5);
  return p50 === null ? null : { p50, p99: share(samples, name, 0.99) };
};

/** A status out of /metrics. */
function ofMetrics(text) {
  const samples = readMetrics(text);
  const one = (name) => samples.find((sample) => sample.name === name)?.value;
  return {
    version: samples.find(({ name }) => name === "nanoclaw_build_info")?.labels.version,
    started_at: one("process_start_time_seconds"),
    workers: { busy: one("nanoclaw_workers_busy"), total: one("nanoclaw_workers") },
    jobs: {
      queued: one("nanoclaw_jobs_ready"),
      delayed: one("nanoclaw_jobs_delayed"),
      waiting: one("nanoclaw_jobs_waiting"),
      running: one("nanoclaw_jobs_running"),
    },
    streams: one("nanoclaw_sse_connections"),
    memory_bytes: one("process_resident_memory_bytes"),
    store: { bytes: one("nanoclaw_store_file_bytes"), commit_ms: shares(samples, "nanoclaw_store_commit_seconds") },
    first_token_ms: shares(samples, "nanoclaw_first_token_seconds"),
    job_ms: shares(samples, "nanoclaw_job_duration_seconds"),
  };
}

/** What a part says, or nothing if the server has it not or not for us. */
async function optional(promise) {
  try {
    return await promise;
  } catch (error) {
    if (error.name === "AbortError" || error.status === 0 || error.status === 401) throw error;
    return null;
  }
}

/** /readyz answers 503 with the same body. */
async function readiness(abort) {
  const response = await fetch("/readyz", { headers: { Accept: "application/json" }, signal: abort });
  const body = await response.json();
  return body.checks ? body : null;
}

async function load(abort) {
  const [ready, models, text] = await Promise.all([
    optional(readiness(abort)),
    optional(api.data(api.get("/api/models", abort))),
    optional(api.text("/metrics", abort)),
  ]);
  const levels = (ready?.checks ?? []).filter(({ name }) => name.startsWith("sandbox_"));
  return {
    ...(text ? ofMetrics(text) : {}),
    models: (models ?? []).map((model) => ({ ...model, state: null })),
    mcp: null,
    sandbox: levels.map(({ name, ok, reason }) => ({ level: name.slice(8), state: ok ? "ok" : "failed", reason })),
    checks: ready?.checks ?? null,
    degraded: ready?.degraded ?? [],
  };
}

/** The status, asked again while the page is visible. */
export const useStatus = () => useData(load, [], EVERY_MS);
