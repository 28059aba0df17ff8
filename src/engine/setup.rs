//! What an engine is built from. Owns the list of ports that it needs and its own bounds; refuses to choose either.

use super::backoff::Backoff;
use crate::domain::event::Record;
use crate::domain::usage::UsageByModel;
use crate::ports::{Clock, Entropy, Measurement, Meter, Model, ProjectDirectories, Store, Toolbox};
use std::sync::Arc;

/// Everything that running a job needs from outside.
#[derive(Clone)]
pub struct Ports {
    /// The log.
    pub store: Arc<dyn Store>,
    /// The models.
    pub model: Arc<dyn Model>,
    /// The tools.
    pub tools: Arc<dyn Toolbox>,
    /// The directories of projects.
    pub workplaces: Arc<dyn ProjectDirectories>,
    /// Time.
    pub clock: Arc<dyn Clock>,
    /// Jitter.
    pub entropy: Arc<dyn Entropy>,
    /// Who counts what happens.
    pub meter: Arc<dyn Meter>,
}

impl Ports {
    /// Tells what was spent, once that stands in the log.
    pub(super) fn tell_spent(&self, spent: &UsageByModel) {
        for (model, usage) in spent.entries() {
            self.meter.record(Measurement::Spent { model, usage });
        }
    }
}

/// What these records say was spent; of those that name no model, on `asked`.
pub(super) fn spent_in(records: &[Record], asked: &str) -> UsageByModel {
    let mut spent = UsageByModel::default();
    for record in records {
        spent.enter(record, asked);
    }
    spent
}

/// The engine's own bounds.
#[derive(Debug, Clone)]
pub struct DriveLimits {
    /// Failed calls to a model in a row before the job fails, or another model is asked.
    pub model_failures: u32,
    /// Failures of one and the same tool call before the run is closed.
    pub repeated_failures: u32,
    /// Who makes titles; the first words of the first message are one when nobody does.
    pub title_model: Option<String>,
    /// Messages of earlier jobs that a conversation hands to the next one.
    pub history_messages: usize,
    /// How long calls wait for somebody's approval before they count as denied.
    pub approval_timeout_ms: u64,
    /// What a failed job waits for its next attempt.
    pub backoff: Backoff,
}
