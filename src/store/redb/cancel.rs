//! Cancelling: a queued or waiting job ends at once, a running one is told to stop, an ended one stays as it is. Refuses to see
//! other users' jobs (P7).

use super::act::Act;
use super::release::CANCELLED;
use super::row::Row;
use super::transaction::Transaction;
use crate::domain::event::FailureCode;
use crate::domain::id::{JobId, UserId};
use crate::domain::job::{Job, JobStatus};
use crate::ports::{CancelReason, StoreError};
use std::sync::Arc;

/// This job of this user.
pub(super) struct Cancel {
    pub(super) user: UserId,
    pub(super) job: JobId,
}

impl Act for Cancel {
    type Out = Option<Job>;

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
    pub(super) fn cancel_row(&mut self, row: &mut Row) -> Result<(), StoreError> {
        match row.job.status {
            JobStatus::Queued | JobStatus::Waiting => self.end_unheld(row, FailureCode::Cancelled, CANCELLED),
            JobStatus::Running if !row.job.cancel_requested => {
                row.job.cancel_requested = true;
                self.put_row(row)?;
                if let Some(mut held) = self.lease_of(row) {
                    held.row = Arc::new(row.clone());
                    self.effects.stops.push((held.stop.clone(), CancelReason::Cancelled));
                    self.keep(held);
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }
}
