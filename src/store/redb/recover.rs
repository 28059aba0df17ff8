//! After a crash or a failed commit: "running" on disk is never trusted. Owns what becomes of jobs that are running on
//! disk and that no worker of this process holds; refuses to look at any other job, so that a large store opens fast.

use super::act::Act;
use super::lease::Tail;
use super::release::CANCELLED;
use super::row::Row;
use super::table::ReadableTable;
use super::transaction::Transaction;
use crate::domain::event::{FailureCode, StatusPhase};
use crate::domain::id::{BatchId, JobId};
use crate::domain::job::JobStatus;
use crate::ports::StoreError;

/// What a poisonous job's last event says.
const POISON: &str = "the job was running each time the server crashed";

/// What cut the runs off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cause {
    /// The process died: perhaps because of the job.
    Crash,
    /// A commit failed: not the job's fault.
    Disk,
}

/// All jobs that were cut off.
pub(super) struct Recover(pub(super) Cause);

impl Act for Recover {
    type Out = ();

    fn apply(&self, transaction: &mut Transaction<'_>) -> Result<(), StoreError> {
        if self.0 == Cause::Crash {
            transaction.abandon_all()?;
        }
        let running = transaction.tables.running.iter()?;
        let jobs: Vec<_> = running
            .map(|entry| entry.map(|(job, _)| JobId::from_bytes(*job.value())))
            .collect::<Result<_, _>>()?;
        for job in jobs {
            if transaction.is_leased(job) {
                continue;
            }
            match transaction.cut_off(job) {
                Ok((mut row, tail)) => transaction.recover(&mut row, tail, self.0)?,
                Err(StoreError::Corrupt(reason)) => transaction.quarantine(job, &reason)?,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn jobs(&self) -> Vec<JobId> {
        Vec::new()
    }
}

impl Transaction<'_> {
    /// Batches that were being stored: their clients never heard of them.
    fn abandon_all(&mut self) -> Result<(), StoreError> {
        let filling = self.tables.filling.iter()?;
        let batches: Vec<_> = filling
            .map(|entry| entry.map(|(batch, _)| BatchId::from_bytes(*batch.value())))
            .collect::<Result<_, _>>()?;
        batches.into_iter().try_for_each(|batch| self.abandon(batch))
    }

    /// A job that was running, and where its log ends; nothing is written yet.
    fn cut_off(&self, job: JobId) -> Result<(Row, Tail), StoreError> {
        let row = self.row(job)?;
        if row.job.status != JobStatus::Running {
            return Err(StoreError::Corrupt(format!(
                "{job} is {} among the running",
                row.job.status.as_str()
            )));
        }
        Ok((row, self.tables.tail(job)?))
    }

    fn recover(&mut self, row: &mut Row, mut tail: Tail, cause: Cause) -> Result<(), StoreError> {
        if row.job.cancel_requested {
            return self.end_unheld(row, FailureCode::Cancelled, CANCELLED);
        }
        if cause == Cause::Crash {
            row.job.crashes = row.job.crashes.saturating_add(1);
            if row.job.crashes >= self.bounds.crashes {
                return self.end_unheld(row, FailureCode::Poison, POISON);
            }
        }
        let reason = match cause {
            Cause::Crash => "resumed after a crash",
            Cause::Disk => "resumed after a disk error",
        };
        row.resumed = Some(reason.to_owned());
        self.requeue(row, &mut tail, StatusPhase::Queued, Some(reason.to_owned()))
    }
}
