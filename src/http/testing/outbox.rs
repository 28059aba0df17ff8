//! An outbox in memory. Owns no rule of its own.

use crate::domain::delivery_turns::DeliveryTurns;
use crate::domain::id::{DeliveryId, UserId};
use crate::domain::webhook::{Delivery, DeliveryAttempt};
use crate::ports::{CancelToken, DeliveryPage, DeliveryQuery, Outbox, StoreError, Ticket};
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

/// The outbox.
#[derive(Default)]
pub(crate) struct MemoryOutbox(pub(crate) Mutex<BTreeMap<DeliveryId, Delivery>>);

impl Outbox for MemoryOutbox {
    fn again(&self, user: UserId, id: DeliveryId) -> Ticket<Option<Delivery>> {
        let mut rows = self.0.lock().expect("lock");
        let found = rows.get_mut(&id).filter(|delivery| delivery.user == user).map(|delivery| {
            delivery.again(9_000);
            delivery.clone()
        });
        let (sender, ticket) = Ticket::new();
        drop(sender.send(Ok(found)));
        ticket
    }

    fn delivery(&self, user: UserId, id: DeliveryId) -> Result<Option<Delivery>, StoreError> {
        Ok(self.0.lock().expect("lock").get(&id).filter(|delivery| delivery.user == user).cloned())
    }

    fn deliveries(&self, query: &DeliveryQuery) -> Result<DeliveryPage, StoreError> {
        let rows = self.0.lock().expect("lock");
        let fits = |delivery: &&Delivery| {
            delivery.user == query.user
                && query.state.is_none_or(|state| delivery.state == state)
                && query.before.is_none_or(|before| delivery.id < before)
        };
        let mut deliveries: Vec<Delivery> = rows.values().rev().filter(fits).cloned().collect();
        let has_more = deliveries.len() > query.limit;
        deliveries.truncate(query.limit);
        Ok(DeliveryPage { deliveries, has_more })
    }

    fn due(&self, _: u64, _: usize, _: &DeliveryTurns) -> Result<Vec<Delivery>, StoreError> {
        unreachable!("HTTP sends nothing")
    }
    fn next_due_ms(&self) -> Result<Option<u64>, StoreError> {
        unreachable!("HTTP sends nothing")
    }
    fn settle(&self, _: DeliveryId, _: DeliveryAttempt) -> Ticket<()> {
        unreachable!("HTTP sends nothing")
    }
    fn delivery_changes(&self) -> u64 {
        unreachable!("HTTP sends nothing")
    }
    fn wait_for_deliveries(&self, _: u64, _: &CancelToken, _: Duration) {
        unreachable!("HTTP sends nothing")
    }
    fn wake_dispatcher(&self) {
        unreachable!("HTTP sends nothing")
    }
}
