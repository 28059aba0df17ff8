//! All families of counted metrics: name, labels, help text and buckets.

use super::family::Family;
use prometheus::core::Collector;
use prometheus::{Error, HistogramOpts, HistogramVec, IntCounterVec, IntGaugeVec, Opts, Registry};

/// Upper bounds of buckets, seconds.
const COMMIT_S: &[f64] = &[0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0];
const REQUEST_S: &[f64] = &[0.001, 0.0025, 0.005, 0.01, 0.025, 0.1, 0.25, 1.0, 2.5, 10.0, 60.0];
const RUN_S: &[f64] = &[0.001, 0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 120.0];
const MODEL_S: &[f64] = &[0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0];
const JOB_S: &[f64] = &[0.01, 0.1, 0.5, 1.0, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0, 3_600.0, 14_400.0];
/// Writes in a commit.
const GROUP_SIZES: &[f64] = &[1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1_024.0];

fn histograms(buckets: &[f64]) -> impl Fn(Opts, &[&str]) -> Result<HistogramVec, Error> {
    move |opts, labels| HistogramVec::new(HistogramOpts::from(opts).buckets(buckets.to_vec()), labels)
}

/// Makes the new family part of the registry.
fn registered<C: Collector + Clone + 'static>(
    registry: &Registry,
    family: Result<C, Error>,
) -> Result<C, Error> {
    let family = family?;
    registry.register(Box::new(family.clone()))?;
    Ok(family)
}

/// A line for each family: field, type, name, labels, help.
macro_rules! families {
    ($($field:ident: $kind:ty = $new:expr, $name:literal $labels:tt $help:literal;)*) => {
        #[derive(Debug)]
        pub(super) struct Families {
            $(pub(super) $field: Family<$kind>,)*
        }

        impl Families {
            pub(super) fn register(registry: &Registry) -> Result<Self, Error> {
                Ok(Self {
                    $($field: {
                        let labels: &[&str] = &$labels;
                        let family = registered(registry, $new(Opts::new($name, $help), labels))?;
                        Family::new(family, labels.len())
                    },)*
                })
            }
        }
    };
}

