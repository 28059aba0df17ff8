//! About how many jobs of all nodes have not ended: counted now and then, and changed by what this node does.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

/// Age up to which a count says that the queue is not half full, milliseconds.
const FRESH_MS: u64 = 10_000;
/// Age up to which a count says that the queue is not nearly full, milliseconds.
const FRESHEST_MS: u64 = 1_000;

/// The estimate.
#[derive(Debug, Default)]
pub(crate) struct UnfinishedEstimate {
    jobs: AtomicI64,
    /// When they were counted, as in `Clock::monotonic_ms`, plus one; 0: never.
    counted_at: AtomicU64,
}

impl UnfinishedEstimate {
    /// The jobs.
    pub(crate) fn jobs(&self) -> u64 {
        u64::try_from(self.jobs.load(Ordering::Relaxed)).unwrap_or_default()
    }

    /// A commit of this node has accepted so many more jobs than it ended.
    pub(crate) fn add(&self, change: i64) {
        self.jobs.fetch_add(change, Ordering::Relaxed);
    }

    /// The jobs were counted.
    pub(crate) fn set(&self, jobs: i64, monotonic_ms: u64) {
        self.jobs.store(jobs, Ordering::Relaxed);
        self.counted_at.store(monotonic_ms.saturating_add(1), Ordering::Relaxed);
    }

    /// Whether `more` jobs fit below the limit, although other nodes have accepted jobs since the last count.
    pub(crate) fn has_room(&self, more: i64, limit: u64, monotonic_ms: u64) -> bool {
        let counted_at = self.counted_at.load(Ordering::Relaxed);
        let limit = match monotonic_ms.saturating_add(1).saturating_sub(counted_at) {
            _ if counted_at == 0 => return false,
            age_ms if age_ms <= FRESHEST_MS => limit.saturating_sub(limit.div_ceil(8)),
            age_ms if age_ms <= FRESH_MS => limit / 2,
            _ => return false,
        };
        let jobs = self.jobs.load(Ordering::Relaxed).saturating_add(more);
        u64::try_from(jobs).unwrap_or_default() <= limit
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_older_a_count_is_the_more_room_it_needs() {
        let estimate = UnfinishedEstimate::default();
        assert!(!estimate.has_room(1, 800, 0), "nothing was counted yet");
        estimate.set(300, 5_000);
        assert!(estimate.has_room(400, 800, 6_000) && !estimate.has_room(401, 800, 6_000));
        assert!(estimate.has_room(100, 800, 6_001) && !estimate.has_room(101, 800, 6_001));
        assert!(!estimate.has_room(1, 800, 15_001));
        estimate.add(-200);
        assert_eq!(estimate.jobs(), 100);
        assert!(estimate.has_room(300, 800, 15_000));
    }
}
