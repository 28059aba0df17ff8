//! Quotas while several write into one project. Owns the sum of what is there and what is on its way; refuses to know
//! where a quota comes from. Commands of jobs write past it: the next writer's count finds what they left.

use super::count::{Count, count};
use super::refusal::refused;
use crate::domain::id::ProjectId;
use crate::ports::{FileError, StorageAllowance};
use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// The tallies of projects that somebody writes into.
#[derive(Default)]
pub(super) struct Tallies(Mutex<HashMap<ProjectId, Weak<Tally>>>);

/// One project's.
#[derive(Default)]
struct Tally(Mutex<Held>);

#[derive(Default)]
struct Held {
    /// What the last count found, and what came to its place since.
    there: Sum,
    /// What writers have announced.
    coming: Sum,
}

/// Bytes, and files and directories.
#[derive(Debug, Clone, Copy, Default)]
struct Sum {
    bytes: u64,
    entries: u64,
}

impl Sum {
    fn add(&mut self, other: Self) {
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.entries = self.entries.saturating_add(other.entries);
    }

    fn take(&mut self, other: Self) {
        self.bytes = self.bytes.saturating_sub(other.bytes);
        self.entries = self.entries.saturating_sub(other.entries);
    }
}

/// One writer's part. What did not come to its place is given back when it goes.
pub(super) struct Share {
    tally: Arc<Tally>,
    most: StorageAllowance,
    coming: Sum,
}

impl Tallies {
    /// Joins the writers of a project, whose tree is counted anew.
    pub(super) fn join(
        &self,
        id: ProjectId,
        project: &OwnedFd,
        most: StorageAllowance,
    ) -> Result<Share, FileError> {
        let tally = {
            let mut all = lock(&self.0);
            all.retain(|_, tally| tally.strong_count() > 0);
            let known = all.get(&id).and_then(Weak::upgrade);
            let tally = known.unwrap_or_default();
            all.insert(id, Arc::downgrade(&tally));
            tally
        };
        {
            // Under the lock: nobody's file comes to its place uncounted, or counted twice.
            let mut held = lock(&tally.0);
            let found =
                count(project, most.project_entries.saturating_add(1)).map_err(|e| refused(e, "."))?;
            held.there = sum(&found);
        }
        Ok(Share { tally, most, coming: Sum::default() })
    }
}

/// What a count means: a tree that could not be counted to its end has no room, neither for names nor for bytes.
fn sum(found: &Count) -> Sum {
    if found.is_cut {
        return Sum { bytes: u64::MAX, entries: u64::MAX };
    }
    Sum { bytes: found.bytes, entries: found.entries() }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Share {
    /// Announces bytes.
    pub(super) fn add_bytes(&mut self, bytes: u64) -> Result<(), FileError> {
        self.add(Sum { bytes, entries: 0 })
    }

    /// Announces a file or a directory.
    pub(super) fn add_entry(&mut self) -> Result<(), FileError> {
        self.add(Sum { bytes: 0, entries: 1 })
    }

    fn add(&mut self, more: Sum) -> Result<(), FileError> {
        let mut held = lock(&self.tally.0);
        let mut sum = held.there;
        sum.add(held.coming);
        sum.add(more);
        // Whoever adds nothing of what there is too much of is not to blame for it.
        let is_uncounted = held.there.entries == u64::MAX && more.bytes > 0;
        if (more.entries > 0 || is_uncounted) && sum.entries > self.most.project_entries {
            let most = self.most.project_entries;
            return Err(FileError::Quota(format!(
                "a project may have {most} files and directories (limits.project_entries)"
            )));
        }
        if more.bytes > 0 && sum.bytes > self.most.project_bytes {
            let most = self.most.project_bytes;
            return Err(FileError::Quota(format!(
                "the files of a project may have {most} bytes together (limits.project_bytes)"
            )));
        }
        held.coming.add(more);
        self.coming.add(more);
        Ok(())
    }

    /// Does what brings the announced to its place, and counts it as there if that works.
    pub(super) fn settle<T>(&mut self, work: impl FnOnce() -> Result<T, FileError>) -> Result<T, FileError> {
        let mut held = lock(&self.tally.0);
        let done = work();
        held.coming.take(self.coming);
        if done.is_ok() {
            held.there.add(self.coming);
        }
        self.coming = Sum::default();
        done
    }

    /// Takes back what was announced and did not come to its place.
    pub(super) fn give_back(&mut self) {
        lock(&self.tally.0).coming.take(self.coming);
        self.coming = Sum::default();
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.give_back();
    }
}
