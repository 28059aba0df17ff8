//! Gives a leased job back: as it stands, for a later attempt, or to wait for a provider. A job whose
//! cancellation was requested ends instead.

use crate::domain::event::{EngineMark, Event, FailureCode, StatusPhase};
use crate::domain::id::JobId;
use crate::domain::job::JobStatus;
use crate::ports::{Fence, StoreError, Urgency};
use crate::store::redb::jobs::row::JobRow;
use crate::store::redb::queue::lease::LogTail;
use crate::store::redb::writer::transaction::Transaction;
use crate::store::redb::writer::write::StoreWrite;
use std::sync::Arc;

/// What a cancelled job's last event says.
pub(crate) const CANCELLED: &str = "the job was cancelled";

/// This lease.
pub(crate) struct ReleaseJob(pub(crate) Fence);

impl StoreWrite for ReleaseJob {
    type Output = ();

    fn apply(&self, transaction: &mut Transaction<'_>) -> Result<(), StoreError> {
        let mut leased = transaction.lease(self.0)?;
        transaction.drop_lease(self.0.job);
        transaction.tables.flush(self.0.job, &mut leased.tail)?;
        let mut row = Arc::unwrap_or_clone(leased.row);
        if row.job.cancel_requested {
            return transaction.end_unheld(&mut row, FailureCode::Cancelled, CANCELLED);
        }
        row.job.attempt = row.job.attempt.saturating_sub(1);
        row.job.crashes = 0;
        transaction.requeue(&mut row, &mut leased.tail, StatusPhase::Queued, None)
    }

    fn jobs(&self) -> Vec<JobId> {
        vec![self.0.job]
    }
}

impl Transaction<'_> {
    /// Puts a running job back into the queue, at the place that it had.
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

/// This lease, because of this, and not before so long.
pub(crate) struct PostponeJob {
    pub(crate) fence: Fence,
    pub(crate) reason: String,
    pub(crate) delay_ms: u64,
}

impl StoreWrite for PostponeJob {
    type Output = ();

    fn apply(&self, transaction: &mut Transaction<'_>) -> Result<(), StoreError> {
        let mut leased = transaction.lease(self.fence)?;
        transaction.drop_lease(self.fence.job);
        transaction.tables.flush(self.fence.job, &mut leased.tail)?;
        let mut row = Arc::unwrap_or_clone(leased.row);
        if row.job.cancel_requested {
            return transaction.end_unheld(&mut row, FailureCode::Cancelled, CANCELLED);
        }
        row.job.crashes = 0;
        row.job.failed_runs = row.job.failed_runs.saturating_add(1);
        row.resume_at_ms = Some(transaction.now_ms.saturating_add(self.delay_ms));
        transaction.requeue(&mut row, &mut leased.tail, StatusPhase::Retrying, Some(self.reason.clone()))
    }

    fn jobs(&self) -> Vec<JobId> {
        vec![self.fence.job]
    }
}

/// This lease, because of this, and not before so long.
pub(crate) struct DeferJob {
    pub(crate) fence: Fence,
    pub(crate) reason: String,
    pub(crate) delay_ms: u64,
}

impl StoreWrite for DeferJob {
    type Output = ();

    fn apply(&self, transaction: &mut Transaction<'_>) -> Result<(), StoreError> {
        let mut leased = transaction.lease(self.fence)?;
        transaction.drop_lease(self.fence.job);
        transaction.tables.append(
            self.fence.job,
            &mut leased.tail,
            &EngineMark::Deferred.into(),
            Urgency::Now,
        )?;
        let mut row = Arc::unwrap_or_clone(leased.row);
        if row.job.cancel_requested {
            return transaction.end_unheld(&mut row, FailureCode::Cancelled, CANCELLED);
        }
        row.job.attempt = row.job.attempt.saturating_sub(1);
        row.job.crashes = 0;
        row.resume_at_ms = Some(transaction.now_ms.saturating_add(self.delay_ms));
        transaction.requeue(&mut row, &mut leased.tail, StatusPhase::Queued, Some(self.reason.clone()))
    }

    fn jobs(&self) -> Vec<JobId> {
        vec![self.fence.job]
    }
}
