//! Background jobs: a model starts them, and they run beside their conversation. Neither waits for the other.
//! A user has at most `limits.spawned_jobs` unfinished ones.

use crate::domain::id::{ConversationId, JobId, UserId};
use crate::domain::idempotency::IdempotencyKey;
use crate::domain::job::Job;
use crate::ports::{Idempotent, NewJob, SpawnError, StoreError};
use crate::store::redb::codec::keys::conversations::TurnKey;
use crate::store::redb::codec::keys::jobs::{BackgroundJobBytes, BackgroundJobKey, JobOwnerKey};
use crate::store::redb::codec::read_transaction::ReadTransaction;
use crate::store::redb::codec::table::ReadableTable;
use crate::store::redb::codec::tables::BACKGROUND_JOBS;
use crate::store::redb::codec::values;
use crate::store::redb::conversations::summary;
use crate::store::redb::jobs::read;
use crate::store::redb::writer::transaction::Transaction;
use crate::store::rows::conversation::MessagePair;
use crate::store::rows::idempotency::KeyUse;
use crate::store::rows::job::JobRow;

/// Background jobs of a user, oldest first.
fn ids(
    table: &impl ReadableTable<&'static BackgroundJobBytes, ()>,
    user: UserId,
) -> Result<Vec<JobId>, StoreError> {
    let (first, last) = BackgroundJobKey::ends(user);
    let range = table.range::<&BackgroundJobBytes>(&first..=&last)?;
    range.map(|entry| Ok(BackgroundJobKey::decode(entry?.0.value()).job)).collect()
}

/// Readable background jobs of a user, oldest first, optionally of one conversation.
pub(crate) fn jobs_of(
    reading: &ReadTransaction,
    user: UserId,
    conversation: Option<&ConversationId>,
) -> Result<Vec<Job>, StoreError> {
    let mut jobs = Vec::new();
    for id in ids(&BACKGROUND_JOBS.read(reading)?, user)? {
        jobs.push(values::listed(id, read::row(reading, id))?.job);
    }
    jobs.retain(|job| conversation.is_none_or(|wanted| job.conversation_id.as_ref() == Some(wanted)));
    Ok(jobs)
}

impl Transaction<'_> {
    /// Number of a user's unfinished background jobs.
    pub(crate) fn count_background_jobs(&self, user: UserId) -> Result<u64, StoreError> {
        Ok(u64::try_from(ids(&self.tables.background_jobs, user)?.len()).unwrap_or(u64::MAX))
    }

    /// Readable background jobs of one conversation.
    pub(crate) fn background_jobs_of(
        &self,
        user: UserId,
        conversation: &ConversationId,
    ) -> Result<Vec<JobId>, StoreError> {
        let mut found = Vec::new();
        for id in ids(&self.tables.background_jobs, user)? {
            match self.find_row(id) {
                Ok(row) => {
                    let row = row.filter(|row| row.job.conversation_id.as_ref() == Some(conversation));
                    found.extend(row.map(|row| row.id()));
                }
                // It is quarantined when it reaches the head of its queue.
                Err(StoreError::Corrupt(_)) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(found)
    }

    /// Adds the job to the list, if it is a background job. Returns whether it is.
    pub(crate) fn add_background_job(&mut self, row: &JobRow) -> Result<bool, StoreError> {
        let Some(key) = key_of(row) else { return Ok(false) };
        self.tables.background_jobs.insert(&key.encode(), ())?;
        Ok(true)
    }

    /// Removes an ended job from the list. Returns whether it was a background job.
    pub(crate) fn remove_background_job(&mut self, row: &JobRow) -> Result<bool, StoreError> {
        let Some(key) = key_of(row) else { return Ok(false) };
        self.tables.background_jobs.remove(&key.encode())?;
        Ok(true)
    }

    /// Removes a job with an unreadable row from the list.
    pub(crate) fn remove_unreadable_background_job(&mut self, job: JobId) -> Result<(), StoreError> {
        self.tables.background_jobs.retain(|key, ()| BackgroundJobKey::decode(key).job != job)?;
        Ok(())
    }

    /// A background job that has run and is in no queue is about to end. If a summary covers its position by
    /// now, no model would read its answer, so the job moves to the end of the conversation.
    pub(crate) fn move_behind_summary(&mut self, row: &mut JobRow) -> Result<(), StoreError> {
        if row.job.origin.parent().is_none() || self.conversation_of(row)?.is_none() {
            return Ok(());
        }
        let Some(old_turn) = row.turn_key().map(TurnKey::encode) else { return Ok(()) };
        let (member, _) = TurnKey::conversation_range(&old_turn);
        let stored = self.tables.summaries.get(&member)?.and_then(|bytes| summary::read(bytes.value()));
        let old = row.accept;
        if stored.is_none_or(|summary| summary.through < old) {
            return Ok(());
        }
        self.counters.accept = self.counters.accept.saturating_add(1);
        let accept = self.counters.accept;
        let owned = |accept| JobOwnerKey { user: row.job.user, status: row.job.status, accept }.encode();
        self.tables.owned.remove(&owned(old))?;
        self.tables.owned.insert(&owned(accept), &row.id().to_bytes())?;
        row.accept = accept;
        row.first_accept.get_or_insert(old);
        let message_pair = self.message_pair(&old_turn)?.unwrap_or_else(|| MessagePair::of(&row.job));
        self.tables.message_pairs.remove(&old_turn)?;
        if let Some(key) = row.turn_key().map(TurnKey::encode) {
            self.put_pair(&key, &message_pair)?;
        }
        Ok(())
    }
}

impl Transaction<'_> {
    /// Stores a background job, unless its key is known or its user has `limit` unfinished ones.
    pub(crate) fn spawn_job(
        &mut self,
        new: &NewJob,
        key: &IdempotencyKey,
        limit: u64,
    ) -> Result<Idempotent<Job>, SpawnError> {
        let is_first = matches!(self.key_use(new.user, key)?, KeyUse::Never);
        if is_first && self.count_background_jobs(new.user)? >= limit {
            return Err(SpawnError::SpawnedFull { limit });
        }
        Ok(self.submit_idempotent(new, key)?)
    }
}

/// The key of this job, if it is a background job.
fn key_of(row: &JobRow) -> Option<BackgroundJobKey> {
    row.job.origin.parent().map(|_| BackgroundJobKey { user: row.job.user, job: row.id() })
}