families! {
    accepted: IntCounterVec = IntCounterVec::new, "nanoclaw_jobs_accepted_total" []
        "Jobs that were accepted, retried ones and lines of batches that became jobs included.";
    ended: IntCounterVec = IntCounterVec::new, "nanoclaw_jobs_ended_total" ["outcome", "code"]
        "Jobs that have ended; code is the code of the error, or none.";
    duration: HistogramVec = histograms(JOB_S), "nanoclaw_job_duration_seconds" ["outcome"]
        "Time from a job's first claim (of a retried one, from the retry) to its end, waiting for attempts or an approval included.";
    queue_wait: HistogramVec = histograms(JOB_S), "nanoclaw_job_queue_wait_seconds" []
        "Time that jobs were ready before a worker took them, for each run.";
    workers_busy: IntGaugeVec = IntGaugeVec::new, "nanoclaw_workers_busy" []
        "Workers that have a job.";

    model_calls: HistogramVec = histograms(MODEL_S), "nanoclaw_model_call_duration_seconds" ["model", "outcome"]
        "Calls to models from their turn at the provider to their end.";
    first_token: HistogramVec = histograms(MODEL_S), "nanoclaw_first_token_seconds" ["model"]
        "Time from a call's turn at the provider to the first piece of its answer.";
    provider_errors: IntCounterVec = IntCounterVec::new, "nanoclaw_provider_errors_total" ["model", "code"]
        "Calls to models that failed.";
    provider_waits: IntCounterVec = IntCounterVec::new, "nanoclaw_provider_waits_total" ["model"]
        "Calls to models that were put off: the provider had as many as it may have, or is not asked while it keeps failing.";
    circuits: IntGaugeVec = IntGaugeVec::new, "nanoclaw_provider_circuit_state" ["provider"]
        "Circuit breakers: 0 closed, 1 half-open, 2 open.";
    tokens: IntCounterVec = IntCounterVec::new, "nanoclaw_tokens_total" ["model", "kind"]
        "Tokens as providers reported them, estimated where they did not.";

    tool_calls: HistogramVec = histograms(RUN_S), "nanoclaw_tool_call_duration_seconds" ["tool", "outcome"]
        "Calls of tools that ran.";
    tools_skipped: IntCounterVec = IntCounterVec::new, "nanoclaw_tool_calls_skipped_total" ["tool", "reason"]
        "Calls of tools that did not run.";
    mcp_up: IntGaugeVec = IntGaugeVec::new, "nanoclaw_mcp_server_up" ["server"]
        "MCP servers: 1 running, 0 not.";
    mcp_restarts: IntCounterVec = IntCounterVec::new, "nanoclaw_mcp_server_restarts_total" ["server"]
        "Starts of MCP servers after their first one.";
    sandbox_runs: IntCounterVec = IntCounterVec::new, "nanoclaw_sandbox_runs_total" ["language", "level", "status"]
        "Programs that ran in the sandbox, or were refused by it.";
    sandbox_seconds: HistogramVec = histograms(RUN_S), "nanoclaw_sandbox_run_seconds" ["language", "level"]
        "Wall clock of programs in the sandbox.";

    commit_seconds: HistogramVec = histograms(COMMIT_S), "nanoclaw_store_commit_seconds" []
        "What the disk took to make a commit safe.";
    commit_writes: HistogramVec = histograms(GROUP_SIZES), "nanoclaw_store_commit_writes" []
        "Writes that shared a commit.";
    store_failures: IntCounterVec = IntCounterVec::new, "nanoclaw_store_failures_total" []
        "Commits that failed because of the disk.";

    node_events: IntCounterVec = IntCounterVec::new, "nanoclaw_node_events_total" ["event"]
        "Leases that this node has lost (lease_lost), nodes that it has taken over (take_over), and their jobs (job_taken_over).";
    database_seconds: HistogramVec = histograms(COMMIT_S), "nanoclaw_database_seconds" ["operation"]
        "Round trips of heartbeats (heartbeat), and times from a commit on another node until this one hears of it (notification).";

    connections: IntGaugeVec = IntGaugeVec::new, "nanoclaw_http_connections" []
        "Open connections of clients.";
    streams: IntGaugeVec = IntGaugeVec::new, "nanoclaw_sse_connections" []
        "Open event streams.";
    requests: IntCounterVec = IntCounterVec::new, "nanoclaw_http_requests_total" ["method", "route", "status"]
        "Requests by the pattern of their route; none: they led nowhere or were refused at the door.";
    request_seconds: HistogramVec = histograms(REQUEST_S), "nanoclaw_http_request_duration_seconds" ["route"]
        "Time until the head of the answer was there.";
    webhooks: IntCounterVec = IntCounterVec::new, "nanoclaw_webhook_deliveries_total" ["outcome"]
        "Tries to deliver a webhook.";

    span_requests: IntCounterVec = IntCounterVec::new, "nanoclaw_otlp_requests_total" ["outcome"]
        "Requests to the collector of OpenTelemetry: taken, failed (and repeated) or refused.";
    spans: IntCounterVec = IntCounterVec::new, "nanoclaw_otlp_spans_total" ["outcome"]
        "Spans that the collector has taken (exported), or rejected, or that were dropped with a refused request.";
    span_jobs_lost: IntCounterVec = IntCounterVec::new, "nanoclaw_otlp_jobs_lost_total" ["reason"]
        "Ended jobs whose spans were not exported, or not all: removed before, or retention has shortened the log, or it cannot be read.";
    span_jobs_waiting: IntGaugeVec = IntGaugeVec::new, "nanoclaw_otlp_jobs_waiting" []
        "Ended jobs that wait for the export of their spans, counted up to 10,000; of all nodes.";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bucket_bounds_rise() {
        for buckets in [COMMIT_S, GROUP_SIZES, REQUEST_S, RUN_S, MODEL_S, JOB_S] {
            assert!(buckets.is_sorted_by(|lower, upper| lower < upper), "{buckets:?}");
        }
    }
}
