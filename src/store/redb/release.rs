//! Giving a leased job back as it stands. A job whose cancellation was asked for ends instead of queueing again.

use super::act::Act;
use super::lease::Tail;
use super::row::Row;
use super::transaction::Transaction;
use crate::domain::event::{Event, FailureCode, StatusPhase};
use crate::domain::id::JobId;
use crate::domain::job::JobStatus;
use crate::ports::{Fence, StoreError};
use std::sync::Arc;

/// What a cancelled job's last event says.
pub(super) const CANCELLED: &str = "the job was cancelled";

/// This lease.
pub(super) struct Release(pub(super) Fence);

impl Act for Release {
    type Out = ();

    fn apply(&self, transaction: &mut Transaction<'_>) -> Result<(), StoreError> {
        let mut held = transaction.lease(self.0)?;
        transaction.drop_lease(self.0.job);
        transaction.tables.flush(self.0.job, &mut held.tail)?;
        let mut row = Arc::unwrap_or_clone(held.row);
        if row.job.cancel_requested {
            return transaction.end_unheld(&mut row, FailureCode::Cancelled, CANCELLED);
        }
        row.job.attempt = row.job.attempt.saturating_sub(1);
        row.job.crashes = 0;
        transaction.requeue(&mut row, &mut held.tail, StatusPhase::Queued, None)
    }

    fn jobs(&self) -> Vec<JobId> {
        vec![self.0.job]
    }
}

impl Transaction<'_> {
    /// Puts a running job back into the queue, at the place that it had.
    pub(super) fn requeue(
        &mut self,
        row: &mut Row,
        tail: &mut Tail,
        status: StatusPhase,
        reason: Option<String>,
    ) -> Result<(), StoreError> {
        let event = Event::Status { status, attempt: row.job.attempt, reason };
        self.tables.append_event(row.id(), tail, &event)?;
        row.job.last_event_id = tail.seq;
        self.place(row)?;
        self.move_row(row, JobStatus::Queued)?;
        self.announce(row.id(), tail.seq);
        Ok(())
    }
}
