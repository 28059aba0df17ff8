//! Wake-ups for whoever reads a job's log. Owns one channel for each watched job; refuses to be a source of events.

use crate::domain::id::JobId;
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use tokio::sync::watch;

/// Below so many channels nobody looks for forgotten ones.
const SWEEP_AT: usize = 64;

/// The channels that somebody watches.
#[derive(Debug, Default)]
pub(super) struct Watches(Mutex<Channels>);

#[derive(Debug, Default)]
struct Channels {
    by_job: HashMap<JobId, watch::Sender<u64>>,
    sweep_at: usize,
}

impl Watches {
    /// Subscribes to a job.
    pub(super) fn subscribe(&self, job: JobId) -> watch::Receiver<u64> {
        let mut channels = self.lock();
        if let Some(sender) = channels.by_job.get(&job) {
            return sender.subscribe();
        }
        channels.sweep();
        channels.by_job.entry(job).or_insert_with(|| watch::Sender::new(0)).subscribe()
    }

    /// The job's log has grown to `seq`.
    pub(super) fn bump(&self, job: JobId, seq: u64) {
        if let Some(sender) = self.lock().by_job.get(&job) {
            sender.send_if_modified(|newest| {
                let is_newer = seq > *newest;
                *newest = seq.max(*newest);
                is_newer
            });
        }
    }

    fn lock(&self) -> MutexGuard<'_, Channels> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Channels {
    /// Drops channels that nobody watches, each time their number has doubled: cheap on average, and never more than
    /// twice as many as are watched.
    fn sweep(&mut self) {
        if self.by_job.len() >= self.sweep_at.max(SWEEP_AT) {
            self.by_job.retain(|_, sender| sender.receiver_count() > 0);
            self.sweep_at = self.by_job.len().saturating_mul(2);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_watch_sees_the_newest_seq_and_never_goes_back() {
        let watches = Watches::default();
        let job = JobId::from_bits(1);
        let mut watch = watches.subscribe(job);
        watches.bump(job, 3);
        watches.bump(job, 2);
        assert_eq!(*watch.borrow_and_update(), 3);
        watches.bump(job, 3);
        assert!(!watch.has_changed().unwrap(), "the same seq is no news");
    }

    #[test]
    fn p8_forgotten_watches_do_not_pile_up() {
        let watches = Watches::default();
        let kept = watches.subscribe(JobId::from_bits(0));
        for bits in 1..10_000 {
            drop(watches.subscribe(JobId::from_bits(bits)));
        }
        assert!(watches.lock().by_job.len() <= 2 * SWEEP_AT);
        watches.bump(JobId::from_bits(0), 1);
        assert_eq!(*kept.borrow(), 1, "a watched one stays");
    }
}
