//! Leases ready jobs. The attempt is counted, durably, before any work.

use crate::domain::event::{Event, StatusPhase};
use crate::domain::id::JobId;
use crate::domain::job::{JobSpec, JobStatus};
use crate::ports::{CancelToken, Lease, StoreError};
use crate::store::redb::codec::keys::jobs::ReadyEntry;
use crate::store::redb::jobs::row::JobRow;
use crate::store::redb::queue::lease::{LeasedJob, LogTail};
use crate::store::redb::writer::transaction::Transaction;
use crate::store::redb::writer::write::StoreWrite;
use std::sync::Arc;

/// Up to so many.
pub(crate) struct ClaimJobs(pub(crate) usize);

impl StoreWrite for ClaimJobs {
    type Output = Vec<Lease>;

    fn apply(&self, transaction: &mut Transaction<'_>) -> Result<Vec<Lease>, StoreError> {
        transaction.admit_due()?;
        let mut leases = Vec::new();
        while leases.len() < self.0 {
            let Some(ReadyEntry { job, since_ms }) = transaction.take_ready()? else { break };
            match transaction.prepare(job) {
                Ok(ready) => {
                    transaction.effects.metrics.claim(transaction.now_ms.saturating_sub(since_ms));
                    leases.push(transaction.lease_out(ready)?);
                }
                Err(StoreError::Corrupt(reason)) => transaction.quarantine(job, &reason)?,
                Err(error) => return Err(error),
            }
        }
        Ok(leases)
    }

    /// None: no lease of theirs exists before the commit, and recovery finds those that a failed one left
    /// behind.
    fn jobs(&self) -> Vec<JobId> {
        Vec::new()
    }
}

/// A job that can be leased: all that is stored of it can be read.
struct ClaimableJob {
    row: JobRow,
    spec: Arc<JobSpec>,
    tail: LogTail,
}

impl Transaction<'_> {
    /// Reads what a lease needs; nothing is written yet.
    fn prepare(&self, job: JobId) -> Result<ClaimableJob, StoreError> {
        let row = self.row(job)?;
        if !row.job.status.may_become(JobStatus::Running) {
            return Err(StoreError::Corrupt(format!("{job} is {} in the queue", row.job.status.as_str())));
        }
        Ok(ClaimableJob { row, spec: Arc::new(self.spec(job)?), tail: self.tables.tail(job)? })
    }

    fn lease_out(&mut self, ready: ClaimableJob) -> Result<Lease, StoreError> {
        let ClaimableJob { mut row, spec, mut tail } = ready;
        row.job.epoch = row.job.epoch.saturating_add(1);
        row.job.attempt = row.job.attempt.saturating_add(1);
        row.job.started_at_ms = row.job.started_at_ms.or(Some(self.now_ms));
        let reason = row.resumed.take();
        row.resume_at_ms = None;
        let event = Event::Status { status: StatusPhase::Running, attempt: row.job.attempt, reason };
        self.tables.append_event(row.id(), &mut tail, &event)?;
        row.job.last_event_id = tail.seq;
        self.move_row(&mut row, JobStatus::Running)?;
        let cancel = CancelToken::new(Arc::clone(self.clock));
        let lease = Lease { job: row.job.clone(), spec: Arc::clone(&spec), cancel: cancel.clone() };
        self.keep(LeasedJob { row: Arc::new(row), spec, cancel, tail });
        Ok(lease)
    }
}
