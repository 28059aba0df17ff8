//! Whether the writer can use the store: after a failed commit or a panic it reopens the file, and where that
//! does not help it gives up, so that a new process starts.

use crate::ports::StoreError;
use crate::store::redb::writer::shared::WriterLossCause;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Panics without a commit between them after which only a new process can help.
const MAX_PANICS: u32 = 3;
/// How long, and how often in this time, a disk that takes writes may fail to open the store.
const MAX_REOPENING_MS: u64 = 5_000;
const MAX_REOPENINGS: u32 = 10;

#[derive(Debug, Default)]
pub(crate) struct StoreHealth {
    /// A commit failed; redb refuses writes until it is reopened.
    pub(crate) is_broken: bool,
    /// Panics since the last commit.
    panics: Cell<u32>,
    has_committed: bool,
    /// When a reopening first failed, monotonic milliseconds, and how many have since then.
    reopening_since_ms: Option<u64>,
    failed_reopenings: u32,
}

impl StoreHealth {
    /// Runs a step that calls redb. A panic in it is counted and becomes an error.
    pub(crate) fn catch<T>(
        &self,
        error: fn(String) -> StoreError,
        step: impl FnOnce() -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        catch_unwind(AssertUnwindSafe(step)).unwrap_or_else(|_panic| {
            self.panics.set(self.panics.get().saturating_add(1));
            tracing::error!(panics = self.panics.get(), "the store panicked; it is reopened");
            Err(error("the writer panicked".to_owned()))
        })
    }

    pub(crate) fn panics(&self) -> u32 {
        self.panics.get()
    }

    pub(crate) fn note_commit(&mut self) {
        self.has_committed = true;
        self.panics.set(0);
    }

    /// Notes how an attempt to open the file ended. Room on a full disk may come back.
    pub(crate) fn note_reopening(&mut self, outcome: &Result<(), StoreError>, now_ms: u64) {
        (self.reopening_since_ms, self.failed_reopenings) = match outcome {
            Ok(()) | Err(StoreError::Full) => (None, 0),
            Err(_) => (self.reopening_since_ms.or(Some(now_ms)), self.failed_reopenings.saturating_add(1)),
        };
    }

    /// Why the store is lost. A file over which all commits panic does so in a new process, too.
    pub(crate) fn loss_cause(&self) -> WriterLossCause {
        let is_damage = self.panics.get() >= MAX_PANICS && !self.has_committed;
        if is_damage { WriterLossCause::Damage } else { WriterLossCause::Failure }
    }

    /// Whether this process can do no more.
    pub(crate) fn is_lost(&self, now_ms: u64) -> bool {
        let is_late = |since_ms: u64| now_ms.saturating_sub(since_ms) > MAX_REOPENING_MS;
        self.panics.get() >= MAX_PANICS
            || (self.failed_reopenings >= MAX_REOPENINGS && self.reopening_since_ms.is_some_and(is_late))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::app::system::SystemClock;
    use crate::domain::limits::Limits;
    use crate::ports::Ticket;
    use crate::store::RedbStore;
    use crate::store::options::StoreOptions;
    use crate::store::redb::writer::write::WriteOptions;
    use std::sync::Arc;

    #[test]
    fn a_write_that_panics_fails_alone_and_the_store_goes_on() {
        let dir = tempfile::tempdir().unwrap();
        let (path, clock) = (dir.path().join("store.redb"), Arc::new(SystemClock::new()));
        let store = RedbStore::open(&path, &StoreOptions::default(), &Limits::default(), clock).unwrap();
        let good = || -> Ticket<()> {
            store.offer(WriteOptions::default(), |transaction| {
                transaction.beat();
                Ok::<_, StoreError>(())
            })
        };
        let bad = || -> Ticket<()> { store.offer(WriteOptions::default(), |_| panic!("on purpose")) };
        for _ in 0..2 * MAX_PANICS {
            // The first commit takes a moment, so that the others share a group.
            let (first, before, panicking, after) = (good(), good(), bad(), good());
            assert_eq!((first.wait(), before.wait(), after.wait()), (Ok(()), Ok(()), Ok(())));
            assert!(matches!(panicking.wait(), Err(StoreError::Corrupt(_))));
        }
        assert_eq!(good().wait(), Ok(()));
    }

    fn lost_by_panics(health: StoreHealth) -> StoreHealth {
        while !health.is_lost(0) {
            assert!(health.catch::<()>(StoreError::Io, || panic!("on purpose")).is_err());
        }
        health
    }

    #[test]
    fn a_store_is_lost_after_repeated_panics_or_seconds_of_failed_reopening() {
        let mut health = StoreHealth::default();
        for _ in 1..MAX_PANICS {
            assert!(health.catch::<()>(StoreError::Io, || panic!("on purpose")).is_err());
            assert!(!health.is_lost(0));
        }
        assert_eq!(lost_by_panics(StoreHealth::default()).loss_cause(), WriterLossCause::Damage);
        health.note_commit();
        assert!(health.catch::<()>(StoreError::Io, || panic!("on purpose")).is_err());
        assert!(!health.is_lost(0), "a commit lies between them");
        let mut health = lost_by_panics(health);
        assert_eq!(health.loss_cause(), WriterLossCause::Failure, "the file can be written");
        health.note_commit();
        let failed = Err(StoreError::Io("no".to_owned()));
        for _ in 1..MAX_REOPENINGS {
            health.note_reopening(&failed, 100);
        }
        assert!(!health.is_lost(101 + MAX_REOPENING_MS));
        health.note_reopening(&failed, 100 + MAX_REOPENING_MS);
        assert!(!health.is_lost(100 + MAX_REOPENING_MS));
        assert!(health.is_lost(101 + MAX_REOPENING_MS));
        health.note_reopening(&Err(StoreError::Full), 200);
        assert!(!health.is_lost(1_000_000), "room may come back");
    }
}
