//! Jobs that run beside their conversation, because a model asked for them: neither does their conversation wait for them,
//! nor they for it. Owns the list of those that have not ended, which has as many as `limits.spawned_jobs` for each user;
//! refuses to know who may ask for one.

use super::exchange::Exchange;
use super::keys::{Cut, OwnerKey, TurnKey, join};
use super::queue::line_key;
use super::read;
use super::row::Row;
use super::schema::BESIDE;
use super::summary;
use super::table::ReadableTable;
use super::transaction::Transaction;
use crate::domain::id::{ConversationId, JobId, UserId};
use crate::domain::job::Job;
use crate::ports::StoreError;
use redb::ReadTransaction;

/// Bytes of a [`BesideKey`].
pub(super) type BesideBytes = [u8; 20];

/// An unfinished job in its user's list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct BesideKey {
    pub(super) user: UserId,
    pub(super) job: JobId,
}

impl BesideKey {
    /// The key of this job, if it is one that runs beside its conversation.
    fn of(row: &Row) -> Option<Self> {
        row.job.origin.parent().map(|_| Self { user: row.job.user, job: row.id() })
    }

    /// Before and behind all of a user's.
    fn ends(user: UserId) -> (BesideBytes, BesideBytes) {
        let key = |bits| Self { user, job: JobId::from_bits(bits) }.encode();
        (key(u128::MIN), key(u128::MAX))
    }

    pub(super) fn encode(self) -> BesideBytes {
        join(&[&self.user.0.to_be_bytes(), &self.job.to_bytes()])
    }

    pub(super) fn decode(bytes: &BesideBytes) -> Self {
        let mut cut = Cut(bytes);
        Self { user: UserId(cut.u32()), job: JobId::from_bytes(cut.take()) }
    }
}

/// A user's, oldest first.
fn ids(table: &impl ReadableTable<&'static BesideBytes, ()>, user: UserId) -> Result<Vec<JobId>, StoreError> {
    let (first, last) = BesideKey::ends(user);
    let range = table.range::<&BesideBytes>(&first..=&last)?;
    range.map(|entry| Ok(BesideKey::decode(entry?.0.value()).job)).collect()
}

/// A user's that can be read, oldest first; of one conversation only, where one is named.
pub(super) fn jobs_of(
    reading: &ReadTransaction,
    user: UserId,
    conversation: Option<&ConversationId>,
) -> Result<Vec<Job>, StoreError> {
    let mut jobs = Vec::new();
    for id in ids(&BESIDE.read(reading)?, user)? {
        jobs.extend(read::listed(id, read::row(reading, id))?.map(|row| row.job));
    }
    jobs.retain(|job| conversation.is_none_or(|wanted| job.conversation_id.as_ref() == Some(wanted)));
    Ok(jobs)
}

impl Transaction<'_> {
    /// How many of a user's have not ended.
    pub(super) fn count_beside(&self, user: UserId) -> Result<u64, StoreError> {
        Ok(u64::try_from(ids(&self.tables.beside, user)?.len()).unwrap_or(u64::MAX))
    }

    /// Those of one conversation that can be read.
    pub(super) fn beside_of(
        &self,
        user: UserId,
        conversation: &ConversationId,
    ) -> Result<Vec<JobId>, StoreError> {
        let mut found = Vec::new();
        for id in ids(&self.tables.beside, user)? {
            match self.find_row(id) {
                Ok(row) => {
                    let row = row.filter(|row| row.job.conversation_id.as_ref() == Some(conversation));
                    found.extend(row.map(|row| row.id()));
                }
                // Whoever comes upon it in its queue sets it aside.
                Err(StoreError::Corrupt(_)) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(found)
    }

    /// Enters a job in the list, if it belongs there; whether it does.
    pub(super) fn note_beside(&mut self, row: &Row) -> Result<bool, StoreError> {
        let Some(key) = BesideKey::of(row) else { return Ok(false) };
        self.tables.beside.insert(&key.encode(), ())?;
        Ok(true)
    }

    /// Takes an ended one out; whether it was of that kind.
    pub(super) fn drop_beside(&mut self, row: &Row) -> Result<bool, StoreError> {
        let Some(key) = BesideKey::of(row) else { return Ok(false) };
        self.tables.beside.remove(&key.encode())?;
        Ok(true)
    }

    /// Takes one out whose row cannot be read.
    pub(super) fn lose_beside(&mut self, job: JobId) -> Result<(), StoreError> {
        self.tables.beside.retain(|key, ()| BesideKey::decode(key).job != job)?;
        Ok(())
    }

    /// A job beside its conversation that has run, and stands in no queue, is about to end. Where a summary stands for its place by now, no model would
    /// ever be told its answer: it takes a place at the end.
    pub(super) fn step_past_summary(&mut self, row: &mut Row) -> Result<(), StoreError> {
        if row.job.origin.parent().is_none() || self.conversation_of(row)?.is_none() {
            return Ok(());
        }
        let Some(old_turn) = line_key(row).map(TurnKey::encode) else { return Ok(()) };
        let (member, _) = TurnKey::line_of(&old_turn);
        let stored = self.tables.summaries.get(&member)?.and_then(|bytes| summary::read(bytes.value()));
        let old = row.accept;
        if stored.is_none_or(|summary| summary.through < old) {
            return Ok(());
        }
        self.counters.accept = self.counters.accept.saturating_add(1);
        let accept = self.counters.accept;
        let owned = |accept| OwnerKey { user: row.job.user, status: row.job.status, accept }.encode();
        self.tables.owned.remove(&owned(old))?;
        self.tables.owned.insert(&owned(accept), &row.id().to_bytes())?;
        row.accept = accept;
        row.first_accept.get_or_insert(old);
        let exchange = self.exchange(&old_turn)?.unwrap_or_else(|| Exchange::of(&row.job));
        self.tables.exchanges.remove(&old_turn)?;
        if let Some(key) = line_key(row).map(TurnKey::encode) {
            self.put_exchange(&key, &exchange)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn keys_come_back_and_sort_by_user_then_job(a: (u32, u128), b: (u32, u128)) {
            let key = |(user, bits)| BesideKey { user: UserId(user), job: JobId::from_bits(bits) };
            let (a, b) = (key(a), key(b));
            prop_assert_eq!(BesideKey::decode(&a.encode()), a);
            prop_assert_eq!(a.encode().cmp(&b.encode()), a.cmp(&b));
        }
    }
}
