//! Gives a leased job back: as it stands, for a later attempt, or to wait for a provider. A job whose
//! cancellation was requested ends instead.

use crate::domain::event::{EngineMark, Event, FailureCode, StatusPhase};
use crate::domain::job::JobStatus;
use crate::ports::{Fence, LeaseError, StoreError};
use crate::store::postgres::jobs::row::move_row;
use crate::store::postgres::writer::act::Act;
use crate::store::rows::job::{CANCELLED, JobRow};
use crate::store::rows::lease::LogTail;

impl Act<'_> {
    /// Returns a leased job to the queue; the attempt does not count.
    pub(crate) async fn release_job(&mut self, fence: Fence) -> Result<(), LeaseError> {
        self.give_back(fence, StatusPhase::Queued, None, JobRow::uncount_attempt).await
    }

    /// Returns a leased job to the queue for another attempt after `delay_ms`; the failed attempt counts.
    pub(crate) async fn postpone_job(
        &mut self,
        fence: Fence,
        reason: &str,
        delay_ms: u64,
    ) -> Result<(), LeaseError> {
        let resume_at_ms = self.now_ms.saturating_add(delay_ms);
        self.give_back(fence, StatusPhase::Retrying, Some(reason), |row| row.postpone(resume_at_ms)).await
    }

    /// Returns a leased job to the queue for `delay_ms`; the attempt does not count.
    pub(crate) async fn defer_job(
        &mut self,
        fence: Fence,
        reason: &str,
        delay_ms: u64,
    ) -> Result<(), LeaseError> {
        let mut leased = self.lease(fence)?;
        self.append(fence.job, &mut leased.tail, &EngineMark::Deferred.into())?;
        self.keep(leased);
        let resume_at_ms = self.now_ms.saturating_add(delay_ms);
        self.give_back(fence, StatusPhase::Queued, Some(reason), |row| row.defer(resume_at_ms)).await
    }

    /// Ends the lease and queues the job again, with this change to its row.
    async fn give_back(
        &mut self,
        fence: Fence,
        status: StatusPhase,
        reason: Option<&str>,
        change: impl FnOnce(&mut JobRow),
    ) -> Result<(), LeaseError> {
        let (mut row, mut tail) = self.take_lease(fence).await?;
        if row.job.cancel_requested {
            return Ok(self.end_unleased(&mut row, FailureCode::Cancelled, CANCELLED).await?);
        }
        row.job.crashes = 0;
        change(&mut row);
        Ok(self.requeue(&mut row, &mut tail, status, reason.map(str::to_owned)).await?)
    }

    /// Returns a running or waiting job to the queue, at its old position.
    pub(crate) async fn requeue(
        &mut self,
        row: &mut JobRow,
        tail: &mut LogTail,
        status: StatusPhase,
        reason: Option<String>,
    ) -> Result<(), StoreError> {
        let event = Event::Status { status, attempt: row.job.attempt, reason };
        self.append_event(row.id(), tail, event)?;
        row.job.last_event_id = tail.seq;
        move_row(row, JobStatus::Queued)?;
        self.enter_queue(row).await?;
        self.put_row(row).await?;
        self.announce_event(row.id(), tail.seq);
        Ok(())
    }
}
