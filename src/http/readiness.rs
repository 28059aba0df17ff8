//! The last result of the readiness probes, kept for a second: a probe commits to the disk.

use serde::Serialize;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::Semaphore;

/// A result younger than this is given again, milliseconds.
const FRESH_MS: u64 = 1_000;

/// What the probes said last. A probe commits to the disk, so whoever asks more often gets the same answer again.
pub(crate) struct ReadinessCache {
    /// One asks the probes at a time: they may block, and a hung one must not eat thread after thread.
    pub(crate) turn: Arc<Semaphore>,
    last: Mutex<Option<(u64, Vec<ReadinessCheck>)>>,
}

impl Default for ReadinessCache {
    fn default() -> Self {
        Self { turn: Arc::new(Semaphore::new(1)), last: Mutex::new(None) }
    }
}

impl ReadinessCache {
    pub(crate) fn fresh(&self, now_ms: u64) -> Option<Vec<ReadinessCheck>> {
        let last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        last.as_ref()
            .filter(|(at, _)| now_ms.saturating_sub(*at) < FRESH_MS)
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
    // What does not work and what to do about it; beside `ok: true`, what the server is of use without.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) reason: Option<String>,
}
