//! Rows as they are read: each is checked, and a range compares the order of its keys.

use crate::ports::StoreError;
use crate::store::redb::codec::lazy_table::RawBytes;
use crate::store::redb::codec::malformed_rows::RowCheck;
use crate::store::redb::codec::table_codec::TableCodec;
use crate::store::redb::codec::values;
use std::marker::PhantomData;
use std::ops::Bound;

/// A key or a value, borrowed from the table. Its bytes were checked.
pub(crate) struct StoredValue<'t, T> {
    inner: redb::AccessGuard<'t, RawBytes>,
    /// Length without the checksum.
    bytes: usize,
    types: PhantomData<T>,
}

impl<'t, T: TableCodec> StoredValue<'t, T> {
    /// `None`: the bytes are not a value of this type.
    fn key(inner: redb::AccessGuard<'t, RawBytes>) -> Option<Self> {
        T::decode(inner.value())?;
        let bytes = inner.value().len();
        Some(Self { inner, bytes, types: PhantomData })
    }

    pub(crate) fn value(&self) -> T::Ref<'_> {
        let value = self.inner.value().get(..self.bytes);
        value.and_then(T::decode).unwrap_or_else(|| unreachable!("checked when it was read"))
    }
}

/// A key with its value.
pub(crate) type TableEntry<'t, K, V> = (StoredValue<'t, K>, StoredValue<'t, V>);

type RawRange<'t> = redb::Range<'t, RawBytes, RawBytes>;
type RawEntry<'t> = (redb::AccessGuard<'t, RawBytes>, redb::AccessGuard<'t, RawBytes>);

/// Where the rows of a damaged value are reported.
pub(crate) enum Damaged {
    /// As a read says: data stays, an entry of an index is set aside by a write transaction.
    Reported,
    /// Nowhere: the row has just been replaced.
    Replaced,
}

/// The value of a row; `None`: it reads as absent.
pub(crate) fn checked_value<'t, V: TableCodec>(
    key: &[u8],
    inner: redb::AccessGuard<'t, RawBytes>,
    check: &RowCheck,
    damaged: &Damaged,
) -> Result<Option<StoredValue<'t, V>>, StoreError> {
    let bytes = match check.unseal(key, inner.value()) {
        Some(value) if V::decode(value).is_some() => value.len(),
        _ => match damaged {
            Damaged::Replaced if !V::IS_DATA => return Ok(None),
            Damaged::Replaced => 0,
            Damaged::Reported if V::IS_DATA => {
                check.report(key);
                0
            }
            Damaged::Reported if check.set_aside(key, inner.value()) => return Ok(None),
            Damaged::Reported => return Err(StoreError::Corrupt(values::DAMAGED.to_owned())),
        },
    };
    Ok(Some(StoredValue { inner, bytes, types: PhantomData }))
}

/// The value of a row that was looked up.
pub(crate) fn found_value<'t, V: TableCodec>(
    key: &[u8],
    found: Option<redb::AccessGuard<'t, RawBytes>>,
    check: &RowCheck,
) -> Result<Option<StoredValue<'t, V>>, StoreError> {
    match found {
        Some(value) => checked_value(key, value, check, &Damaged::Reported),
        None => check.refuse_absence(key).map(|()| None),
    }
}

/// The entry; `None`: it reads as absent.
fn checked_entry<'t, K: TableCodec, V: TableCodec>(
    (key, value): RawEntry<'t>,
    check: &RowCheck,
) -> Result<Option<TableEntry<'t, K, V>>, StoreError> {
    if K::decode(key.value()).is_none() {
        let is_set_aside = check.set_aside(key.value(), value.value());
        let damaged = || StoreError::Corrupt(values::DAMAGED.to_owned());
        return if is_set_aside { Ok(None) } else { Err(damaged()) };
    }
    let value = checked_value(key.value(), value, check, &Damaged::Reported)?;
    Ok(StoredValue::key(key).zip(value))
}

/// Entries in key order. A damaged page may show rows of another place, so each key is compared with those
/// before it.
pub(crate) struct TableRange<'t, K, V> {
    inner: RawRange<'t>,
    check: RowCheck,
    /// The keys that may still come.
    low: Bound<Vec<u8>>,
    high: Bound<Vec<u8>>,
    types: PhantomData<(K, V)>,
}

impl<'t, K: TableCodec, V: TableCodec> TableRange<'t, K, V> {
    pub(crate) fn new(
        inner: RawRange<'t>,
        check: &RowCheck,
        (low, high): (Bound<&[u8]>, Bound<&[u8]>),
    ) -> Result<Self, StoreError> {
        check.refuse_range((low, high))?;
        let (low, high) = (low.map(<[u8]>::to_vec), high.map(<[u8]>::to_vec));
        Ok(Self { inner, check: check.clone(), low, high, types: PhantomData })
    }

    /// Calls `next` until it returns an entry that does not read as absent.
    fn step(
        &mut self,
        next: fn(&mut RawRange<'t>) -> Option<Result<RawEntry<'t>, redb::StorageError>>,
        passed: fn(&mut Self) -> &mut Bound<Vec<u8>>,
    ) -> Result<Option<TableEntry<'t, K, V>>, StoreError> {
        while let Some(entry) = next(&mut self.inner) {
            let entry = entry?;
            if !self.may_follow(entry.0.value()) {
                return Err(StoreError::Corrupt(self.check.misplaced(entry.0.value())));
            }
            exclude(passed(self), entry.0.value());
            if let Some(entry) = checked_entry(entry, &self.check)? {
                return Ok(Some(entry));
            }
        }
        Ok(None)
    }

    fn may_follow(&self, key: &[u8]) -> bool {
        let is_above = match &self.low {
            Bound::Included(low) => low.as_slice() <= key,
            Bound::Excluded(low) => low.as_slice() < key,
            Bound::Unbounded => true,
        };
        is_above
            && match &self.high {
                Bound::Included(high) => key <= high.as_slice(),
                Bound::Excluded(high) => key < high.as_slice(),
                Bound::Unbounded => true,
            }
    }
}

/// Moves an end of a range to behind this key.
fn exclude(end: &mut Bound<Vec<u8>>, key: &[u8]) {
    match end {
        Bound::Excluded(last) => {
            last.clear();
            last.extend_from_slice(key);
        }
        _ => *end = Bound::Excluded(key.to_vec()),
    }
}

impl<'t, K: TableCodec, V: TableCodec> Iterator for TableRange<'t, K, V> {
    type Item = Result<TableEntry<'t, K, V>, StoreError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.step(redb::Range::next, |range| &mut range.low).transpose()
    }
}

impl<K: TableCodec, V: TableCodec> DoubleEndedIterator for TableRange<'_, K, V> {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.step(redb::Range::next_back, |range| &mut range.high).transpose()
    }
}
