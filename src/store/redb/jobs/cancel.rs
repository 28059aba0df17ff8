//! Cancels a job: a queued or waiting one ends at once, the lease of a running one is cancelled, an ended one
//! stays as it is (P7).

use crate::domain::event::FailureCode;
use crate::domain::id::{JobId, UserId};
use crate::domain::job::{Job, JobStatus};
use crate::ports::{CancelReason, StoreError};
use crate::store::redb::writer::transaction::Transaction;
use crate::store::rows::job::CANCELLED;
use crate::store::rows::job::JobRow;
use std::sync::Arc;

impl Transaction<'_> {
    /// Cancels a job of a user.
    pub(crate) fn cancel_job(&mut self, user: UserId, job: JobId) -> Result<Option<Job>, StoreError> {
        let Some(mut row) = self.find_own_row(user, job)? else { return Ok(None) };
        self.cancel_row(&mut row)?;
        Ok(Some(self.shown(row)?))
    }

    /// Cancels a job in any state.
    pub(crate) fn cancel_row(&mut self, row: &mut JobRow) -> Result<(), StoreError> {
        match row.job.status {
            JobStatus::Queued | JobStatus::Waiting => {
                self.end_unleased(row, FailureCode::Cancelled, CANCELLED)
            }
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
