//! A read transaction, and where its tables report damaged rows.

use crate::store::redb::codec::damage::DamageReport;
use crate::store::redb::codec::lazy_table::{RawBytes, raw};
use redb::{ReadOnlyTable, StorageError, TableError, TableHandle};
use std::collections::HashSet;
use std::sync::Arc;

/// A snapshot of the committed state.
pub(crate) struct ReadTransaction {
    inner: redb::ReadTransaction,
    damage: Arc<DamageReport>,
}

impl ReadTransaction {
    pub(crate) fn new(inner: redb::ReadTransaction, damage: &Arc<DamageReport>) -> Self {
        Self { inner, damage: Arc::clone(damage) }
    }

    /// Where damage is reported.
    pub(crate) fn damage(&self) -> &Arc<DamageReport> {
        &self.damage
    }

    /// The table of this name, untyped.
    pub(crate) fn raw_table(&self, name: &str) -> Result<ReadOnlyTable<RawBytes, RawBytes>, TableError> {
        self.inner.open_table(raw(name))
    }

    /// The names of all tables.
    pub(crate) fn table_names(&self) -> Result<HashSet<String>, StorageError> {
        Ok(self.inner.list_tables()?.map(|table| table.name().to_owned()).collect())
    }
}

/// A transaction whose damage nobody counts: it is only logged.
impl From<redb::ReadTransaction> for ReadTransaction {
    fn from(inner: redb::ReadTransaction) -> Self {
        Self { inner, damage: Arc::default() }
    }
}
