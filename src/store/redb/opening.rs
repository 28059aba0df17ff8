//! The moment at which a table of a write transaction is opened: its first use. A commit touches about ten of nearly fifty
//! tables, and to open, close and settle one costs redb several walks through its list of tables. Owns that moment; refuses to
//! know what is written.

use redb::{Key, StorageError, TableDefinition, TableError, Value, WriteTransaction};
use std::cell::OnceCell;

/// A table, open once somebody has asked for it.
pub(super) struct Opening<'t, K: Key + 'static, V: Value + 'static> {
    writing: &'t WriteTransaction,
    definition: TableDefinition<'static, K, V>,
    /// Apart, so that those that nobody touches weigh little.
    opened: OnceCell<Box<redb::Table<'t, K, V>>>,
}

impl<'t, K: Key + 'static, V: Value + 'static> Opening<'t, K, V> {
    /// One that is not open yet.
    pub(super) fn new(writing: &'t WriteTransaction, definition: TableDefinition<'static, K, V>) -> Self {
        Self { writing, definition, opened: OnceCell::new() }
    }

    /// The table, made if it is missing.
    pub(super) fn get(&self) -> Result<&redb::Table<'t, K, V>, StorageError> {
        if let Some(table) = self.opened.get() {
            return Ok(table);
        }
        let table = self.writing.open_table(self.definition).map_err(|error| match error {
            TableError::Storage(error) => error,
            other => StorageError::Corrupted(other.to_string()),
        })?;
        Ok(self.opened.get_or_init(|| Box::new(table)))
    }

    /// The same, to be changed.
    pub(super) fn get_mut(&mut self) -> Result<&mut redb::Table<'t, K, V>, StorageError> {
        self.get()?;
        let nowhere = || StorageError::Corrupted(format!("'{}' did not open", self.definition));
        self.opened.get_mut().map(Box::as_mut).ok_or_else(nowhere)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use redb::backends::InMemoryBackend;
    use redb::{ReadableDatabase, ReadableTable, TableHandle};

    const FIRST: TableDefinition<'static, u64, u64> = TableDefinition::new("first");
    const SECOND: TableDefinition<'static, u64, u64> = TableDefinition::new("second");

    #[test]
    fn a_table_that_nobody_touches_is_not_opened() {
        let database = redb::Builder::new().create_with_backend(InMemoryBackend::new()).unwrap();
        let writing = database.begin_write().unwrap();
        {
            let (mut first, second) = (Opening::new(&writing, FIRST), Opening::new(&writing, SECOND));
            assert!(first.get_mut().unwrap().insert(1, 2).unwrap().is_none());
            assert_eq!(first.get().unwrap().get(1).unwrap().unwrap().value(), 2, "it sees its own writes");
            assert!(second.opened.get().is_none());
        }
        writing.commit().unwrap();
        let reading = database.begin_read().unwrap();
        let names: Vec<_> = reading.list_tables().unwrap().map(|table| table.name().to_owned()).collect();
        assert_eq!(names, ["first"]);
    }

    #[test]
    fn a_table_of_other_types_is_a_fault_of_the_file() {
        let database = redb::Builder::new().create_with_backend(InMemoryBackend::new()).unwrap();
        let writing = database.begin_write().unwrap();
        drop(writing.open_table(FIRST).unwrap());
        let other: TableDefinition<'static, u64, &str> = TableDefinition::new("first");
        assert!(matches!(Opening::new(&writing, other).get(), Err(StorageError::Corrupted(_))));
    }
}
