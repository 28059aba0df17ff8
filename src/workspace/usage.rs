//! What workspaces hold, in memory, and the quotas of their concurrent writers. A small workspace is counted
//! whenever somebody asks. A larger one is counted once; then writes change the account, and the end of a
//! program and counts in the background correct it. No request walks a large directory again.

use super::beneath::{kind, open_directory, size, stat_at};
use super::errors::io_error;
use super::recounts::Recounts;
use crate::domain::id::UserId;
use crate::domain::workspace::{Workspace, WorkspaceId};
use crate::ports::{Clock, FileError, StorageAllowance, StorageScope};
use nanoclaw_sandbox::{TreeCount, count_tree};
use rustix::fs::FileType;
use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A workspace with at most this many entries is counted at each use: that takes a millisecond.
const SMALL_ENTRIES: u64 = 500;
/// Age of the account of a larger one after which it is counted again, milliseconds.
const COUNT_AGE_MS: u64 = 10_000;
/// Counts of a workspace may take this part of the time: after a long one the next one is later.
const COUNT_SHARE: u64 = 20;
/// Accounts in memory. Beyond, one that nobody uses is given up, and counted at its next use.
const MOST_ACCOUNTS: usize = 10_000;

/// The accounts of workspaces.
pub(super) struct WorkspaceUsages {
    accounts: Mutex<HashMap<WorkspaceId, Arc<WorkspaceUsage>>>,
    counter: WorkspaceCounter,
    recounts: Arc<Recounts>,
}

/// Counts trees up to a number of entries.
#[derive(Clone)]
struct WorkspaceCounter {
    clock: Arc<dyn Clock>,
    most_entries: u64,
}

/// The account of one workspace.
#[derive(Default)]
struct WorkspaceUsage(Mutex<UsageState>);

#[derive(Default)]
struct UsageState {
    /// Stored: the last count plus later changes; `None` before the first count.
    stored: Option<TreeCount>,
    /// Reserved by writers.
    reserved: UsageSum,
    /// How long the last count took, and when it ended, in monotonic milliseconds.
    took_ms: u64,
    counted_at_ms: u64,
}

/// Bytes and number of entries.
#[derive(Debug, Clone, Copy, Default)]
struct UsageSum {
    bytes: u64,
    entries: u64,
}

impl UsageSum {
    fn add(&mut self, other: Self) {
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.entries = self.entries.saturating_add(other.entries);
    }

    fn take(&mut self, other: Self) {
        self.bytes = self.bytes.saturating_sub(other.bytes);
        self.entries = self.entries.saturating_sub(other.entries);
    }
}

/// A writer's reservation. Dropping it releases the uncommitted part.
pub(super) struct QuotaReservation {
    usage: Arc<WorkspaceUsage>,
    counter: WorkspaceCounter,
    allowance: StorageAllowance,
    reserved: UsageSum,
    /// Bytes by which a replaced file shrinks.
    shrinks: u64,
}

impl WorkspaceCounter {
    /// What the tree holds, and whether that is an old account. A small tree is counted.
    fn refresh(&self, state: &mut UsageState, tree: &OwnedFd) -> Result<(TreeCount, bool), FileError> {
        match state.stored {
            Some(stored) if stored.entries() > SMALL_ENTRIES => {
                Ok((stored, self.is_due(state, COUNT_AGE_MS)))
            }
            _ => self.count(state, tree).map(|counted| (counted, false)),
        }
    }

    fn is_due(&self, state: &UsageState, age_ms: u64) -> bool {
        let pause_ms = state.took_ms.saturating_mul(COUNT_SHARE).max(age_ms);
        self.clock.monotonic_ms() >= state.counted_at_ms.saturating_add(pause_ms)
    }

    fn count(&self, state: &mut UsageState, tree: &OwnedFd) -> Result<TreeCount, FileError> {
        let begin_ms = self.clock.monotonic_ms();
        let counted = count_tree(tree, self.most_entries).map_err(|error| io_error(&error, "."))?;
        state.counted_at_ms = self.clock.monotonic_ms();
        state.took_ms = state.counted_at_ms.saturating_sub(begin_ms);
        state.stored = Some(counted);
        Ok(counted)
    }
}

impl WorkspaceUsages {
    /// Counts trees up to this many entries.
    pub(super) fn new(clock: Arc<dyn Clock>, most_entries: u64) -> Self {
        let recounts = Arc::new(Recounts::new(Arc::clone(&clock)));
        Self { accounts: Mutex::default(), counter: WorkspaceCounter { clock, most_entries }, recounts }
    }

