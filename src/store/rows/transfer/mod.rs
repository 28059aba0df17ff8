//! Rows on their way from one store to another. Each has the columns of its table of `PostgreSQL`, as text:
//! the form in which rows are copied and compared. What a store computes from other rows is not among them.

pub(crate) mod accounts;
pub(crate) mod batches;
pub(crate) mod conversations;
pub(crate) mod documents;
pub(crate) mod files;
pub(crate) mod jobs;
pub(crate) mod progress;
pub(crate) mod text_row;

use crate::ports::StoreError;
use text_row::TextRow;

/// A row of a table that stores exchange.
pub(crate) trait TransferRow: Sized {
    /// Name of the table.
    const TABLE: &'static str;
    /// The columns; the first ones are the key.
    const COLUMNS: &'static [&'static str];
    /// Number of columns of the key.
    const KEY: usize;

    /// The columns of the row.
    fn columns(&self) -> Result<TextRow, StoreError>;
    /// Reads the columns of a row.
    fn read(row: &TextRow) -> Result<Self, StoreError>;
}

/// A table that stores exchange.
#[derive(Clone, Copy)]
pub(crate) struct TransferTable {
    pub(crate) name: &'static str,
    pub(crate) columns: &'static [&'static str],
    pub(crate) key: usize,
    normal: fn(&TextRow) -> Result<TextRow, StoreError>,
}

impl TransferTable {
    /// The table of these rows.
    pub(crate) const fn of<R: TransferRow>() -> Self {
        Self { name: R::TABLE, columns: R::COLUMNS, key: R::KEY, normal: normal::<R> }
    }

    /// The row as any store returns it: columns that repeat what a document says are computed from the
    /// document. Fails if the row is no row of this table.
    pub(crate) fn normal(&self, row: &TextRow) -> Result<TextRow, StoreError> {
        (self.normal)(row).map_err(|error| error_in(self.name, &row.key(self.key), error))
    }
}

fn normal<R: TransferRow>(row: &TextRow) -> Result<TextRow, StoreError> {
    R::read(row)?.columns()
}

/// The error of a row, with the name of the row if its value is at fault.
pub(crate) fn error_in(table: &str, key: &str, error: StoreError) -> StoreError {
    match error {
        StoreError::Corrupt(reason) => StoreError::Corrupt(format!("{table} {key}: {reason}")),
        error => error,
    }
}
