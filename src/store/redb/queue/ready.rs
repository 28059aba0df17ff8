//! Which job runs next: the ready queue with its fairness, and delayed jobs.
//!
//! Fairness is self-clocked fair queueing inside a priority: a job's fair time is one more than the larger of
//! the user's last and the one served last, so users take turns however many jobs each has queued. Between
//! priorities the first job of each competes: the longer it has waited, the further it has risen.

use crate::domain::fair_share::queue_rank;
use crate::domain::id::JobId;
use crate::domain::job::JobStatus;
use crate::ports::StoreError;
use crate::store::redb::codec::keys::jobs::{DelayedKey, FairKey, ReadyBytes, ReadyEntry, ReadyKey};
use crate::store::redb::codec::table::ReadableTable;
use crate::store::redb::writer::transaction::Transaction;
use crate::store::rows::job::{JobRow, QueuePlace};
use crate::store::rows::lease::LogTail;

/// Maximum delayed jobs that one claim makes ready; the next claim continues.
const DUE_JOBS: usize = 1_024;

/// A job of the ready queue; the least runs first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct RankedJob {
    rank: u64,
    pub(crate) key: ReadyKey,
    pub(crate) entry: ReadyEntry,
}

impl Transaction<'_> {
    /// Queues a job: ready, or delayed until its start time.
    pub(crate) fn enter_queue(&mut self, row: &mut JobRow) -> Result<(), StoreError> {
        match row.due_ms() {
            Some(run_at_ms) if run_at_ms > self.now_ms => self.delay(row),
            _ => self.make_ready(row),
        }
    }

    /// Queues a job as delayed, even if it is due now.
    pub(crate) fn delay(&mut self, row: &mut JobRow) -> Result<(), StoreError> {
        let key = DelayedKey { run_at_ms: row.due_ms().unwrap_or(self.now_ms), accept: row.accept };
        self.tables.delayed.insert(&key.encode(), &row.id().to_bytes())?;
        row.queue_place = QueuePlace::Delayed;
        Ok(())
    }

    fn make_ready(&mut self, row: &mut JobRow) -> Result<(), StoreError> {
        let fair = match row.fair {
            Some(fair) => fair,
            None => self.next_fair(row)?,
        };
        row.fair = Some(fair);
        row.queue_place = QueuePlace::Ready;
        let key = ReadyKey { priority: row.job.priority.level(), fair, accept: row.accept };
        let waiting = ReadyEntry { job: row.id(), since_ms: self.now_ms };
        self.tables.ready.insert(&key.encode(), &waiting.encode())?;
        self.add_user_ready(row, key, waiting)?;
        Ok(())
    }

    fn next_fair(&mut self, row: &JobRow) -> Result<u64, StoreError> {
        let key = FairKey { priority: row.job.priority.level(), user: row.job.user };
        let last = match self.fair.get(&key) {
            Some(last) => *last,
            None => self.tables.fair.get(&key.encode())?.map_or(0, |v| v.value()),
        };
        let served = self.counters.served.get(usize::from(key.priority)).copied().unwrap_or_default();
        let fair = last.max(served).saturating_add(1);
        self.fair.insert(key, fair);
        Ok(fair)
    }

    /// Takes the next job from the ready queue, and the time since when it was ready.
    pub(crate) fn take_ready(&mut self) -> Result<Option<ReadyEntry>, StoreError> {
        let next = match self.bounds.share {
            Some(share) => self.next_by_share(share)?,
            None => self.first_in_rank()?,
        };
        let Some(RankedJob { key, entry, .. }) = next else { return Ok(None) };
        self.tables.ready.remove(&key.encode())?;
        if let Some(served) = self.counters.served.get_mut(usize::from(key.priority)) {
            *served = key.fair.max(*served);
        }
        Ok(Some(entry))
    }

    /// The best ranked among the first jobs of the priorities.
    pub(crate) fn first_in_rank(&self) -> Result<Option<RankedJob>, StoreError> {
        let mut best: Option<RankedJob> = None;
        let mut from = ReadyKey { priority: 0, fair: 0, accept: 0 };
        while let Some((key, waiting)) =
            self.tables.ready.range::<&ReadyBytes>(&from.encode()..)?.next().transpose()?
        {
            let first = self.ranked(ReadyKey::decode(key.value()), ReadyEntry::decode(waiting.value()));
            if best.is_none_or(|best| first.rank < best.rank) {
                best = Some(first);
            }
            let Some(priority) = first.key.priority.checked_add(1) else { break };
            from.priority = priority;
        }
        Ok(best)
    }

    /// A job of the ready queue with its rank.
    pub(crate) fn ranked(&self, key: ReadyKey, entry: ReadyEntry) -> RankedJob {
        RankedJob {
            rank: queue_rank(key.priority, entry.since_ms.min(self.now_ms), self.bounds.ageing_ms),
            key,
            entry,
        }
    }

    /// Makes delayed jobs ready that are due, and jobs whose approval has expired.
    pub(crate) fn admit_due(&mut self) -> Result<(), StoreError> {
        for _ in 0..DUE_JOBS {
            let first = self.tables.delayed.first()?;
            let Some((key, job)) = first.map(|(key, job)| (*key.value(), JobId::from_bytes(*job.value())))
            else {
                break;
            };
            if DelayedKey::decode(&key).run_at_ms > self.now_ms {
                break;
            }
            self.tables.delayed.remove(&key)?;
            match self.admit(job) {
                Err(StoreError::Corrupt(reason)) => self.quarantine(job, &reason)?,
                outcome => outcome?,
            }
        }
        Ok(())
    }

    fn admit(&mut self, job: JobId) -> Result<(), StoreError> {
        let (mut row, tail) = self.delayed_job(job)?;
        if let Some(tail) = tail {
            return self.expire(&mut row, tail);
        }
        self.make_ready(&mut row)?;
        self.put_row(&row)
    }

    /// A delayed job, and the end of its log if an event has to be appended. Writes nothing yet.
    fn delayed_job(&self, job: JobId) -> Result<(JobRow, Option<LogTail>), StoreError> {
        let row = self.row(job)?;
        let waits = row.job.status == JobStatus::Waiting;
        let tail = waits.then(|| self.tables.tail(job)).transpose()?;
        Ok((row, tail))
    }

    /// When the next delayed job is due.
    pub(crate) fn next_due_ms(&self) -> Result<Option<u64>, StoreError> {
        Ok(self.tables.delayed.first()?.map(|(key, _)| DelayedKey::decode(key.value()).run_at_ms))
    }

    /// Removes a job from the queues.
    pub(crate) fn remove_from_queue(&mut self, row: &mut JobRow) -> Result<(), StoreError> {
        match (row.queue_place, row.fair, row.due_ms()) {
            (QueuePlace::Ready, Some(fair), _) => {
                let key = ReadyKey { priority: row.job.priority.level(), fair, accept: row.accept };
                self.tables.ready.remove(&key.encode())?;
                self.remove_user_ready(row, key)?;
            }
            (QueuePlace::Delayed, _, Some(run_at_ms)) => {
                self.tables.delayed.remove(&DelayedKey { run_at_ms, accept: row.accept }.encode())?;
            }
            _ => {}
        }
        row.queue_place = QueuePlace::Out;
        Ok(())
    }
}