    /// Starts a reservation.
    pub(super) fn reserve(
        &self,
        workspace: &Workspace,
        opened: &OwnedFd,
        allowance: StorageAllowance,
    ) -> Result<QuotaReservation, FileError> {
        let usage = self.account(workspace.id);
        {
            // Count under the lock, so that each published file is counted exactly once.
            let mut state = lock(&usage.0);
            let (stored, is_stale) = self.counter.refresh(&mut state, opened)?;
            let sum = sum(&stored);
            let is_full = sum.bytes >= allowance.bytes || sum.entries >= allowance.entries;
            if is_full && self.counter.is_due(&state, 0) {
                // Files may have been removed that no account knows of.
                self.counter.count(&mut state, opened)?;
            } else if is_stale {
                self.count_later(workspace.user, opened, &usage);
            }
        }
        let (counter, reserved) = (self.counter.clone(), UsageSum::default());
        Ok(QuotaReservation { usage, counter, allowance, reserved, shrinks: 0 })
    }

    /// What the workspace holds.
    pub(super) fn held(&self, workspace: &Workspace, opened: &OwnedFd) -> Result<TreeCount, FileError> {
        let usage = self.account(workspace.id);
        let (held, is_stale) = self.counter.refresh(&mut lock(&usage.0), opened)?;
        if is_stale {
            self.count_later(workspace.user, opened, &usage);
        }
        Ok(held)
    }

    /// What the account says; `None` if the workspace was not counted yet.
    pub(super) fn known(&self, id: WorkspaceId) -> Option<TreeCount> {
        let usage = lock(&self.accounts).get(&id).map(Arc::clone)?;
        let state = lock(&usage.0);
        state.stored
    }

    /// Counts the workspace now: a program has changed it.
    pub(super) fn count_again(&self, id: WorkspaceId, opened: &OwnedFd) -> Result<(), FileError> {
        let usage = self.account(id);
        self.counter.count(&mut lock(&usage.0), opened).map(drop)
    }

    /// Most entries of a tree that is counted completely.
    pub(super) fn most_entries(&self) -> u64 {
        self.counter.most_entries
    }

    /// Takes what was removed from the account.
    pub(super) fn take(&self, id: WorkspaceId, removed: &TreeCount) {
        let usage = self.account(id);
        let mut state = lock(&usage.0);
        if let Some(stored) = &mut state.stored {
            stored.files = stored.files.saturating_sub(removed.files);
            stored.directories = stored.directories.saturating_sub(removed.directories);
            stored.others = stored.others.saturating_sub(removed.others);
            stored.bytes = stored.bytes.saturating_sub(removed.bytes);
        }
    }

    /// The workspace was removed.
    pub(super) fn forget(&self, id: WorkspaceId) {
        lock(&self.accounts).remove(&id);
    }

    fn account(&self, id: WorkspaceId) -> Arc<WorkspaceUsage> {
        let mut accounts = lock(&self.accounts);
        if accounts.len() >= MOST_ACCOUNTS && !accounts.contains_key(&id) {
            let unused = accounts.iter().find(|(_, usage)| Arc::strong_count(usage) == 1).map(|(id, _)| *id);
            unused.and_then(|unused| accounts.remove(&unused));
        }
        Arc::clone(accounts.entry(id).or_default())
    }

    fn count_later(&self, user: UserId, opened: &OwnedFd, usage: &Arc<WorkspaceUsage>) {
        // Without a descriptor it is tried at the next use.
        let Ok(tree) = opened.try_clone() else { return };
        let (counter, usage) = (self.counter.clone(), Arc::clone(usage));
        self.recounts.add(user, move || {
            if let Err(error) = counter.count(&mut lock(&usage.0), &tree) {
                tracing::warn!(%error, "a directory cannot be counted");
            }
        });
    }
}

/// What an entry holds, itself included; nothing if it is gone. Of a directory so many entries are counted.
pub(super) fn entry(parent: &OwnedFd, name: &str, most_entries: u64) -> TreeCount {
    let mut held = TreeCount::default();
    let Ok(stat) = stat_at(parent, name) else { return held };
    match kind(&stat) {
        FileType::RegularFile => (held.files, held.bytes) = (1, size(&stat)),
        FileType::Directory => {
            let counted = open_directory(parent, name).map_err(Into::into);
            held = counted.and_then(|tree| count_tree(tree, most_entries)).unwrap_or_default();
            held.directories = held.directories.saturating_add(1);
        }
        _ => held.others = 1,
    }
    held
}

