//! Deletes an ended job with its row, input, output, log and position in its conversation. Usage and
//! idempotency keys stay. A new table that names jobs has to be cleared here, too.

use crate::domain::id::{JobId, UserId};
use crate::ports::{JobChangeError, StoreError};
use crate::store::postgres::jobs::insert::ROW_BYTES;
use crate::store::postgres::jobs::row::find;
use crate::store::postgres::session::{Columns, sql_number};
use crate::store::postgres::writer::act::Act;
use crate::store::rows::job::JobRow;

impl Act<'_> {
    /// Deletes an ended job of a user.
    pub(crate) async fn delete_job(&mut self, user: UserId, job: JobId) -> Result<bool, JobChangeError> {
        let Some(row) = self.lock_own_row(user, job).await? else { return Ok(false) };
        if !row.job.status.is_terminal() {
            return Err(JobChangeError::WrongState { status: row.job.status });
        }
        self.forget_row(&row).await?;
        Ok(true)
    }

    /// Removes an ended job with everything that belongs to it. Returns whether it was removed: an unfinished
    /// job stays. Publishes it in the announcement.
    pub(crate) async fn forget(&mut self, job: JobId) -> Result<bool, StoreError> {
        let Some(found) = find(&self.session, job).await? else { return Ok(false) };
        let row = self.lock_own_row(found.job.user, job).await?;
        let Some(row) = row.filter(|row| row.job.status.is_terminal()) else { return Ok(false) };
        self.forget_row(&row).await?;
        Ok(true)
    }

    async fn forget_row(&mut self, row: &JobRow) -> Result<(), StoreError> {
        // The log may have records of this transaction.
        self.flush().await?;
        self.release_images(row.job.user, row.id().into()).await?;
        self.leave_conversation(row).await?;
        let sql = "WITH log AS (DELETE FROM records WHERE job = $1 \
                     RETURNING CASE WHEN $2 THEN octet_length(body::text) END AS bytes), \
                   answers AS (DELETE FROM answered_approvals WHERE job = $1), \
                   gone AS (DELETE FROM jobs WHERE id = $1 RETURNING CASE WHEN $2 THEN octet_length(spec::text) \
                     + coalesce(octet_length(output::text), 0) END AS bytes) \
                   SELECT coalesce((SELECT sum(bytes) FROM log), 0) + coalesce((SELECT sum(bytes) FROM gone), 0)";
        let counts = self.limits.has_quotas;
        let freed = self.session.one(sql, &[&row.id().to_string(), &counts]).await?.number(0)?;
        self.count_bytes(row.job.user, sql_number(freed).saturating_add(ROW_BYTES).saturating_neg());
        self.effects.announcement.removed_jobs.push((row.job.user, row.id()));
        Ok(())
    }
}
