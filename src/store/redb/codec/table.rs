//! Tables with typed keys and values on redb tables from bytes to bytes. redb compiles its trees once for
//! each pair of types that it knows, so it knows one pair. Arrays of bytes sort like slices, so the order is
//! the same.
//!
//! A row whose key or value does not have the width of its type is corrupt. It is logged and reads as absent;
//! a write transaction moves it to the table `quarantine` ([`super::malformed_rows`]).

use crate::ports::StoreError;
use crate::store::redb::codec::lazy_table::{LazyTable, RawBytes, raw};
use crate::store::redb::codec::malformed_rows::{MalformedRow, RowCheck};
use crate::store::redb::codec::row_bytes::{self, ByteChanges, RowBytes, RowOwner};
use crate::store::redb::codec::values;
use redb::{ReadTransaction, ReadableTable as _, ReadableTableMetadata, TableError, WriteTransaction};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::ops::{Bound, RangeBounds};

/// The type of a key or a value.
pub(crate) trait TableCodec: 'static {
    /// The value in memory.
    type Ref<'a>;
    /// Its bytes.
    type Encoded<'a>: AsRef<[u8]>;

    /// The value of these bytes; `None`: they are not a value of this type.
    fn decode(bytes: &[u8]) -> Option<Self::Ref<'_>>;
    /// The bytes of the value.
    fn encode<'a>(value: &'a Self::Ref<'_>) -> Self::Encoded<'a>;
}

impl TableCodec for RawBytes {
    type Ref<'a> = &'a [u8];
    type Encoded<'a> = &'a [u8];

    fn decode(bytes: &[u8]) -> Option<&[u8]> {
        Some(bytes)
    }
    fn encode<'a>(value: &'a &[u8]) -> &'a [u8] {
        value
    }
}

impl<const N: usize> TableCodec for &'static [u8; N] {
    type Ref<'a> = &'a [u8; N];
    type Encoded<'a> = &'a [u8];

    fn decode(bytes: &[u8]) -> Option<&[u8; N]> {
        bytes.try_into().ok()
    }
    fn encode<'a>(value: &'a &[u8; N]) -> &'a [u8] {
        value.as_slice()
    }
}

impl TableCodec for &'static str {
    type Ref<'a> = &'a str;
    type Encoded<'a> = &'a [u8];

    fn decode(bytes: &[u8]) -> Option<&str> {
        str::from_utf8(bytes).ok()
    }
    fn encode<'a>(value: &'a &str) -> &'a [u8] {
        value.as_bytes()
    }
}

impl TableCodec for () {
    type Ref<'a> = ();
    type Encoded<'a> = [u8; 0];

    fn decode(bytes: &[u8]) -> Option<()> {
        bytes.is_empty().then_some(())
    }
    fn encode((): &()) -> [u8; 0] {
        []
    }
}

/// Little endian. No key is a number.
macro_rules! numbers {
    ($($number:ty),*) => {$(
        impl TableCodec for $number {
            type Ref<'a> = Self;
            type Encoded<'a> = [u8; size_of::<Self>()];

            fn decode(bytes: &[u8]) -> Option<Self> {
                bytes.try_into().ok().map(Self::from_le_bytes)
            }
            fn encode(value: &Self) -> [u8; size_of::<Self>()] {
                value.to_le_bytes()
            }
        }
    )*};
}

numbers!(u32, u64);

/// A table's name and types.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TypedTable<K, V> {
    name: &'static str,
    types: PhantomData<(K, V)>,
}

impl<K: TableCodec, V: TableCodec> TypedTable<K, V> {
    pub(crate) const fn new(name: &'static str) -> Self {
        Self { name, types: PhantomData }
    }

    /// The table in a read transaction.
    pub(crate) fn read(self, reading: &ReadTransaction) -> Result<ReadTable<K, V>, TableError> {
        let inner = reading.open_table(raw(self.name))?;
        Ok(ReadTable { inner, check: RowCheck::new(self.name), types: PhantomData })
    }

