//! Logs commits that take too long, at most once a minute.

/// Slow commits are logged at most this often, milliseconds.
const LOG_EVERY_MS: u64 = 60_000;

/// Detects slow commits.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SlowCommits {
    /// `None` turns it off.
    threshold_ms: Option<u64>,
    logged_ms: Option<u64>,
    unreported: u64,
}

/// Measurements of one commit.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CommitTiming {
    /// Start and end, monotonic milliseconds.
    pub(crate) began_ms: u64,
    pub(crate) ended_ms: u64,
    /// Writes in its group.
    pub(crate) writes: usize,
}

impl SlowCommits {
    /// Commits at least this long are slow; 0 turns it off.
    pub(crate) fn new(threshold_ms: u64) -> Self {
        let threshold_ms = (threshold_ms > 0).then_some(threshold_ms);
        Self { threshold_ms, logged_ms: None, unreported: 0 }
    }

    /// Logs a slow commit: into a file of `bytes` bytes, or into a database.
    pub(crate) fn watch(&mut self, timed: CommitTiming, bytes: impl FnOnce() -> Option<u64>) {
        if let Some(unreported) = self.note(timed) {
            let duration_ms = timed.ended_ms.saturating_sub(timed.began_ms);
            let (writes, file_bytes) = (timed.writes, bytes());
            if let Some(file_bytes) = file_bytes {
                tracing::warn!(duration_ms, writes, file_bytes, unreported, "slow commit; check the disk");
            } else {
                tracing::warn!(duration_ms, writes, unreported, "slow commit; check the database");
            }
        }
    }

    /// Whether to log it; if so, how many slow commits were not logged before.
    fn note(&mut self, timed: CommitTiming) -> Option<u64> {
        let threshold_ms = self.threshold_ms?;
        if timed.ended_ms.saturating_sub(timed.began_ms) < threshold_ms {
            return None;
        }
        if self.logged_ms.is_some_and(|last_ms| timed.ended_ms.saturating_sub(last_ms) < LOG_EVERY_MS) {
            self.unreported = self.unreported.saturating_add(1);
            return None;
        }
        self.logged_ms = Some(timed.ended_ms);
        Some(std::mem::take(&mut self.unreported))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn took(slow: &mut SlowCommits, began_ms: u64, took_ms: u64) -> Option<u64> {
        slow.note(CommitTiming { began_ms, ended_ms: began_ms + took_ms, writes: 1 })
    }

    #[test]
    fn slow_commits_are_logged_once_a_minute_with_a_count() {
        let mut slow = SlowCommits::new(1_000);
        assert_eq!(took(&mut slow, 0, 999), None);
        assert_eq!(took(&mut slow, 5_000, 1_000), Some(0));
        assert_eq!(took(&mut slow, 6_000, 2_000), None);
        assert_eq!(took(&mut slow, 9_000, 5_000), None);
        assert_eq!(took(&mut slow, 6_000 + LOG_EVERY_MS, 10), None, "it was not slow");
        assert_eq!(took(&mut slow, 6_000 + LOG_EVERY_MS, 1_000), Some(2));
        assert_eq!(took(&mut slow, 7_500 + 2 * LOG_EVERY_MS, 1_000), Some(0));
        let mut off = SlowCommits::new(0);
        assert_eq!(took(&mut off, 0, 100_000), None);
    }
}
