//! Counts of the store for the operator. The cost of a count does not grow with the number of jobs.

use crate::domain::id::UserId;
use crate::domain::job::JobStatus;
use crate::ports::{StatsSource, StoreError, StoreLoad, StoreStats, UserJobCounts};
use crate::store::redb::accounts::unfinished_work::unfinished_work;
use crate::store::redb::codec::keys::batches::{BatchLineBytes, BatchLineKey};
use crate::store::redb::codec::keys::jobs::{JobOwnerBytes, JobOwnerKey, ReadyBytes, ReadyEntry, ReadyKey};
use crate::store::redb::codec::read_transaction::ReadTransaction;
use crate::store::redb::codec::table::ReadableTable;
use crate::store::redb::codec::tables::{
    BATCH_ACTIVE, DELAYED, DELIVERIES_DUE, OWNED, READY, RUNNING, counters,
};
use crate::store::redb::store::RedbStore;
use std::sync::PoisonError;
use std::thread::JoinHandle;

/// Maximum number of batches to count.
const MAX_BATCHES: usize = 10_000;
/// Maximum rows to read when counting jobs that wait for an approval, for all users together.
const MAX_APPROVAL_ROWS: usize = 20_000;
/// Jobs of a user to count in each state.
const MAX_USER_JOBS: usize = 10_000;
/// Ready jobs of each priority that are searched for the oldest. Users take turns in the queue, so they
/// include the oldest job of every user while at most this many users have one.
const READY_PROBED: usize = 256;

impl StatsSource for RedbStore {
    fn stats(&self) -> Result<StoreStats, StoreError> {
        // A store without its writer counts as closed, although reads would work.
        let writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        if writer.as_ref().is_none_or(JoinHandle::is_finished) {
            return Err(StoreError::Closed);
        }
        drop(writer);
        let now_ms = self.shared.clock.now_ms();
        let mut counted = self.read(|reading| stats(reading, now_ms))?;
        counted.running = counted.running.saturating_add(self.shared.volatile.count() as u64);
        let disk_free_bytes = self.shared.medium.space().map(|space| space.free_bytes);
        let damaged_rows = self.shared.damage.count();
        Ok(StoreStats { file_bytes: self.shared.medium.bytes(), disk_free_bytes, damaged_rows, ..counted })
    }
}

fn stats(reading: &ReadTransaction, now_ms: u64) -> Result<StoreStats, StoreError> {
    let unfinished = counters(reading)?.unfinished;
    let running = RUNNING.read(reading)?.len()?;
    let waiting = waiting(reading)?;
    let ready = READY.read(reading)?.len()?;
    let since_ms = oldest_ready(reading)?;
    Ok(StoreStats {
        queued: unfinished.saturating_sub(running).saturating_sub(waiting),
        running,
        waiting,
        ready,
        // A job that waits for approval is in the delayed table, under the time of its expiry.
        delayed: DELAYED.read(reading)?.len()?.saturating_sub(waiting),
        oldest_ready_ms: since_ms.map_or(0, |since| now_ms.saturating_sub(since)),
        batches: batches(reading)?,
        deliveries: DELIVERIES_DUE.read(reading)?.len()?,
        ..StoreStats::default()
    })
}

fn user_job_counts(reading: &ReadTransaction, user: UserId) -> Result<UserJobCounts, StoreError> {
    let owned = OWNED.read(reading)?.skipping_damaged();
    let count = |status| -> Result<u64, StoreError> {
        let key = |accept| JobOwnerKey { user, status, accept }.encode();
        let mut count = 0_u64;
        for entry in owned.range::<&JobOwnerBytes>(&key(0)..=&key(u64::MAX))?.take(MAX_USER_JOBS) {
            entry?;
            count = count.saturating_add(1);
        }
        Ok(count)
    };
    let lines = unfinished_work(reading, user)?.lines.min(MAX_USER_JOBS as u64);
    Ok(UserJobCounts {
        queued: count(JobStatus::Queued)?.saturating_add(lines),
        waiting: count(JobStatus::Waiting)?,
        running: count(JobStatus::Running)?,
    })
}