    /// The table in a write transaction; creates a missing one.
    #[cfg(test)]
    pub(crate) fn write(self, writing: &WriteTransaction) -> Result<WriteTable<'_, K, V>, StoreError> {
        let table = self.at_first_use(writing);
        table.inner.get()?;
        Ok(table)
    }

    /// The same, opened at its first use.
    pub(crate) fn at_first_use(self, writing: &WriteTransaction) -> WriteTable<'_, K, V> {
        let inner = LazyTable::new(writing, self.name);
        WriteTable { inner, check: RowCheck::collecting(self.name), bytes: None, types: PhantomData }
    }
}

/// A key or a value, borrowed from the table. Its bytes were checked.
pub(crate) struct StoredValue<'t, T> {
    inner: redb::AccessGuard<'t, RawBytes>,
    types: PhantomData<T>,
}

impl<'t, T: TableCodec> StoredValue<'t, T> {
    /// `None`: the bytes are not a value of this type.
    fn checked(inner: redb::AccessGuard<'t, RawBytes>) -> Option<Self> {
        T::decode(inner.value())?;
        Some(Self { inner, types: PhantomData })
    }

    pub(crate) fn value(&self) -> T::Ref<'_> {
        T::decode(self.inner.value()).unwrap_or_else(|| unreachable!("checked when it was read"))
    }
}

/// A key with its value.
pub(crate) type TableEntry<'t, K, V> = (StoredValue<'t, K>, StoredValue<'t, V>);

type RawEntry<'t> = (redb::AccessGuard<'t, RawBytes>, redb::AccessGuard<'t, RawBytes>);

/// The entry; reports a malformed one and returns `None`.
fn checked_entry<'t, K: TableCodec, V: TableCodec>(
    (key, value): RawEntry<'t>,
    check: &RowCheck,
) -> Option<TableEntry<'t, K, V>> {
    if K::decode(key.value()).is_none() || V::decode(value.value()).is_none() {
        check.report(key.value(), value.value());
        return None;
    }
    StoredValue::checked(key).zip(StoredValue::checked(value))
}

/// Entries in key order, without malformed ones.
pub(crate) struct TableRange<'t, K, V> {
    inner: redb::Range<'t, RawBytes, RawBytes>,
    check: RowCheck,
    types: PhantomData<(K, V)>,
}

impl<'t, K: TableCodec, V: TableCodec> Iterator for TableRange<'t, K, V> {
    type Item = Result<TableEntry<'t, K, V>, StoreError>;

    fn next(&mut self) -> Option<Self::Item> {
        let check = &self.check;
        self.inner.find_map(|found| {
            found.map(|entry| checked_entry(entry, check)).map_err(StoreError::from).transpose()
        })
    }
}

impl<K: TableCodec, V: TableCodec> DoubleEndedIterator for TableRange<'_, K, V> {
    fn next_back(&mut self) -> Option<Self::Item> {
        let check = &self.check;
        let mut newest_first = self.inner.by_ref().rev();
        newest_first.find_map(|found| {
            found.map(|entry| checked_entry(entry, check)).map_err(StoreError::from).transpose()
        })
    }
}

