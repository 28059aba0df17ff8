//! Signed checkpoints over the heads of ended jobs: one a day, and on request. Any node may make one.

use crate::domain::log_chain::{LogCheckpoint, StoredCheckpoint};
use crate::ports::StoreError;
use crate::store::postgres::jobs::row::{ROW, read_row};
use crate::store::postgres::session::{Columns, document, sql_number};
use crate::store::postgres::writer::act::Act;
use crate::store::rows::checkpoint::{CHECKPOINT_JOBS, CheckpointWindow, EndedHead, is_due, note_other_key};
use tokio_postgres::Row;

impl Act<'_> {
    /// Makes the checkpoint of this day, if the last one is a day old.
    pub(crate) async fn make_due_checkpoint(&mut self) -> Result<(), StoreError> {
        let newest = self.newest_checkpoint().await?;
        if is_due(newest.as_ref(), self.now_ms) { self.make_checkpoint().await.map(drop) } else { Ok(()) }
    }

    /// Makes a checkpoint of the jobs that have ended or come as imports since the last one. `None`: there
    /// are none, or the server has not set its key.
    pub(crate) async fn make_checkpoint(&mut self) -> Result<Option<LogCheckpoint>, StoreError> {
        let Some(key) = self.shared.log_key.get() else { return Ok(None) };
        let lock = "SELECT pg_advisory_xact_lock(hashtextextended(current_schema() || ' checkpoints', 0))";
        self.session.execute(lock, &[]).await?;
        let before = self.newest_checkpoint().await?;
        note_other_key(before.as_ref(), key);
        let window = CheckpointWindow::new(before.as_ref(), self.now_ms, self.take_imports().await?);
        let ended = self.ended_in(&window).await?;
        let Some((through_ms, heads)) = window.cover(&ended) else { return Ok(None) };
        let made = StoredCheckpoint::new(before.as_ref(), heads, (self.now_ms, through_ms), key);
        let sql = "INSERT INTO log_checkpoints (number, checkpoint) VALUES ($1, $2::text::json)";
        self.session.execute(sql, &[&sql_number(made.checkpoint.number), &document(&made)?]).await?;
        Ok(Some(made.checkpoint))
    }

    /// Takes imports from the list of those that the next checkpoint looks at. Some may have been removed.
    async fn take_imports(&self) -> Result<Vec<EndedHead>, StoreError> {
        let sql = format!(
            "WITH taken AS (DELETE FROM checkpoint_imports WHERE job IN \
               (SELECT job FROM checkpoint_imports ORDER BY job LIMIT $1) RETURNING job) \
             SELECT {ROW}, taken.job, coalesce(finished_at_ms, 0) FROM taken LEFT JOIN jobs ON jobs.id = taken.job"
        );
        read_heads(&self.session.rows(&sql, &[&sql_number(CHECKPOINT_JOBS)]).await?)
    }

    /// The first jobs of a window by their ends, with all that ended together with the last of them.
    async fn ended_in(&self, window: &CheckpointWindow) -> Result<Vec<EndedHead>, StoreError> {
        let sql = format!(
            "SELECT {ROW}, id, finished_at_ms FROM jobs WHERE retention IN (0, 1, 2) AND finished_at_ms > $1 \
             AND finished_at_ms <= $2 ORDER BY finished_at_ms FETCH FIRST $3 ROWS WITH TIES"
        );
        let (after_ms, until_ms) = (sql_number(window.after_ms), sql_number(window.until_ms));
        read_heads(&self.session.rows(&sql, &[&after_ms, &until_ms, &sql_number(window.room)]).await?)
    }

    async fn newest_checkpoint(&self) -> Result<Option<LogCheckpoint>, StoreError> {
        let sql = "SELECT (checkpoint->'checkpoint')::text FROM log_checkpoints ORDER BY number DESC LIMIT 1";
        let found = self.session.row(sql, &[]).await?;
        found.map(|row| row.document(0)).transpose()
    }
}

/// A row that cannot be read has its place, too: the next window begins behind it.
fn read_heads(rows: &[Row]) -> Result<Vec<EndedHead>, StoreError> {
    let ended = |row: &Row| {
        let head = read_row(row, 0).ok().and_then(|row| row.job.log_head);
        Ok(EndedHead { finished_at_ms: row.number(7)?, job: row.parsed(6)?, head })
    };
    rows.iter().map(ended).collect()
}
