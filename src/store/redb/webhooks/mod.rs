//! The port [`Outbox`] on the store: due deliveries, results of attempts, lists. Deliveries are made by the
//! transaction that ends a job or batch.

use crate::domain::delivery_turns::{DeliveryTurns, DueDelivery};
use crate::domain::id::{DeliveryId, UserId};
use crate::domain::webhook::{Delivery, DeliveryAttempt, DeliveryState};
use crate::ports::{CancelToken, DeliveryPage, DeliveryQuery, Outbox, StoreError, Ticket};
use crate::store::redb::codec::keys::deliveries::{
    DeliveryOwnerBytes, DeliveryTimeBytes, owned_id, owned_key, owner_and_receiver, time_key, time_of,
};
use crate::store::redb::codec::read_transaction::ReadTransaction;
use crate::store::redb::codec::table::ReadableTable;
use crate::store::redb::codec::tables::{DELIVERIES, DELIVERIES_DUE, DELIVERIES_OWNED};
use crate::store::redb::codec::values;
use crate::store::redb::store::RedbStore;
use crate::store::redb::writer::transaction::Transaction;
use crate::store::redb::writer::write::WriteOptions;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::time::Duration;

/// Receivers of a user that are considered for the next deliveries; those with the longest overdue ones.
const USER_CANDIDATES: usize = 64;

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
    fn due(&self, now_ms: u64, max: usize, turns: &DeliveryTurns) -> Result<Vec<Delivery>, StoreError> {
        self.read(|reading| due(reading, now_ms, max, turns))
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

    fn delivery_changes(&self) -> u64 {
        self.shared.deliveries.count()
    }

    fn wait_for_deliveries(&self, seen: u64, cancel: &CancelToken, timeout: Duration) {
        self.shared.deliveries.wait(seen, cancel, timeout);
    }

    fn wake_dispatcher(&self) {
        self.shared.deliveries.notify();
    }
}

fn find(reading: &ReadTransaction, id: DeliveryId) -> Result<Option<Delivery>, StoreError> {
    DELIVERIES.read(reading)?.row(&id.to_bytes())
}

/// The next due deliveries. Those that cannot be read are passed over.
fn due(
    reading: &ReadTransaction,
    now_ms: u64,
    max: usize,
    turns: &DeliveryTurns,
) -> Result<Vec<Delivery>, StoreError> {
    let mut unreadable = BTreeSet::new();
    loop {
        let mut found = Vec::new();
        let passed_over = unreadable.len();
        for next in turns.pick(candidates(reading, now_ms, turns, &unreadable)?, max) {
            match values::skip_unreadable(next.id, find(reading, next.id))? {
                Some(delivery) => found.push(delivery),
                None => drop(unreadable.insert(next.id)),
            }
        }
        if unreadable.len() == passed_over {
            return Ok(found);
        }
    }
}

/// The longest overdue delivery of each user and receiver that may begin.
fn candidates(
    reading: &ReadTransaction,
    now_ms: u64,
    turns: &DeliveryTurns,
    unreadable: &BTreeSet<DeliveryId>,
) -> Result<Vec<DueDelivery>, StoreError> {
    let due = DELIVERIES_DUE.read(reading)?.skipping_damaged();
    let last = time_key(now_ms, DeliveryId::from_bits(u128::MAX));
    let mut seen: HashMap<UserId, HashSet<String>> = HashMap::new();
    let mut found: Vec<DueDelivery> = Vec::new();
    for entry in due.range::<&DeliveryTimeBytes>(..=&last)? {
        let (key, value) = entry?;
        let (due_ms, id) = time_of(key.value());
        let (user, receiver) = owner_and_receiver(value.value());
        let row = || values::skip_unreadable(id, find(reading, id));
        let user = match user {
            Some(user) => Some(user),
            None => row()?.map(|delivery| delivery.user),
        };
        let Some(user) = user.filter(|user| turns.admits(*user, receiver) && !unreadable.contains(&id))
        else {
            continue;
        };
        let of_user = seen.entry(user).or_default();
        if of_user.len() < USER_CANDIDATES && !of_user.contains(receiver) {
            of_user.insert(receiver.to_owned());
            found.push(DueDelivery { id, user, receiver: receiver.to_owned(), due_ms });
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
