//! 3 → 4: tables become tables from bytes to bytes. Owns the one look at tables whose types redb still knows: it takes their
//! types from the file. Refuses types that no build wrote, and to write any.

use super::schema::{META, META_SCHEMA};
use super::table::raw;
use super::value;
use crate::ports::StoreError;
use redb::{
    Key, ReadTransaction, ReadableTable, TableDefinition, TableError, TableHandle, TypeName, Value,
    WriteTransaction,
};
use std::cell::{Cell, RefCell};
use std::cmp::Ordering;

/// The layout in which redb knew the types of tables, and those before it.
pub(super) const LAST_TYPED: u64 = 3;

/// A table on its way.
const DRAFT: &str = "loosened";

thread_local! {
    /// What the table that is being read calls its keys and values; redb asks types, not values, for it.
    static NAMES: RefCell<Option<(TypeName, TypeName)>> = const { RefCell::new(None) };
    /// How wide they are, if all are equally wide.
    static WIDTHS: Cell<(Option<usize>, Option<usize>)> = const { Cell::new((None, None)) };
}

/// A key of the table that is being read.
#[derive(Debug)]
struct OldKey;

/// A value of the table that is being read.
#[derive(Debug)]
struct OldValue;

/// Both are bytes; they differ in what they are called and how wide they are.
macro_rules! old {
    ($kind:ident, $place:tt) => {
        impl Value for $kind {
            type SelfType<'a>
                = &'a [u8]
            where
                Self: 'a;
            type AsBytes<'a>
                = &'a [u8]
            where
                Self: 'a;

            fn fixed_width() -> Option<usize> {
                WIDTHS.get().$place
            }
            fn from_bytes<'a>(data: &'a [u8]) -> &'a [u8]
            where
                Self: 'a,
            {
                data
            }
            fn as_bytes<'a, 'b: 'a>(value: &'a &'b [u8]) -> &'a [u8]
            where
                Self: 'b,
            {
                value
            }
            fn type_name() -> TypeName {
                let name = NAMES.with_borrow(|names| names.as_ref().map(|names| names.$place.clone()));
                name.unwrap_or_else(|| TypeName::new("unknown"))
            }
        }
    };
}

old!(OldKey, 0);
old!(OldValue, 1);

/// All keys that there were sort as bytes: arrays of them, and text.
impl Key for OldKey {
    fn compare(one: &[u8], two: &[u8]) -> Ordering {
        one.cmp(two)
    }
}

/// Makes all tables loose; `reading` is the file before `writing`.
pub(super) fn tables(reading: &ReadTransaction, writing: &WriteTransaction) -> Result<(), StoreError> {
    for table in reading.list_tables()? {
        if let Some(old) = open(reading, table.name())? {
            let mut draft = writing.open_table(raw(DRAFT))?;
            for entry in old.iter()? {
                let (key, value) = entry?;
                draft.insert(key.value(), value.value())?;
            }
            drop(draft);
            writing.delete_table(raw(table.name()))?;
            writing.rename_table(raw(DRAFT), raw(table.name()))?;
        }
    }
    Ok(())
}

/// The version that a file tells whose table of such things has types.
pub(super) fn version(reading: &ReadTransaction) -> Result<Option<u64>, StoreError> {
    let Some(meta) = open(reading, META.name())? else { return Ok(None) };
    let version = meta.get(META_SCHEMA.as_bytes())?;
    version.map(|bytes| value::decode(bytes.value())).transpose()
}

/// The table if it has types; nothing else may be open through these two kinds while it is looked at.
fn open(
    reading: &ReadTransaction,
    name: &str,
) -> Result<Option<redb::ReadOnlyTable<OldKey, OldValue>>, StoreError> {
    let (key, value) = match reading.open_table(raw(name)) {
        Err(TableError::TableTypeMismatch { key, value, .. }) => (key, value),
        other => return Ok(other.map(|_loose| None)?),
    };
    WIDTHS.set((width(&key)?, width(&value)?));
    NAMES.set(Some((key, value)));
    Ok(Some(reading.open_table(TableDefinition::new(name))?))
}

/// How wide all of a type are, if they are equally wide.
fn width(name: &TypeName) -> Result<Option<usize>, StoreError> {
    match name.name() {
        "&[u8]" | "&str" => Ok(None),
        "()" => Ok(Some(0)),
        "u32" => Ok(Some(4)),
        "u64" => Ok(Some(8)),
        other => {
            let bytes = other.strip_prefix("[u8;").and_then(|rest| rest.strip_suffix(']')?.parse().ok());
            bytes.map(Some).ok_or_else(|| StoreError::Corrupt(format!("a table holds {other}")))
        }
    }
}
