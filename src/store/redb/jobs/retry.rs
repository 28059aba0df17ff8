//! Runs a failed job again from its last recorded step. It is accepted again, after later jobs of its
//! conversation (P7).

use crate::domain::event::{Event, StatusPhase};
use crate::domain::id::{JobId, UserId};
use crate::domain::job::{Job, JobStatus};
use crate::ports::{JobChangeError, NewWork, StoreError};
use crate::store::redb::codec::keys::conversations::TurnKey;
use crate::store::redb::codec::keys::jobs::{EndedKey, JobOwnerKey};
use crate::store::redb::codec::table::ReadableTable;
use crate::store::redb::retention::sweep::CUT;
use crate::store::redb::writer::transaction::Transaction;
use crate::store::rows::job::{JobRow, RETRIED};

impl Transaction<'_> {
    /// Queues a failed job of a user again.
    pub(crate) fn retry_job(&mut self, user: UserId, job: JobId) -> Result<Option<Job>, JobChangeError> {
        let Some(mut row) = self.find_own_row(user, job)? else { return Ok(None) };
        if row.job.status != JobStatus::Failed {
            return Err(JobChangeError::WrongState { status: row.job.status });
        }
        if row.job.imported_at_ms.is_some() {
            return Err(JobChangeError::Imported);
        }
        let finished_at_ms = row.job.finished_at_ms.unwrap_or_default();
        let cut_key = EndedKey { stage: CUT, finished_at_ms, job };
        if self.tables.ended.get(&cut_key.encode())?.is_some() {
            return Err(JobChangeError::LogCut);
        }
        // Its conversation was removed; the sweeper has not deleted the job yet.
        if row.job.conversation_id.is_some() && self.conversation_of(&row)?.is_none() {
            return Ok(None);
        }
        if self.is_replaced(&row)? {
            return Ok(None);
        }
        self.check_queue_limit(1, |limit| JobChangeError::QueueFull { limit })?;
        self.admit_work::<JobChangeError>(user, NewWork::job(0))?;
        self.accept_again(&mut row)?;
        Ok(Some(self.shown(row)?))
    }

    /// Whether another answer has replaced it and the sweeper has not deleted it yet.
    fn is_replaced(&self, row: &JobRow) -> Result<bool, StoreError> {
        let Some(key) = row.turn_key() else { return Ok(false) };
        Ok(self.message_pair(&key.encode())?.is_some_and(|message_pair| !message_pair.is_shown()))
    }

    fn accept_again(&mut self, row: &mut JobRow) -> Result<(), StoreError> {
        // The next end writes the output again.
        if let Some(key) = row.turn_key().map(TurnKey::encode) {
            self.tables.turns.remove(&key)?;
            // Its whole input is asked again, with the items that were deleted.
            self.forget_items(&key)?;
        }
        self.tables.outputs.remove(&row.id().to_bytes())?;
        self.counters.accept = self.counters.accept.saturating_add(1);
        self.counters.unfinished = self.counters.unfinished.saturating_add(1);
        self.effects.metrics.accept();
        let old = JobOwnerKey { user: row.job.user, status: row.job.status, accept: row.accept };
        self.tables.owned.remove(&old.encode())?;
        let old_accept = row.accept;
        row.accept_again(self.counters.accept, self.now_ms);
        self.reenter_conversation(row, old_accept)?;
        self.reopen_line(&row.job)?;
        let mut tail = self.tables.tail(row.id())?;
        let (status, attempt, reason) = (StatusPhase::Queued, row.job.attempt, Some(RETRIED.to_owned()));
        self.tables.append_event(row.id(), &mut tail, &Event::Status { status, attempt, reason })?;
        row.job.last_event_id = tail.seq;
        self.move_row(row, JobStatus::Queued)?;
        self.apply_conditions(row)?;
        self.enqueue(row)?;
        self.put_row(row)?;
        self.notify_event(row.id(), tail.seq);
        Ok(())
    }
}
