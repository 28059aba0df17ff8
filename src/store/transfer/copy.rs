//! Copies rows table by table, and continues where an earlier attempt stopped.

use crate::ports::StoreError;
use crate::store::postgres::transfer::snapshot::Snapshot;
use crate::store::redb::ReadTransaction;
use crate::store::redb::transfer::{EachRow, TABLES, TransferredTable};
use crate::store::rows::transfer::progress::TransferProgress;
use crate::store::rows::transfer::text_row::TextRow;

/// Maximum rows of one transaction of the target.
const BATCH_ROWS: usize = 5_000;
/// Size of one transaction of the target, bytes; its last row may exceed it.
const BATCH_BYTES: usize = 4 * 1024 * 1024;

/// Where rows come from. They come in the same order each time.
pub(crate) trait RowSource {
    /// Calls `each` with all rows of a table.
    fn each_row(&self, table: &TransferredTable, each: &mut EachRow<'_, TextRow>) -> Result<(), StoreError>;
}

impl RowSource for ReadTransaction {
    fn each_row(&self, table: &TransferredTable, each: &mut EachRow<'_, TextRow>) -> Result<(), StoreError> {
        (table.each)(self, each)
    }
}

impl RowSource for Snapshot<'_> {
    fn each_row(&self, table: &TransferredTable, each: &mut EachRow<'_, TextRow>) -> Result<(), StoreError> {
        Snapshot::each_row(self, &table.table, &mut |row| each(table.table.normal(&row)?))
    }
}

/// Takes rows of a table, and how far they go.
pub(crate) type PutRows<'p> =
    dyn FnMut(&TransferredTable, &[TextRow], &TransferProgress) -> Result<(), StoreError> + 'p;

/// Gets the table that is copied or compared, and its rows so far.
pub(crate) type Observer<'o> = dyn FnMut(&'static str, u64) + 'o;

/// Copies the rows that an earlier attempt has not copied.
pub(crate) fn copy(
    source: &dyn RowSource,
    start: &TransferProgress,
    put: &mut PutRows<'_>,
    observe: &mut Observer<'_>,
) -> Result<(), StoreError> {
    let first = TABLES.iter().position(|table| table.table.name == start.table).unwrap_or_default();
    for table in TABLES.iter().skip(first) {
        let copied = if table.table.name == start.table { start.rows } else { 0 };
        let mut batch = RowBatch { rows: Vec::new(), bytes: 0 };
        let mut progress =
            TransferProgress { source: start.source.clone(), table: table.table.name.to_owned(), rows: 0 };
        source.each_row(table, &mut |row| {
            progress.rows = progress.rows.saturating_add(1);
            if progress.rows <= copied {
                return Ok(());
            }
            batch.bytes = batch.bytes.saturating_add(row.len());
            batch.rows.push(row);
            if batch.rows.len() >= BATCH_ROWS || batch.bytes >= BATCH_BYTES {
                put(table, &batch.rows, &progress)?;
                observe(table.table.name, progress.rows);
                batch = RowBatch { rows: Vec::new(), bytes: 0 };
            }
            Ok(())
        })?;
        if !batch.rows.is_empty() {
            put(table, &batch.rows, &progress)?;
            observe(table.table.name, progress.rows);
        }
    }
    Ok(())
}

/// The rows of one transaction.
struct RowBatch {
    rows: Vec<TextRow>,
    bytes: usize,
}
