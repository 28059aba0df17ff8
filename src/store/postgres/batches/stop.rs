//! Stops a batch that is cancelled or expires: no further line starts, queued jobs end, and running ones are
//! cancelled.

use crate::domain::batch::{Batch, BatchStatus};
use crate::domain::id::{BatchId, ConversationId, JobId, UserId};
use crate::ports::StoreError;
use crate::store::postgres::batches::row;
use crate::store::postgres::batches::waiting::set_waiting;
use crate::store::postgres::session::{Columns, SqlSession, sql_number, sql_user};
use crate::store::postgres::writer::act::Act;
use crate::store::rows::batch::BatchRow;

/// Whether the time of an open batch is over.
pub(crate) async fn is_any_due(session: &SqlSession<'_>, now_ms: u64) -> Result<bool, StoreError> {
    let sql = "SELECT EXISTS (SELECT FROM batches WHERE expires_at_ms <= $1)";
    session.one(sql, &[&sql_number(now_ms)]).await?.column(0)
}

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
        self.stop_batch(row, BatchStatus::Cancelling).await?;
        Ok(row::find(&self.session, batch).await?.map(|row| row.batch))
    }

    /// Expires the open batch whose time was over first. Returns whether there was one. Only one node does so
    /// at a time.
    pub(crate) async fn expire_due_batch(&mut self) -> Result<bool, StoreError> {
        let sql = "SELECT pg_try_advisory_xact_lock(hashtextextended(current_schema() || ' expire', 0))";
        if !self.session.one(sql, &[]).await?.column::<bool>(0)? {
            return Ok(false);
        }
        let sql =
            "SELECT id, user_id FROM batches WHERE expires_at_ms <= $1 ORDER BY expires_at_ms, id LIMIT 1";
        let Some(found) = self.session.row(sql, &[&sql_number(self.now_ms)]).await? else { return Ok(false) };
        let (batch, user): (BatchId, UserId) = (found.parsed(0)?, found.user(1)?);
        self.lock_active_jobs(user, batch).await?;
        match self.lock_batch(batch).await {
            // It may have ended meanwhile.
            Ok(Some(row)) if row.due_ms().is_some_and(|due_ms| due_ms <= self.now_ms) => {
                tracing::info!(%batch, user = user.0, "batch expired");
                self.stop_batch(row, BatchStatus::Expiring).await?;
            }
            Ok(_) => {}
            Err(StoreError::Corrupt(reason)) => {
                tracing::error!(%batch, reason, "batch cannot be read; it does not expire");
                let sql = "UPDATE batches SET expires_at_ms = NULL WHERE id = $1";
                self.session.execute(sql, &[&batch.to_string()]).await?;
            }
            Err(error) => return Err(error),
        }
        Ok(true)
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

    async fn stop_batch(&mut self, mut row: BatchRow, status: BatchStatus) -> Result<(), StoreError> {
        let (batch, unstarted) = (row.batch.id, row.stop(status, self.now_ms));
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
                    tracing::error!(%job, reason, "job of a stopped batch cannot be read");
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
