//! Which layout a closed store's file has. Owns the look from outside, which changes nothing; refuses to say what is in it.

use super::schema::{self, Layout};
use redb::ReadOnlyDatabase;
use std::path::Path;

/// The layout that this build writes.
pub const LAYOUT: u64 = schema::VERSION;

/// The layout of the file; `None` where it cannot be told: no store, one that a server holds, or one that has to be
/// recovered first.
pub fn layout(path: &Path) -> Option<u64> {
    let database = ReadOnlyDatabase::open(path).ok()?;
    match schema::inspect(&database).ok()? {
        Layout::Known(version) => Some(version),
        Layout::Empty => None,
    }
}
