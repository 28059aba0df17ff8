//! The operating system's clock, randomness and environment variables. No other module reads them.

use crate::ports::{CancelToken, Clock, Entropy};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// The system's clocks.
#[derive(Debug)]
pub struct SystemClock {
    start: Instant,
}

impl SystemClock {
    /// A clock whose monotonic time starts now.
    #[expect(clippy::disallowed_methods, reason = "this is the clock")]
    pub fn new() -> Self {
        Self { start: Instant::now() }
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "this is the clock")]
    fn now_ms(&self) -> u64 {
        // A time before 1970 counts as 1970.
        SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, millis)
    }

    fn monotonic_ms(&self) -> u64 {
        millis(self.start.elapsed())
    }

    fn monotonic_us(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_micros()).unwrap_or(u64::MAX)
    }

    fn sleep(&self, stop: &CancelToken, timeout: Duration) {
        stop.wait(timeout);
    }
}

/// The current value of a variable; `None` if it is not UTF-8. For values that are passed on and must not
/// be stored; the configuration reads its own.
pub(super) fn variable(name: &str) -> Option<String> {
    std::env::var_os(name)?.into_string().ok()
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// The kernel's random numbers.
#[derive(Debug, Default)]
pub struct SystemEntropy;

impl Entropy for SystemEntropy {
    fn random(&self) -> u128 {
        let mut bytes = [0_u8; 16];
        // The call waits until the pool is initialised, then 16 bytes are returned at once.
        while rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty()).is_err() {}
        u128::from_le_bytes(bytes)
    }
}
