//! Enforces quotas for concurrent writers of a workspace: limits the sum of stored and reserved usage.
//! Commands of jobs may exceed it; the next writer counts their files.

use super::errors::io_error;
use crate::domain::workspace::WorkspaceId;
use crate::ports::{FileError, StorageAllowance, StorageScope};
use nanoclaw_sandbox::{TreeCount, count_tree};
use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// Workspaces with active writers.
#[derive(Default)]
pub(super) struct WorkspaceUsages(Mutex<HashMap<WorkspaceId, Weak<WorkspaceUsage>>>);

/// Usage of one workspace.
#[derive(Default)]
struct WorkspaceUsage(Mutex<UsageState>);

#[derive(Default)]
struct UsageState {
    /// Stored: the last count plus later commits.
    stored: UsageSum,
    /// Reserved by writers.
    reserved: UsageSum,
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
    allowance: StorageAllowance,
    reserved: UsageSum,
}

impl WorkspaceUsages {
    /// Starts a reservation; counts the tree again.
    pub(super) fn reserve(
        &self,
        id: WorkspaceId,
        workspace: &OwnedFd,
        allowance: StorageAllowance,
    ) -> Result<QuotaReservation, FileError> {
        let usage = {
            let mut all = lock(&self.0);
            all.retain(|_, usage| usage.strong_count() > 0);
            let known = all.get(&id).and_then(Weak::upgrade);
            let usage = known.unwrap_or_default();
            all.insert(id, Arc::downgrade(&usage));
            usage
        };
        {
            // Count under the lock, so that each published file is counted exactly once.
            let mut state = lock(&usage.0);
            state.stored = sum(&count(workspace, allowance.entries.saturating_add(1))?);
        }
        Ok(QuotaReservation { usage, allowance, reserved: UsageSum::default() })
    }
}

/// Counts a workspace, up to this many entries.
pub(super) fn count(workspace: &OwnedFd, max_entries: u64) -> Result<TreeCount, FileError> {
    count_tree(workspace, max_entries).map_err(|error| io_error(&error, "."))
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

impl QuotaReservation {
    /// Reserves bytes.
    pub(super) fn add_bytes(&mut self, bytes: u64) -> Result<(), FileError> {
        self.add(UsageSum { bytes, entries: 0 })
    }

    /// Reserves a file or directory.
    pub(super) fn add_entry(&mut self) -> Result<(), FileError> {
        self.add(UsageSum { bytes: 0, entries: 1 })
    }

    fn add(&mut self, more: UsageSum) -> Result<(), FileError> {
        let mut state = lock(&self.usage.0);
        let mut sum = state.stored;
        sum.add(state.reserved);
        sum.add(more);
        // A full quota blocks only writes that add to the exceeded sum.
        let is_uncounted = state.stored.entries == u64::MAX && more.bytes > 0;
        if (more.entries > 0 || is_uncounted) && sum.entries > self.allowance.entries {
            return Err(self.too_many_entries());
        }
        if more.bytes > 0 && sum.bytes > self.allowance.bytes {
            return Err(self.too_many_bytes());
        }
        state.reserved.add(more);
        self.reserved.add(more);
        Ok(())
    }

    /// Counts the tree again and checks that the reserved bytes and `entries` new files still fit: writers of
    /// other nodes reserve elsewhere. Directories were made when they were reserved.
    pub(super) fn check_again(&self, workspace: &OwnedFd, entries: u64) -> Result<(), FileError> {
        let mut state = lock(&self.usage.0);
        state.stored = sum(&count(workspace, self.allowance.entries.saturating_add(1))?);
        let mut sum = state.stored;
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
        if done.is_ok() {
            state.stored.add(self.reserved);
        }
        self.reserved = UsageSum::default();
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
