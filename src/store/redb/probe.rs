//! Proof that the writer and the disk work: a commit that changes nothing but a beat and its time.

use super::act::Act;
use super::transaction::Transaction;
use crate::domain::id::JobId;
use crate::ports::StoreError;

/// One beat.
pub(super) struct Probe;

impl Act for Probe {
    type Out = ();

    fn apply(&self, transaction: &mut Transaction<'_>) -> Result<(), StoreError> {
        transaction.counters.beat = transaction.counters.beat.wrapping_add(1);
        transaction.counters.seen_ms = transaction.now_ms;
        transaction.touch();
        Ok(())
    }

    fn jobs(&self) -> Vec<JobId> {
        Vec::new()
    }
}
