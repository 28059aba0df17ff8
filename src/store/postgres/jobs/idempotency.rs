//! Idempotency keys: a request with a known key returns the result of the first one. The same key with
//! another request is an error.

use crate::domain::id::UserId;
use crate::domain::idempotency::IdempotencyKey;
use crate::domain::job::Job;
use crate::domain::webhook::WebhookSubject;
use crate::ports::{Idempotent, NewJob, StoreError, SubmitError};
use crate::store::postgres::jobs::row::find;
use crate::store::postgres::session::{Columns, SqlSession, sql_number, sql_user};
use crate::store::postgres::writer::act::Act;
use crate::store::rows::idempotency::{IdempotencyRow, KeyUse};
use tokio_postgres::Row;

/// Maximum keys that one request removes: more than one, so that they cannot pile up.
const FORGOTTEN: i64 = 8;

/// Whether the user's key is known, for any request.
pub(crate) async fn is_known(
    session: &SqlSession<'_>,
    user: UserId,
    key: &[u8; 32],
    now_ms: u64,
) -> Result<bool, StoreError> {
    let sql = "SELECT EXISTS (SELECT FROM idempotency WHERE user_id = $1 AND key = $2 AND until_ms > $3)";
    session.one(sql, &[&sql_user(user), &key.as_slice(), &sql_number(now_ms)]).await?.column(0)
}

impl Act<'_> {
    /// Stores a job, unless its key is known.
    pub(crate) async fn submit_idempotent(
        &mut self,
        job: &NewJob,
        key: &IdempotencyKey,
    ) -> Result<Idempotent<Job>, SubmitError> {
        match self.replayed_job(job.user, key).await? {
            Some(job) => Ok(Idempotent::Replayed(job)),
            None => Ok(Idempotent::New(self.submit_first(job, key).await?)),
        }
    }

    /// Stores the job of a key that is not known.
    pub(crate) async fn submit_first(
        &mut self,
        job: &NewJob,
        key: &IdempotencyKey,
    ) -> Result<Job, SubmitError> {
        self.check_submission(std::slice::from_ref(job)).await?;
        self.remember(job.user, key, WebhookSubject::Job(job.id)).await?;
        Ok(self.accept(job).await?)
    }

    /// The job of the first request with this key; `None` if there was none.
    pub(crate) async fn replayed_job(
        &mut self,
        user: UserId,
        key: &IdempotencyKey,
    ) -> Result<Option<Job>, SubmitError> {
        match self.key_use(user, key).await? {
            KeyUse::Same(WebhookSubject::Job(id)) => match find(&self.session, id).await? {
                Some(row) => Ok(Some(self.shown(row).await?)),
                None => Err(SubmitError::KeySpent),
            },
            KeyUse::Same(WebhookSubject::Batch(_)) | KeyUse::Other => Err(SubmitError::KeyReused),
            KeyUse::Never => Ok(None),
        }
    }

    /// How this key was used before. Others who use it at the same time, on any node, wait until this
    /// transaction ends.
    pub(crate) async fn key_use(&mut self, user: UserId, key: &IdempotencyKey) -> Result<KeyUse, StoreError> {
        let mut lock = [0; 8];
        lock.iter_mut().zip(key.key).for_each(|(slot, byte)| *slot = byte);
        let lock = i64::from_be_bytes(lock) ^ sql_user(user);
        self.session.send("SELECT pg_advisory_xact_lock($1)", &[&lock]).await?;
        let sql = "SELECT fingerprint, effect, until_ms FROM idempotency WHERE user_id = $1 AND key = $2";
        let found = self.session.row(sql, &[&sql_user(user), &key.key.as_slice()]).await?;
        let seen = found.map(|row| read_key(&row)).transpose()?;
        Ok(seen.map_or(KeyUse::Never, |seen| seen.key_use(key, self.now_ms)))
    }

    /// Stores a key, and removes some expired ones.
    pub(crate) async fn remember(
        &mut self,
        user: UserId,
        key: &IdempotencyKey,
        effect: WebhookSubject,
    ) -> Result<(), StoreError> {
        let sql = "WITH expired AS (DELETE FROM idempotency WHERE (user_id, key) IN (\
                     SELECT user_id, key FROM idempotency WHERE until_ms <= $6 AND (user_id, key) <> ($1, $2) \
                     ORDER BY until_ms LIMIT $7 FOR UPDATE SKIP LOCKED)) \
                   INSERT INTO idempotency (user_id, key, fingerprint, effect, until_ms) VALUES ($1, $2, $3, $4, $5) \
                   ON CONFLICT (user_id, key) DO UPDATE SET fingerprint = excluded.fingerprint, \
                     effect = excluded.effect, until_ms = excluded.until_ms";
        let until_ms = self.now_ms.saturating_add(self.limits.idempotency_ms);
        self.session
            .send(
                sql,
                &[
                    &sql_user(user),
                    &key.key.as_slice(),
                    &key.fingerprint.as_slice(),
                    &effect.to_string(),
                    &sql_number(until_ms),
                    &sql_number(self.now_ms),
                    &FORGOTTEN,
                ],
            )
            .await
    }
}

/// A row of the table, without its key.
fn read_key(row: &Row) -> Result<IdempotencyRow, StoreError> {
    let fingerprint = row.column::<&[u8]>(0)?.try_into();
    let fingerprint = fingerprint.map_err(|_| StoreError::Corrupt("a fingerprint is cut".to_owned()))?;
    let job = row.parsed(1).map(WebhookSubject::Job);
    let effect = job.or_else(|_| row.parsed(1).map(WebhookSubject::Batch))?;
    Ok(IdempotencyRow { fingerprint, effect, until_ms: row.number(2)? })
}
