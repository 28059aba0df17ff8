//! Compares two stores table by table. Digests of rows are added up, so their order does not matter.

use crate::ports::StoreError;
use crate::store::redb::transfer::{TABLES, TransferredTable};
use crate::store::transfer::copy::{Observer, RowSource};
use std::collections::HashSet;

/// A table of both stores.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableComparison {
    /// Name of the table.
    pub table: &'static str,
    /// Rows of the source.
    pub source_rows: u64,
    /// Rows of the target.
    pub target_rows: u64,
    /// The first row that differs, and how; `None`: all rows are equal.
    pub first_difference: Option<String>,
}

/// The rows of a table together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct TableDigest {
    rows: u64,
    sum: u128,
}

fn digest(
    store: &dyn RowSource,
    table: &TransferredTable,
    observe: &mut Observer<'_>,
) -> Result<TableDigest, StoreError> {
    let mut all = TableDigest::default();
    store.each_row(table, &mut |row| {
        all.rows = all.rows.saturating_add(1);
        all.sum = all.sum.wrapping_add(short(row.digest()));
        if all.rows.is_multiple_of(5_000) {
            observe(table.table.name, all.rows);
        }
        Ok(())
    })?;
    Ok(all)
}

/// Half of a digest.
fn short(digest: [u8; 32]) -> u128 {
    u128::from_be_bytes(digest.first_chunk().copied().unwrap_or_default())
}

/// Compares all tables.
pub(crate) fn compare(
    source: &dyn RowSource,
    target: &dyn RowSource,
    observe: &mut Observer<'_>,
) -> Result<Vec<TableComparison>, StoreError> {
    let compare_table = |table: &TransferredTable| {
        let (of_source, of_target) = (digest(source, table, observe)?, digest(target, table, observe)?);
        let differs = of_source != of_target;
        let first_difference = differs.then(|| first_difference(source, target, table)).transpose()?;
        Ok(TableComparison {
            table: table.table.name,
            source_rows: of_source.rows,
            target_rows: of_target.rows,
            first_difference,
        })
    };
    TABLES.iter().map(compare_table).collect()
}

/// The least key of a row that differs, and how it does.
fn first_difference(
    source: &dyn RowSource,
    target: &dyn RowSource,
    table: &TransferredTable,
) -> Result<String, StoreError> {
    let mut of_source: HashSet<u128> = HashSet::new();
    source.each_row(table, &mut |row| {
        of_source.insert(short(row.digest()));
        Ok(())
    })?;
    let (mut other, mut missing): (Option<String>, Option<String>) = (None, None);
    target.each_row(table, &mut |row| {
        if !of_source.remove(&short(row.digest())) {
            lower(&mut other, row.key(table.table.key));
        }
        Ok(())
    })?;
    source.each_row(table, &mut |row| {
        if of_source.contains(&short(row.digest())) {
            lower(&mut missing, row.key(table.table.key));
        }
        Ok(())
    })?;
    Ok(match (missing, other) {
        (Some(missing), Some(other)) if missing == other => format!("{missing} differs"),
        (Some(missing), Some(other)) if other < missing => format!("{other} is in the target only"),
        (Some(missing), _) => format!("{missing} is in the source only"),
        (None, Some(other)) => format!("{other} is in the target only"),
        (None, None) => "the rows of the source have changed meanwhile".to_owned(),
    })
}

fn lower(least: &mut Option<String>, key: String) {
    if least.as_ref().is_none_or(|least| key < *least) {
        *least = Some(key);
    }
}
