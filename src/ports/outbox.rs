//! Webhooks that wait to be sent, and what became of them. Owns the traits and the values that cross them; refuses to know
//! how one is sent.

use super::cancel::CancelToken;
use super::store::StoreError;
use super::ticket::Ticket;
use crate::domain::id::{DeliveryId, UserId};
use crate::domain::webhook::{Delivery, DeliveryAttempt, DeliveryState, WebhookSubject};
use std::collections::BTreeSet;
use std::time::Duration;

/// Which deliveries a list shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeliveryQuery {
    /// Only this user's.
    pub user: UserId,
    /// Only those in this state.
    pub state: Option<DeliveryState>,
    /// Only those made before this one.
    pub before: Option<DeliveryId>,
    /// At most so many.
    pub limit: usize,
}

/// A page of deliveries, newest first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeliveryPage {
    /// The deliveries.
    pub deliveries: Vec<Delivery>,
    /// Whether older ones would follow.
    pub has_more: bool,
}

/// Deliveries, durably. One is made in the transaction of the end that it reports, never here, so that neither is there
/// without the other; it keeps its id until it is settled for good, whatever crashes in between.
pub trait Outbox: Send + Sync {
    /// What is due at `now_ms`, the longest due first: the first of each host and port that is not in `busy`, at most `max`.
    fn due(&self, now_ms: u64, max: usize, busy: &BTreeSet<String>) -> Result<Vec<Delivery>, StoreError>;
    /// When the next one is due, unix milliseconds; overdue ones count.
    fn next_due_ms(&self) -> Result<Option<u64>, StoreError>;
    /// Writes down what became of a try. One that is no longer pending stays as it is. Settled ones are kept for 30 days.
    fn settle(&self, id: DeliveryId, attempt: DeliveryAttempt) -> Ticket<()>;
    /// Has it tried now: one given up begins anew, one that waits waits no longer, a delivered one stays as it is.
    /// Resolves to the delivery as it then stands; `None` when the user has no such delivery.
    fn again(&self, user: UserId, id: DeliveryId) -> Ticket<Option<Delivery>>;
    /// The delivery, if it is this user's.
    fn delivery(&self, user: UserId, id: DeliveryId) -> Result<Option<Delivery>, StoreError>;
    /// A page of a user's deliveries, newest first.
    fn deliveries(&self, query: &DeliveryQuery) -> Result<DeliveryPage, StoreError>;
    /// Blocks until a delivery may have become due, `stop` is raised, or the timeout has passed: a hint only.
    fn wait_for_deliveries(&self, stop: &CancelToken, timeout: Duration);
}

/// What a delivery says, made at the moment of sending.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Payload {
    /// The body, JSON.
    Body(Vec<u8>),
    /// There is nothing to say any more; why.
    Nothing(&'static str),
}

/// Makes what deliveries say: the same object that a client reads.
pub trait Payloads: Send + Sync {
    /// The subject as it stands now.
    fn payload(&self, user: UserId, subject: WebhookSubject) -> Result<Payload, StoreError>;
}
