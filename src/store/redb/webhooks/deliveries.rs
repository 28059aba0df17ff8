//! Stored webhook deliveries. One function changes a row, and keeps the due list, the list of the owner and
//! the expiry in step.

use crate::domain::id::{DeliveryId, UserId};
use crate::domain::webhook::{Delivery, WebhookSubject, WebhookUrl};
use crate::ports::StoreError;
use crate::store::redb::codec::keys::deliveries::{due_value, owned_key, time_key, time_of};
use crate::store::redb::codec::table::ReadableTable;
use crate::store::redb::codec::tables::Tables;
use crate::store::redb::writer::transaction::Transaction;
use crate::store::rows::delivery::{KEPT_MS, SWEEP};

impl Tables<'_> {
    /// The row of a delivery, if there is one.
    pub(crate) fn delivery(&self, id: DeliveryId) -> Result<Option<Delivery>, StoreError> {
        self.deliveries.row(&id.to_bytes())
    }

    /// Replaces a stored delivery.
    pub(crate) fn change_delivery(&mut self, old: &Delivery, new: &Delivery) -> Result<(), StoreError> {
        self.remove_delivery(old)?;
        self.insert_delivery(new)
    }

    /// Writes a new delivery and the lists that find it.
    pub(crate) fn insert_delivery(&mut self, delivery: &Delivery) -> Result<(), StoreError> {
        let id = delivery.id;
        self.deliveries.put_row(&id.to_bytes(), delivery)?;
        self.deliveries_owned.insert(&owned_key(delivery.user, delivery.state, id), ())?;
        if let Some(at_ms) = delivery.next_try_ms {
            let value = due_value(delivery.user, &delivery.url.host_and_port());
            self.deliveries_due.insert(&time_key(at_ms, id), value.as_str())?;
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

    /// Removes some expired deliveries.
    pub(crate) fn sweep_deliveries(&mut self, now_ms: u64) -> Result<(), StoreError> {
        let (mut old, limit) = (Vec::new(), usize::try_from(SWEEP).unwrap_or(usize::MAX));
        for entry in self.deliveries_settled.iter()?.take(limit) {
            let (until_ms, id) = time_of(entry?.0.value());
            if until_ms > now_ms {
                break;
            }
            old.push((until_ms, id));
        }
        for (until_ms, id) in old {
            match self.delivery(id) {
                Ok(Some(delivery)) => self.remove_delivery(&delivery)?,
                // An unreadable row stays for the operator and is not read again.
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
    /// Puts a delivery into the outbox, in the transaction of its event.
    pub(crate) fn report(
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
        self.effects.has_due_delivery = true;
        self.mark_dirty();
        Ok(())
    }
}
