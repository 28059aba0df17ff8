//! A table as the rest of the store sees it: typed keys and values. Owns the way from them to bytes and back. Refuses to let
//! their types reach redb, for which every table is one from bytes to bytes: it compiles its trees once for each pair of
//! types that it knows, and 25 pairs were 1.3 MB. Arrays of bytes sort like slices, so order is the same.

use crate::store::redb::codec::lazy_table::{LazyTable, RawBytes, raw};
use redb::{
    ReadTransaction, ReadableTable as _, ReadableTableMetadata, StorageError, TableError, WriteTransaction,
};
use std::borrow::Borrow;
use std::marker::PhantomData;
use std::ops::{Bound, RangeBounds};

/// Something that stands in a table.
pub(crate) trait TableCodec: 'static {
    /// How it is handed in and out.
    type Ref<'a>;
    /// Its bytes.
    type Encoded<'a>: AsRef<[u8]>;

    /// What these bytes say. Widths are fixed by the types of the tables, so they never run short.
    fn view(bytes: &[u8]) -> Self::Ref<'_>;
    /// The bytes that say this.
    fn bytes<'a>(view: &'a Self::Ref<'_>) -> Self::Encoded<'a>;
}

impl TableCodec for RawBytes {
    type Ref<'a> = &'a [u8];
    type Encoded<'a> = &'a [u8];

    fn view(bytes: &[u8]) -> &[u8] {
        bytes
    }
    fn bytes<'a>(view: &'a &[u8]) -> &'a [u8] {
        view
    }
}

impl<const N: usize> TableCodec for &'static [u8; N] {
    type Ref<'a> = &'a [u8; N];
    type Encoded<'a> = &'a [u8];

    fn view(bytes: &[u8]) -> &[u8; N] {
        bytes.first_chunk().unwrap_or(const { &[0; N] })
    }
    fn bytes<'a>(view: &'a &[u8; N]) -> &'a [u8] {
        view.as_slice()
    }
}

impl TableCodec for &'static str {
    type Ref<'a> = &'a str;
    type Encoded<'a> = &'a [u8];

    fn view(bytes: &[u8]) -> &str {
        str::from_utf8(bytes).unwrap_or_default()
    }
    fn bytes<'a>(view: &'a &str) -> &'a [u8] {
        view.as_bytes()
    }
}

impl TableCodec for () {
    type Ref<'a> = ();
    type Encoded<'a> = [u8; 0];

    fn view(_bytes: &[u8]) {}
    fn bytes((): &()) -> [u8; 0] {
        []
    }
}

/// As redb wrote them when it knew the type: the least byte first. No key is a number.
macro_rules! numbers {
    ($($number:ty),*) => {$(
        impl TableCodec for $number {
            type Ref<'a> = Self;
            type Encoded<'a> = [u8; size_of::<Self>()];

            fn view(bytes: &[u8]) -> Self {
                bytes.first_chunk().map_or(0, |bytes| Self::from_le_bytes(*bytes))
            }
            fn bytes(view: &Self) -> [u8; size_of::<Self>()] {
                view.to_le_bytes()
            }
        }
    )*};
}

numbers!(u32, u64);

/// A table's name, and what stands in it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TypedTable<K, V> {
    name: &'static str,
    types: PhantomData<(K, V)>,
}

impl<K: TableCodec, V: TableCodec> TypedTable<K, V> {
    pub(crate) const fn new(name: &'static str) -> Self {
        Self { name, types: PhantomData }
    }

    /// The table as the transaction sees it.
    pub(crate) fn read(self, reading: &ReadTransaction) -> Result<ReadTable<K, V>, TableError> {
        Ok(ReadTable { inner: reading.open_table(raw(self.name))?, types: PhantomData })
    }

    /// The table, to be changed; made if it is missing.
    pub(crate) fn write(self, writing: &WriteTransaction) -> Result<WriteTable<'_, K, V>, StorageError> {
        let table = self.at_first_use(writing);
        table.inner.get()?;
        Ok(table)
    }

    /// The same; it opens when it is first used.
    pub(crate) fn at_first_use(self, writing: &WriteTransaction) -> WriteTable<'_, K, V> {
        WriteTable { inner: LazyTable::new(writing, self.name), types: PhantomData }
    }
}

/// A key or a value as long as it is looked at.
pub(crate) struct StoredValue<'t, T> {
    inner: redb::AccessGuard<'t, RawBytes>,
    types: PhantomData<T>,
}

