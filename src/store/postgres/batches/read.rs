//! Reads batches and the results of their lines, page by page.

use crate::domain::id::{BatchId, UserId};
use crate::ports::{BatchPage, LineOutcome, LineResult, ResultPage, StoreError};
use crate::store::postgres::batches::row::{self, line_number};
use crate::store::postgres::jobs::row::{ROW, read_row};
use crate::store::postgres::session::{Columns, SqlSession, sql_number, sql_user};
use crate::store::rows::batch::BatchRow;
use tokio_postgres::Row;

/// A user's batches, newest first.
pub(crate) async fn batches(
    session: &SqlSession<'_>,
    user: UserId,
    before: Option<BatchId>,
    limit: usize,
) -> Result<BatchPage, StoreError> {
    let sql = "SELECT row::text FROM batches WHERE user_id = $1 AND ($2::text IS NULL OR id < $2) \
               ORDER BY id DESC LIMIT $3";
    let before = before.map(|batch| batch.to_string());
    let rows = session.rows(sql, &[&sql_user(user), &before, &sql_number(limit.saturating_add(1))]).await?;
    let has_more = rows.len() > limit;
    let batches = rows.iter().take(limit).map(|row| Ok(row.document::<BatchRow>(0)?.batch));
    Ok(BatchPage { batches: batches.collect::<Result<_, StoreError>>()?, has_more })
}

/// Ended lines in input order.
pub(crate) async fn results(
    session: &SqlSession<'_>,
    batch: BatchId,
    from: u32,
    max: u32,
) -> Result<ResultPage, StoreError> {
    let row = stored(session, batch).await?;
    let total = row.batch.counts.total;
    let next = from.saturating_add(max).min(total);
    let unstarted = if row.never_started() > 0 { row.next_line } else { total };
    let condition = "l.line >= $2::bigint AND l.line < $3::bigint AND (l.ended IS NOT NULL OR l.line >= $4::bigint) \
                     ORDER BY l.line";
    let params = (batch.to_string(), sql_number(from), sql_number(next), sql_number(unstarted));
    let sql = selected(condition);
    let found = session.rows(&sql, &[&params.0, &params.1, &params.2, &params.3]).await?;
    let results = found.iter().map(|found| result(&row, found)).collect::<Result<_, _>>()?;
    Ok(ResultPage { results, next, is_last: next >= total })
}

/// Lines in the order of their ends. Lines that will certainly never start come last.
pub(crate) async fn ended(
    session: &SqlSession<'_>,
    batch: BatchId,
    after: u32,
    max: u32,
) -> Result<ResultPage, StoreError> {
    let row = stored(session, batch).await?;
    let has_ended = row.batch.status.is_terminal();
    let all = row.ended.saturating_add(row.never_started());
    let next = after.saturating_add(max).min(all);
    let mut found = Vec::new();
    if after < row.ended {
        let sql = selected("l.ended > $2::bigint AND l.ended <= $3::bigint ORDER BY l.ended");
        let params = (batch.to_string(), sql_number(after), sql_number(next.min(row.ended)));
        found = session.rows(&sql, &[&params.0, &params.1, &params.2]).await?;
    }
    if next > row.ended {
        let line_at = |number: u32| row.next_line.saturating_add(number.saturating_sub(row.ended));
        let sql = selected("l.line >= $2::bigint AND l.line < $3::bigint ORDER BY l.line");
        let params = (batch.to_string(), sql_number(line_at(after)), sql_number(line_at(next)));
        found.extend(session.rows(&sql, &[&params.0, &params.1, &params.2]).await?);
    }
    let results = found.iter().map(|found| result(&row, found)).collect::<Result<_, _>>()?;
    Ok(ResultPage { results, next: next.max(after), is_last: has_ended && next >= all })
}

/// Selects lines of the batch `$1` with their jobs.
fn selected(condition: &str) -> String {
    format!(
        "SELECT l.line, l.custom_id::text, l.job IS NOT NULL, l.ended IS NOT NULL, jobs.id IS NOT NULL, {ROW} \
         FROM batch_lines l LEFT JOIN jobs ON jobs.id = l.job WHERE l.batch = $1 AND {condition}"
    )
}

fn result(batch: &BatchRow, found: &Row) -> Result<LineResult, StoreError> {
    let (has_started, has_ended, has_job) = (found.column(2)?, found.column(3)?, found.column(4)?);
    let outcome = match (has_started, has_job) {
        (false, _) if has_ended => LineOutcome::Unreadable,
        (false, _) => batch.unstarted_outcome(),
        (true, false) => LineOutcome::Deleted,
        (true, true) => {
            let job = read_row(found, 5)?.job;
            if job.status.is_terminal() {
                LineOutcome::Ended(Box::new(job))
            } else {
                LineOutcome::Again(job.id)
            }
        }
    };
    Ok(LineResult { line: line_number(found, 0)?, custom_id: found.document(1)?, outcome })
}

async fn stored(session: &SqlSession<'_>, batch: BatchId) -> Result<BatchRow, StoreError> {
    let row = row::find(session, batch).await?;
    row.ok_or_else(|| StoreError::Corrupt(format!("{batch} has no row")))
}

/// The number that readers of the batch wait on; it rises with every change.
pub(crate) async fn new_seqs(session: &SqlSession<'_>, batch: BatchId) -> Result<u64, StoreError> {
    Ok(row::find(session, batch).await?.map_or(0, |row| row.new_seqs()))
}
