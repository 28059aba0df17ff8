//! Every family that is counted while things happen: name, labels, meaning. Owns the list, which is also the order in
//! which they are told.

use super::buckets;
use super::family::{About, Family};
use super::text::Text;
use super::value::{Counter, Gauge, Histogram};

/// A line for each family: field, kind, name, labels, meaning.
macro_rules! families {
    ($($field:ident: $kind:ty = $make:expr, $name:literal $labels:tt $help:literal;)*) => {
        /// All of them.
        #[derive(Debug)]
        pub(super) struct Families {
            $(pub(super) $field: Family<$kind>,)*
        }

        impl Families {
            /// Each without a value.
            pub(super) fn new() -> Self {
                Self {
                    $($field: Family::new(About { name: $name, help: $help, labels: &$labels }, $make),)*
                }
            }

            /// All, one after the other.
            pub(super) fn tell(&self, text: &mut Text) {
                $(self.$field.tell(text);)*
            }
        }
    };
}

families! {
    accepted: Counter = Counter::default, "nanoclaw_jobs_accepted_total" []
        "Jobs that were accepted, retried ones and lines of batches that became jobs included.";
    ended: Counter = Counter::default, "nanoclaw_jobs_ended_total" ["outcome", "code"]
        "Jobs that have ended; code is the code of the error, or none.";
    duration: Histogram = || Histogram::new(buckets::JOB), "nanoclaw_job_duration_seconds" ["outcome"]
        "Time from a job's first claim (of a retried one, from the retry) to its end, waiting for attempts or an approval included.";
    queue_wait: Histogram = || Histogram::new(buckets::JOB), "nanoclaw_job_queue_wait_seconds" []
        "Time that jobs were ready before a worker took them, for each run.";
    workers_busy: Gauge = Gauge::default, "nanoclaw_workers_busy" []
        "Workers that have a job.";

    model_calls: Histogram = || Histogram::new(buckets::MODEL), "nanoclaw_model_call_duration_seconds" ["model", "outcome"]
        "Calls to models from their turn at the provider to their end.";
    first_token: Histogram = || Histogram::new(buckets::MODEL), "nanoclaw_first_token_seconds" ["model"]
        "Time from a call's turn at the provider to the first piece of its answer.";
    provider_errors: Counter = Counter::default, "nanoclaw_provider_errors_total" ["model", "code"]
        "Calls to models that failed.";
    provider_waits: Counter = Counter::default, "nanoclaw_provider_waits_total" ["model"]
        "Calls to models that were put off: the provider had as many as it may have, or is not asked while it keeps failing.";
    circuits: Gauge = Gauge::default, "nanoclaw_provider_circuit_state" ["provider"]
        "Circuit breakers: 0 closed, 1 half-open, 2 open.";
    tokens: Counter = Counter::default, "nanoclaw_tokens_total" ["model", "kind"]
        "Tokens as providers reported them, estimated where they did not.";

    tool_calls: Histogram = || Histogram::new(buckets::RUN), "nanoclaw_tool_call_duration_seconds" ["tool", "outcome"]
        "Calls of tools that ran.";
    tools_skipped: Counter = Counter::default, "nanoclaw_tool_calls_skipped_total" ["tool", "reason"]
        "Calls of tools that did not run.";
    sandbox_runs: Counter = Counter::default, "nanoclaw_sandbox_runs_total" ["language", "level", "status"]
        "Programs that ran in the sandbox, or were refused by it.";
    sandbox_seconds: Histogram = || Histogram::new(buckets::RUN), "nanoclaw_sandbox_run_seconds" ["language", "level"]
        "Wall clock of programs in the sandbox.";

    commit_seconds: Histogram = || Histogram::new(buckets::COMMIT), "nanoclaw_store_commit_seconds" []
        "What the disk took to make a commit safe.";
    commit_writes: Histogram = || Histogram::new(buckets::GROUP), "nanoclaw_store_commit_writes" []
        "Writes that shared a commit.";
    store_failures: Counter = Counter::default, "nanoclaw_store_failures_total" []
        "Commits that failed because of the disk.";

    connections: Gauge = Gauge::default, "nanoclaw_http_connections" []
        "Open connections of clients.";
    streams: Gauge = Gauge::default, "nanoclaw_sse_connections" []
        "Open event streams.";
    requests: Counter = Counter::default, "nanoclaw_http_requests_total" ["method", "route", "status"]
        "Requests by the pattern of their route; none: they led nowhere or were refused at the door.";
    request_seconds: Histogram = || Histogram::new(buckets::REQUEST), "nanoclaw_http_request_duration_seconds" ["route"]
        "Time until the head of the answer was there.";
    webhooks: Counter = Counter::default, "nanoclaw_webhook_deliveries_total" ["outcome"]
        "Tries to deliver a webhook.";
}