impl<'t, T: TableCodec> StoredValue<'t, T> {
    fn new(inner: redb::AccessGuard<'t, RawBytes>) -> Self {
        Self { inner, types: PhantomData }
    }

    pub(crate) fn value(&self) -> T::Ref<'_> {
        T::view(self.inner.value())
    }
}

/// A key with its value.
pub(crate) type TableEntry<'t, K, V> = (StoredValue<'t, K>, StoredValue<'t, V>);

fn entry<'t, K: TableCodec, V: TableCodec>(
    (key, value): (redb::AccessGuard<'t, RawBytes>, redb::AccessGuard<'t, RawBytes>),
) -> TableEntry<'t, K, V> {
    (StoredValue::new(key), StoredValue::new(value))
}

/// Entries in the order of their keys.
pub(crate) struct TableRange<'t, K, V> {
    inner: redb::Range<'t, RawBytes, RawBytes>,
    types: PhantomData<(K, V)>,
}

impl<'t, K, V> TableRange<'t, K, V> {
    fn new(inner: redb::Range<'t, RawBytes, RawBytes>) -> Self {
        Self { inner, types: PhantomData }
    }
}

impl<'t, K: TableCodec, V: TableCodec> Iterator for TableRange<'t, K, V> {
    type Item = Result<TableEntry<'t, K, V>, StorageError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.inner.next().map(|found| found.map(entry))
    }
}

impl<K: TableCodec, V: TableCodec> DoubleEndedIterator for TableRange<'_, K, V> {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.inner.next_back().map(|found| found.map(entry))
    }
}

/// An end of a range, as bytes.
fn edge<'b, 'k: 'b, K: TableCodec, B: Borrow<K::Ref<'k>>>(bound: Bound<&'b B>) -> Bound<K::Encoded<'b>> {
    bound.map(|key| K::bytes(key.borrow()))
}

fn slice<B: AsRef<[u8]>>(bound: &Bound<B>) -> Bound<&[u8]> {
    bound.as_ref().map(AsRef::as_ref)
}

/// What can be asked of a table, whether it may be changed or not.
pub(crate) trait ReadableTable<K: TableCodec, V: TableCodec> {
    /// redb's.
    type Inner: redb::ReadableTable<RawBytes, RawBytes> + ReadableTableMetadata;
    /// redb's.
    fn inner(&self) -> Result<&Self::Inner, StorageError>;

    fn get<'k>(&self, key: impl Borrow<K::Ref<'k>>) -> Result<Option<StoredValue<'_, V>>, StorageError> {
        Ok(self.inner()?.get(K::bytes(key.borrow()).as_ref())?.map(StoredValue::new))
    }
    fn range<'k, B: Borrow<K::Ref<'k>> + 'k>(
        &self,
        range: impl RangeBounds<B> + 'k,
    ) -> Result<TableRange<'_, K, V>, StorageError> {
        let (low, high) = (edge::<K, B>(range.start_bound()), edge::<K, B>(range.end_bound()));
        Ok(TableRange::new(self.inner()?.range::<&[u8]>((slice(&low), slice(&high)))?))
    }
    #[expect(clippy::iter_not_returning_iterator, reason = "named as in redb, where opening may fail")]
    fn iter(&self) -> Result<TableRange<'_, K, V>, StorageError> {
        Ok(TableRange::new(self.inner()?.iter()?))
    }
    fn first(&self) -> Result<Option<TableEntry<'_, K, V>>, StorageError> {
        Ok(self.inner()?.first()?.map(entry))
    }
    fn last(&self) -> Result<Option<TableEntry<'_, K, V>>, StorageError> {
        Ok(self.inner()?.last()?.map(entry))
    }
    fn len(&self) -> Result<u64, StorageError> {
        self.inner()?.len()
    }
}

/// A table of a read transaction. What it hands out does not borrow it.
pub(crate) struct ReadTable<K, V> {
    inner: redb::ReadOnlyTable<RawBytes, RawBytes>,
    types: PhantomData<(K, V)>,
}

impl<K: TableCodec, V: TableCodec> ReadableTable<K, V> for ReadTable<K, V> {
    type Inner = redb::ReadOnlyTable<RawBytes, RawBytes>;

    fn inner(&self) -> Result<&Self::Inner, StorageError> {
        Ok(&self.inner)
    }
}

