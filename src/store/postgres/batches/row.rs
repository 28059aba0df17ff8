//! Reads, locks and writes the rows of batches. The document is the truth; the columns repeat what queries
//! ask about.

use crate::domain::account::QuotaKind;
use crate::domain::batch::BatchStatus;
use crate::domain::id::BatchId;
use crate::ports::StoreError;
use crate::store::postgres::session::{Columns, SqlSession, document, sql_number, sql_user};
use crate::store::postgres::writer::act::Act;
use crate::store::rows::batch::BatchRow;
use tokio_postgres::Row;

/// The row of a batch, if there is such a batch.
pub(crate) async fn find(session: &SqlSession<'_>, batch: BatchId) -> Result<Option<BatchRow>, StoreError> {
    let sql = "SELECT row::text FROM batches WHERE id = $1";
    let found = session.row(sql, &[&batch.to_string()]).await?;
    found.map(|row| row.document(0)).transpose()
}

/// The number of a line in this column.
pub(crate) fn line_number(row: &Row, index: usize) -> Result<u32, StoreError> {
    let number: i32 = row.column(index)?;
    u32::try_from(number).map_err(|_| StoreError::Corrupt(format!("{number} is no line of a batch")))
}

/// Name of a status in the table.
fn status_name(status: BatchStatus) -> &'static str {
    match status {
        BatchStatus::InProgress => "in_progress",
        BatchStatus::Completed => "completed",
        BatchStatus::Cancelling => "cancelling",
        BatchStatus::Cancelled => "cancelled",
        BatchStatus::Finalizing => "finalizing",
        BatchStatus::Failed => "failed",
        BatchStatus::Expiring => "expiring",
        BatchStatus::Expired => "expired",
    }
}

/// Name of a quota in the table.
fn quota_name(quota: QuotaKind) -> &'static str {
    match quota {
        QuotaKind::TokensPerDay => "tokens_per_day",
        QuotaKind::CostMicrosPerDay => "cost_micros_per_day",
        QuotaKind::UnfinishedJobs => "unfinished_jobs",
        QuotaKind::StoredBytes => "stored_bytes",
    }
}

impl Act<'_> {
    /// The row of a batch, locked until the end of the transaction. Ends of its lines are counted first.
    pub(crate) async fn lock_batch(&mut self, batch: BatchId) -> Result<Option<BatchRow>, StoreError> {
        self.settle_line_ends().await?;
        let sql = "SELECT row::text FROM batches WHERE id = $1 FOR UPDATE";
        let found = self.session.row(sql, &[&batch.to_string()]).await?;
        found.map(|row| row.document(0)).transpose()
    }

    /// Writes the row, and wakes the readers of the batch after the commit. The row is new, or locked.
    pub(crate) async fn put_batch(&mut self, row: &BatchRow) -> Result<(), StoreError> {
        self.announce_batch(row.batch.id, row.new_seqs());
        let sql = "INSERT INTO batches (id, user_id, status, total, next_line, active, waiting_for, misses_files, \
                     created_at_ms, expires_at_ms, finished_at_ms, row) \
                   VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12::text::json) \
                   ON CONFLICT (id) DO UPDATE SET status = excluded.status, next_line = excluded.next_line, \
                     active = excluded.active, waiting_for = excluded.waiting_for, \
                     misses_files = excluded.misses_files, expires_at_ms = excluded.expires_at_ms, \
                     finished_at_ms = excluded.finished_at_ms, row = excluded.row";
        let batch = &row.batch;
        self.session
            .send(
                sql,
                &[
                    &batch.id.to_string(),
                    &sql_user(batch.user),
                    &status_name(batch.status),
                    &sql_number(batch.counts.total),
                    &sql_number(row.next_line),
                    &sql_number(row.active),
                    &batch.waiting_for.map(quota_name),
                    &batch.misses_files(),
                    &sql_number(batch.created_at_ms),
                    &row.due_ms().map(sql_number),
                    &batch.finished_at_ms.map(sql_number),
                    &document(row)?,
                ],
            )
            .await
    }
}
