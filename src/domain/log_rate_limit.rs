//! Rate limit for log lines of one kind; suppressed lines are counted.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// Lines a second; further ones are suppressed.
pub const LINES_PER_S: u64 = 20;

/// Counts the lines of one kind in the current second, so that a burst does not drown the log.
#[derive(Debug, Default)]
pub struct LogRateLimit {
    /// The second and its number of lines.
    second: Mutex<(u64, u64)>,
    held_back: AtomicU64,
}

impl LogRateLimit {
    /// Whether a line may be logged; if so, how many were suppressed before it. `now_ms` is any clock that
    /// does not go back.
    pub fn enter(&self, now_ms: u64) -> Option<u64> {
        let mut second = self.second.lock().unwrap_or_else(PoisonError::into_inner);
        let now = now_ms / 1_000;
        *second = if second.0 == now { (now, second.1.saturating_add(1)) } else { (now, 1) };
        if second.1 > LINES_PER_S {
            self.held_back.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        Some(self.held_back.swap(0, Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn excess_log_lines_are_suppressed_and_counted() {
        let quota = LogRateLimit::default();
        for _ in 0..LINES_PER_S {
            assert_eq!(quota.enter(5_000), Some(0));
        }
        assert_eq!((quota.enter(5_500), quota.enter(5_999)), (None, None));
        assert_eq!(quota.enter(6_000), Some(2));
        assert_eq!(quota.enter(6_001), Some(0));
    }
}
