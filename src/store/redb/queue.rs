//! Who runs next. Owns the ready queue with its fairness, the delayed jobs and the order inside conversations;
//! refuses to look at logs and leases.
//!
//! Fairness is self-clocked fair queueing inside a priority: a job's fair time is one more than the larger of the
//! user's last and the one served last, so users take turns however many jobs each has queued. Between
//! priorities the first job of each competes: the longer it has waited, the further it has risen.

use super::keys::{DelayedKey, FairKey, ReadyBytes, ReadyKey, TurnBytes, TurnKey, Waiting};
use super::lease::Tail;
use super::row::{Place, Row};
use super::table::ReadableTable;
use super::transaction::Transaction;
use crate::domain::id::JobId;
use crate::domain::job::JobStatus;
use crate::ports::StoreError;

/// Delayed jobs that one claim makes ready; the next claim goes on.
const DUE_JOBS: usize = 1_024;

impl Transaction<'_> {
    /// Gives a job its place: behind its conversation, delayed, or ready.
    pub(super) fn enqueue(&mut self, row: &mut Row) -> Result<(), StoreError> {
        if self.note_beside(row)? {
            return self.place(row);
        }
        if let Some(key) = line_key(row).map(TurnKey::encode) {
            self.tables.lines.insert(&key, &row.id().to_bytes())?;
            if self.line_head(&key)?.is_none_or(|(_, head)| head != row.id()) {
                row.place = Place::Behind;
                return Ok(());
            }
        }
        self.place(row)
    }

    /// Takes an ended job out of every queue and lets the next of its conversation in.
    pub(super) fn retire(&mut self, row: &mut Row) -> Result<(), StoreError> {
        self.displace(row)?;
        self.counters.unfinished = self.counters.unfinished.saturating_sub(1);
        if self.drop_beside(row)? {
            return Ok(());
        }
        let Some(key) = line_key(row).map(TurnKey::encode) else { return Ok(()) };
        self.tables.lines.remove(&key)?;
        self.let_in_next(&key)
    }

    /// Gives the first job of a conversation its place; `member` is a key of the conversation, its own or not.
    pub(super) fn let_in_next(&mut self, member: &TurnBytes) -> Result<(), StoreError> {
        while let Some((key, job)) = self.line_head(member)? {
            match self.row(job) {
                Ok(mut next) if next.place == Place::Behind => {
                    self.place(&mut next)?;
                    return self.put_row(&next);
                }
                Ok(_) => break,
                Err(StoreError::Corrupt(reason)) => {
                    self.report_quarantine(job, &reason);
                    self.tables.lines.remove(&key)?;
                    self.lose(job)?;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Ready, or delayed until its time.
    pub(super) fn place(&mut self, row: &mut Row) -> Result<(), StoreError> {
        match row.due_ms() {
            Some(run_at_ms) if run_at_ms > self.now_ms => self.delay(row),
            _ => self.make_ready(row),
        }
    }

    /// Looked at again when its time has come, even if that is now.
    pub(super) fn delay(&mut self, row: &mut Row) -> Result<(), StoreError> {
        let key = DelayedKey { run_at_ms: row.due_ms().unwrap_or(self.now_ms), accept: row.accept };
        self.tables.delayed.insert(&key.encode(), &row.id().to_bytes())?;
        row.place = Place::Delayed;
        Ok(())
    }

    fn make_ready(&mut self, row: &mut Row) -> Result<(), StoreError> {
        let fair = match row.fair {
            Some(fair) => fair,
            None => self.next_fair(row)?,
        };
        row.fair = Some(fair);
        row.place = Place::Ready;
        let key = ReadyKey { priority: row.job.priority.level(), fair, accept: row.accept };
        let waiting = Waiting { job: row.id(), since_ms: self.now_ms };
        self.tables.ready.insert(&key.encode(), &waiting.encode())?;
        self.effects.readied = self.effects.readied.saturating_add(1);
        Ok(())
    }

    fn next_fair(&mut self, row: &Row) -> Result<u64, StoreError> {
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

    /// Takes the job out of the ready queue whose turn it is.
    pub(super) fn take_ready(&mut self) -> Result<Option<JobId>, StoreError> {
        let Some(key) = self.first_in_rank()? else { return Ok(None) };
        let taken = self.tables.ready.remove(&key.encode())?.map(|waiting| Waiting::decode(waiting.value()));
        if let Some(served) = self.counters.served.get_mut(usize::from(key.priority)) {
            *served = key.fair.max(*served);
        }
        Ok(taken.map(|waiting| waiting.job))
    }

    /// Of the first job of each priority, the one that ranks first.
    fn first_in_rank(&self) -> Result<Option<ReadyKey>, StoreError> {
        let mut best: Option<(u64, ReadyKey)> = None;
        let mut from = ReadyKey { priority: 0, fair: 0, accept: 0 };
        while let Some((key, waiting)) =
            self.tables.ready.range::<&ReadyBytes>(&from.encode()..)?.next().transpose()?
        {
            let (key, waiting) = (ReadyKey::decode(key.value()), Waiting::decode(waiting.value()));
            let rank = self.rank(key.priority, waiting.since_ms);
            if best.is_none_or(|(least, _)| rank < least) {
                best = Some((rank, key));
            }
            let Some(priority) = key.priority.checked_add(1) else { break };
            from.priority = priority;
        }
        Ok(best.map(|(_, key)| key))
    }

    /// Waiting for `ageing_ms` counts as much as one priority, so that no job waits for ever; 0 switches that off.
    fn rank(&self, priority: u8, since_ms: u64) -> u64 {
        let level = u64::from(priority);
        match self.bounds.ageing_ms {
            0 => level,
            ageing_ms => level.saturating_mul(ageing_ms).saturating_add(since_ms.min(self.now_ms)),
        }
    }

    /// Makes delayed jobs ready whose time has come, and those that have waited long enough for somebody's approval.
    pub(super) fn admit_due(&mut self) -> Result<(), StoreError> {
        for _ in 0..DUE_JOBS {
            if self.next_due_ms()?.is_none_or(|due| due > self.now_ms) {
                break;
            }
            let Some(job) = self.tables.delayed.pop_first()?.map(|(_, job)| JobId::from_bytes(*job.value()))
            else {
                break;
            };
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

    /// A delayed job, and where its log ends if something has to be written there; nothing is written yet.
    fn delayed_job(&self, job: JobId) -> Result<(Row, Option<Tail>), StoreError> {
        let row = self.row(job)?;
        let waits = row.job.status == JobStatus::Waiting;
        let tail = waits.then(|| self.tables.tail(job)).transpose()?;
        Ok((row, tail))
    }

    /// When the next delayed job is due.
    pub(super) fn next_due_ms(&self) -> Result<Option<u64>, StoreError> {
        Ok(self.tables.delayed.first()?.map(|(key, _)| DelayedKey::decode(key.value()).run_at_ms))
    }

    /// Takes a job out of the queues.
    pub(super) fn displace(&mut self, row: &mut Row) -> Result<(), StoreError> {
        match (row.place, row.fair, row.due_ms()) {
            (Place::Ready, Some(fair), _) => {
                let key = ReadyKey { priority: row.job.priority.level(), fair, accept: row.accept };
                self.tables.ready.remove(&key.encode())?;
            }
            (Place::Delayed, _, Some(run_at_ms)) => {
                self.tables.delayed.remove(&DelayedKey { run_at_ms, accept: row.accept }.encode())?;
            }
            _ => {}
        }
        row.place = Place::Out;
        Ok(())
    }

    /// The job of a conversation whose turn it is.
    fn line_head(&self, member: &TurnBytes) -> Result<Option<(TurnBytes, JobId)>, StoreError> {
        let (first, last) = TurnKey::line_of(member);
        let head = self.tables.lines.range::<&TurnBytes>(&first..=&last)?.next().transpose()?;
        Ok(head.map(|(key, job)| (*key.value(), JobId::from_bytes(*job.value()))))
    }
}

/// Where a job stands in its conversation, if it is in one.
pub(super) fn line_key(row: &Row) -> Option<TurnKey<'_>> {
    let conversation = row.job.conversation_id.as_ref()?;
    Some(TurnKey { user: row.job.user, conversation, accept: row.accept })
}
