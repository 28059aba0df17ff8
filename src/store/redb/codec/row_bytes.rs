//! The bytes of users' rows. Tables that hold what users keep report each change of a row's size, so that no
//! write can be forgotten; [`crate::store::redb::accounts::stored_bytes`] adds the changes up.

use crate::domain::id::{BatchId, JobId, ScheduleId, UserId};
use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

/// The owner of a row, as its key names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum RowOwner {
    User(UserId),
    Job(JobId),
    Batch(BatchId),
    Schedule(ScheduleId),
}

/// One function for each kind of key; the owner comes first in all of them.
impl RowOwner {
    pub(crate) fn user(key: &[u8]) -> Option<Self> {
        key.first_chunk().map(|number| Self::User(UserId(u32::from_be_bytes(*number))))
    }

    pub(crate) fn job(key: &[u8]) -> Option<Self> {
        key.first_chunk().map(|id| Self::Job(JobId::from_bytes(*id)))
    }

    pub(crate) fn batch(key: &[u8]) -> Option<Self> {
        key.first_chunk().map(|id| Self::Batch(BatchId::from_bytes(*id)))
    }

    pub(crate) fn schedule(key: &[u8]) -> Option<Self> {
        key.first_chunk().map(|id| Self::Schedule(ScheduleId::from_bytes(*id)))
    }
}

/// Changes of the owners' bytes in one transaction, shared by its tables.
#[derive(Debug, Default)]
pub(crate) struct ByteChanges(Rc<RefCell<HashMap<RowOwner, i64>>>);

impl ByteChanges {
    /// Takes the changes since the last call.
    pub(crate) fn take(&self) -> HashMap<RowOwner, i64> {
        self.0.take()
    }
}

/// Reports the changes of one table.
pub(crate) struct RowBytes {
    owner: fn(&[u8]) -> Option<RowOwner>,
    changes: Rc<RefCell<HashMap<RowOwner, i64>>>,
}

impl RowBytes {
    pub(crate) fn new(owner: fn(&[u8]) -> Option<RowOwner>, changes: &ByteChanges) -> Self {
        Self { owner, changes: Rc::clone(&changes.0) }
    }

    /// The owner in a key.
    pub(crate) fn owner(&self, key: &[u8]) -> Option<RowOwner> {
        (self.owner)(key)
    }

    /// Counts a row that was written or removed.
    pub(crate) fn change(&self, key: &[u8], old: Option<&[u8]>, new: Option<&[u8]>) {
        let bytes = |value: Option<&[u8]>| {
            value.map_or(0, |value| i64::try_from(size(key, value)).unwrap_or(i64::MAX))
        };
        let change = bytes(new).saturating_sub(bytes(old));
        if change == 0 {
            return;
        }
        if let Some(owner) = self.owner(key) {
            let mut changes = self.changes.borrow_mut();
            let sum = changes.entry(owner).or_default();
            *sum = sum.saturating_add(change);
        }
    }
}

/// The bytes of a row.
pub(crate) fn size(key: &[u8], value: &[u8]) -> u64 {
    u64::try_from(key.len().saturating_add(value.len())).unwrap_or(u64::MAX)
}
