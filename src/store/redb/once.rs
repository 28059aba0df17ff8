//! Requests that take effect once: a user's idempotency keys and what came of them. Owns how long a key is remembered;
//! refuses a key that comes back with another request.

use super::act::{Act, SMALL};
use super::keys::{OnceDueKey, OnceRef};
use super::schema::ONCE;
use super::submit::spec_bytes;
use super::table::ReadableTable;
use super::transaction::Transaction;
use super::value;
use crate::domain::id::{JobId, UserId};
use crate::domain::idempotency::IdempotencyKey;
use crate::domain::job::Job;
use crate::domain::webhook::WebhookSubject;
use crate::ports::{Idempotent, NewJob, StoreError};
use redb::ReadTransaction;
use serde::{Deserialize, Serialize};

/// Keys that one request forgets at most: more than one, so that they cannot pile up.
const FORGOTTEN: usize = 8;

/// What is remembered of a key.
#[derive(Debug, Serialize, Deserialize)]
struct Seen {
    fingerprint: [u8; 32],
    effect: WebhookSubject,
    until_ms: u64,
}

/// Whether the user's key is remembered, whatever request it came with.
pub(super) fn is_known(
    reading: &ReadTransaction,
    user: UserId,
    key: &[u8; 32],
    now_ms: u64,
) -> Result<bool, StoreError> {
    let once = ONCE.read(reading)?;
    let Some(bytes) = once.get(&OnceRef { user, key: *key }.encode())? else { return Ok(false) };
    value::decode::<Seen>(bytes.value()).map(|seen| seen.until_ms > now_ms)
}

/// This job, unless the key was seen before.
pub(super) struct SubmitOnce {
    pub(super) job: NewJob,
    pub(super) key: IdempotencyKey,
}

impl Act for SubmitOnce {
    type Out = Idempotent<Job>;

    fn apply(&self, transaction: &mut Transaction<'_>) -> Result<Idempotent<Job>, StoreError> {
        match transaction.recall(self.job.user, &self.key)? {
            Some(WebhookSubject::Job(id)) => match transaction.find_row(id)? {
                Some(row) => Ok(Idempotent::Replayed(row.job)),
                None => Err(StoreError::KeySpent),
            },
            Some(WebhookSubject::Batch(_)) => Err(StoreError::KeyReused),
            None => {
                transaction.refuse_homeless(std::slice::from_ref(&self.job))?;
                transaction.make_room(1)?;
                transaction.make_room_for_conversations([(self.job.user, &self.job.spec)])?;
                transaction.remember(self.job.user, &self.key, WebhookSubject::Job(self.job.id))?;
                Ok(Idempotent::New(transaction.accept(&self.job)?))
            }
        }
    }

    fn jobs(&self) -> Vec<JobId> {
        vec![self.job.id]
    }

    fn weight(&self) -> usize {
        spec_bytes(&self.job.spec).saturating_add(SMALL)
    }
}

impl Transaction<'_> {
    /// What came of the request that this key was first used for.
    pub(super) fn recall(
        &self,
        user: UserId,
        key: &IdempotencyKey,
    ) -> Result<Option<WebhookSubject>, StoreError> {
        let Some(bytes) = self.tables.once.get(&OnceRef { user, key: key.key }.encode())? else {
            return Ok(None);
        };
        let seen: Seen = value::decode(bytes.value())?;
        match seen {
            Seen { until_ms, .. } if until_ms <= self.now_ms => Ok(None),
            Seen { fingerprint, effect, .. } if fingerprint == key.fingerprint => Ok(Some(effect)),
            _ => Err(StoreError::KeyReused),
        }
    }

    /// Remembers a key, and forgets some whose time is over.
    pub(super) fn remember(
        &mut self,
        user: UserId,
        key: &IdempotencyKey,
        effect: WebhookSubject,
    ) -> Result<(), StoreError> {
        self.forget_keys()?;
        let until_ms = self.now_ms.saturating_add(self.bounds.idempotency_ms);
        let place = OnceRef { user, key: key.key };
        let seen = Seen { fingerprint: key.fingerprint, effect, until_ms };
        self.tables.once.insert(&place.encode(), value::encode(&seen)?.as_slice())?;
        self.tables.once_due.insert(&OnceDueKey { until_ms, place }.encode(), ())?;
        self.touch();
        Ok(())
    }

    fn forget_keys(&mut self) -> Result<(), StoreError> {
        for _ in 0..FORGOTTEN {
            let Some(due) = self.tables.once_due.first()?.map(|(key, _)| OnceDueKey::decode(key.value()))
            else {
                break;
            };
            if due.until_ms > self.now_ms {
                break;
            }
            self.tables.once_due.remove(&due.encode())?;
            let place = due.place.encode();
            // A key that was used again after its time has a later one.
            let seen = self.tables.once.get(&place)?.map(|bytes| value::decode::<Seen>(bytes.value()));
            // One that cannot be read is of no use to anybody.
            let is_over = seen.is_some_and(|seen| seen.map_or(true, |seen| seen.until_ms <= self.now_ms));
            if is_over {
                self.tables.once.remove(&place)?;
            }
        }
        Ok(())
    }
}
