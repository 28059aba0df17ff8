//! The last result of the readiness probes, kept for a while: a probe commits to the disk.

use crate::ports::PartFault;
use serde::Serialize;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::Semaphore;

/// The last results of the probes, which later requests get as well.
pub(crate) struct ReadinessCache {
    /// Probes run one at a time: they may block, and a hung one must not occupy more and more threads.
    pub(crate) turn: Arc<Semaphore>,
    last: Mutex<Option<(u64, Vec<ReadinessCheck>)>>,
}

impl Default for ReadinessCache {
    fn default() -> Self {
        Self { turn: Arc::new(Semaphore::new(1)), last: Mutex::new(None) }
    }
}

impl ReadinessCache {
    /// The last results, if they are younger than `max_age_ms`.
    pub(crate) fn fresh(&self, now_ms: u64, max_age_ms: u64) -> Option<Vec<ReadinessCheck>> {
        let last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        last.as_ref()
            .filter(|(at, _)| now_ms.saturating_sub(*at) < max_age_ms)
            .map(|(_, checks)| checks.clone())
    }

    pub(crate) fn keep(&self, now_ms: u64, checks: &[ReadinessCheck]) {
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Some((now_ms, checks.to_vec()));
    }
}

#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Debug, Clone, Serialize)]
pub(crate) struct ReadinessCheck {
    pub(crate) name: &'static str,
    pub(crate) ok: bool,
    /// Whether the server is not ready because of it.
    #[serde(skip)]
    pub(crate) is_fatal: bool,
    // What fails and what to do about it; with the status `degraded`, what is missing but not needed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) reason: Option<String>,
    /// The same, for `/v1/status`.
    #[serde(skip)]
    pub(crate) fault: Option<PartFault>,
    /// The entry in the list of degraded parts, for a check that passed.
    #[serde(skip)]
    pub(crate) degraded: Option<DegradedPart>,
}

// A part that does not work, or not fully, while the server is ready.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Debug, Clone, Serialize)]
pub(crate) struct DegradedPart {
    // `disk`, `mcp`, `sandbox: strict` …
    pub(crate) part: String,
    // The cause, and what to do about it.
    pub(crate) reason: String,
}
