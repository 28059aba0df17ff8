//! Idempotency keys: a request with a known key returns the result of the first one. The same key with
//! another request is an error.

use crate::domain::id::UserId;
use crate::domain::idempotency::IdempotencyKey;
use crate::domain::job::Job;
use crate::domain::webhook::WebhookSubject;
use crate::ports::{Idempotent, NewJob, StoreError, SubmitError};
use crate::store::redb::codec::keys::jobs::{IdempotencyExpiryKey, IdempotencyRef};
use crate::store::redb::codec::read_transaction::ReadTransaction;
use crate::store::redb::codec::table::ReadableTable;
use crate::store::redb::codec::tables::IDEMPOTENCY;
use crate::store::redb::codec::values;
use crate::store::redb::writer::transaction::Transaction;
use crate::store::rows::idempotency::{IdempotencyRow, KeyUse};

/// Maximum keys that one request removes: more than one, so that they cannot pile up.
const FORGOTTEN: usize = 8;

/// Whether the user's key is known, for any request.
pub(crate) fn is_known(
    reading: &ReadTransaction,
    user: UserId,
    key: &[u8; 32],
    now_ms: u64,
) -> Result<bool, StoreError> {
    let idempotency = IDEMPOTENCY.read(reading)?;
    let Some(bytes) = idempotency.get(&IdempotencyRef { user, key: *key }.encode())? else {
        return Ok(false);
    };
    values::decode::<IdempotencyRow>(bytes.value()).map(|seen| seen.until_ms > now_ms)
}

impl Transaction<'_> {
    /// Stores a job, unless its key is known.
    pub(crate) fn submit_idempotent(
        &mut self,
        job: &NewJob,
        key: &IdempotencyKey,
    ) -> Result<Idempotent<Job>, SubmitError> {
        if let Some(job) = self.replayed_job(job.user, key)? {
            return Ok(Idempotent::Replayed(job));
        }
        self.check_submission(std::slice::from_ref(job))?;
        self.remember(job.user, key, WebhookSubject::Job(job.id))?;
        Ok(Idempotent::New(self.accept(job)?))
    }

    /// The job of the first request with this key; `None` if there was none.
    pub(crate) fn replayed_job(
        &self,
        user: UserId,
        key: &IdempotencyKey,
    ) -> Result<Option<Job>, SubmitError> {
        match self.key_use(user, key)? {
            KeyUse::Same(WebhookSubject::Job(id)) => match self.find_row(id)? {
                Some(row) => Ok(Some(self.shown(row)?)),
                None => Err(SubmitError::KeySpent),
            },
            KeyUse::Same(WebhookSubject::Batch(_)) | KeyUse::Other => Err(SubmitError::KeyReused),
            KeyUse::Never => Ok(None),
        }
    }

    /// How this key was used before.
    pub(crate) fn key_use(&self, user: UserId, key: &IdempotencyKey) -> Result<KeyUse, StoreError> {
        let Some(bytes) = self.tables.idempotency.get(&IdempotencyRef { user, key: key.key }.encode())?
        else {
            return Ok(KeyUse::Never);
        };
        Ok(values::decode::<IdempotencyRow>(bytes.value())?.key_use(key, self.now_ms))
    }

    /// Stores a key, and removes some expired ones.
    pub(crate) fn remember(
        &mut self,
        user: UserId,
        key: &IdempotencyKey,
        effect: WebhookSubject,
    ) -> Result<(), StoreError> {
        self.forget_keys()?;
        let until_ms = self.now_ms.saturating_add(self.bounds.idempotency_ms);
        let of = IdempotencyRef { user, key: key.key };
        let seen = IdempotencyRow { fingerprint: key.fingerprint, effect, until_ms };
        self.tables.idempotency.put_row(&of.encode(), &seen)?;
        self.tables.idempotency_expiry.insert(&IdempotencyExpiryKey { until_ms, of }.encode(), ())?;
        self.mark_dirty();
        Ok(())
    }

    fn forget_keys(&mut self) -> Result<(), StoreError> {
        for _ in 0..FORGOTTEN {
            let Some(due) = self
                .tables
                .idempotency_expiry
                .first()?
                .map(|(key, _)| IdempotencyExpiryKey::decode(key.value()))
            else {
                break;
            };
            if due.until_ms > self.now_ms {
                break;
            }
            self.tables.idempotency_expiry.remove(&due.encode())?;
            let key = due.of.encode();
            // A key that was used again after its expiry has a later expiry.
            let seen = self
                .tables
                .idempotency
                .get(&key)?
                .map(|bytes| values::decode::<IdempotencyRow>(bytes.value()));
            // An unreadable row is useless, so it is removed as well.
            let has_expired = seen.is_some_and(|seen| seen.map_or(true, |seen| seen.until_ms <= self.now_ms));
            if has_expired {
                self.tables.idempotency.remove(&key)?;
            }
        }
        Ok(())
    }
}
