//! The trait of all writes, and the ticket that a write resolves.

use crate::domain::id::JobId;
use crate::ports::{StoreError, Ticket, Urgency};
use crate::store::redb::writer::transaction::Transaction;
use tokio::sync::oneshot;

/// What a write weighs that carries no text, bytes.
pub(crate) const BASE_WEIGHT: usize = 256;

/// One kind of write.
pub(crate) trait StoreWrite: Send + 'static {
    /// What its caller gets after the commit.
    type Output: Send + 'static;

    /// Writes into the open transaction. It may run again in a later one.
    ///
    /// `Io`, `Full` and `Corrupt` abandon the whole transaction; any other error is the caller's own and must
    /// come before anything was written.
    fn apply(&self, transaction: &mut Transaction<'_>) -> Result<Self::Output, StoreError>;

    /// The jobs whose leases are lost when the outcome of the commit is unknown.
    fn jobs(&self) -> Vec<JobId>;

    /// Roughly how many bytes it brings.
    fn weight(&self) -> usize {
        BASE_WEIGHT
    }

    /// How long it may wait for company.
    fn urgency(&self) -> Urgency {
        Urgency::Now
    }
}

/// A write and the ticket of its caller.
pub(crate) trait QueuedWrite: Send {
    /// See [`StoreWrite::apply`]; errors returned here abandon the transaction.
    fn apply(&mut self, transaction: &mut Transaction<'_>) -> Result<(), StoreError>;
    /// See [`StoreWrite::jobs`].
    fn jobs(&self) -> Vec<JobId>;
    /// See [`StoreWrite::weight`].
    fn weight(&self) -> usize;
    /// See [`StoreWrite::urgency`].
    fn urgency(&self) -> Urgency;
    /// Resolves the ticket with the outcome of the commit.
    fn settle(self: Box<Self>, outcome: Result<(), StoreError>);
}

struct WaitingWrite<A: StoreWrite> {
    act: A,
    result: Option<Result<A::Output, StoreError>>,
    caller: oneshot::Sender<Result<A::Output, StoreError>>,
}

/// Packs a write for the channel.
pub(crate) fn queued_write<A: StoreWrite>(act: A) -> (Box<dyn QueuedWrite>, Ticket<A::Output>) {
    let (caller, ticket) = Ticket::new();
    (Box::new(WaitingWrite { act, result: None, caller }), ticket)
}

impl<A: StoreWrite> QueuedWrite for WaitingWrite<A> {
    fn apply(&mut self, transaction: &mut Transaction<'_>) -> Result<(), StoreError> {
        match self.act.apply(transaction) {
            Err(error @ (StoreError::Io(_) | StoreError::Full | StoreError::Corrupt(_))) => Err(error),
            result => {
                self.result = Some(result);
                Ok(())
            }
        }
    }

    fn jobs(&self) -> Vec<JobId> {
        self.act.jobs()
    }

    fn weight(&self) -> usize {
        self.act.weight()
    }

    fn urgency(&self) -> Urgency {
        self.act.urgency()
    }

    fn settle(self: Box<Self>, outcome: Result<(), StoreError>) {
        let Self { result, caller, .. } = *self;
        // A caller that no longer waits has no use for the answer.
        drop(caller.send(outcome.and_then(|()| result.unwrap_or(Err(StoreError::Closed)))));
    }
}

/// One beat.
pub(crate) struct Heartbeat;

impl StoreWrite for Heartbeat {
    type Output = ();

    fn apply(&self, transaction: &mut Transaction<'_>) -> Result<(), StoreError> {
        transaction.counters.beat = transaction.counters.beat.wrapping_add(1);
        transaction.counters.seen_ms = transaction.now_ms;
        transaction.mark_dirty();
        Ok(())
    }

    fn jobs(&self) -> Vec<JobId> {
        Vec::new()
    }
}
