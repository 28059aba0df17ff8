//! Tables with typed keys and values on redb tables from bytes to bytes. redb compiles its trees once for
//! each pair of types that it knows, so it knows one pair. Arrays of bytes sort like slices, so the order is
//! the same.
//!
//! Each value has a checksum ([`super::checksum`]). A row with a wrong one, or whose key or value does not
//! have the width of its type, is damaged, logged and counted ([`super::malformed_rows`]):
//! - Data, whose values are bytes: the value reads as empty, which no decoder accepts.
//! - An index, whose values have a type: a read transaction fails; in a write transaction the row reads as
//!   absent and moves to the table `quarantine`, so that the queue goes on.

use crate::domain::log_chain::{ChainLink, RecordPlace};
use crate::ports::StoreError;
use crate::store::redb::codec::checksum;
use crate::store::redb::codec::damage::DamageReport;
use crate::store::redb::codec::lazy_table::{LazyTable, RawBytes};
use crate::store::redb::codec::malformed_rows::{MalformedRow, RowCheck};
use crate::store::redb::codec::read_transaction::ReadTransaction;
use crate::store::redb::codec::row_bytes::{self, RowCounter, RowOwner};
use crate::store::redb::codec::stored_rows::{
    Damaged, StoredValue, TableEntry, TableRange, checked_value, found_value,
};
use crate::store::redb::codec::table_codec::TableCodec;
use crate::store::redb::codec::values;
use redb::{ReadableTable as _, ReadableTableMetadata, TableError, WriteTransaction};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::ops::{Bound, RangeBounds};
use std::sync::Arc;

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

    pub(crate) fn name(&self) -> &'static str {
        self.name
    }

    /// The table in a read transaction.
    pub(crate) fn read(self, reading: &ReadTransaction) -> Result<ReadTable<K, V>, TableError> {
        let inner = reading.raw_table(self.name)?;
        Ok(ReadTable { inner, check: RowCheck::new(self.name, reading.damage()), types: PhantomData })
    }

    /// The table in a write transaction; creates a missing one.
    #[cfg(test)]
    pub(crate) fn write(self, writing: &WriteTransaction) -> Result<WriteTable<'_, K, V>, StoreError> {
        let table = self.at_first_use(writing, &Arc::default());
        table.inner.get()?;
        Ok(table)
    }

    /// The same, opened at its first use.
    pub(crate) fn at_first_use<'t>(
        self,
        writing: &'t WriteTransaction,
        damage: &Arc<DamageReport>,
    ) -> WriteTable<'t, K, V> {
        let inner = LazyTable::new(writing, self.name);
        WriteTable {
            inner,
            check: RowCheck::collecting(self.name, damage),
            counter: None,
            types: PhantomData,
        }
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
        found_value(key.as_ref(), found, self.check())
    }
    fn range<'k, B: Borrow<K::Ref<'k>> + 'k>(
        &self,
        range: impl RangeBounds<B> + 'k,
    ) -> Result<TableRange<'_, K, V>, StoreError> {
        let (low, high) = (edge::<K, B>(range.start_bound()), edge::<K, B>(range.end_bound()));
        let ends = (slice(&low), slice(&high));
        TableRange::new(self.inner()?.range::<&[u8]>(ends)?, self.check(), ends)
    }
    #[expect(clippy::iter_not_returning_iterator, reason = "named as in redb, where opening may fail")]
    fn iter(&self) -> Result<TableRange<'_, K, V>, StoreError> {
        let ends = (Bound::Unbounded, Bound::Unbounded);
        TableRange::new(self.inner()?.iter()?, self.check(), ends)
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
    /// For work that must go on: a damaged entry of an index is reported and left out.
    pub(crate) fn skipping_damaged(self) -> Self {
        Self { check: self.check.skipping(), ..self }
    }

    pub(crate) fn get<'k>(
        &self,
        key: impl Borrow<K::Ref<'k>>,
    ) -> Result<Option<StoredValue<'static, V>>, StoreError> {
        let key = K::encode(key.borrow());
        let found = self.inner.get(key.as_ref())?;
        found_value(key.as_ref(), found, &self.check)
    }

    pub(crate) fn range<'k, B: Borrow<K::Ref<'k>> + 'k>(
        &self,
        range: impl RangeBounds<B> + 'k,
    ) -> Result<TableRange<'static, K, V>, StoreError> {
        let (low, high) = (edge::<K, B>(range.start_bound()), edge::<K, B>(range.end_bound()));
        let ends = (slice(&low), slice(&high));
        TableRange::new(self.inner.range::<&[u8]>(ends)?, &self.check, ends)
    }
}

