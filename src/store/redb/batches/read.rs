//! Reads batches and the results of their lines, page by page.

use crate::domain::id::{BatchId, UserId};
use crate::ports::{BatchPage, LineOutcome, LineResult, ResultPage, StoreError};
use crate::store::redb::codec::keys::batches::{
    BatchLineBytes, BatchLineKey, OwnedBatchBytes, OwnedBatchKey,
};
use crate::store::redb::codec::keys::jobs::JobBytes;
use crate::store::redb::codec::read_transaction::ReadTransaction;
use crate::store::redb::codec::table::ReadableTable;
use crate::store::redb::codec::tables::{BATCH_ENDED, BATCH_LINES, BATCHES, BATCHES_OWNED};
use crate::store::redb::codec::values;
use crate::store::redb::jobs::read;
use crate::store::rows::batch::{BatchLineRow, BatchRow};
use std::ops::Bound;

/// The row of a batch, if there is such a batch.
pub(crate) fn row(reading: &ReadTransaction, batch: BatchId) -> Result<Option<BatchRow>, StoreError> {
    BATCHES.read(reading)?.row(&batch.to_bytes())
}

/// A user's batches, newest first.
pub(crate) fn batches(
    reading: &ReadTransaction,
    user: UserId,
    before: Option<BatchId>,
    limit: usize,
) -> Result<BatchPage, StoreError> {
    let owned = BATCHES_OWNED.read(reading)?;
    let first = OwnedBatchKey { user, batch: BatchId::from_bits(0) }.encode();
    let until = before.unwrap_or(BatchId::from_bits(u128::MAX));
    let until = OwnedBatchKey { user, batch: until }.encode();
    let mut page = BatchPage { batches: Vec::new(), has_more: false };
    for entry in owned.range::<&OwnedBatchBytes>(&first..&until)?.rev() {
        if page.batches.len() == limit {
            page.has_more = true;
            break;
        }
        let batch = OwnedBatchKey::decode(entry?.0.value()).batch;
        page.batches.push(values::listed(batch, row(reading, batch))?.batch);
    }
    Ok(page)
}

/// Ended lines in input order.
pub(crate) fn results(
    reading: &ReadTransaction,
    batch: BatchId,
    from: u32,
    max: u32,
) -> Result<ResultPage, StoreError> {
    let row = stored(reading, batch)?;
    let next = from.saturating_add(max).min(row.batch.counts.total);
    let mut results = Vec::new();
    for line in from..next {
        let stored = line_row(reading, BatchLineKey { batch, line })?;
        if stored.has_ended || (line >= row.next_line && row.never_started() > 0) {
            results.push(result(reading, &row, line, stored)?);
        }
    }
    Ok(ResultPage { results, next, is_last: next >= row.batch.counts.total })
}

/// Lines in the order of their ends. Lines that will certainly never start come last.
pub(crate) fn ended(
    reading: &ReadTransaction,
    batch: BatchId,
    after: u32,
    max: u32,
) -> Result<ResultPage, StoreError> {
    let row = stored(reading, batch)?;
    let has_ended = row.batch.status.is_terminal();
    let all = row.ended.saturating_add(row.never_started());
    let next = after.saturating_add(max).min(all);
    let order = BATCH_ENDED.read(reading)?;
    let mut results = Vec::new();
    for number in after..next {
        let line = if let Some(behind) = number.checked_sub(row.ended) {
            row.next_line.saturating_add(behind)
        } else {
            let key = BatchLineKey { batch, line: number.saturating_add(1) };
            let line = order.get(&key.encode())?.map(|line| line.value());
            line.ok_or_else(|| StoreError::Corrupt("an ended line has no place".to_owned()))?
        };
        results.push(result(reading, &row, line, line_row(reading, BatchLineKey { batch, line })?)?);
    }
    Ok(ResultPage { results, next: next.max(after), is_last: has_ended && next >= all })
}

fn result(
    reading: &ReadTransaction,
    batch: &BatchRow,
    line: u32,
    row: BatchLineRow,
) -> Result<LineResult, StoreError> {
    let outcome = match row.job {
        None if row.has_ended => LineOutcome::Unreadable,
        None => batch.unstarted_outcome(),
        Some(id) => match read::row(reading, id)? {
            Some(row) if row.job.status.is_terminal() => LineOutcome::Ended(Box::new(row.job)),
            Some(row) => LineOutcome::Again(row.job.id),
            None => LineOutcome::Deleted,
        },
    };
    Ok(LineResult { line, custom_id: row.custom_id, outcome })
}

fn stored(reading: &ReadTransaction, batch: BatchId) -> Result<BatchRow, StoreError> {
    row(reading, batch)?.ok_or_else(|| StoreError::Corrupt(format!("{batch} has no row")))
}

fn line_row(reading: &ReadTransaction, key: BatchLineKey) -> Result<BatchLineRow, StoreError> {
    let row = BATCH_LINES.read(reading)?.row(&key.encode())?;
    row.ok_or_else(|| StoreError::Corrupt("a line has no row".to_owned()))
}

/// Lines of a user's open batches that have no job yet, counted by reading. `find` reads a batch; the tables
/// are those of lines with a job and of waiting batches.
pub(crate) fn unstarted_lines(
    (active, waiting): (
        &impl ReadableTable<&'static BatchLineBytes, &'static JobBytes>,
        &impl ReadableTable<&'static OwnedBatchBytes, ()>,
    ),
    find: impl Fn(BatchId) -> Result<Option<BatchRow>, StoreError>,
    user: UserId,
) -> Result<u64, StoreError> {
    let unstarted = |batch| -> Result<u64, StoreError> {
        let found = values::skip_unreadable(batch, find(batch))?.filter(|row| row.batch.user == user);
        Ok(found.map_or(0, |row| u64::from(row.waiting_lines())))
    };
    let mut count = 0_u64;
    let (first, last) = OwnedBatchKey::ends(user);
    for entry in waiting.range::<&OwnedBatchBytes>(&first.encode()..=&last.encode())? {
        let batch = OwnedBatchKey::decode(entry?.0.value()).batch;
        let (first, last) = BatchLineKey::all_of(batch);
        // One with an active line is counted below.
        if active.range::<&BatchLineBytes>(&first..=&last)?.next().is_none() {
            count = count.saturating_add(unstarted(batch)?);
        }
    }
    let mut from = Bound::Unbounded;
    // An open batch has an active line or waits, so batches that have ended cost nothing.
    loop {
        let next = active.range::<&BatchLineBytes>((from.as_ref(), Bound::Unbounded))?.next().transpose()?;
        let Some(batch) = next.map(|(key, _)| BatchLineKey::decode(key.value()).batch) else { break };
        count = count.saturating_add(unstarted(batch)?);
        from = Bound::Excluded(BatchLineKey::all_of(batch).1);
    }
    Ok(count)
}

/// The number that readers of the batch wait on; it rises with every change.
pub(crate) fn new_seqs(reading: &ReadTransaction, batch: BatchId) -> Result<u64, StoreError> {
    Ok(row(reading, batch)?.map_or(0, |row| row.new_seqs()))
}
