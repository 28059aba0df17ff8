//! What an engine is built from. Owns the list of ports that it needs and its own bounds; refuses to choose either.

use super::backoff::Backoff;
use crate::ports::{Clock, Entropy, Model, Store, Toolbox};
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
    /// Time.
    pub clock: Arc<dyn Clock>,
    /// Jitter.
    pub entropy: Arc<dyn Entropy>,
}

/// The engine's own bounds.
#[derive(Debug, Clone, Copy)]
pub struct DriveLimits {
    /// Failed calls to a model in a row before the job fails.
    pub model_failures: u32,
    /// Messages of earlier jobs that a conversation hands to the next one.
    pub history_messages: usize,
    /// What a failed job waits for its next attempt.
    pub backoff: Backoff,
}