impl<K: TableCodec> ReadTable<K, RawBytes> {
    /// The stored bytes of this key, checksum included and not compared.
    pub(crate) fn stored<'k>(&self, key: impl Borrow<K::Ref<'k>>) -> Result<Option<Vec<u8>>, StoreError> {
        let found = self.inner.get(K::encode(key.borrow()).as_ref())?;
        Ok(found.map(|value| value.value().to_vec()))
    }

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
    /// Adds its rows to the sums of their owners.
    counter: Option<RowCounter>,
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
        let (key, mut stored) = (K::encode(key.borrow()), values::encode(row)?);
        self.check.seal_in_place(key.as_ref(), &mut stored);
        Ok(self.insert_stored(key.as_ref(), &stored)?.is_some())
    }

    /// Stores a record of a log as JSON behind a link, and moves the link on.
    pub(crate) fn put_linked<'k, T: Serialize + ?Sized>(
        &mut self,
        key: impl Borrow<K::Ref<'k>>,
        record: &T,
        (link, place): (&mut ChainLink, RecordPlace),
    ) -> Result<(), StoreError> {
        let (key, mut stored) = (K::encode(key.borrow()), values::encode_linked(record, link, place)?);
        self.check.seal_in_place(key.as_ref(), &mut stored);
        self.insert_stored(key.as_ref(), &stored).map(drop)
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
        let stored = self.check.seal(key.as_ref(), value.as_ref());
        self.insert_stored(key.as_ref(), &stored)
    }

    /// Inserts a value with its checksum. Returns the previous value.
    fn insert_stored(&mut self, key: &[u8], stored: &[u8]) -> Result<Option<StoredValue<'_, V>>, StoreError> {
        let old = self.inner.get_mut()?.insert(key, stored)?;
        if let Some(old) = &old
            && V::IS_DATA
            && self.check.unseal(key, old.value()).is_none()
        {
            self.check.set_aside(key, old.value());
        }
        self.check.mark_replaced(key);
        if let Some(counter) = &self.counter {
            counter.change(key, old.as_ref().map(unchecked), Some(checksum::unchecked(stored)));
        }
        old.map_or(Ok(None), |value| checked_value(key, value, &self.check, &Damaged::Replaced))
    }

    /// Returns the removed value.
    pub(crate) fn remove<'k>(
        &mut self,
        key: impl Borrow<K::Ref<'k>>,
    ) -> Result<Option<StoredValue<'_, V>>, StoreError> {
        let key = K::encode(key.borrow());
        let old = self.inner.get_mut()?.remove(key.as_ref())?;
        if let Some(counter) = &self.counter {
            counter.change(key.as_ref(), old.as_ref().map(unchecked), None);
        }
        old.map_or(Ok(None), |value| checked_value(key.as_ref(), value, &self.check, &Damaged::Reported))
    }

    /// Takes the malformed rows found so far, by key.
    pub(crate) fn take_malformed(&mut self) -> Result<BTreeMap<Vec<u8>, MalformedRow>, StoreError> {
        let rows = self.check.take();
        for (key, _) in rows.iter().filter(|(_, row)| !row.is_replaced) {
            let old = self.inner.get_mut()?.remove(key.as_slice())?;
            if let Some((counter, old)) = self.counter.as_ref().zip(old) {
                counter.change(key, Some(unchecked(&old)), None);
            }
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
        let (counter, check) = (&self.counter, &self.check);
        let keeps = |key: &[u8], stored: &[u8]| {
            let value = checksum::unchecked(stored);
            let is_kept = match check.unseal(key, stored) {
                Some(value) => keeps(key, value),
                None if V::IS_DATA => keeps(key, &[]),
                None => true,
            };
            if let Some(counter) = counter.as_ref().filter(|_| !is_kept) {
                counter.change(key, Some(value), None);
            }
            is_kept
        };
        Ok(self.inner.get_mut()?.retain_in::<&[u8], _>(range, keeps)?)
    }

    /// Adds its rows to the sums of their owners.
    pub(crate) fn counted(self, counter: RowCounter) -> Self {
        Self { counter: Some(counter), ..self }
    }

    /// Calls `each` with the owners of all rows and with their bytes. The rows of an owner lie side by side.
    pub(crate) fn count_bytes(
        &self,
        owner: fn(&[u8]) -> Option<RowOwner>,
        each: &mut dyn FnMut(RowOwner, u64) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let mut last: Option<(RowOwner, u64)> = None;
        for entry in self.inner()?.iter()? {
            let (key, value) = entry?;
            let Some(owner) = owner(key.value()) else { continue };
            let size = row_bytes::size(key.value(), unchecked(&value));
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

/// The bytes of a value without its checksum.
fn unchecked<'v>(value: &'v redb::AccessGuard<'_, RawBytes>) -> &'v [u8] {
    checksum::unchecked(value.value())
}
