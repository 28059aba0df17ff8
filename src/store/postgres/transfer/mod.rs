//! The rows of a database on their way from or to another store.

pub(crate) mod access;
pub(crate) mod check;
mod copy_text;
pub(crate) mod logs;
pub(crate) mod snapshot;
pub(crate) mod target;
