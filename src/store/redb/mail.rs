//! Webhooks on their way. Owns their keys and the one way to change a row, which keeps row, due list, owner's list and
//! expiry in step; refuses to know what follows from a try.

use super::keys::{Cut, join};
use super::schema::Tables;
use super::table::ReadableTable;
use super::transaction::Transaction;
use super::value;
use crate::domain::id::{DeliveryId, UserId};
use crate::domain::webhook::{Delivery, DeliveryState, WebhookSubject, WebhookUrl};
use crate::ports::StoreError;

/// Bytes of a delivery's key.
pub(super) type DeliveryBytes = [u8; 16];
/// A time in unix milliseconds, then an id.
pub(super) type DeliveryTimeBytes = [u8; 24];
/// A user, a state, an id.
pub(super) type DeliveryOwnerBytes = [u8; 21];

/// How long settled deliveries are kept, milliseconds.
const KEPT_MS: u64 = 30 * 24 * 3_600 * 1_000;
/// Deliveries that one settling forgets at most: more than it adds, so that old ones run out.
const SWEEP: usize = 16;

/// The key of something at a time.
pub(super) fn time_key(at_ms: u64, id: DeliveryId) -> DeliveryTimeBytes {
    join(&[&at_ms.to_be_bytes(), &id.to_bytes()])
}

/// The time and the id inside an encoded key.
pub(super) fn time_of(key: &DeliveryTimeBytes) -> (u64, DeliveryId) {
    let mut cut = Cut(key);
    (cut.u64(), DeliveryId::from_bytes(cut.take()))
}

/// The key of a delivery in its owner's list.
pub(super) fn owned_key(user: UserId, state: DeliveryState, id: DeliveryId) -> DeliveryOwnerBytes {
    join(&[&user.0.to_be_bytes(), &[state_byte(state)], &id.to_bytes()])
}

/// The id inside an encoded key.
pub(super) fn owned_id(key: &DeliveryOwnerBytes) -> DeliveryId {
    DeliveryId::from_bytes(key.last_chunk().copied().unwrap_or_default())
}

/// These bytes are on disk: a new state gets a new number, none is ever given out twice.
fn state_byte(state: DeliveryState) -> u8 {
    match state {
        DeliveryState::Pending => 1,
        DeliveryState::Delivered => 2,
        DeliveryState::Dead => 3,
    }
}

impl Tables<'_> {
    /// The row of a delivery, if there is one.
    pub(super) fn delivery(&self, id: DeliveryId) -> Result<Option<Delivery>, StoreError> {
        self.deliveries.get(&id.to_bytes())?.map(|bytes| value::decode(bytes.value())).transpose()
    }

    /// Replaces what was stored by `new`.
    pub(super) fn change_delivery(&mut self, old: &Delivery, new: &Delivery) -> Result<(), StoreError> {
        self.remove_delivery(old)?;
        self.insert_delivery(new)
    }

    fn insert_delivery(&mut self, delivery: &Delivery) -> Result<(), StoreError> {
        let id = delivery.id;
        self.deliveries.insert(&id.to_bytes(), value::encode(delivery)?.as_slice())?;
        self.deliveries_owned.insert(&owned_key(delivery.user, delivery.state, id), ())?;
        if let Some(at_ms) = delivery.next_try_ms {
            self.deliveries_due.insert(&time_key(at_ms, id), delivery.url.host_and_port().as_str())?;
        }
        if let Some(at_ms) = delivery.settled_at_ms {
            self.deliveries_settled.insert(&time_key(at_ms.saturating_add(KEPT_MS), id), ())?;
        }
        Ok(())
    }

    fn remove_delivery(&mut self, delivery: &Delivery) -> Result<(), StoreError> {
        let id = delivery.id;
        self.deliveries.remove(&id.to_bytes())?;
        self.deliveries_owned.remove(&owned_key(delivery.user, delivery.state, id))?;
        if let Some(at_ms) = delivery.next_try_ms {
            self.deliveries_due.remove(&time_key(at_ms, id))?;
        }
        if let Some(at_ms) = delivery.settled_at_ms {
            self.deliveries_settled.remove(&time_key(at_ms.saturating_add(KEPT_MS), id))?;
        }
        Ok(())
    }

    /// Forgets some of those whose time is up.
    pub(super) fn sweep_deliveries(&mut self, now_ms: u64) -> Result<(), StoreError> {
        let mut old = Vec::new();
        for entry in self.deliveries_settled.iter()?.take(SWEEP) {
            let (until_ms, id) = time_of(entry?.0.value());
            if until_ms > now_ms {
                break;
            }
            old.push((until_ms, id));
        }
        for (until_ms, id) in old {
            match self.delivery(id) {
                Ok(Some(delivery)) => self.remove_delivery(&delivery)?,
                // What cannot be read stays for the operator, and is not looked at again.
                Ok(None) | Err(StoreError::Corrupt(_)) => {
                    drop(self.deliveries_settled.remove(&time_key(until_ms, id))?);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

impl Transaction<'_> {
    /// Puts a report into the outbox, in the transaction of what it reports.
    pub(super) fn report(
        &mut self,
        user: UserId,
        subject: WebhookSubject,
        url: &WebhookUrl,
    ) -> Result<(), StoreError> {
        let mut id = DeliveryId::at(self.now_ms, subject.bits());
        while self.tables.deliveries.get(&id.to_bytes())?.is_some() {
            id = id.next();
        }
        self.tables.insert_delivery(&Delivery::new(id, user, subject, url.clone(), self.now_ms))?;
        self.effects.has_mail = true;
        self.touch();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn time_keys_round_trip_and_keep_order(a: (u64, u128), b: (u64, u128)) {
            let key = |(at, bits)| time_key(at, DeliveryId::from_bits(bits));
            prop_assert_eq!(time_of(&key(a)), (a.0, DeliveryId::from_bits(a.1)));
            prop_assert_eq!(key(a).cmp(&key(b)), a.cmp(&b));
        }

        #[test]
        fn owned_keys_sort_by_age_inside_a_user_and_state(user: u32, a: u128, b: u128) {
            let key = |bits| owned_key(UserId(user), DeliveryState::Dead, DeliveryId::from_bits(bits));
            prop_assert_eq!(owned_id(&key(a)), DeliveryId::from_bits(a));
            prop_assert_eq!(key(a).cmp(&key(b)), a.cmp(&b));
        }
    }
}
