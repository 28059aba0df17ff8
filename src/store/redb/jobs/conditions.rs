//! Jobs that come after others, and jobs that end at a time. The end of a job releases those that wait for it
//! in the same transaction, and marks those that its failure ends; the scheduler ends these, and jobs whose
//! time has passed, a bounded number in a transaction.

use crate::domain::id::JobId;
use crate::domain::job::JobStatus;
use crate::ports::{CancelReason, NewJob, StoreError, SubmitError};
use crate::store::redb::codec::keys::jobs::{JobDependentBytes, JobDependentKey, JobEndBytes, JobEndKey};
use crate::store::redb::codec::read_transaction::ReadTransaction;
use crate::store::redb::codec::table::ReadableTable;
use crate::store::redb::codec::tables::JOB_ENDS;
use crate::store::redb::writer::transaction::Transaction;
use crate::store::rows::conditions::OVERDUE_CHECK_MS;
use crate::store::rows::job::{JobRow, QueuePlace};

/// Maximum jobs that one transaction ends.
const DUE_ENDS: usize = 256;

/// When the store has to look next whether a job ends, unix milliseconds.
pub(crate) fn next_end_ms(reading: &ReadTransaction) -> Result<Option<u64>, StoreError> {
    let ends = JOB_ENDS.read(reading)?.skipping_damaged();
    Ok(ends.first()?.map(|(key, _)| JobEndKey::decode(key.value()).at_ms))
}