impl<K: TableCodec, V: TableCodec> ReadTable<K, V> {
    pub(crate) fn get<'k>(
        &self,
        key: impl Borrow<K::Ref<'k>>,
    ) -> Result<Option<StoredValue<'static, V>>, StorageError> {
        Ok(self.inner.get(K::bytes(key.borrow()).as_ref())?.map(StoredValue::new))
    }

    pub(crate) fn range<'k, B: Borrow<K::Ref<'k>> + 'k>(
        &self,
        range: impl RangeBounds<B> + 'k,
    ) -> Result<TableRange<'static, K, V>, StorageError> {
        let (low, high) = (edge::<K, B>(range.start_bound()), edge::<K, B>(range.end_bound()));
        Ok(TableRange::new(self.inner.range::<&[u8]>((slice(&low), slice(&high)))?))
    }
}

/// A table of a write transaction.
pub(crate) struct WriteTable<'t, K, V> {
    inner: LazyTable<'t>,
    types: PhantomData<(K, V)>,
}

impl<'t, K: TableCodec, V: TableCodec> ReadableTable<K, V> for WriteTable<'t, K, V> {
    type Inner = redb::Table<'t, RawBytes, RawBytes>;

    fn inner(&self) -> Result<&Self::Inner, StorageError> {
        self.inner.get()
    }
}

impl<K: TableCodec, V: TableCodec> WriteTable<'_, K, V> {
    /// Hands out what was there before.
    pub(crate) fn insert<'k, 'v>(
        &mut self,
        key: impl Borrow<K::Ref<'k>>,
        value: impl Borrow<V::Ref<'v>>,
    ) -> Result<Option<StoredValue<'_, V>>, StorageError> {
        let (key, value) = (K::bytes(key.borrow()), V::bytes(value.borrow()));
        Ok(self.inner.get_mut()?.insert(key.as_ref(), value.as_ref())?.map(StoredValue::new))
    }

    /// Hands out what was there.
    pub(crate) fn remove<'k>(
        &mut self,
        key: impl Borrow<K::Ref<'k>>,
    ) -> Result<Option<StoredValue<'_, V>>, StorageError> {
        Ok(self.inner.get_mut()?.remove(K::bytes(key.borrow()).as_ref())?.map(StoredValue::new))
    }

    pub(crate) fn pop_first(&mut self) -> Result<Option<TableEntry<'_, K, V>>, StorageError> {
        Ok(self.inner.get_mut()?.pop_first()?.map(entry))
    }

    /// Removes what `keeps` does not want.
    pub(crate) fn retain(
        &mut self,
        mut keeps: impl FnMut(K::Ref<'_>, V::Ref<'_>) -> bool,
    ) -> Result<(), StorageError> {
        self.retain_in_bytes((Bound::Unbounded, Bound::Unbounded), &mut |key, value| {
            keeps(K::view(key), V::view(value))
        })
    }

    /// The same for a part of the table.
    pub(crate) fn retain_in<'k, B: Borrow<K::Ref<'k>> + 'k>(
        &mut self,
        range: impl RangeBounds<B> + 'k,
        mut keeps: impl FnMut(K::Ref<'_>, V::Ref<'_>) -> bool,
    ) -> Result<(), StorageError> {
        let (low, high) = (edge::<K, B>(range.start_bound()), edge::<K, B>(range.end_bound()));
        self.retain_in_bytes((slice(&low), slice(&high)), &mut |key, value| {
            keeps(K::view(key), V::view(value))
        })
    }

    fn retain_in_bytes(
        &mut self,
        range: (Bound<&[u8]>, Bound<&[u8]>),
        keeps: &mut dyn FnMut(&[u8], &[u8]) -> bool,
    ) -> Result<(), StorageError> {
        self.inner.get_mut()?.retain_in::<&[u8], _>(range, |key, value| keeps(key, value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_the_bytes_that_redb_made_of_them_when_it_knew_their_types() {
        for number in [0, 1, 0x0102_0304, u32::MAX] {
            assert_eq!(u32::bytes(&number), <u32 as redb::Value>::as_bytes(&number));
            let large = u64::from(number) << 16;
            assert_eq!(u64::bytes(&large), <u64 as redb::Value>::as_bytes(&large));
            assert_eq!((u32::view(&u32::bytes(&number)), u64::view(&u64::bytes(&large))), (number, large));
        }
        assert_eq!(<&str>::bytes(&"é\0"), <&str as redb::Value>::as_bytes(&"é\0").as_bytes());
        assert_eq!(<&[u8; 3]>::view(&[1, 2, 3]), &[1, 2, 3]);
    }
}
