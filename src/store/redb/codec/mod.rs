//! How keys and values become bytes, and the tables that hold them.

pub(crate) mod keys;
pub(crate) mod lazy_table;
pub(crate) mod malformed_rows;
pub(crate) mod row_bytes;
pub(crate) mod table;
pub(crate) mod tables;
pub(crate) mod values;