/// An end of a range, as bytes.
fn edge<'b, 'k: 'b, K: TableCodec, B: Borrow<K::Ref<'k>>>(bound: Bound<&'b B>) -> Bound<K::Encoded<'b>> {
    bound.map(|key| K::encode(key.borrow()))
}

fn slice<B: AsRef<[u8]>>(bound: &Bound<B>) -> Bound<&[u8]> {
    bound.as_ref().map(AsRef::as_ref)
}

/// Reads a table, in a read or a write transaction.
pub(crate) trait ReadableTable<K: TableCodec, V: TableCodec> {
    /// redb's.
    type Inner: redb::ReadableTable<RawBytes, RawBytes> + ReadableTableMetadata;
    /// redb's.
    fn inner(&self) -> Result<&Self::Inner, StoreError>;
    /// Where malformed rows are reported.
    fn check(&self) -> &RowCheck;

    fn get<'k>(&self, key: impl Borrow<K::Ref<'k>>) -> Result<Option<StoredValue<'_, V>>, StoreError> {
        let key = K::encode(key.borrow());
        let found = self.inner()?.get(key.as_ref())?;
        Ok(found.and_then(|value| checked_value(key.as_ref(), value, self.check())))
    }
    fn range<'k, B: Borrow<K::Ref<'k>> + 'k>(
        &self,
        range: impl RangeBounds<B> + 'k,
    ) -> Result<TableRange<'_, K, V>, StoreError> {
        let (low, high) = (edge::<K, B>(range.start_bound()), edge::<K, B>(range.end_bound()));
        let inner = self.inner()?.range::<&[u8]>((slice(&low), slice(&high)))?;
        Ok(TableRange { inner, check: self.check().clone(), types: PhantomData })
    }
    #[expect(clippy::iter_not_returning_iterator, reason = "named as in redb, where opening may fail")]
    fn iter(&self) -> Result<TableRange<'_, K, V>, StoreError> {
        Ok(TableRange { inner: self.inner()?.iter()?, check: self.check().clone(), types: PhantomData })
    }
    fn first(&self) -> Result<Option<TableEntry<'_, K, V>>, StoreError> {
        self.iter()?.next().transpose()
    }
    fn last(&self) -> Result<Option<TableEntry<'_, K, V>>, StoreError> {
        self.iter()?.next_back().transpose()
    }
    fn len(&self) -> Result<u64, StoreError> {
        Ok(self.inner()?.len()?)
    }
}

fn checked_value<'t, V: TableCodec>(
    key: &[u8],
    value: redb::AccessGuard<'t, RawBytes>,
    check: &RowCheck,
) -> Option<StoredValue<'t, V>> {
    if V::decode(value.value()).is_none() {
        check.report(key, value.value());
    }
    StoredValue::checked(value)
}

/// A table of a read transaction. Its entries do not borrow it.
pub(crate) struct ReadTable<K, V> {
    inner: redb::ReadOnlyTable<RawBytes, RawBytes>,
    check: RowCheck,
    types: PhantomData<(K, V)>,
}

impl<K: TableCodec, V: TableCodec> ReadableTable<K, V> for ReadTable<K, V> {
    type Inner = redb::ReadOnlyTable<RawBytes, RawBytes>;

    fn inner(&self) -> Result<&Self::Inner, StoreError> {
        Ok(&self.inner)
    }
    fn check(&self) -> &RowCheck {
        &self.check
    }
}

impl<K: TableCodec, V: TableCodec> ReadTable<K, V> {
    pub(crate) fn get<'k>(
        &self,
        key: impl Borrow<K::Ref<'k>>,
    ) -> Result<Option<StoredValue<'static, V>>, StoreError> {
        let key = K::encode(key.borrow());
        let found = self.inner.get(key.as_ref())?;
        Ok(found.and_then(|value| checked_value(key.as_ref(), value, &self.check)))
    }

    pub(crate) fn range<'k, B: Borrow<K::Ref<'k>> + 'k>(
        &self,
        range: impl RangeBounds<B> + 'k,
    ) -> Result<TableRange<'static, K, V>, StoreError> {
        let (low, high) = (edge::<K, B>(range.start_bound()), edge::<K, B>(range.end_bound()));
        let inner = self.inner.range::<&[u8]>((slice(&low), slice(&high)))?;
        Ok(TableRange { inner, check: self.check.clone(), types: PhantomData })
    }
}

