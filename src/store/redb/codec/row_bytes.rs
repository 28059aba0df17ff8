//! The bytes of users' rows, and their unfinished jobs. The tables report each change, so that no write can
//! be forgotten; [`crate::store::redb::accounts::stored_bytes`] and
//! [`crate::store::redb::accounts::unfinished_work`] add the changes up.

use crate::domain::id::{BatchId, JobId, ScheduleId, UserId};
use crate::store::redb::codec::keys::jobs::JobOwnerKey;
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

/// Changes of the owners' sums in one transaction, shared by its tables.
#[derive(Debug, Default, Clone)]
pub(crate) struct OwnerChanges(Rc<RefCell<HashMap<RowOwner, i64>>>);

impl OwnerChanges {
    /// Takes the changes since the last call.
    pub(crate) fn take(&self) -> HashMap<RowOwner, i64> {
        self.0.take()
    }

    /// The changes so far.
    pub(crate) fn so_far(&self) -> HashMap<RowOwner, i64> {
        self.0.borrow().clone()
    }

    /// The change of one owner so far.
    pub(crate) fn of(&self, owner: RowOwner) -> i64 {
        self.0.borrow().get(&owner).copied().unwrap_or_default()
    }

    /// Adds a change.
    pub(crate) fn add(&self, owner: RowOwner, change: i64) {
        if change != 0 {
            let mut changes = self.0.borrow_mut();
            let sum = changes.entry(owner).or_default();
            *sum = sum.saturating_add(change);
        }
    }
}

/// Reports the changes of one table: each row adds its size to the sum of its owner.
pub(crate) struct RowCounter {
    owner: fn(&[u8]) -> Option<RowOwner>,
    size: fn(&[u8], &[u8]) -> u64,
    changes: OwnerChanges,
}

impl RowCounter {
    /// Counts bytes.
    pub(crate) fn bytes(owner: fn(&[u8]) -> Option<RowOwner>, changes: &OwnerChanges) -> Self {
        Self { owner, size, changes: changes.clone() }
    }

    /// Counts the unfinished jobs of users, by the keys of their lists.
    pub(crate) fn unfinished_jobs(changes: &OwnerChanges) -> Self {
        let owner = |key: &[u8]| {
            let key = key.try_into().ok().filter(JobOwnerKey::is_unfinished)?;
            Some(RowOwner::User(JobOwnerKey::user(&key)))
        };
        Self { owner, size: |_, _| 1, changes: changes.clone() }
    }

    /// Counts a row that was written or removed.
    pub(crate) fn change(&self, key: &[u8], old: Option<&[u8]>, new: Option<&[u8]>) {
        let size = |value: Option<&[u8]>| {
            value.map_or(0, |value| i64::try_from((self.size)(key, value)).unwrap_or(i64::MAX))
        };
        if let Some(owner) = (self.owner)(key) {
            self.changes.add(owner, size(new).saturating_sub(size(old)));
        }
    }
}

/// The bytes of a row.
pub(crate) fn size(key: &[u8], value: &[u8]) -> u64 {
    u64::try_from(key.len().saturating_add(value.len())).unwrap_or(u64::MAX)
}
