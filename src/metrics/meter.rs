//! Maps measurements to metrics and their labels. A model that is not configured counts as `other`.

use super::families::Families;
use super::family::OTHER;
use crate::domain::event::FailureCode;
use crate::domain::job::JobStatus;
use crate::domain::usage::Usage;
use crate::ports::{CircuitState, Measurement, Meter};
use prometheus::{Error, IntGauge, IntGaugeVec, Opts, Registry};
use std::collections::BTreeSet;

/// Label value of a missing error code or route.
const NONE: &str = "none";

/// Outcomes of model calls that did not fail.
pub(super) const GOOD_OUTCOMES: [&str; 2] = ["ok", "stopped"];

/// Values that do not change while the server runs.
#[derive(Debug)]
pub struct ServerInfo {
    /// Version of this build.
    pub version: &'static str,
    /// Start time, unix milliseconds.
    pub started_at_ms: u64,
    /// Number of worker threads.
    pub workers: usize,
    /// Ids of the configured models.
    pub models: BTreeSet<String>,
}

/// Everything that was counted since the start.
#[derive(Debug)]
pub struct Metrics {
    pub(super) registry: Registry,
    pub(super) started_at_ms: u64,
    pub(super) workers: usize,
    models: BTreeSet<String>,
    pub(super) families: Families,
}

impl Metrics {
    /// Expected series start at 0, so that their first measurement is a rise.
    pub fn new(server: ServerInfo) -> Result<Self, Error> {
        let ServerInfo { version, started_at_ms, workers, models } = server;
        let registry = Registry::new();
        let build = IntGaugeVec::new(Opts::new("nanoclaw_build_info", "The build; always 1."), &["version"])?;
        build.get_metric_with_label_values(&[version])?.set(1);
        registry.register(Box::new(build))?;
        let threads = IntGauge::new("nanoclaw_workers", "Worker threads.")?;
        threads.set(i64::try_from(workers).unwrap_or(i64::MAX));
        registry.register(Box::new(threads))?;
        let families = Families::register(&registry)?;
        for status in [JobStatus::Succeeded, JobStatus::Failed, JobStatus::Cancelled] {
            families.duration.declare(&[status.as_str()]);
        }
        families.ended.declare(&[JobStatus::Succeeded.as_str(), NONE]);
        for model in &models {
            families.tokens.declare(&[model, "prompt"]);
            families.tokens.declare(&[model, "completion"]);
        }
        for outcome in ["delivered", "retried", "dead"] {
            families.webhooks.declare(&[outcome]);
        }
        Ok(Self { registry, started_at_ms, workers, models, families })
    }

    fn model<'a>(&self, model: &'a str) -> &'a str {
        if self.models.contains(model) { model } else { OTHER }
    }

    fn count_end(&self, status: JobStatus, code: Option<FailureCode>, ran_us: Option<u64>) {
        self.families.ended.add(&[status.as_str(), code.map_or(NONE, FailureCode::as_str)], 1);
        if let Some(ran_us) = ran_us {
            self.families.duration.observe_us(&[status.as_str()], ran_us);
        }
    }

    fn count_call(
        &self,
        model: &str,
        outcome: &'static str,
        (took_us, first_us): (Option<u64>, Option<u64>),
    ) {
        match outcome {
            outcome if GOOD_OUTCOMES.contains(&outcome) => {}
            "busy" | "circuit_open" => self.families.provider_waits.add(&[model], 1),
            _ => self.families.provider_errors.add(&[model, outcome], 1),
        }
        if let Some(took_us) = took_us {
            self.families.model_calls.observe_us(&[model, outcome], took_us);
        }
        if let Some(first_us) = first_us {
            self.families.first_token.observe_us(&[model], first_us);
        }
    }

    fn count_tokens(&self, model: &str, usage: Usage) {
        self.families.tokens.add(&[model, "prompt"], usage.prompt_tokens);
        self.families.tokens.add(&[model, "completion"], usage.completion_tokens);
    }

    fn count_tool(&self, tool: &str, outcome: &'static str, took_us: Option<u64>) {
        match took_us {
            Some(took_us) => self.families.tool_calls.observe_us(&[tool, outcome], took_us),
            None => self.families.tools_skipped.add(&[tool, outcome], 1),
        }
    }
}

