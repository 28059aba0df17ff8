//! The crate's only clock: a run's wall clock is real time, and nothing else is decided by it.

use std::time::Instant;

/// Now.
#[expect(
    clippy::disallowed_methods,
    reason = "a sandboxed process is bounded by real time, not by a simulated clock"
)]
pub(crate) fn now() -> Instant {
    Instant::now()
}
