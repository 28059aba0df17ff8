//! When calls of models and tools began and ended, as the engine notes it in a job's log.

use serde::{Deserialize, Serialize};

/// Start and end of a model call by the wall clock. Logs of early versions have none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallTimes {
    /// Unix milliseconds. Waits for a rate limit are part of the call.
    pub started_at_ms: u64,
    /// Unix milliseconds; not before the start, unless somebody has set the clock back.
    pub ended_at_ms: u64,
}
