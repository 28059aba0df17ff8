//! The jobs in memory. There are at most as many as workers, and each has a bounded log.

use crate::domain::event::Record;
use crate::domain::id::{JobId, UserId};
use crate::domain::job::{Job, JobSpec};
use crate::ports::{CancelReason, CancelToken, Fence, JobQuery};
use crate::store::redb::volatile::log::VolatileLog;
use crate::store::rows::job::JobRow;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Maximum log of a job in memory, bytes. The write that would exceed it stores the job.
const LOG_BYTES: usize = 1024 * 1024;

/// Position in lists of the first job in memory, above the acceptance numbers of all stored jobs. Clients
/// that read numbers as floating-point ones read this exactly.
const FIRST_POSITION: u64 = 1 << 52;

/// The jobs that are in memory.
#[derive(Debug, Default)]
pub(crate) struct VolatileJobs {
    /// Saves most callers the lock.
    count: AtomicUsize,
    is_open: AtomicBool,
    table: Mutex<VolatileTable>,
}

#[derive(Debug, Default)]
struct VolatileTable {
    jobs: HashMap<JobId, VolatileJob>,
    positions: u64,
}

/// A job in memory: all that the store would have of it.
#[derive(Debug, Clone)]
pub(crate) struct VolatileJob {
    /// Its acceptance number is its position in lists until it is stored.
    pub(crate) row: JobRow,
    pub(crate) spec: Arc<JobSpec>,
    pub(crate) cancel: CancelToken,
    pub(crate) log: VolatileLog,
    log_bytes: usize,
    /// A transaction stores it: whatever is written now has to come behind that.
    is_leaving: bool,
}

impl VolatileJob {
    pub(crate) fn new(row: JobRow, spec: Arc<JobSpec>, cancel: CancelToken, log: VolatileLog) -> Self {
        Self { row, spec, cancel, log, log_bytes: 0, is_leaving: false }
    }

    /// The job as it is now.
    pub(crate) fn job(&self) -> Job {
        Job { last_event_id: self.log.last_seq(), ..self.row.job.clone() }
    }
}

impl VolatileJobs {
    /// Whether jobs may begin here: the file takes writes, so that they can be stored at their end.
    pub(crate) fn is_open(&self) -> bool {
        self.is_open.load(Ordering::Relaxed)
    }

    pub(crate) fn set_open(&self, is_open: bool) {
        self.is_open.store(is_open, Ordering::Relaxed);
    }

    /// Ends all leases: the writer has ended, so that no job can be stored any more.
    pub(crate) fn close(&self, reason: CancelReason) {
        self.set_open(false);
        for job in self.lock().jobs.values() {
            job.cancel.cancel(reason);
        }
    }

    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.count.load(Ordering::SeqCst)
    }

    /// Adds a job that runs.
    pub(crate) fn insert(&self, mut job: VolatileJob) {
        let mut table = self.lock();
        table.positions = table.positions.saturating_add(1);
        job.row.accept = FIRST_POSITION.saturating_add(table.positions);
        table.jobs.insert(job.row.id(), job);
        self.count.store(table.jobs.len(), Ordering::SeqCst);
    }

    /// Removes jobs that were stored.
    pub(crate) fn remove_all(&self, jobs: &[JobId]) {
        for job in jobs {
            drop(self.remove(*job));
        }
    }

    /// Removes a job that was stored.
    pub(crate) fn remove(&self, job: JobId) -> Option<VolatileJob> {
        let mut table = self.lock();
        let removed = table.jobs.remove(&job);
        self.count.store(table.jobs.len(), Ordering::SeqCst);
        removed
    }

    /// Reads a job, if it is here.
    pub(crate) fn with<T>(&self, job: JobId, read: impl FnOnce(&mut VolatileJob) -> T) -> Option<T> {
        if self.count() == 0 {
            return None;
        }
        self.lock().jobs.get_mut(&job).map(read)
    }

    /// Appends records under a lease. Returns the newest event, or the records if the writer has to append
    /// them.
    pub(crate) fn append(
        &self,
        fence: Fence,
        records: Vec<Record>,
        bytes: usize,
    ) -> Result<u64, Vec<Record>> {
        let mut records = Some(records);
        let newest = self.with(fence.job, |job| job.append(fence, &mut records, bytes)).flatten();
        newest.ok_or_else(|| records.unwrap_or_default())
    }

    /// A copy for the transaction that stores the job.
    pub(crate) fn leave(&self, job: JobId) -> Option<VolatileJob> {
        self.with(job, |job| {
            job.is_leaving = true;
            job.clone()
        })
    }

    /// Each job with its owner.
    pub(crate) fn owners(&self) -> Vec<(JobId, UserId)> {
        if self.count() == 0 {
            return Vec::new();
        }
        self.lock().jobs.iter().map(|(id, job)| (*id, job.row.job.user)).collect()
    }

    /// How many are this user's.
    pub(crate) fn count_of(&self, user: UserId) -> usize {
        self.owners().into_iter().filter(|(_, owner)| *owner == user).count()
    }

    /// The jobs of a list with their positions, newest first.
    pub(crate) fn listed(&self, query: &JobQuery) -> Vec<(u64, Job)> {
        if self.count() == 0 {
            return Vec::new();
        }
        let is_listed = |job: &VolatileJob| {
            job.row.job.user == query.user
                && query.before.is_none_or(|before| job.row.accept < before)
                && query.status.is_none_or(|status| job.row.job.status == status)
                && query.filter.matches(&job.row.job)
        };
        let table = self.lock();
        let listed = table.jobs.values().filter(|job| is_listed(job));
        let mut listed: Vec<_> = listed.map(|job| (job.row.accept, job.job())).collect();
        listed.sort_unstable_by_key(|(position, _)| std::cmp::Reverse(*position));
        listed
    }

    fn lock(&self) -> MutexGuard<'_, VolatileTable> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl VolatileJob {
    fn append(&mut self, fence: Fence, records: &mut Option<Vec<Record>>, bytes: usize) -> Option<u64> {
        let log_bytes = self.log_bytes.saturating_add(bytes);
        let is_terminal = |record: &Record| matches!(record, Record::Event(event) if event.is_terminal());
        if self.is_leaving
            || log_bytes > LOG_BYTES
            || fence.epoch != self.row.job.epoch
            || records.iter().flatten().any(is_terminal)
        {
            return None;
        }
        let records = records.take()?;
        self.log_bytes = log_bytes;
        if let Some(spent) = self.row.spent(&records) {
            self.row.enter(&spent);
        }
        for record in records {
            self.log.append(record);
        }
        Some(self.log.last_seq())
    }
}
