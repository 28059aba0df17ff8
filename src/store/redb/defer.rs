//! Giving a leased job back to wait: for its turn at a provider, or as long as a provider asked. Neither the run nor a
//! failure counts; the mark tells the next run so.

use super::act::Act;
use super::release::CANCELLED;
use super::transaction::Transaction;
use crate::domain::event::{EngineMark, FailureCode, StatusPhase};
use crate::domain::id::JobId;
use crate::ports::{Fence, StoreError, Urgency};
use std::sync::Arc;

/// This lease, because of this, and not before so long.
pub(super) struct Defer {
    pub(super) fence: Fence,
    pub(super) reason: String,
    pub(super) delay_ms: u64,
}

impl Act for Defer {
    type Out = ();

    fn apply(&self, transaction: &mut Transaction<'_>) -> Result<(), StoreError> {
        let mut held = transaction.lease(self.fence)?;
        transaction.drop_lease(self.fence.job);
        transaction.tables.append(
            self.fence.job,
            &mut held.tail,
            &EngineMark::Deferred.into(),
            Urgency::Now,
        )?;
        let mut row = Arc::unwrap_or_clone(held.row);
        if row.job.cancel_requested {
            return transaction.end_unheld(&mut row, FailureCode::Cancelled, CANCELLED);
        }
        row.job.attempt = row.job.attempt.saturating_sub(1);
        row.job.crashes = 0;
        row.resume_at_ms = Some(transaction.now_ms.saturating_add(self.delay_ms));
        transaction.requeue(&mut row, &mut held.tail, StatusPhase::Queued, Some(self.reason.clone()))
    }

    fn jobs(&self) -> Vec<JobId> {
        vec![self.fence.job]
    }
}