impl Meter for Metrics {
    fn record(&self, measurement: Measurement<'_>) {
        let families = &self.families;
        match measurement {
            Measurement::Accepted(jobs) => families.accepted.add(&[], jobs),
            Measurement::Claimed { waited_us } => families.queue_wait.observe_us(&[], waited_us),
            Measurement::Ended { status, code, ran_us } => self.count_end(status, code, ran_us),
            Measurement::WorkerBusy => families.workers_busy.change(1),
            Measurement::WorkerFree => families.workers_busy.change(-1),
            Measurement::ModelCalled { model, outcome, took_us, first_us } => {
                self.count_call(model.map_or(OTHER, |model| self.model(model)), outcome, (took_us, first_us));
            }
            Measurement::Spent { model, usage } => self.count_tokens(self.model(model), usage),
            Measurement::Circuit { provider, state } => families.circuits.set(
                &[provider],
                match state {
                    CircuitState::Closed => 0,
                    CircuitState::HalfOpen => 1,
                    CircuitState::Open => 2,
                },
            ),
            Measurement::ToolCalled { tool, outcome, took_us } => {
                self.count_tool(tool.unwrap_or(OTHER), outcome, took_us);
            }
            Measurement::McpServer { server, is_up } => families.mcp_up.set(&[server], i64::from(is_up)),
            Measurement::McpRestarted { server } => families.mcp_restarts.add(&[server], 1),
            Measurement::SandboxRan { language, level, status, took_us } => {
                families.sandbox_runs.add(&[language, level, status], 1);
                families.sandbox_seconds.observe_us(&[language, level], took_us);
            }
            Measurement::Committed { writes, took_us } => {
                families.commit_seconds.observe_us(&[], took_us);
                let writes = u32::try_from(writes).unwrap_or(u32::MAX);
                families.commit_writes.observe(&[], f64::from(writes));
            }
            Measurement::CommitFailed => families.store_failures.add(&[], 1),
            Measurement::ConnectionOpened => families.connections.change(1),
            Measurement::ConnectionClosed => families.connections.change(-1),
            Measurement::StreamOpened => families.streams.change(1),
            Measurement::StreamClosed => families.streams.change(-1),
            Measurement::Answered { method, route, status, took_us } => {
                let route = route.unwrap_or(NONE);
                let (status, overflow) = (status.to_string(), [OTHER, route, OTHER]);
                if let Some(requests) = families.requests.series(&[method, route, &status], Some(&overflow)) {
                    requests.inc();
                }
                families.request_seconds.observe_us(&[route], took_us);
            }
            Measurement::LeaseLost => families.node_events.add(&["lease_lost"], 1),
            Measurement::NodeTakenOver { jobs } => {
                families.node_events.add(&["take_over"], 1);
                families.node_events.add(&["job_taken_over"], jobs);
            }
            Measurement::DatabaseAnswered { operation, took_us } => {
                families.database_seconds.observe_us(&[operation], took_us);
            }
            Measurement::WebhookTried(outcome) => families.webhooks.add(&[outcome], 1),
            Measurement::SpanExportTried(outcome) => families.span_requests.add(&[outcome], 1),
            Measurement::SpansExported { outcome, spans } => families.spans.add(&[outcome], spans),
            Measurement::SpanJobLost(reason) => families.span_jobs_lost.add(&[reason], 1),
            Measurement::SpanExportsWaiting(jobs) => {
                families.span_jobs_waiting.set(&[], i64::try_from(jobs).unwrap_or(i64::MAX));
            }
        }
    }
}
