//! A table of an open write transaction. Owns the moment of its opening, which is its first use: a commit touches about ten of
//! nearly fifty tables, and to open one costs redb two walks through its list of tables. Refuses to be kept beyond its
//! transaction.

use redb::{
    AccessGuard, Key, Range, ReadableTable, ReadableTableMetadata, StorageError, TableDefinition, TableError,
    TableStats, Value, WriteTransaction,
};
use std::borrow::Borrow;
use std::cell::OnceCell;
use std::ops::RangeBounds;

type Result<T, E = StorageError> = std::result::Result<T, E>;
type Guard<'a, T> = AccessGuard<'a, T>;

/// It reads and writes like the table that it opens.
pub(super) struct Table<'t, K: Key + 'static, V: Value + 'static> {
    writing: &'t WriteTransaction,
    definition: TableDefinition<'static, K, V>,
    /// Apart, so that those that nobody touches weigh little.
    opened: OnceCell<Box<redb::Table<'t, K, V>>>,
}

impl<'t, K: Key + 'static, V: Value + 'static> Table<'t, K, V> {
    /// One that is not open yet.
    pub(super) fn new(writing: &'t WriteTransaction, definition: TableDefinition<'static, K, V>) -> Self {
        Self { writing, definition, opened: OnceCell::new() }
    }

    /// Opens it, and makes it if it is missing.
    pub(super) fn open(&self) -> Result<&redb::Table<'t, K, V>> {
        if let Some(table) = self.opened.get() {
            return Ok(table);
        }
        let table = self.writing.open_table(self.definition).map_err(|error| match error {
            TableError::Storage(error) => error,
            other => StorageError::Corrupted(other.to_string()),
        })?;
        Ok(self.opened.get_or_init(|| Box::new(table)))
    }

    fn open_mut(&mut self) -> Result<&mut redb::Table<'t, K, V>> {
        self.open()?;
        let nowhere = || StorageError::Corrupted(format!("'{}' did not open", self.definition));
        self.opened.get_mut().map(Box::as_mut).ok_or_else(nowhere)
    }

    /// Writes a value and gives back what stood there.
    pub(super) fn insert<'k, 'v>(
        &mut self,
        key: impl Borrow<K::SelfType<'k>>,
        value: impl Borrow<V::SelfType<'v>>,
    ) -> Result<Option<Guard<'_, V>>> {
        self.open_mut()?.insert(key, value)
    }

    /// Takes a value out.
    pub(super) fn remove<'a>(
        &mut self,
        key: impl Borrow<K::SelfType<'a>>,
    ) -> Result<Option<Guard<'_, V>>> {
        self.open_mut()?.remove(key)
    }

    /// Takes the first entry out.
    pub(super) fn pop_first(&mut self) -> Result<Option<(Guard<'_, K>, Guard<'_, V>)>> {
        self.open_mut()?.pop_first()
    }

    /// Removes entries that the predicate does not keep.
    pub(super) fn retain<F>(&mut self, predicate: F) -> Result<()>
    where
        F: for<'f> FnMut(K::SelfType<'f>, V::SelfType<'f>) -> bool,
    {
        self.open_mut()?.retain(predicate)
    }

    /// Removes entries of this range that the predicate does not keep.
    pub(super) fn retain_in<'a, KR, F>(
        &mut self,
        range: impl RangeBounds<KR> + 'a,
        predicate: F,
    ) -> Result<()>
    where
        KR: Borrow<K::SelfType<'a>> + 'a,
        F: for<'f> FnMut(K::SelfType<'f>, V::SelfType<'f>) -> bool,
    {
        self.open_mut()?.retain_in(range, predicate)
    }
}

impl<K: Key + 'static, V: Value + 'static> ReadableTableMetadata for Table<'_, K, V> {
    fn stats(&self) -> Result<TableStats> {
        self.open()?.stats()
    }

    fn len(&self) -> Result<u64> {
        self.open()?.len()
    }
}

impl<K: Key + 'static, V: Value + 'static> ReadableTable<K, V> for Table<'_, K, V> {
    fn get<'a>(&self, key: impl Borrow<K::SelfType<'a>>) -> Result<Option<Guard<'_, V>>> {
        self.open()?.get(key)
    }

    fn range<'a, KR>(&self, range: impl RangeBounds<KR> + 'a) -> Result<Range<'_, K, V>>
    where
        KR: Borrow<K::SelfType<'a>> + 'a,
    {
        self.open()?.range(range)
    }

    fn first(&self) -> Result<Option<(Guard<'_, K>, Guard<'_, V>)>> {
        self.open()?.first()
    }

    fn last(&self) -> Result<Option<(Guard<'_, K>, Guard<'_, V>)>> {
        self.open()?.last()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use redb::backends::InMemoryBackend;
    use redb::{ReadableDatabase, TableHandle};

    const FIRST: TableDefinition<'static, u64, u64> = TableDefinition::new("first");
    const SECOND: TableDefinition<'static, u64, u64> = TableDefinition::new("second");

    #[test]
    fn a_table_that_nobody_touches_is_not_opened() {
        let database = redb::Builder::new().create_with_backend(InMemoryBackend::new()).unwrap();
        let writing = database.begin_write().unwrap();
        {
            let (mut first, second) = (Table::new(&writing, FIRST), Table::new(&writing, SECOND));
            assert!(first.insert(1, 2).unwrap().is_none());
            assert_eq!(first.get(1).unwrap().unwrap().value(), 2, "it sees its own writes");
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
        assert!(matches!(Table::new(&writing, other).get(1), Err(StorageError::Corrupted(_))));
    }
}
