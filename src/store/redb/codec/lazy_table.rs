//! Opens a table of a write transaction when it is first used. A commit touches about ten of nearly fifty
//! tables, and each open table costs redb several walks through its list of tables.

use crate::ports::StoreError;
use redb::{TableDefinition, WriteTransaction};
use std::cell::OnceCell;

/// The type of keys and values in redb.
pub(crate) type RawBytes = &'static [u8];

/// The table of this name, untyped.
pub(crate) const fn raw(name: &str) -> TableDefinition<'_, RawBytes, RawBytes> {
    TableDefinition::new(name)
}

/// A table that is opened at its first use.
pub(crate) struct LazyTable<'t> {
    writing: &'t WriteTransaction,
    name: &'static str,
    /// Boxed, so that tables that are not used take little memory.
    opened: OnceCell<Box<redb::Table<'t, RawBytes, RawBytes>>>,
}

impl<'t> LazyTable<'t> {
    /// Does not open the table.
    pub(crate) fn new(writing: &'t WriteTransaction, name: &'static str) -> Self {
        Self { writing, name, opened: OnceCell::new() }
    }

    /// The table; creates a missing one.
    pub(crate) fn get(&self) -> Result<&redb::Table<'t, RawBytes, RawBytes>, StoreError> {
        if let Some(table) = self.opened.get() {
            return Ok(table);
        }
        let table = self.writing.open_table(raw(self.name))?;
        Ok(self.opened.get_or_init(|| Box::new(table)))
    }

    /// The table for writing; creates a missing one.
    pub(crate) fn get_mut(&mut self) -> Result<&mut redb::Table<'t, RawBytes, RawBytes>, StoreError> {
        self.get()?;
        let not_opened = || StoreError::Corrupt(format!("'{}' did not open", self.name));
        self.opened.get_mut().map(Box::as_mut).ok_or_else(not_opened)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use redb::backends::InMemoryBackend;
    use redb::{ReadableDatabase, ReadableTable, TableHandle};

    #[test]
    fn an_unused_table_is_not_opened() {
        let database = redb::Builder::new().create_with_backend(InMemoryBackend::new()).unwrap();
        let writing = database.begin_write().unwrap();
        {
            let (mut first, second) = (LazyTable::new(&writing, "first"), LazyTable::new(&writing, "second"));
            assert!(first.get_mut().unwrap().insert(&b"k"[..], &b"v"[..]).unwrap().is_none());
            let seen = first.get().unwrap().get(&b"k"[..]).unwrap().unwrap();
            assert_eq!(seen.value(), b"v", "it sees its own writes");
            assert!(second.opened.get().is_none());
        }
        writing.commit().unwrap();
        let reading = database.begin_read().unwrap();
        let names: Vec<_> = reading.list_tables().unwrap().map(|table| table.name().to_owned()).collect();
        assert_eq!(names, ["first"]);
    }

    #[test]
    fn a_table_with_other_types_is_reported_as_corruption() {
        let database = redb::Builder::new().create_with_backend(InMemoryBackend::new()).unwrap();
        let writing = database.begin_write().unwrap();
        drop(writing.open_table(TableDefinition::<u64, u64>::new("typed")).unwrap());
        assert!(matches!(LazyTable::new(&writing, "typed").get(), Err(StoreError::Corrupt(_))));
    }
}
