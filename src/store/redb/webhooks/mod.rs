//! The port [`Outbox`] on the store: due deliveries, results of attempts, lists. Deliveries are made by the
//! transaction that ends a job or batch.

use crate::domain::id::{DeliveryId, UserId};
use crate::domain::webhook::{Delivery, DeliveryAttempt, DeliveryState};
use crate::ports::{CancelToken, DeliveryPage, DeliveryQuery, Outbox, StoreError, Ticket};
use crate::store::redb::codec::keys::deliveries::{
    DeliveryOwnerBytes, DeliveryTimeBytes, owned_id, owned_key, time_key, time_of,
};
use crate::store::redb::codec::read_transaction::ReadTransaction;
use crate::store::redb::codec::table::ReadableTable;
use crate::store::redb::codec::tables::{DELIVERIES, DELIVERIES_DUE, DELIVERIES_OWNED};
use crate::store::redb::codec::values;
use crate::store::redb::store::RedbStore;
use crate::store::redb::writer::transaction::Transaction;
use crate::store::redb::writer::write::WriteOptions;
use std::collections::BTreeSet;
use std::time::Duration;

pub(crate) mod deliveries;

impl Transaction<'_> {
    /// Records an attempt.
    pub(crate) fn settle_delivery(
        &mut self,
        id: DeliveryId,
        attempt: &DeliveryAttempt,
    ) -> Result<(), StoreError> {
        let now_ms = self.now_ms;
        let tables = &mut self.tables;
        tables.sweep_deliveries(now_ms)?;
        if let Some(old) = tables.delivery(id)?.filter(|d| d.state == DeliveryState::Pending) {
            let mut new = old.clone();
            new.take(attempt, now_ms);
            tables.change_delivery(&old, &new)?;
            // Wake the senders, because the next due time has changed.
            self.effects.has_due_delivery |= new.state == DeliveryState::Pending;
        }
        self.mark_dirty();
        Ok(())
    }
}

impl Transaction<'_> {
    /// Makes a delivery due now.
    pub(crate) fn retry_delivery(
        &mut self,
        user: UserId,
        id: DeliveryId,
    ) -> Result<Option<Delivery>, StoreError> {
        let tables = &mut self.tables;
        let Some(old) = tables.delivery(id)?.filter(|d| d.user == user) else { return Ok(None) };
        let mut new = old.clone();
        new.again(self.now_ms);
        if new != old {
            tables.change_delivery(&old, &new)?;
            self.effects.has_due_delivery = true;
            self.mark_dirty();
        }
        Ok(Some(new))
    }
}

impl Outbox for RedbStore {
    fn due(&self, now_ms: u64, max: usize, busy: &BTreeSet<String>) -> Result<Vec<Delivery>, StoreError> {
        self.read(|reading| due(reading, now_ms, max, busy))
    }

    fn next_due_ms(&self) -> Result<Option<u64>, StoreError> {
        self.read(|reading| {
            let due = DELIVERIES_DUE.read(reading)?.skipping_damaged();
            Ok(due.first()?.map(|(key, _)| time_of(key.value()).0))
        })
    }

    fn settle(&self, id: DeliveryId, attempt: DeliveryAttempt) -> Ticket<()> {
        self.push(WriteOptions::default(), move |transaction| transaction.settle_delivery(id, &attempt))
    }

    fn again(&self, user: UserId, id: DeliveryId) -> Ticket<Option<Delivery>> {
        self.offer(WriteOptions::default(), move |transaction| transaction.retry_delivery(user, id))
    }

    fn delivery(&self, user: UserId, id: DeliveryId) -> Result<Option<Delivery>, StoreError> {
        let found = self.read(|reading| find(reading, id))?;
        Ok(found.filter(|delivery| delivery.user == user))
    }

    fn deliveries(&self, query: &DeliveryQuery) -> Result<DeliveryPage, StoreError> {
        self.read(|reading| page(reading, query))
    }

    fn wait_for_deliveries(&self, cancel: &CancelToken, timeout: Duration) {
        self.shared.deliveries.wait(cancel, timeout);
    }
}

fn find(reading: &ReadTransaction, id: DeliveryId) -> Result<Option<Delivery>, StoreError> {
    DELIVERIES.read(reading)?.row(&id.to_bytes())
}

fn due(
    reading: &ReadTransaction,
    now_ms: u64,
    max: usize,
    busy: &BTreeSet<String>,
) -> Result<Vec<Delivery>, StoreError> {
    let due = DELIVERIES_DUE.read(reading)?.skipping_damaged();
    let last = time_key(now_ms, DeliveryId::from_bits(u128::MAX));
    let mut seen: BTreeSet<String> = BTreeSet::new();
    let mut found = Vec::new();
    for entry in due.range::<&DeliveryTimeBytes>(..=&last)? {
        if found.len() >= max {
            break;
        }
        let (key, host) = entry?;
        let host = host.value();
        if busy.contains(host) || seen.contains(host) {
            continue;
        }
        let (_, id) = time_of(key.value());
        if let Some(delivery) = values::skip_unreadable(id, find(reading, id))? {
            seen.insert(host.to_owned());
            found.push(delivery);
        }
    }
    Ok(found)
}

fn page(reading: &ReadTransaction, query: &DeliveryQuery) -> Result<DeliveryPage, StoreError> {
    let mut ids = Vec::new();
    let owned = DELIVERIES_OWNED.read(reading)?;
    let wanted = DeliveryState::ALL.into_iter().filter(|s| query.state.is_none_or(|only| only == *s));
    for state in wanted {
        let key = |bits| owned_key(query.user, state, DeliveryId::from_bits(bits));
        let (first, last) = (key(0), key(u128::MAX));
        let before = query.before.map_or(last, |id| owned_key(query.user, state, id));
        let range = owned.range::<&DeliveryOwnerBytes>(&first..&before)?;
        for entry in range.rev().take(query.limit.saturating_add(1)) {
            ids.push(owned_id(entry?.0.value()));
        }
    }
    ids.sort_unstable_by(|one, two| two.cmp(one));
    let has_more = ids.len() > query.limit;
    ids.truncate(query.limit);
    let mut deliveries = Vec::with_capacity(ids.len());
    for id in ids {
        deliveries.push(values::listed(id, find(reading, id))?);
    }
    Ok(DeliveryPage { deliveries, has_more })
}