impl<K: TableCodec> ReadTable<K, RawBytes> {
    /// The row of this key, stored as JSON.
    pub(crate) fn row<'k, T: DeserializeOwned>(
        &self,
        key: impl Borrow<K::Ref<'k>>,
    ) -> Result<Option<T>, StoreError> {
        self.get(key)?.map(|bytes| values::decode(bytes.value())).transpose()
    }
}

/// A table of a write transaction.
pub(crate) struct WriteTable<'t, K, V> {
    inner: LazyTable<'t>,
    check: RowCheck,
    /// Counts the bytes of its rows, if they count as their owners'.
    bytes: Option<RowBytes>,
    types: PhantomData<(K, V)>,
}

impl<'t, K: TableCodec, V: TableCodec> ReadableTable<K, V> for WriteTable<'t, K, V> {
    type Inner = redb::Table<'t, RawBytes, RawBytes>;

    fn inner(&self) -> Result<&Self::Inner, StoreError> {
        self.inner.get()
    }
    fn check(&self) -> &RowCheck {
        &self.check
    }
}

impl<K: TableCodec> WriteTable<'_, K, RawBytes> {
    /// The row of this key, stored as JSON.
    pub(crate) fn row<'k, T: DeserializeOwned>(
        &self,
        key: impl Borrow<K::Ref<'k>>,
    ) -> Result<Option<T>, StoreError> {
        self.get(key)?.map(|bytes| values::decode(bytes.value())).transpose()
    }

    /// Stores a row as JSON. Returns whether it replaced another.
    pub(crate) fn put_row<'k, T: Serialize + ?Sized>(
        &mut self,
        key: impl Borrow<K::Ref<'k>>,
        row: &T,
    ) -> Result<bool, StoreError> {
        let bytes = values::encode(row)?;
        Ok(self.insert(key, bytes.as_slice())?.is_some())
    }
}

