//! Damaged rows: their checksum is wrong, or they do not have the width of their type. They are logged and
//! counted. A write transaction that meets one in an index moves it to the table `quarantine`, so that its
//! bytes are preserved and the index works without it. A row of data stays: each read of it fails.

use crate::domain::hex::hex;
use crate::ports::StoreError;
use crate::store::redb::codec::checksum;
use crate::store::redb::codec::damage::DamageReport;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::rc::Rc;
use std::sync::Arc;

/// A damaged row.
#[derive(Debug)]
pub(crate) struct MalformedRow {
    pub(crate) value: Vec<u8>,
    /// The transaction has replaced the row, so the table keeps the new one.
    pub(crate) is_replaced: bool,
}

/// Malformed rows by key, shared with the transaction that moves them.
type CollectedRows = Rc<RefCell<BTreeMap<Vec<u8>, MalformedRow>>>;

/// Checks the rows of one table and reports damaged ones.
#[derive(Debug, Clone)]
pub(crate) struct RowCheck {
    table: &'static str,
    damage: Arc<DamageReport>,
    /// A damaged entry of an index reads as absent.
    skips: bool,
    /// Rows by key, for the write transaction that found them to move.
    collected: Option<CollectedRows>,
}

impl RowCheck {
    /// Reports only.
    pub(crate) fn new(table: &'static str, damage: &Arc<DamageReport>) -> Self {
        Self { table, damage: Arc::clone(damage), skips: false, collected: None }
    }

    /// Reports, and collects the rows for [`RowCheck::take`].
    pub(crate) fn collecting(table: &'static str, damage: &Arc<DamageReport>) -> Self {
        Self { collected: Some(Rc::default()), ..Self::new(table, damage) }
    }

    /// Reads damaged entries of an index as absent.
    pub(crate) fn skipping(self) -> Self {
        Self { skips: true, ..self }
    }

    /// The value with its checksum.
    pub(crate) fn seal(&self, key: &[u8], value: &[u8]) -> Vec<u8> {
        checksum::seal(self.table, key, value)
    }

    /// Turns a value into the stored one.
    pub(crate) fn seal_in_place(&self, key: &[u8], value: &mut Vec<u8>) {
        checksum::seal_in_place(self.table, key, value);
    }

    /// The value of a stored one; `None`: the row is damaged.
    pub(crate) fn unseal<'v>(&self, key: &[u8], stored: &'v [u8]) -> Option<&'v [u8]> {
        checksum::unseal(self.table, key, stored)
    }

    /// Reports a damaged row, and collects it in a write transaction. Returns whether it reads as absent.
    pub(crate) fn set_aside(&self, key: &[u8], stored: &[u8]) -> bool {
        let Some(rows) = &self.collected else {
            self.report(key);
            return self.skips;
        };
        let row = MalformedRow { value: stored.to_vec(), is_replaced: false };
        rows.borrow_mut().insert(key.to_vec(), row);
        if self.is_new(key) {
            tracing::error!(table = self.table, key = %hex(key), "a stored row is damaged: it is set aside");
        }
        true
    }

    /// Reports a damaged row that stays where it is.
    pub(crate) fn report(&self, key: &[u8]) {
        if self.is_new(key) {
            tracing::error!(
                table = self.table,
                key = %hex(key),
                "a stored row is damaged: run 'nanoclaw check' on the stopped server, or restore a backup"
            );
        }
    }

    /// Reports a row that is not where its key belongs, and returns the reason for the error.
    pub(crate) fn misplaced(&self, key: &[u8]) -> String {
        let reason = format!("a page of the table '{}' is damaged: its rows are out of order", self.table);
        if self.damage.add(reason.clone()) {
            tracing::error!(table = self.table, key = %hex(key), reason);
        }
        reason
    }

    /// Fails a lookup that finds nothing where a row may be hidden.
    pub(crate) fn refuse_absence(&self, key: &[u8]) -> Result<(), StoreError> {
        self.refuse(|damage| damage.may_have(self.table, key))
    }

    /// Fails a read of keys of which rows may be hidden.
    pub(crate) fn refuse_range(&self, range: (Bound<&[u8]>, Bound<&[u8]>)) -> Result<(), StoreError> {
        self.refuse(|damage| damage.may_miss(self.table, range))
    }

    fn refuse(&self, is_hidden: impl Fn(&DamageReport) -> bool) -> Result<(), StoreError> {
        let must_go_on = self.skips || self.collected.is_some();
        if must_go_on || !is_hidden(&self.damage) {
            return Ok(());
        }
        Err(StoreError::Corrupt(format!("damage hides rows of the table '{}'", self.table)))
    }

    fn is_new(&self, key: &[u8]) -> bool {
        self.damage.add(format!("{} {}", self.table, hex(key)))
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
