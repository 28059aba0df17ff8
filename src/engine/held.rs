//! The leases that workers hold right now. Owns the list, so that shutdown can pull them all and somebody can look at what
//! they have come to; refuses to judge either.

use super::progress::Progress;
use crate::domain::id::JobId;
use crate::domain::log_rate_limit::LogRateLimit;
use crate::ports::{CancelReason, CancelToken, Clock, Lease};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The leases held right now, so that shutdown can pull them all. A job may be held twice: by the worker that lost its
/// lease and has not noticed yet, and by its successor.
#[derive(Clone, Default)]
pub struct Held {
    leases: Arc<Mutex<HashMap<(JobId, u64), Holding>>>,
    ends: Arc<LogRateLimit>,
}

/// One of them.
#[derive(Clone)]
pub(super) struct Holding {
    stop: CancelToken,
    pub(super) attempt: u32,
    pub(super) progress: Arc<Progress>,
}

impl Held {
    /// Raises `stop` on every lease.
    pub fn raise_all(&self, reason: CancelReason) {
        self.all().values().for_each(|holding| holding.stop.cancel(reason));
    }

    /// Leases being worked on.
    pub fn count(&self) -> usize {
        self.all().len()
    }

    /// What is held, as it stands.
    pub(super) fn look(&self) -> Vec<((JobId, u64), Holding)> {
        self.all().iter().map(|(key, holding)| (*key, holding.clone())).collect()
    }

    /// The lease is worked on from now; what it comes to is told to the progress.
    pub(super) fn insert(&self, lease: &Lease, clock: &Arc<dyn Clock>) -> Arc<Progress> {
        let progress = Arc::new(Progress::begin(clock));
        let (stop, attempt) = (lease.cancel.clone(), lease.job.attempt);
        let holding = Holding { stop, attempt, progress: Arc::clone(&progress) };
        self.all().insert((lease.job.id, lease.job.epoch), holding);
        progress
    }

    pub(super) fn remove(&self, lease: &Lease) {
        self.all().remove(&(lease.job.id, lease.job.epoch));
    }

    /// Room in the server's log for the ends of jobs, shared by all who hold some.
    pub(super) fn ends(&self) -> &Arc<LogRateLimit> {
        &self.ends
    }

    fn all(&self) -> MutexGuard<'_, HashMap<(JobId, u64), Holding>> {
        self.leases.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
