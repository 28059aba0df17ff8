//! The only clock of the crate.

use std::time::Instant;

#[expect(
    clippy::disallowed_methods,
    reason = "a sandboxed process is bounded by real time, not by a simulated clock"
)]
pub(crate) fn now() -> Instant {
    Instant::now()
}
