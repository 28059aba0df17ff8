//! Cancels a batch: no further line starts, queued jobs end, and running ones are cancelled.

use crate::domain::batch::{Batch, BatchStatus};
use crate::domain::id::{BatchId, ConversationId, JobId, UserId};
use crate::ports::StoreError;
use crate::store::postgres::batches::row;
use crate::store::postgres::batches::waiting::set_waiting;
use crate::store::postgres::session::{Columns, sql_user};
use crate::store::postgres::writer::act::Act;
use crate::store::rows::batch::BatchRow;

impl Act<'_> {
    /// Cancels a batch of a user.
    pub(crate) async fn cancel_batch(
        &mut self,
        user: UserId,
        batch: BatchId,
    ) -> Result<Option<Batch>, StoreError> {
        // The end of a job locks its conversation, the job and the batch in this order, too.
        self.lock_active_jobs(user, batch).await?;
        let found = self.lock_batch(batch).await?;
        let Some(row) = found.filter(|row| row.batch.user == user) else { return Ok(None) };
        if row.batch.status != BatchStatus::InProgress {
            return Ok(Some(row.batch));
        }
        self.cancel_open_batch(row).await?;
        Ok(row::find(&self.session, batch).await?.map(|row| row.batch))
    }

    async fn lock_active_jobs(&mut self, user: UserId, batch: BatchId) -> Result<(), StoreError> {
        let (owner, id) = (sql_user(user), batch.to_string());
        let sql = "SELECT DISTINCT jobs.conversation FROM batch_lines AS l JOIN jobs ON jobs.id = l.job \
                   WHERE l.batch = $1 AND l.is_active AND jobs.user_id = $2 AND jobs.conversation IS NOT NULL \
                   ORDER BY jobs.conversation";
        for found in self.session.rows(sql, &[&id, &owner]).await? {
            let name = ConversationId::try_from(found.column::<String>(0)?).map_err(StoreError::Corrupt)?;
            self.lock_conversation(user, Some(&name)).await?;
        }
        let sql = "SELECT jobs.id FROM batch_lines AS l JOIN jobs ON jobs.id = l.job \
                   WHERE l.batch = $1 AND l.is_active AND jobs.user_id = $2 ORDER BY jobs.id \
                   FOR NO KEY UPDATE OF jobs";
        self.session.rows(sql, &[&id, &owner]).await?;
        Ok(())
    }

    async fn cancel_open_batch(&mut self, mut row: BatchRow) -> Result<(), StoreError> {
        let (batch, unstarted) = (row.batch.id, row.unstarted());
        row.batch.status = BatchStatus::Cancelling;
        row.batch.cancelling_at_ms = Some(self.now_ms);
        row.batch.counts.failed = row.batch.counts.failed.saturating_add(unstarted);
        self.effects.unfinished = self.effects.unfinished.saturating_sub(i64::from(unstarted));
        set_waiting(&mut row, None);
        self.settle_batch(&mut row).await?;
        self.put_batch(&row).await?;
        for job in self.active_jobs(batch).await? {
            // The row is read now: an earlier one of its conversation may have changed it. Jobs that end at
            // once are counted below.
            match self.find_row(job).await {
                Ok(Some(mut row)) => self.cancel_row(&mut row).await?,
                Ok(None) => {}
                Err(StoreError::Corrupt(reason)) => {
                    tracing::error!(%job, reason, "job of a cancelled batch cannot be read");
                }
                Err(error) => return Err(error),
            }
        }
        self.settle_line_ends().await
    }

    async fn active_jobs(&self, batch: BatchId) -> Result<Vec<JobId>, StoreError> {
        let sql =
            "SELECT job FROM batch_lines WHERE batch = $1 AND is_active AND job IS NOT NULL ORDER BY line";
        let found = self.session.rows(sql, &[&batch.to_string()]).await?;
        found.iter().map(|row| row.parsed(0)).collect()
    }
}
