//! Rows that do not have the width of their type. They are logged. A write transaction moves them to the
//! table `quarantine`, so that their bytes are preserved and no read finds them again.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::rc::Rc;

/// A row that does not have the width of its type.
#[derive(Debug)]
pub(crate) struct MalformedRow {
    pub(crate) value: Vec<u8>,
    /// The transaction has replaced the row, so the table keeps the new one.
    pub(crate) is_replaced: bool,
}

/// Malformed rows by key, shared with the transaction that moves them.
type CollectedRows = Rc<RefCell<BTreeMap<Vec<u8>, MalformedRow>>>;

/// Reports the malformed rows of one table.
#[derive(Debug, Clone)]
pub(crate) struct RowCheck {
    table: &'static str,
    /// Rows by key, for the write transaction that found them to move.
    collected: Option<CollectedRows>,
}

impl RowCheck {
    /// Logs only.
    pub(crate) fn new(table: &'static str) -> Self {
        Self { table, collected: None }
    }

    /// Logs, and collects the rows for [`RowCheck::take`].
    pub(crate) fn collecting(table: &'static str) -> Self {
        Self { table, collected: Some(Rc::default()) }
    }

    pub(crate) fn report(&self, key: &[u8], value: &[u8]) {
        let is_new = match &self.collected {
            Some(rows) => {
                let row = MalformedRow { value: value.to_vec(), is_replaced: false };
                rows.borrow_mut().insert(key.to_vec(), row).is_none()
            }
            None => true,
        };
        if is_new {
            tracing::error!(
                table = self.table,
                key = %Hex(key),
                value_bytes = value.len(),
                "a stored row is malformed: it is set aside"
            );
        }
    }

    /// The row has been replaced by a new one.
    pub(crate) fn mark_replaced(&self, key: &[u8]) {
        if let Some(rows) = &self.collected
            && let Some(row) = rows.borrow_mut().get_mut(key)
        {
            row.is_replaced = true;
        }
    }

    /// The rows found since the last call, by key.
    pub(crate) fn take(&self) -> BTreeMap<Vec<u8>, MalformedRow> {
        self.collected.as_ref().map(|rows| rows.take()).unwrap_or_default()
    }
}

/// The key of a row in the table `quarantine`: the table that it was in, a zero byte, its key there.
pub(crate) fn quarantine_key(table: &str, key: &[u8]) -> Vec<u8> {
    [table.as_bytes(), &[0], key].concat()
}

struct Hex<'a>(&'a [u8]);

impl fmt::Display for Hex<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}