/// Converts a count. An incompletely counted tree has no room left.
fn sum(found: &TreeCount) -> UsageSum {
    if found.is_cut {
        return UsageSum { bytes: u64::MAX, entries: u64::MAX };
    }
    UsageSum { bytes: found.bytes, entries: found.entries() }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl UsageState {
    fn sum(&self) -> UsageSum {
        self.stored.as_ref().map(sum).unwrap_or_default()
    }
}

impl QuotaReservation {
    /// Reserves bytes.
    pub(super) fn add_bytes(&mut self, bytes: u64) -> Result<(), FileError> {
        self.add(UsageSum { bytes, entries: 0 })
    }

    /// Reserves a file.
    pub(super) fn add_file(&mut self) -> Result<(), FileError> {
        self.add(UsageSum { bytes: 0, entries: 1 })
    }

    /// Adds a directory, which is made at once.
    pub(super) fn add_directory(&mut self) -> Result<(), FileError> {
        self.add_file()?;
        let made = UsageSum { bytes: 0, entries: 1 };
        self.reserved.take(made);
        let mut state = lock(&self.usage.0);
        state.reserved.take(made);
        if let Some(stored) = &mut state.stored {
            stored.directories = stored.directories.saturating_add(1);
        }
        Ok(())
    }

    /// The file that is written replaces one with so many bytes more.
    pub(super) fn shrinks_by(&mut self, bytes: u64) {
        self.shrinks = self.shrinks.saturating_add(bytes);
    }

    fn add(&mut self, more: UsageSum) -> Result<(), FileError> {
        let mut state = lock(&self.usage.0);
        let stored = state.sum();
        let mut sum = stored;
        sum.add(state.reserved);
        sum.add(more);
        // A full quota blocks only writes that add to the exceeded sum.
        let is_over = stored.entries > self.allowance.entries && more.bytes > 0;
        if (more.entries > 0 || is_over) && sum.entries > self.allowance.entries {
            return Err(self.too_many_entries());
        }
        if more.bytes > 0 && sum.bytes > self.allowance.bytes {
            return Err(self.too_many_bytes());
        }
        state.reserved.add(more);
        self.reserved.add(more);
        Ok(())
    }

    /// Checks again that the reserved bytes and `entries` new files fit: writers of other nodes reserve
    /// elsewhere. What they write into a large workspace shows at its next count. Directories were made when
    /// they were reserved.
    pub(super) fn check_again(&self, workspace: &OwnedFd, entries: u64) -> Result<(), FileError> {
        let mut state = lock(&self.usage.0);
        if self.counter.refresh(&mut state, workspace)?.1 {
            self.counter.count(&mut state, workspace)?;
        }
        let mut sum = state.sum();
        sum.add(UsageSum { bytes: self.reserved.bytes, entries });
        if entries > 0 && sum.entries > self.allowance.entries {
            return Err(self.too_many_entries());
        }
        if self.reserved.bytes > 0 && sum.bytes > self.allowance.bytes {
            return Err(self.too_many_bytes());
        }
        Ok(())
    }

    fn too_many_entries(&self) -> FileError {
        let limit = self.allowance.entries;
        FileError::Quota(match self.allowance.scope {
            StorageScope::Project => {
                format!("a project may have {limit} files and directories (limits.project_entries)")
            }
            StorageScope::Job => format!(
                "this job's directory may have {limit} files and directories (limits.job_entries, and \
                 limits.user_job_entries for all jobs of an account)"
            ),
        })
    }

    fn too_many_bytes(&self) -> FileError {
        let limit = self.allowance.bytes;
        FileError::Quota(match self.allowance.scope {
            StorageScope::Project => {
                format!("the files of a project may have {limit} bytes together (limits.project_bytes)")
            }
            StorageScope::Job => format!(
                "the files of this job's directory may have {limit} bytes together (limits.job_bytes, and \
                 limits.user_job_bytes for all jobs of an account)"
            ),
        })
    }

    /// Runs `work`, which moves the data into place; if it succeeds, the reservation counts as stored.
    pub(super) fn commit<T>(&mut self, work: impl FnOnce() -> Result<T, FileError>) -> Result<T, FileError> {
        let mut state = lock(&self.usage.0);
        let done = work();
        state.reserved.take(self.reserved);
        if let (Ok(_), Some(stored)) = (&done, &mut state.stored) {
            stored.files = stored.files.saturating_add(self.reserved.entries);
            stored.bytes = stored.bytes.saturating_add(self.reserved.bytes).saturating_sub(self.shrinks);
        }
        (self.reserved, self.shrinks) = (UsageSum::default(), 0);
        done
    }

    /// Releases the uncommitted part of the reservation.
    pub(super) fn release(&mut self) {
        lock(&self.usage.0).reserved.take(self.reserved);
        self.reserved = UsageSum::default();
    }
}

impl Drop for QuotaReservation {
    fn drop(&mut self) {
        self.release();
    }
}
