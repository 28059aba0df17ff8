//! Gives a leased job back: as it stands, for a later attempt, or to wait for a provider. A job whose
//! cancellation was requested ends instead.

use crate::domain::event::{EngineMark, Event, FailureCode, StatusPhase};
use crate::domain::job::JobStatus;
use crate::ports::{Fence, LeaseError, StoreError};
use crate::store::redb::writer::transaction::Transaction;
use crate::store::rows::job::{CANCELLED, JobRow};
use crate::store::rows::lease::LogTail;
use std::sync::Arc;

impl Transaction<'_> {
    /// Returns a leased job to the queue; the attempt does not count.
    pub(crate) fn release_job(&mut self, fence: Fence) -> Result<(), LeaseError> {
        self.give_back(fence, StatusPhase::Queued, None, JobRow::uncount_attempt)
    }

    /// Returns a leased job to the queue for another attempt after `delay_ms`; the failed attempt counts.
    pub(crate) fn postpone_job(
        &mut self,
        fence: Fence,
        reason: &str,
        delay_ms: u64,
    ) -> Result<(), LeaseError> {
        let resume_at_ms = self.now_ms.saturating_add(delay_ms);
        self.give_back(fence, StatusPhase::Retrying, Some(reason), |row| row.postpone(resume_at_ms))
    }

    /// Returns a leased job to the queue for `delay_ms`; the attempt does not count.
    pub(crate) fn defer_job(&mut self, fence: Fence, reason: &str, delay_ms: u64) -> Result<(), LeaseError> {
        let mut leased = self.lease(fence)?;
        self.tables.append(fence.job, &mut leased.tail, &EngineMark::Deferred.into())?;
        self.keep(leased);
        let resume_at_ms = self.now_ms.saturating_add(delay_ms);
        self.give_back(fence, StatusPhase::Queued, Some(reason), |row| row.defer(resume_at_ms))
    }

    /// Ends the lease and queues the job again, with this change to its row.
    fn give_back(
        &mut self,
        fence: Fence,
        status: StatusPhase,
        reason: Option<&str>,
        change: impl FnOnce(&mut JobRow),
    ) -> Result<(), LeaseError> {
        let mut leased = self.lease(fence)?;
        self.drop_lease(fence.job);
        self.tables.flush(fence.job, &mut leased.tail)?;
        let mut row = Arc::unwrap_or_clone(leased.row);
        if row.job.cancel_requested {
            return Ok(self.end_unleased(&mut row, FailureCode::Cancelled, CANCELLED)?);
        }
        row.job.crashes = 0;
        change(&mut row);
        Ok(self.requeue(&mut row, &mut leased.tail, status, reason.map(str::to_owned))?)
    }

    /// Returns a running job to the queue, at its old position.
    pub(crate) fn requeue(
        &mut self,
        row: &mut JobRow,
        tail: &mut LogTail,
        status: StatusPhase,
        reason: Option<String>,
    ) -> Result<(), StoreError> {
        let event = Event::Status { status, attempt: row.job.attempt, reason };
        self.tables.append_event(row.id(), tail, &event)?;
        row.job.last_event_id = tail.seq;
        self.enter_queue(row)?;
        self.move_row(row, JobStatus::Queued)?;
        self.notify_event(row.id(), tail.seq);
        Ok(())
    }
}
