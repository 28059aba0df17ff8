//! Where jobs and events live. Owns the embedded store behind [`crate::ports::Store`]; refuses to know who reads it.

pub mod options;
mod redb;

pub use self::redb::{OpenError, RedbStore};