impl<K: TableCodec, V: TableCodec> WriteTable<'_, K, V> {
    /// Returns the previous value.
    pub(crate) fn insert<'k, 'v>(
        &mut self,
        key: impl Borrow<K::Ref<'k>>,
        value: impl Borrow<V::Ref<'v>>,
    ) -> Result<Option<StoredValue<'_, V>>, StoreError> {
        let (key, value) = (K::encode(key.borrow()), V::encode(value.borrow()));
        let old = self.inner.get_mut()?.insert(key.as_ref(), value.as_ref())?;
        self.check.mark_replaced(key.as_ref());
        if let Some(bytes) = &self.bytes {
            bytes.change(key.as_ref(), old.as_ref().map(redb::AccessGuard::value), Some(value.as_ref()));
        }
        Ok(old.and_then(StoredValue::checked))
    }

    /// Returns the removed value.
    pub(crate) fn remove<'k>(
        &mut self,
        key: impl Borrow<K::Ref<'k>>,
    ) -> Result<Option<StoredValue<'_, V>>, StoreError> {
        let key = K::encode(key.borrow());
        let old = self.inner.get_mut()?.remove(key.as_ref())?;
        if let Some(bytes) = &self.bytes {
            bytes.change(key.as_ref(), old.as_ref().map(redb::AccessGuard::value), None);
        }
        Ok(old.and_then(|value| checked_value(key.as_ref(), value, &self.check)))
    }

    /// Takes the malformed rows found so far, by key.
    pub(crate) fn take_malformed(&mut self) -> Result<BTreeMap<Vec<u8>, MalformedRow>, StoreError> {
        let rows = self.check.take();
        for (key, _) in rows.iter().filter(|(_, row)| !row.is_replaced) {
            self.inner.get_mut()?.remove(key.as_slice())?;
        }
        Ok(rows)
    }

    /// Removes the rows for which `keeps` returns false.
    pub(crate) fn retain(
        &mut self,
        mut keeps: impl FnMut(K::Ref<'_>, V::Ref<'_>) -> bool,
    ) -> Result<(), StoreError> {
        self.retain_in_bytes((Bound::Unbounded, Bound::Unbounded), &mut |key, value| {
            K::decode(key).zip(V::decode(value)).is_none_or(|(key, value)| keeps(key, value))
        })
    }

    /// The same for a range of keys.
    pub(crate) fn retain_in<'k, B: Borrow<K::Ref<'k>> + 'k>(
        &mut self,
        range: impl RangeBounds<B> + 'k,
        mut keeps: impl FnMut(K::Ref<'_>, V::Ref<'_>) -> bool,
    ) -> Result<(), StoreError> {
        let (low, high) = (edge::<K, B>(range.start_bound()), edge::<K, B>(range.end_bound()));
        self.retain_in_bytes((slice(&low), slice(&high)), &mut |key, value| {
            K::decode(key).zip(V::decode(value)).is_none_or(|(key, value)| keeps(key, value))
        })
    }

    fn retain_in_bytes(
        &mut self,
        range: (Bound<&[u8]>, Bound<&[u8]>),
        keeps: &mut dyn FnMut(&[u8], &[u8]) -> bool,
    ) -> Result<(), StoreError> {
        let bytes = &self.bytes;
        let keeps = |key: &[u8], value: &[u8]| {
            let is_kept = keeps(key, value);
            if let Some(bytes) = bytes.as_ref().filter(|_| !is_kept) {
                bytes.change(key, Some(value), None);
            }
            is_kept
        };
        Ok(self.inner.get_mut()?.retain_in::<&[u8], _>(range, keeps)?)
    }

    /// Counts the bytes of its rows as those of their owners.
    pub(crate) fn counted(self, owner: fn(&[u8]) -> Option<RowOwner>, changes: &ByteChanges) -> Self {
        Self { bytes: Some(RowBytes::new(owner, changes)), ..self }
    }

    /// Calls `each` with the owners of all rows and with their bytes, if they are counted. The rows of an
    /// owner lie side by side.
    pub(crate) fn count_bytes(
        &self,
        each: &mut dyn FnMut(RowOwner, u64) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let Some(bytes) = &self.bytes else { return Ok(()) };
        let mut last: Option<(RowOwner, u64)> = None;
        for entry in self.inner()?.iter()? {
            let (key, value) = entry?;
            let Some(owner) = bytes.owner(key.value()) else { continue };
            let size = row_bytes::size(key.value(), value.value());
            match &mut last {
                Some((of, sum)) if *of == owner => *sum = sum.saturating_add(size),
                _ => {
                    if let Some((owner, sum)) = last.replace((owner, size)) {
                        each(owner, sum)?;
                    }
                }
            }
        }
        last.map_or(Ok(()), |(owner, sum)| each(owner, sum))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_values_are_encoded_like_redb_values() {
        for number in [0, 1, 0x0102_0304, u32::MAX] {
            assert_eq!(u32::encode(&number), <u32 as redb::Value>::as_bytes(&number));
            let large = u64::from(number) << 16;
            assert_eq!(u64::encode(&large), <u64 as redb::Value>::as_bytes(&large));
            assert_eq!(u32::decode(&u32::encode(&number)), Some(number));
            assert_eq!(u64::decode(&u64::encode(&large)), Some(large));
        }
        assert_eq!(<&str>::encode(&"é\0"), <&str as redb::Value>::as_bytes(&"é\0").as_bytes());
        assert_eq!(<&[u8; 3]>::decode(&[1, 2, 3]), Some(&[1, 2, 3]));
    }

    #[test]
    fn bytes_of_a_wrong_width_do_not_decode() {
        assert_eq!((u32::decode(&[0; 3]), u64::decode(&[0; 9])), (None, None));
        assert_eq!((<&[u8; 3]>::decode(&[0; 2]), <&[u8; 3]>::decode(&[0; 4])), (None, None));
        assert_eq!((<&str>::decode(&[0xff]), <()>::decode(&[0])), (None, None));
    }
}
