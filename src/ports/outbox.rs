//! The outbox of webhooks: deliveries that wait, and the history of their attempts.

use super::clock::CancelToken;
use super::store_error::StoreError;
use super::ticket::Ticket;
use crate::domain::delivery_turns::DeliveryTurns;
use crate::domain::id::{DeliveryId, UserId};
use crate::domain::webhook::{Delivery, DeliveryAttempt, DeliveryState};
use std::time::Duration;

/// Filter and position of a delivery list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeliveryQuery {
    /// Owner.
    pub user: UserId,
    /// Only deliveries in this state.
    pub state: Option<DeliveryState>,
    /// Only deliveries created before this one.
    pub before: Option<DeliveryId>,
    /// Page size.
    pub limit: usize,
}

/// A page of deliveries, newest first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeliveryPage {
    /// The deliveries.
    pub deliveries: Vec<Delivery>,
    /// Whether older deliveries follow.
    pub has_more: bool,
}

/// Stores deliveries. The transaction that ends a job creates its delivery, so neither exists without the
/// other. A delivery keeps its id until it is delivered or given up, across crashes.
pub trait Outbox: Send + Sync {
    /// The deliveries due at `now_ms` that begin next, in order, at most `max`. `turns` has those that the
    /// caller has in progress.
    fn due(&self, now_ms: u64, max: usize, turns: &DeliveryTurns) -> Result<Vec<Delivery>, StoreError>;
    /// When the next delivery is due, unix milliseconds; overdue ones count.
    fn next_due_ms(&self) -> Result<Option<u64>, StoreError>;
    /// Records an attempt. A delivery that is no longer pending stays as it is. Finished ones are stored for
    /// 30 days.
    fn settle(&self, id: DeliveryId, attempt: DeliveryAttempt) -> Ticket<()>;
    /// Makes a delivery due now. One that was given up starts again; a delivered one stays as it is. Returns
    /// the delivery, or `None` when the user has no such delivery.
    fn again(&self, user: UserId, id: DeliveryId) -> Ticket<Option<Delivery>>;
    /// The delivery, or `None` when it is not this user's.
    fn delivery(&self, user: UserId, id: DeliveryId) -> Result<Option<Delivery>, StoreError>;
    /// A page of a user's deliveries, newest first.
    fn deliveries(&self, query: &DeliveryQuery) -> Result<DeliveryPage, StoreError>;
    /// Counts the changes after which a delivery may be due, and calls of [`Self::wake_dispatcher`].
    fn delivery_changes(&self) -> u64;
    /// Blocks until there are other changes than `seen`, the token is cancelled, or the timeout has passed. A
    /// wake-up is a hint only.
    fn wait_for_deliveries(&self, seen: u64, stop: &CancelToken, timeout: Duration);
    /// Ends the waits of this process: a delivery has ended.
    fn wake_dispatcher(&self);
}

/// Body of a delivery, made when it is sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Payload {
    /// JSON body.
    Body(Vec<u8>),
    /// There is nothing to send any more, with the reason.
    Nothing(&'static str),
}

/// Renders webhook bodies: the object that a client reads, or `OpenAI`'s event about it.
pub trait Payloads: Send + Sync {
    /// The subject of a delivery in its current state.
    fn payload(&self, delivery: &Delivery) -> Result<Payload, StoreError>;
}
