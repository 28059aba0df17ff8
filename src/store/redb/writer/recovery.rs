//! Recovers after a crash or a failed commit: jobs that are running on disk without a lease are queued again.
//! No other job is read, so that a large store opens fast.

use crate::domain::event::{FailureCode, StatusPhase};
use crate::domain::id::{BatchId, JobId};
use crate::domain::job::JobStatus;
use crate::ports::StoreError;
use crate::store::redb::codec::table::ReadableTable;
use crate::store::redb::writer::transaction::Transaction;
use crate::store::rows::job::JobRow;
use crate::store::rows::job::{CANCELLED, POISON};
use crate::store::rows::lease::LogTail;

/// Cause of the interruption.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RecoveryCause {
    /// The process crashed, perhaps because of the job.
    Crash,
    /// A commit failed, which the job did not cause.
    Disk,
}

impl Transaction<'_> {
    /// Queues all interrupted jobs again.
    pub(crate) fn recover_jobs(&mut self, cause: RecoveryCause) -> Result<(), StoreError> {
        if cause == RecoveryCause::Crash {
            self.prepare_stored_bytes()?;
            self.abandon_unaccepted()?;
            self.index_ready_jobs()?;
        }
        let running = self.tables.running.iter()?;
        let jobs: Vec<_> = running
            .map(|entry| entry.map(|(job, _)| JobId::from_bytes(*job.value())))
            .collect::<Result<_, _>>()?;
        for job in jobs {
            if self.is_leased(job) {
                continue;
            }
            match self.interrupted_job(job) {
                Ok((mut row, tail)) => self.recover(&mut row, tail, cause)?,
                Err(StoreError::Corrupt(reason)) => self.quarantine(job, &reason)?,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Removes batches that were never accepted: their clients got no response.
    fn abandon_unaccepted(&mut self) -> Result<(), StoreError> {
        let unaccepted_batches = self.tables.unaccepted_batches.iter()?;
        let batches: Vec<_> = unaccepted_batches
            .map(|entry| entry.map(|(batch, _)| BatchId::from_bytes(*batch.value())))
            .collect::<Result<_, _>>()?;
        batches.into_iter().try_for_each(|batch| self.abandon(batch))
    }

    /// A job that was running, and the end of its log. Writes nothing yet.
    fn interrupted_job(&self, job: JobId) -> Result<(JobRow, LogTail), StoreError> {
        let row = self.row(job)?;
        if row.job.status != JobStatus::Running {
            return Err(StoreError::Corrupt(format!(
                "{job} is {} among the running",
                row.job.status.as_str()
            )));
        }
        Ok((row, self.tables.tail(job)?))
    }

    fn recover(
        &mut self,
        row: &mut JobRow,
        mut tail: LogTail,
        cause: RecoveryCause,
    ) -> Result<(), StoreError> {
        if row.job.cancel_requested {
            return self.end_unleased(row, FailureCode::Cancelled, CANCELLED);
        }
        if cause == RecoveryCause::Crash && row.count_crash(self.bounds.crashes) {
            return self.end_unleased(row, FailureCode::Poison, POISON);
        }
        let reason = match cause {
            RecoveryCause::Crash => "resumed after a crash",
            RecoveryCause::Disk => "resumed after a disk error",
        };
        row.resumed = Some(reason.to_owned());
        self.requeue(row, &mut tail, StatusPhase::Queued, Some(reason.to_owned()))
    }
}
