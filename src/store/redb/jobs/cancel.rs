//! Cancels a job: a queued or waiting one ends at once, the lease of a running one is cancelled, an ended one
//! stays as it is (P7).

use crate::domain::event::FailureCode;
use crate::domain::id::{JobId, UserId};
use crate::domain::job::{Job, JobStatus};
use crate::ports::{CancelReason, StoreError};
use crate::store::redb::jobs::release::CANCELLED;
use crate::store::redb::jobs::row::JobRow;
use crate::store::redb::writer::transaction::Transaction;
use crate::store::redb::writer::write::StoreWrite;
use std::sync::Arc;

/// This job of this user.
pub(crate) struct CancelJob {
    pub(crate) user: UserId,
    pub(crate) job: JobId,
}

impl StoreWrite for CancelJob {
    type Output = Option<Job>;

    fn apply(&self, transaction: &mut Transaction<'_>) -> Result<Option<Job>, StoreError> {
        let found = transaction.find_row(self.job)?;
        let Some(mut row) = found.filter(|row| row.job.user == self.user) else { return Ok(None) };
        transaction.cancel_row(&mut row)?;
        Ok(Some(row.job))
    }

    fn jobs(&self) -> Vec<JobId> {
        vec![self.job]
    }
}

impl Transaction<'_> {
    /// Cancels a job, wherever it stands.
    pub(crate) fn cancel_row(&mut self, row: &mut JobRow) -> Result<(), StoreError> {
        match row.job.status {
            JobStatus::Queued | JobStatus::Waiting => self.end_unheld(row, FailureCode::Cancelled, CANCELLED),
            JobStatus::Running if !row.job.cancel_requested => {
                row.job.cancel_requested = true;
                self.put_row(row)?;
                if let Some(mut leased) = self.lease_of(row) {
                    leased.row = Arc::new(row.clone());
                    self.effects.cancels.push((leased.cancel.clone(), CancelReason::Cancelled));
                    self.keep(leased);
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }
}
