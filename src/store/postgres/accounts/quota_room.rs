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
/// New work of at most so many jobs and bytes may be taken from a count of a moment ago: so much more of it
/// on other nodes stays within the slack.
const SMALL_JOBS: u64 = 64;
/// The same in bytes.
const SMALL_BYTES: u64 = 4 << 20;
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
    left(jobs, bytes, new).is_some()
}

/// What new work surely leaves of a room; `None`: it has to be counted. A quota without a limit is
/// `u64::MAX` and always leaves itself.
fn left(jobs: u64, bytes: u64, new: NewWork) -> Option<(u64, u64)> {
    let of = |room: u64, new: u64, small: u64, slack: u64| match room {
        u64::MAX => Some(room),
        _ => room.checked_sub(new).filter(|left| new <= small && *left >= slack),
    };
    let jobs = of(jobs, new.jobs, SMALL_JOBS, SLACK_JOBS)?;
    Some((jobs, of(bytes, new.bytes, SMALL_BYTES, SLACK_BYTES)?))
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
        let Some((jobs, bytes)) = left(room.jobs, room.bytes, new) else { return false };
        *room = QuotaRoom { jobs, bytes, ..*room };
        true
    }

    /// Remembers a count, from which the new work is taken.
    pub(crate) fn set(&self, user: UserId, quota: &WorkQuota, new: NewWork, monotonic_ms: u64) {
        let (jobs, bytes) = rest(quota);
        let after = |room: u64, new: u64| if room == u64::MAX { room } else { room.saturating_sub(new) };
        let room = QuotaRoom {
            until_ms: monotonic_ms.saturating_add(FRESH_MS),
            jobs: after(jobs, new.jobs),
            bytes: after(bytes, new.bytes),
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
        let huge = NewWork { jobs: 1 << 20, bytes: 1 << 40 };
        assert!(rooms.take(ann, huge, 1), "of any size");
    }

    #[test]
    fn large_work_of_a_bounded_user_is_always_counted() {
        let (rooms, ann) = (QuotaRooms::default(), UserId(1));
        let quota = Quota { stored_bytes: Some(1 << 30), ..Quota::default() };
        let (used, large) = (WorkQuota { quota, ..WorkQuota::default() }, NewWork::bytes(500 << 20));
        assert!(!is_ample(&used, large), "another node may store as much at the same time");
        rooms.set(ann, &used, NewWork::bytes(1), 0);
        assert!(!rooms.take(ann, large, 1));
        assert!(rooms.take(ann, NewWork::bytes(1), 1));
    }
}
