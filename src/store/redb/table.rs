//! A table as a write transaction's acts see it. Owns its opening at the first use; refuses to be kept beyond its transaction.

use super::opening::Opening;
use redb::{
    AccessGuard, Key, Range, ReadableTable, ReadableTableMetadata, StorageError, TableDefinition, TableStats,
    Value, WriteTransaction,
};
use std::borrow::Borrow;
use std::ops::RangeBounds;

type Result<T, E = StorageError> = std::result::Result<T, E>;
type Guard<'a, T> = AccessGuard<'a, T>;

/// It reads and writes like the table that it opens.
pub(super) struct Table<'t, K: Key + 'static, V: Value + 'static>(Opening<'t, K, V>);

impl<'t, K: Key + 'static, V: Value + 'static> Table<'t, K, V> {
    /// One that is not open yet.
    pub(super) fn new(writing: &'t WriteTransaction, definition: TableDefinition<'static, K, V>) -> Self {
        Self(Opening::new(writing, definition))
    }

    /// Opens it, and makes it if it is missing.
    pub(super) fn open(&self) -> Result<()> {
        self.0.get().map(drop)
    }

    /// Writes a value and gives back what stood there.
    pub(super) fn insert<'k, 'v>(
        &mut self,
        key: impl Borrow<K::SelfType<'k>>,
        value: impl Borrow<V::SelfType<'v>>,
    ) -> Result<Option<Guard<'_, V>>> {
        self.0.get_mut()?.insert(key, value)
    }

    /// Takes a value out.
    pub(super) fn remove<'a>(&mut self, key: impl Borrow<K::SelfType<'a>>) -> Result<Option<Guard<'_, V>>> {
        self.0.get_mut()?.remove(key)
    }

    /// Takes the first entry out.
    pub(super) fn pop_first(&mut self) -> Result<Option<(Guard<'_, K>, Guard<'_, V>)>> {
        self.0.get_mut()?.pop_first()
    }

    /// Removes entries that the predicate does not keep.
    pub(super) fn retain<F>(&mut self, predicate: F) -> Result<()>
    where
        F: for<'f> FnMut(K::SelfType<'f>, V::SelfType<'f>) -> bool,
    {
        self.0.get_mut()?.retain(predicate)
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
        self.0.get_mut()?.retain_in(range, predicate)
    }
}

impl<K: Key + 'static, V: Value + 'static> ReadableTableMetadata for Table<'_, K, V> {
    fn stats(&self) -> Result<TableStats> {
        self.0.get()?.stats()
    }

    fn len(&self) -> Result<u64> {
        self.0.get()?.len()
    }
}

impl<K: Key + 'static, V: Value + 'static> ReadableTable<K, V> for Table<'_, K, V> {
    fn get<'a>(&self, key: impl Borrow<K::SelfType<'a>>) -> Result<Option<Guard<'_, V>>> {
        self.0.get()?.get(key)
    }

    fn range<'a, KR>(&self, range: impl RangeBounds<KR> + 'a) -> Result<Range<'_, K, V>>
    where
        KR: Borrow<K::SelfType<'a>> + 'a,
    {
        self.0.get()?.range(range)
    }

    fn first(&self) -> Result<Option<(Guard<'_, K>, Guard<'_, V>)>> {
        self.0.get()?.first()
    }

    fn last(&self) -> Result<Option<(Guard<'_, K>, Guard<'_, V>)>> {
        self.0.get()?.last()
    }
}