impl Transaction<'_> {
    /// Refuses jobs that come after a job that the user does not have, or after one with too many dependents.
    pub(crate) fn check_predecessors(&self, jobs: &[NewJob]) -> Result<(), SubmitError> {
        let limit = self.bounds.job_dependents;
        for (user, job) in
            jobs.iter().flat_map(|new| new.spec.conditions.after.iter().map(|job| (new.user, *job)))
        {
            let row = self.find_own_row(user, job)?.ok_or(SubmitError::NoPredecessor { job })?;
            let is_full = !row.job.status.is_terminal() && self.dependents_of(job)?.len() as u64 >= limit;
            if is_full {
                return Err(SubmitError::DependentsFull { job, limit });
            }
        }
        Ok(())
    }

    fn dependents_of(&self, predecessor: JobId) -> Result<Vec<JobId>, StoreError> {
        let (first, last) = JobDependentKey::ends(predecessor);
        let range = self.tables.job_dependents.range::<&JobDependentBytes>(&first..=&last)?;
        range.map(|entry| Ok(JobDependentKey::decode(entry?.0.value()).dependent)).collect()
    }

    /// Applies the conditions of a job that is about to be queued.
    pub(crate) fn apply_conditions(&mut self, row: &mut JobRow) -> Result<(), StoreError> {
        if row.job.conditions.is_default() {
            return Ok(());
        }
        let mut predecessors = Vec::new();
        for job in &row.job.conditions.after {
            predecessors.extend(self.find_own_row(row.job.user, *job)?.map(|found| (*job, found.job.status)));
        }
        row.wait_after(predecessors);
        for predecessor in &row.blocked_by {
            let key = JobDependentKey { predecessor: *predecessor, dependent: row.id() };
            self.tables.job_dependents.insert(&key.encode(), ())?;
        }
        self.list_end(row)
    }

    /// Lists a job among those that end at a time, if it does.
    fn list_end(&mut self, row: &JobRow) -> Result<(), StoreError> {
        if let Some(at_ms) = row.ends_at_ms() {
            self.tables.job_ends.insert(&JobEndKey { at_ms, job: row.id() }.encode(), ())?;
        }
        Ok(())
    }

    /// Forgets the conditions of a job that has left the queues because it ends.
    pub(crate) fn forget_conditions(&mut self, row: &mut JobRow) -> Result<(), StoreError> {
        let (job, conditions) = (row.id(), &row.job.conditions);
        if conditions.is_default() {
            return Ok(());
        }
        for predecessor in &row.blocked_by {
            let key = JobDependentKey { predecessor: *predecessor, dependent: job };
            self.tables.job_dependents.remove(&key.encode())?;
        }
        let at_once = row.failed_predecessor.map(|_| 0);
        for at_ms in [at_once, conditions.expires_at_ms, conditions.deadline_ms].into_iter().flatten() {
            self.tables.job_ends.remove(&JobEndKey { at_ms, job }.encode())?;
        }
        row.forget_predecessors();
        Ok(())
    }

    /// Releases the jobs that wait for one that has ended.
    pub(crate) fn release_dependents(&mut self, ended: JobId, has_succeeded: bool) -> Result<(), StoreError> {
        for dependent in self.dependents_of(ended)? {
            let key = JobDependentKey { predecessor: ended, dependent };
            self.tables.job_dependents.remove(&key.encode())?;
            match self.find_row(dependent) {
                Ok(Some(row)) if row.job.status == JobStatus::Queued => {
                    self.release_dependent(row, ended, has_succeeded)?;
                }
                Ok(_) => {}
                Err(StoreError::Corrupt(reason)) => self.quarantine(dependent, &reason)?,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn release_dependent(
        &mut self,
        mut row: JobRow,
        ended: JobId,
        has_succeeded: bool,
    ) -> Result<(), StoreError> {
        let is_delayed = row.queue_place == QueuePlace::Delayed;
        if is_delayed {
            self.remove_from_queue(&mut row)?;
        }
        row.unblock(ended, has_succeeded);
        self.list_end(&row)?;
        // Behind its conversation it waits for that as well.
        if is_delayed {
            self.enter_queue(&mut row)?;
        }
        self.put_row(&row)
    }

    /// Whether a ready job has to end instead of running. Such a job leaves the queue; the scheduler ends it.
    pub(crate) fn hold_overdue(&mut self, row: &JobRow) -> Result<bool, StoreError> {
        if self.distrust_ms > 0 || row.due_end(self.now_ms).is_none() {
            return Ok(false);
        }
        self.put_row(&JobRow { queue_place: QueuePlace::Out, ..row.clone() })?;
        Ok(true)
    }
}

/// Ends some jobs whose time has passed, or whose predecessor has failed. Returns whether there may be more.
pub(crate) fn end_due_jobs(transaction: &mut Transaction<'_>) -> Result<bool, StoreError> {
    let until_ms = if transaction.distrust_ms == 0 { transaction.now_ms } else { 0 };
    let last = JobEndKey { at_ms: until_ms, job: JobId::from_bits(u128::MAX) }.encode();
    for _ in 0..DUE_ENDS {
        let first = transaction.tables.job_ends.range::<&JobEndBytes>(..=&last)?.next().transpose()?;
        let Some(key) = first.map(|(key, _)| JobEndKey::decode(key.value())) else { return Ok(false) };
        transaction.tables.job_ends.remove(&key.encode())?;
        transaction.mark_dirty();
        match transaction.find_row(key.job) {
            Ok(Some(row)) if !row.job.status.is_terminal() => transaction.end_if_due(row)?,
            Ok(_) => {}
            Err(StoreError::Corrupt(reason)) => {
                tracing::error!(job = %key.job, reason, "job cannot be read; it does not end at its time");
            }
            Err(error) => return Err(error),
        }
    }
    Ok(true)
}

impl Transaction<'_> {
    fn end_if_due(&mut self, mut row: JobRow) -> Result<(), StoreError> {
        let Some((code, content)) = row.due_end(self.now_ms) else { return self.list_end(&row) };
        if row.job.status != JobStatus::Running {
            return self.end_unleased(&mut row, code, &content);
        }
        if let Some(leased) = self.lease_of(&row) {
            self.effects.cancels.push((leased.cancel.clone(), CancelReason::DeadlineExceeded));
            self.keep(leased);
        }
        let at_ms = self.now_ms.saturating_add(OVERDUE_CHECK_MS);
        self.tables.job_ends.insert(&JobEndKey { at_ms, job: row.id() }.encode(), ())?;
        Ok(())
    }
}
