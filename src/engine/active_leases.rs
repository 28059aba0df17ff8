//! The leases that workers hold, so that shutdown can cancel them and the stall detector can watch them.

use super::run_progress::RunProgress;
use crate::domain::id::JobId;
use crate::domain::log_rate_limit::LogRateLimit;
use crate::ports::{CancelReason, CancelToken, Clock, Lease};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The active leases by job and epoch. A job may appear twice: with the worker that lost its lease and has
/// not noticed yet, and with its successor.
#[derive(Clone, Default)]
pub struct ActiveLeases {
    leases: Arc<Mutex<HashMap<(JobId, u64), ActiveLease>>>,
    end_log_limit: Arc<LogRateLimit>,
}

#[derive(Clone)]
pub(super) struct ActiveLease {
    cancel: CancelToken,
    pub(super) attempt: u32,
    pub(super) progress: Arc<RunProgress>,
}

impl ActiveLeases {
    /// Cancels every active lease.
    pub fn cancel_all(&self, reason: CancelReason) {
        self.lock().values().for_each(|active| active.cancel.cancel(reason));
    }

    /// Number of active leases.
    pub fn count(&self) -> usize {
        self.lock().len()
    }

    pub(super) fn snapshot(&self) -> Vec<((JobId, u64), ActiveLease)> {
        self.lock().iter().map(|(key, active)| (*key, active.clone())).collect()
    }

    /// Adds a lease and returns the progress that its driver reports to.
    pub(super) fn insert(&self, lease: &Lease, clock: &Arc<dyn Clock>) -> Arc<RunProgress> {
        let progress = Arc::new(RunProgress::begin(clock));
        let (cancel, attempt) = (lease.cancel.clone(), lease.job.attempt);
        let active = ActiveLease { cancel, attempt, progress: Arc::clone(&progress) };
        self.lock().insert((lease.job.id, lease.job.epoch), active);
        progress
    }

    pub(super) fn remove(&self, lease: &Lease) {
        self.lock().remove(&(lease.job.id, lease.job.epoch));
    }

    /// The limit that all workers share for logging the ends of jobs.
    pub(super) fn end_log_limit(&self) -> &Arc<LogRateLimit> {
        &self.end_log_limit
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<(JobId, u64), ActiveLease>> {
        self.leases.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The lease that came with the end of a worker's last job, until the worker begins with it.
#[derive(Default)]
pub(super) struct NextLease(Mutex<Option<Lease>>);

impl NextLease {
    pub(super) fn put(&self, lease: Option<Lease>) {
        *self.lock() = lease;
    }

    pub(super) fn take(&self) -> Option<Lease> {
        self.lock().take()
    }

    pub(super) fn is_held(&self) -> bool {
        self.lock().is_some()
    }

    fn lock(&self) -> MutexGuard<'_, Option<Lease>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
