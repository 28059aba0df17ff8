//! Cancels a job: a queued or waiting one ends at once, the lease of a running one is cancelled, on whichever
//! node it runs, and an ended one stays as it is (P7).

use crate::domain::event::FailureCode;
use crate::domain::id::{JobId, UserId};
use crate::domain::job::{Job, JobStatus};
use crate::ports::StoreError;
use crate::store::postgres::writer::act::Act;
use crate::store::rows::job::{CANCELLED, JobRow};

impl Act<'_> {
    /// Cancels a job of a user.
    pub(crate) async fn cancel_job(&mut self, user: UserId, job: JobId) -> Result<Option<Job>, StoreError> {
        self.flush().await?;
        let Some(mut row) = self.lock_own_row(user, job).await? else { return Ok(None) };
        self.cancel_row(&mut row).await?;
        Ok(Some(self.shown(row).await?))
    }

    /// Cancels a job in any state. Its row is locked.
    pub(crate) async fn cancel_row(&mut self, row: &mut JobRow) -> Result<(), StoreError> {
        match row.job.status {
            JobStatus::Queued | JobStatus::Waiting => {
                self.end_unleased(row, FailureCode::Cancelled, CANCELLED).await
            }
            JobStatus::Running if !row.job.cancel_requested => {
                row.job.cancel_requested = true;
                // The rest of the row belongs to the node that runs the job, which reads this column when it
                // ends the lease.
                let sql = "UPDATE jobs SET cancel_requested = true WHERE id = $1";
                self.confirmed.remove(&row.id());
                self.session.send(sql, &[&row.id().to_string()]).await?;
                self.effects.announcement.cancelled.push(row.id());
                Ok(())
            }
            _ => Ok(()),
        }
    }
}
