//! How much each user may surely submit at this node before the quota is counted again, so that only work
//! near a quota costs a count.

use crate::domain::id::UserId;
use crate::ports::{NewWork, WorkQuota};
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Age up to which a count is used, milliseconds.
const FRESH_MS: u64 = 1_000;
/// Jobs that other nodes may submit unseen; HTTP has read the quota a moment ago as well.
const SLACK_JOBS: u64 = 1_024;
/// The same in bytes.
const SLACK_BYTES: u64 = 64 << 20;
/// Most users; more are counted again.
const USERS: usize = 4_096;

/// The rooms of all users.
#[derive(Debug, Default)]
pub(crate) struct QuotaRooms(Mutex<HashMap<UserId, QuotaRoom>>);

#[derive(Debug, Clone, Copy)]
struct QuotaRoom {
    until_ms: u64,
    jobs: u64,
    bytes: u64,
}

/// Whether a quota leaves so much room that other nodes cannot fill it unseen.
pub(crate) fn is_ample(used: &WorkQuota, new: NewWork) -> bool {
    let (jobs, bytes) = rest(used);
    jobs >= SLACK_JOBS.saturating_add(new.jobs) && bytes >= SLACK_BYTES.saturating_add(new.bytes)
}

/// Jobs and bytes that still fit.
fn rest(used: &WorkQuota) -> (u64, u64) {
    let rest = |limit: Option<u64>, used: u64| limit.map_or(u64::MAX, |limit| limit.saturating_sub(used));
    let jobs = rest(used.quota.unfinished_jobs, used.unfinished_jobs);
    (jobs, rest(used.quota.stored_bytes, used.stored_bytes))
}

impl QuotaRooms {
    /// Takes room for new work. Returns whether there surely was enough.
    pub(crate) fn take(&self, user: UserId, new: NewWork, monotonic_ms: u64) -> bool {
        let mut rooms = self.lock();
        let Some(room) = rooms.get_mut(&user).filter(|room| monotonic_ms < room.until_ms) else {
            return false;
        };
        let (jobs, bytes) = (room.jobs.checked_sub(new.jobs), room.bytes.checked_sub(new.bytes));
        let (Some(jobs), Some(bytes)) = (jobs, bytes) else { return false };
        if jobs < SLACK_JOBS || bytes < SLACK_BYTES {
            return false;
        }
        *room = QuotaRoom { jobs, bytes, ..*room };
        true
    }

    /// Remembers a count, from which the new work is taken.
    pub(crate) fn set(&self, user: UserId, quota: &WorkQuota, new: NewWork, monotonic_ms: u64) {
        let (jobs, bytes) = rest(quota);
        let room = QuotaRoom {
            until_ms: monotonic_ms.saturating_add(FRESH_MS),
            jobs: jobs.saturating_sub(new.jobs),
            bytes: bytes.saturating_sub(new.bytes),
        };
        let mut rooms = self.lock();
        if rooms.len() >= USERS {
            rooms.clear();
        }
        rooms.insert(user, room);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<UserId, QuotaRoom>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::account::Quota;

    #[test]
    fn room_is_taken_only_far_from_the_quota_and_for_a_moment() {
        let (rooms, ann, job) = (QuotaRooms::default(), UserId(1), NewWork::job(10));
        assert!(!rooms.take(ann, job, 0), "nothing was counted yet");
        let quota = Quota { unfinished_jobs: Some(2_000), ..Quota::default() };
        let used = WorkQuota { quota, unfinished_jobs: 900, ..WorkQuota::default() };
        assert!(is_ample(&used, job));
        rooms.set(ann, &used, job, 0);
        let taken = (0..200).filter(|_| rooms.take(ann, job, 999)).count();
        assert_eq!(taken, 1_099 - 1_024);
        assert!(!is_ample(&WorkQuota { unfinished_jobs: 976, ..used }, job));
        rooms.set(ann, &used, job, 0);
        assert!(!rooms.take(ann, job, 1_000), "the count is old");
        rooms.set(ann, &WorkQuota::default(), job, 0);
        assert!((0..5_000).all(|_| rooms.take(ann, job, 1)), "without a quota nothing is counted");
    }
}
