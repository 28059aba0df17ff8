//! What the writer can be asked to do. Owns the trait that every write implements and the ticket that it settles;
//! refuses to know any single write.

use super::transaction::Transaction;
use crate::domain::id::JobId;
use crate::ports::{StoreError, Ticket, Urgency};
use tokio::sync::oneshot;

/// What a write weighs that carries no text, bytes.
pub(super) const SMALL: usize = 256;

/// One kind of write.
pub(super) trait Act: Send + 'static {
    /// What its caller gets after the commit.
    type Out: Send + 'static;

    /// Writes into the open transaction. It may run again in a later one.
    ///
    /// `Io`, `Full` and `Corrupt` abandon the whole transaction; any other error is the caller's own and must come before
    /// anything was written.
    fn apply(&self, transaction: &mut Transaction<'_>) -> Result<Self::Out, StoreError>;

    /// The jobs whose leases are lost when nobody knows what became of the commit.
    fn jobs(&self) -> Vec<JobId>;

    /// Roughly how many bytes it brings.
    fn weight(&self) -> usize {
        SMALL
    }

    /// How long it may wait for company.
    fn urgency(&self) -> Urgency {
        Urgency::Now
    }
}

/// A write with somebody waiting for it.
pub(super) trait Pending: Send {
    /// See [`Act::apply`]; errors returned here abandon the transaction.
    fn apply(&mut self, transaction: &mut Transaction<'_>) -> Result<(), StoreError>;
    /// See [`Act::jobs`].
    fn jobs(&self) -> Vec<JobId>;
    /// See [`Act::weight`].
    fn weight(&self) -> usize;
    /// See [`Act::urgency`].
    fn urgency(&self) -> Urgency;
    /// Tells the waiting caller what became of the commit.
    fn settle(self: Box<Self>, verdict: Result<(), StoreError>);
}

struct Waiting<A: Act> {
    act: A,
    result: Option<Result<A::Out, StoreError>>,
    caller: oneshot::Sender<Result<A::Out, StoreError>>,
}

/// Packs a write for the channel.
pub(super) fn pend<A: Act>(act: A) -> (Box<dyn Pending>, Ticket<A::Out>) {
    let (caller, ticket) = Ticket::new();
    (Box::new(Waiting { act, result: None, caller }), ticket)
}

impl<A: Act> Pending for Waiting<A> {
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

    fn settle(self: Box<Self>, verdict: Result<(), StoreError>) {
        let Self { result, caller, .. } = *self;
        // A caller that no longer waits has no use for the answer.
        drop(caller.send(verdict.and_then(|()| result.unwrap_or(Err(StoreError::Closed)))));
    }
}
