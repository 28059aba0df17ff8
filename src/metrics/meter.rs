//! From a sample to the values that it changes. Owns which labels a sample gets; a model that the configuration does not
//! have is `other`.

use super::families::Families;
use super::family::OTHER;
use super::text::{Kind, Text, labels};
use crate::domain::event::FailureCode;
use crate::domain::job::JobStatus;
use crate::domain::usage::Usage;
use crate::ports::{CircuitState, Measurement, Meter};
use std::collections::BTreeSet;

/// A code or a route that there is none of.
const NONE: &str = "none";

/// What does not change while the server runs.
#[derive(Debug)]
pub struct Facts {
    /// Of this build.
    pub version: &'static str,
    /// When the server was started, unix milliseconds.
    pub started_at_ms: u64,
    /// Worker threads.
    pub workers: usize,
    /// The ids of the configured models.
    pub models: BTreeSet<String>,
}

/// Everything that was counted since the start.
#[derive(Debug)]
pub struct Metrics {
    pub(super) facts: Facts,
    families: Families,
}

impl Metrics {
    /// Nothing has happened yet. What is sure to be asked for stands at 0, so that a first event is a rise.
    pub fn new(facts: Facts) -> Self {
        let families = Families::new();
        families.accepted.of(&[]);
        for status in [JobStatus::Succeeded, JobStatus::Failed, JobStatus::Cancelled] {
            families.duration.of(&[status.as_str()]);
        }
        families.ended.of(&[JobStatus::Succeeded.as_str(), NONE]);
        families.queue_wait.of(&[]);
        families.workers_busy.of(&[]);
        for model in &facts.models {
            families.tokens.of(&[model, "prompt"]);
            families.tokens.of(&[model, "completion"]);
        }
        families.commit_seconds.of(&[]);
        families.commit_writes.of(&[]);
        families.store_failures.of(&[]);
        families.connections.of(&[]);
        families.streams.of(&[]);
        for outcome in ["delivered", "retried", "dead"] {
            families.webhooks.of(&[outcome]);
        }
        Self { facts, families }
    }

    /// The server's own facts, then what was counted.
    pub(super) fn tell(&self, text: &mut Text) {
        let (name, help) = ("nanoclaw_build_info", "The build; always 1.");
        text.head(name, Kind::Gauge, help);
        text.sample(name, &labels(&["version"], &[self.facts.version]), 1);
        text.single("nanoclaw_workers", Kind::Gauge, "Worker threads.", self.facts.workers);
        self.families.tell(text);
    }

    fn model<'a>(&self, model: &'a str) -> &'a str {
        if self.facts.models.contains(model) { model } else { OTHER }
    }

    fn count_end(&self, status: JobStatus, code: Option<FailureCode>, ran_us: Option<u64>) {
        self.families.ended.of(&[status.as_str(), code.map_or(NONE, FailureCode::as_str)]).add(1);
        if let Some(ran_us) = ran_us {
            self.families.duration.of(&[status.as_str()]).observe(ran_us);
        }
    }

    fn count_call(
        &self,
        model: &str,
        outcome: &'static str,
        (took_us, first_us): (Option<u64>, Option<u64>),
    ) {
        match outcome {
            "ok" | "stopped" => {}
            "busy" | "circuit_open" => self.families.provider_waits.of(&[model]).add(1),
            _ => self.families.provider_errors.of(&[model, outcome]).add(1),
        }
        if let Some(took_us) = took_us {
            self.families.model_calls.of(&[model, outcome]).observe(took_us);
        }
        if let Some(first_us) = first_us {
            self.families.first_token.of(&[model]).observe(first_us);
        }
    }

    fn count_tokens(&self, model: &str, usage: Usage) {
        self.families.tokens.of(&[model, "prompt"]).add(usage.prompt_tokens);
        self.families.tokens.of(&[model, "completion"]).add(usage.completion_tokens);
    }

    fn count_tool(&self, tool: &str, outcome: &'static str, took_us: Option<u64>) {
        match took_us {
            Some(took_us) => self.families.tool_calls.of(&[tool, outcome]).observe(took_us),
            None => self.families.tools_skipped.of(&[tool, outcome]).add(1),
        }
    }
}

impl Meter for Metrics {
    fn record(&self, sample: Measurement<'_>) {
        let families = &self.families;
        match sample {
            Measurement::Accepted(jobs) => families.accepted.of(&[]).add(jobs),
            Measurement::Claimed { waited_us } => families.queue_wait.of(&[]).observe(waited_us),
            Measurement::Ended { status, code, ran_us } => self.count_end(status, code, ran_us),
            Measurement::WorkerBusy => families.workers_busy.of(&[]).add(1),
            Measurement::WorkerFree => families.workers_busy.of(&[]).add(-1),
            Measurement::ModelCalled { model, outcome, took_us, first_us } => {
                self.count_call(model.map_or(OTHER, |model| self.model(model)), outcome, (took_us, first_us));
            }
            Measurement::Spent { model, usage } => self.count_tokens(self.model(model), usage),
            Measurement::Circuit { provider, state } => families.circuits.of(&[provider]).set(match state {
                CircuitState::Closed => 0,
                CircuitState::HalfOpen => 1,
                CircuitState::Open => 2,
            }),
            Measurement::ToolCalled { tool, outcome, took_us } => {
                self.count_tool(tool.unwrap_or(OTHER), outcome, took_us);
            }
            Measurement::SandboxRan { language, level, status, took_us } => {
                families.sandbox_runs.of(&[language, level, status]).add(1);
                families.sandbox_seconds.of(&[language, level]).observe(took_us);
            }
            Measurement::Committed { writes, took_us } => {
                families.commit_seconds.of(&[]).observe(took_us);
                families.commit_writes.of(&[]).observe(u64::try_from(writes).unwrap_or(u64::MAX));
            }
            Measurement::CommitFailed => families.store_failures.of(&[]).add(1),
            Measurement::ConnectionOpened => families.connections.of(&[]).add(1),
            Measurement::ConnectionClosed => families.connections.of(&[]).add(-1),
            Measurement::StreamOpened => families.streams.of(&[]).add(1),
            Measurement::StreamClosed => families.streams.of(&[]).add(-1),
            Measurement::Answered { method, route, status, took_us } => {
                let route = route.unwrap_or(NONE);
                let late = [OTHER, route, OTHER];
                families.requests.of_or(&[method, route, &status.to_string()], &late).add(1);
                families.request_seconds.of(&[route]).observe(took_us);
            }
            Measurement::WebhookTried(outcome) => families.webhooks.of(&[outcome]).add(1),
        }
    }
}
