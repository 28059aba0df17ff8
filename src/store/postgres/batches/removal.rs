//! Removes batches that were never accepted, and ended ones for retention or their user. The row goes at
//! once; the lines go piece by piece in the sweeper.

use crate::domain::id::{BatchId, UserId};
use crate::ports::{BatchError, StoreError};
use crate::store::postgres::batches::row::line_number;
use crate::store::postgres::session::{Columns, sql_number};
use crate::store::postgres::writer::act::Act;
use crate::store::rows::batch::job_id;

/// Batches that retention removes in one transaction.
const SWEEP_BATCHES: i64 = 16;
/// Lines that the deletion of a batch removes at once.
const DELETED_LINES: u32 = 1_000;
/// Maximum bytes of the lines that one transaction removes; the last one may exceed it.
const SWEEP_BYTES: i64 = 4 * 1024 * 1024;

/// Removes some lines of a batch.
const REMOVE_LINES: &str = "DELETE FROM batch_lines AS l USING (\
    SELECT line FROM (SELECT line, sum(bytes) OVER (ORDER BY line) - bytes AS before FROM (\
      SELECT line, bytes FROM batch_lines WHERE batch = $1 ORDER BY line LIMIT $2) AS first) AS weighed \
    WHERE before < $3) AS gone \
    WHERE l.batch = $1 AND l.line = gone.line RETURNING l.line, l.bytes, l.has_images AND l.job IS NULL";

impl Act<'_> {
    /// Removes a batch that was never accepted.
    pub(crate) async fn abandon(&mut self, batch: BatchId) -> Result<(), StoreError> {
        let sql = "WITH gone AS (DELETE FROM unaccepted_batches WHERE batch = $1 RETURNING batch, user_id) \
                   INSERT INTO removed_batches SELECT batch, user_id FROM gone ON CONFLICT DO NOTHING";
        self.session.send(sql, &[&batch.to_string()]).await
    }

    /// Removes the batches that a node which is gone has not accepted: their clients got no response.
    pub(crate) async fn abandon_of_node(&mut self, node: i64) -> Result<(), StoreError> {
        let sql = "WITH gone AS (DELETE FROM unaccepted_batches WHERE node = $1 RETURNING batch, user_id) \
                   INSERT INTO removed_batches SELECT batch, user_id FROM gone ON CONFLICT DO NOTHING";
        self.session.send(sql, &[&node]).await
    }

    /// Unaccepted batches of this node under its old number: it lives, and so do their clients.
    pub(crate) async fn keep_unaccepted_batches(&mut self, old: i64) -> Result<(), StoreError> {
        let sql = "UPDATE unaccepted_batches SET node = $2 WHERE node = $1";
        self.session.send(sql, &[&old, &self.node]).await
    }

    /// Removes batches that ended before `before_ms`. Returns whether more work may be left.
    pub(crate) async fn forget_batches(&mut self, before_ms: u64) -> Result<bool, StoreError> {
        let sql = "WITH gone AS (DELETE FROM batches WHERE id IN (SELECT id FROM batches WHERE finished_at_ms < $1 \
                     ORDER BY finished_at_ms LIMIT $2 FOR UPDATE SKIP LOCKED) RETURNING id, user_id) \
                   INSERT INTO removed_batches SELECT id, user_id FROM gone ON CONFLICT DO NOTHING";
        let forgotten = self.session.execute(sql, &[&sql_number(before_ms), &SWEEP_BATCHES]).await?;
        Ok(forgotten > 0)
    }

    /// Removes a batch of a user, if it has ended. Returns whether the user had it.
    pub(crate) async fn delete_batch(&mut self, user: UserId, batch: BatchId) -> Result<bool, BatchError> {
        let Some(row) = self.lock_batch(batch).await?.filter(|row| row.batch.user == user) else {
            return Ok(false);
        };
        if !row.batch.status.is_terminal() {
            return Err(BatchError::NotEnded);
        }
        let sql = "WITH gone AS (DELETE FROM batches WHERE id = $1 RETURNING id, user_id) \
                   INSERT INTO removed_batches SELECT id, user_id FROM gone ON CONFLICT DO NOTHING";
        self.session.send(sql, &[&batch.to_string()]).await?;
        self.sweep_removed_batches(DELETED_LINES).await?;
        Ok(true)
    }

    /// Removes up to `limit` lines of a removed batch. Returns how many rows it removed; 0: nothing is left.
    pub(crate) async fn sweep_removed_batches(&mut self, limit: u32) -> Result<u32, StoreError> {
        let sql = "SELECT batch, user_id FROM removed_batches ORDER BY batch LIMIT 1 FOR UPDATE SKIP LOCKED";
        let Some(found) = self.session.row(sql, &[]).await? else {
            return self.abandon_of_missing_nodes().await;
        };
        let (batch, user): (BatchId, UserId) = (found.parsed(0)?, found.user(1)?);
        let params = (batch.to_string(), sql_number(limit.max(1)));
        let lines = self.session.rows(REMOVE_LINES, &[&params.0, &params.1, &SWEEP_BYTES]).await?;
        if lines.is_empty() {
            self.session.send("DELETE FROM removed_batches WHERE batch = $1", &[&params.0]).await?;
            return Ok(1);
        }
        let mut freed = 0_i64;
        for line in &lines {
            freed = freed.saturating_add(i64::from(line.column::<i32>(1)?));
            // A line that is a job has handed its images over to that.
            if line.column(2)? {
                self.release_images(user, job_id(batch, line_number(line, 0)?).into()).await?;
            }
        }
        self.count_bytes(user, freed.saturating_neg());
        Ok(u32::try_from(lines.len()).unwrap_or(u32::MAX))
    }

    /// Removes unaccepted batches of nodes that have gone without a crash. Returns how many there were.
    async fn abandon_of_missing_nodes(&mut self) -> Result<u32, StoreError> {
        let sql = "WITH gone AS (DELETE FROM unaccepted_batches AS u WHERE NOT EXISTS (SELECT FROM nodes \
                     WHERE nodes.id = u.node) RETURNING batch, user_id) \
                   INSERT INTO removed_batches SELECT batch, user_id FROM gone ON CONFLICT DO NOTHING";
        Ok(u32::try_from(self.session.execute(sql, &[]).await?).unwrap_or(u32::MAX))
    }
}
