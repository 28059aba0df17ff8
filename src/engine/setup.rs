//! The ports and limits that the engine is built from.

use super::backoff::Backoff;
use super::preamble::PreambleOptions;
use crate::domain::event::Record;
use crate::domain::usage::UsageByModel;
use crate::ports::{Clock, Entropy, Measurement, Meter, Model, Store, Toolbox};
use std::sync::Arc;

/// The ports of the engine.
#[derive(Clone)]
pub struct EnginePorts {
    /// Jobs and their logs.
    pub store: Arc<dyn Store>,
    /// The models.
    pub model: Arc<dyn Model>,
    /// The tools.
    pub tools: Arc<dyn Toolbox>,
    /// Time.
    pub clock: Arc<dyn Clock>,
    /// Randomness for jitter.
    pub entropy: Arc<dyn Entropy>,
    /// Metrics.
    pub meter: Arc<dyn Meter>,
}

impl EnginePorts {
    /// Counts usage that has been written to a log.
    pub(super) fn record_usage(&self, usage: &UsageByModel) {
        for (model, usage) in usage.entries() {
            self.meter.record(Measurement::Spent { model, usage });
        }
    }
}

/// The usage in these records. Records without a model count for `default_model`.
pub(super) fn usage_in(records: &[Record], default_model: &str) -> UsageByModel {
    let mut usage = UsageByModel::default();
    for record in records {
        usage.add_record(record, default_model);
    }
    usage
}

/// The engine's own limits.
#[derive(Debug, Clone)]
pub struct EngineLimits {
    /// Failed calls to a model in a row before the job fails or a fallback model is called.
    pub model_failures: u32,
    /// Failures of the same tool call before the closing answer is requested.
    pub repeated_failures: u32,
    /// The model that writes titles; without one, a title is the start of the first message.
    pub title_model: Option<String>,
    /// Messages of earlier jobs in a conversation that the next job sees.
    pub history_messages: usize,
    /// The longest answer of another job that a prompt shows, bytes.
    pub job_result_bytes: usize,
    /// How long calls wait for approval before they count as denied, milliseconds.
    pub approval_timeout_ms: u64,
    /// The text before a job's own instructions.
    pub preamble: PreambleOptions,
    /// The delay before the next attempt of a failed job.
    pub backoff: Backoff,
}
