//! Giving a leased job back for another attempt, later. A job whose cancellation was asked for ends instead.

use super::act::Act;
use super::release::CANCELLED;
use super::transaction::Transaction;
use crate::domain::event::{FailureCode, StatusPhase};
use crate::domain::id::JobId;
use crate::ports::{Fence, StoreError};
use std::sync::Arc;

/// This lease, because of this, and not before so long.
pub(super) struct Postpone {
    pub(super) fence: Fence,
    pub(super) reason: String,
    pub(super) delay_ms: u64,
}

impl Act for Postpone {
    type Out = ();

    fn apply(&self, transaction: &mut Transaction<'_>) -> Result<(), StoreError> {
        let mut held = transaction.lease(self.fence)?;
        transaction.drop_lease(self.fence.job);
        transaction.tables.flush(self.fence.job, &mut held.tail)?;
        let mut row = Arc::unwrap_or_clone(held.row);
        if row.job.cancel_requested {
            return transaction.end_unheld(&mut row, FailureCode::Cancelled, CANCELLED);
        }
        row.job.crashes = 0;
        row.job.failed_runs = row.job.failed_runs.saturating_add(1);
        row.resume_at_ms = Some(transaction.now_ms.saturating_add(self.delay_ms));
        transaction.requeue(&mut row, &mut held.tail, StatusPhase::Retrying, Some(self.reason.clone()))
    }

    fn jobs(&self) -> Vec<JobId> {
        vec![self.fence.job]
    }
}
