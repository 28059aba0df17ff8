//! How keys and values become bytes, and the tables that hold them.

pub(crate) mod checksum;
pub(crate) mod damage;
pub(crate) mod keys;
pub(crate) mod lazy_table;
pub(crate) mod malformed_rows;
pub(crate) mod read_transaction;
pub(crate) mod row_bytes;
pub(crate) mod stored_rows;
pub(crate) mod table;
pub(crate) mod table_codec;
pub(crate) mod tables;
pub(crate) mod values;
