//! Counts the lines of batches that have no job yet.

use crate::ports::StoreError;
use crate::store::postgres::session::{Columns, SqlSession};

/// Number of batches with a line that is queued or runs, and of lines of all users that have no job yet.
pub(crate) async fn open_batches(session: &SqlSession<'_>) -> Result<(u64, u64), StoreError> {
    let sql = "SELECT count(*) FILTER (WHERE active > 0), \
                 coalesce(sum(total - next_line) FILTER (WHERE status = 'in_progress'), 0)::bigint \
               FROM batches WHERE finished_at_ms IS NULL";
    let row = session.one(sql, &[]).await?;
    Ok((row.number(0)?, row.number(1)?))
}