/// Jobs that wait for an approval, counted user by user.
fn waiting(reading: &ReadTransaction) -> Result<u64, StoreError> {
    let owned = OWNED.read(reading)?.skipping_damaged();
    let mut count = 0_u64;
    let mut user = UserId(0);
    let mut left = MAX_APPROVAL_ROWS;
    while left > 0 {
        left = left.saturating_sub(1);
        let from = JobOwnerKey { user, status: JobStatus::Queued, accept: 0 }.encode();
        // Find the next user who has jobs in any state.
        let Some((key, _)) = owned.range::<&JobOwnerBytes>(&lowest(from)..)?.next().transpose()? else {
            break;
        };
        user = JobOwnerKey::user(key.value());
        let own = |accept| JobOwnerKey { user, status: JobStatus::Waiting, accept }.encode();
        for entry in owned.range::<&JobOwnerBytes>(&own(0)..=&own(u64::MAX))?.take(left) {
            entry?;
            left = left.saturating_sub(1);
            count = count.saturating_add(1);
        }
        let Some(next) = user.0.checked_add(1) else { break };
        user = UserId(next);
    }
    Ok(count)
}

/// The lowest key of the same user.
fn lowest(key: JobOwnerBytes) -> JobOwnerBytes {
    let mut least = JobOwnerBytes::default();
    for (slot, byte) in least.iter_mut().zip(key).take(size_of::<UserId>()) {
        *slot = byte;
    }
    least
}

/// Since when the oldest ready job has been waiting.
fn oldest_ready(reading: &ReadTransaction) -> Result<Option<u64>, StoreError> {
    let ready = READY.read(reading)?.skipping_damaged();
    let mut oldest = None;
    let mut from = ReadyKey { priority: 0, fair: 0, accept: 0 };
    loop {
        let mut priority = None;
        for entry in ready.range::<&ReadyBytes>(&from.encode()..)?.take(READY_PROBED) {
            let (key, waiting) = entry?;
            let entry_priority = ReadyKey::decode(key.value()).priority;
            if *priority.get_or_insert(entry_priority) != entry_priority {
                break;
            }
            let since_ms = ReadyEntry::decode(waiting.value()).since_ms;
            oldest = Some(oldest.map_or(since_ms, |oldest: u64| oldest.min(since_ms)));
        }
        let Some(next) = priority.and_then(|entry_priority: u8| entry_priority.checked_add(1)) else {
            return Ok(oldest);
        };
        from.priority = next;
    }
}

/// Batches with a line that is queued or runs. One that waits for a quota may have none.
fn batches(reading: &ReadTransaction) -> Result<u64, StoreError> {
    let active = BATCH_ACTIVE.read(reading)?.skipping_damaged();
    let mut count = 0_u64;
    let mut next = active.first()?.map(|(key, _)| BatchLineKey::decode(key.value()).batch);
    while let Some(batch) = next.filter(|_| count < MAX_BATCHES as u64) {
        count = count.saturating_add(1);
        let (_, last) = BatchLineKey::all_of(batch);
        let behind = active.range::<&BatchLineBytes>(&last..)?.find(|entry| {
            entry.as_ref().map_or(true, |(key, _)| BatchLineKey::decode(key.value()).batch != batch)
        });
        next = behind.transpose()?.map(|(key, _)| BatchLineKey::decode(key.value()).batch);
    }
    Ok(count)
}

impl RedbStore {
    /// Unfinished jobs of a user, counted up to 10,000 in each state.
    pub fn user_job_counts(&self, user: UserId) -> Result<UserJobCounts, StoreError> {
        let volatile = self.shared.volatile.count_of(user) as u64;
        let counted = self.read(|reading| user_job_counts(reading, user))?;
        Ok(UserJobCounts { running: counted.running.saturating_add(volatile), ..counted })
    }

    /// The load as of the last commit. Cheap: redb stores the lengths of tables.
    pub fn load(&self) -> Result<StoreLoad, StoreError> {
        self.read(|reading| {
            let waiting = READY.read(reading)?.len()?;
            let delayed = DELAYED.read(reading)?.len()?;
            let running = RUNNING.read(reading)?.len()?;
            Ok(StoreLoad { running, queued: waiting.saturating_add(delayed) })
        })
    }
}
