//! Wakes the readers of a job's log and of a batch. One channel for each watched id; a hint, not a source
//! of events.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Mutex, MutexGuard, PoisonError};
use tokio::sync::watch;

/// Unused channels are removed only above this number.
const SWEEP_AT: usize = 64;

/// Watch channels by id.
#[derive(Debug)]
pub(crate) struct ChangeWatches<K>(Mutex<WatchChannels<K>>);

#[derive(Debug)]
struct WatchChannels<K> {
    by_key: HashMap<K, watch::Sender<u64>>,
    sweep_at: usize,
}

impl<K> Default for ChangeWatches<K> {
    fn default() -> Self {
        Self(Mutex::new(WatchChannels { by_key: HashMap::new(), sweep_at: 0 }))
    }
}

impl<K: Copy + Eq + Hash> ChangeWatches<K> {
    /// Subscribes to changes of this id.
    pub(crate) fn subscribe(&self, key: K) -> watch::Receiver<u64> {
        let mut channels = self.lock();
        if let Some(sender) = channels.by_key.get(&key) {
            return sender.subscribe();
        }
        channels.sweep();
        channels.by_key.entry(key).or_insert_with(|| watch::Sender::new(0)).subscribe()
    }

    /// Raises the counter of this id to `seq`.
    pub(crate) fn bump(&self, key: K, seq: u64) {
        if let Some(sender) = self.lock().by_key.get(&key) {
            sender.send_if_modified(|newest| {
                let is_newer = seq > *newest;
                *newest = seq.max(*newest);
                is_newer
            });
        }
    }

    /// The watched ids.
    pub(crate) fn keys(&self) -> Vec<K> {
        let channels = self.lock();
        let watched = channels.by_key.iter().filter(|(_, sender)| sender.receiver_count() > 0);
        watched.map(|(key, _)| *key).collect()
    }

    /// Wakes the readers of this id, who look for themselves.
    pub(crate) fn touch(&self, key: K) {
        if let Some(sender) = self.lock().by_key.get(&key) {
            sender.send_modify(|newest| *newest = newest.saturating_add(1));
        }
    }

    fn lock(&self) -> MutexGuard<'_, WatchChannels<K>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K> WatchChannels<K> {
    /// Drops channels without a receiver whenever the number of channels has doubled. Cheap on average, and
    /// at most twice as many channels exist as are watched.
    fn sweep(&mut self) {
        if self.by_key.len() >= self.sweep_at.max(SWEEP_AT) {
            self.by_key.retain(|_, sender| sender.receiver_count() > 0);
            self.sweep_at = self.by_key.len().saturating_mul(2);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::id::JobId;

    #[test]
    fn a_watch_gets_the_highest_seq_only() {
        let watches = ChangeWatches::default();
        let job = JobId::from_bits(1);
        let mut watch = watches.subscribe(job);
        watches.bump(job, 3);
        watches.bump(job, 2);
        assert_eq!(*watch.borrow_and_update(), 3);
        watches.bump(job, 3);
        assert!(!watch.has_changed().unwrap(), "the same seq is no news");
    }

    #[test]
    fn p8_dropped_watches_are_removed() {
        let watches = ChangeWatches::default();
        let used = watches.subscribe(JobId::from_bits(0));
        for bits in 1..10_000 {
            drop(watches.subscribe(JobId::from_bits(bits)));
        }
        assert!(watches.lock().by_key.len() <= 2 * SWEEP_AT);
        watches.bump(JobId::from_bits(0), 1);
        assert_eq!(*used.borrow(), 1, "a watched one stays");
    }
}
