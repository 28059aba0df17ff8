//! What users have spent, by day and model, and what conversations have cost. Owns the one way into the accounts: each end
//! of a job books what the job has spent since its last end, in the transaction of that end. Refuses to take anything out:
//! accounts outlive jobs, their deletion and their retention.

use super::RedbStore;
use super::keys::{TurnKey, UsageBytes, UsageKey};
use super::row::Row;
use super::schema::{CONVERSATION_USAGE, USAGE};
use super::transaction::Transaction;
use super::value;
use crate::domain::id::{ConversationId, UserId};
use crate::domain::usage::{Ledger, Usage};
use crate::ports::{ACCOUNT_DAY_MS, Accounts, DayUsage, StoreError};
use redb::ReadableTable;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// What the `usage` table holds.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Booked {
    pub(super) model: String,
    pub(super) usage: Usage,
    pub(super) jobs: u64,
}

impl Transaction<'_> {
    /// Enters what an ending job has spent and not booked yet.
    pub(super) fn book(&mut self, row: &mut Row) -> Result<(), StoreError> {
        row.job.usage = row.ledger().total();
        let rest = row.ledger.since(&row.booked);
        if rest.is_empty() {
            return Ok(());
        }
        for (model, usage) in rest.entries() {
            self.book_model(row, model, usage)?;
        }
        // One that was removed has no cost any more.
        if let Some(conversation) = &row.job.conversation_id
            && self.conversation_of(row)?.is_some()
        {
            self.book_conversation(row.job.user, conversation, &rest)?;
        }
        row.booked = row.ledger.clone();
        Ok(())
    }

    fn book_model(&mut self, row: &Row, model: &str, usage: Usage) -> Result<(), StoreError> {
        let day = u32::try_from(self.now_ms / ACCOUNT_DAY_MS).unwrap_or(u32::MAX);
        let key = UsageKey { user: row.job.user, day, model: Sha256::digest(model).into() }.encode();
        let mut booked: Booked =
            readable(self.tables.usage.get(&key)?.map(|bytes| value::decode(bytes.value())))?;
        model.clone_into(&mut booked.model);
        booked.usage += usage;
        booked.jobs = booked.jobs.saturating_add(u64::from(row.booked.of(model).is_none()));
        self.tables.usage.insert(&key, value::encode(&booked)?.as_slice())?;
        Ok(())
    }

    fn book_conversation(
        &mut self,
        user: UserId,
        conversation: &ConversationId,
        rest: &Ledger,
    ) -> Result<(), StoreError> {
        let key = TurnKey { user, conversation, accept: 0 }.encode();
        let stored = self.tables.conversation_usage.get(&key)?.map(|bytes| value::decode(bytes.value()));
        let mut cost: Ledger = readable(stored)?;
        for (model, usage) in rest.entries() {
            cost.add(model, usage);
        }
        self.tables.conversation_usage.insert(&key, value::encode(&cost)?.as_slice())?;
        Ok(())
    }
}

/// A line of the accounts that cannot be read begins anew: it must not keep jobs from ending (P4).
fn readable<T: DeserializeOwned + Default>(stored: Option<Result<T, StoreError>>) -> Result<T, StoreError> {
    match stored.transpose() {
        Err(StoreError::Corrupt(reason)) => {
            tracing::error!(reason, "a line of the accounts cannot be read: it begins anew");
            Ok(T::default())
        }
        read => Ok(read?.unwrap_or_default()),
    }
}

impl Accounts for RedbStore {
    fn usage(&self, user: UserId, from_day: u32, to_day: u32) -> Result<Vec<DayUsage>, StoreError> {
        if from_day > to_day {
            return Ok(Vec::new());
        }
        let key = |day, model| UsageKey { user, day, model }.encode();
        self.shared.handle.read(|reading| {
            let table = reading.open_table(USAGE)?;
            let mut days = Vec::new();
            for entry in table.range::<&UsageBytes>(&key(from_day, [0; 32])..=&key(to_day, [u8::MAX; 32]))? {
                let (key, bytes) = entry?;
                let day = UsageKey::decode(key.value()).day;
                match value::decode(bytes.value()) {
                    Ok(Booked { model, usage, jobs }) => days.push(DayUsage { day, model, usage, jobs }),
                    // One line that cannot be read must not hide the others.
                    Err(StoreError::Corrupt(reason)) => {
                        tracing::error!(day, reason, "a line of the accounts cannot be read");
                    }
                    Err(error) => return Err(error),
                }
            }
            days.sort_by(|one, two| (one.day, &one.model).cmp(&(two.day, &two.model)));
            Ok(days)
        })
    }

    fn conversation_usage(&self, user: UserId, conversation: &ConversationId) -> Result<Ledger, StoreError> {
        let key = TurnKey { user, conversation, accept: 0 }.encode();
        self.shared.handle.read(|reading| {
            let cost =
                reading.open_table(CONVERSATION_USAGE)?.get(&key)?.map(|bytes| value::decode(bytes.value()));
            Ok(cost.transpose()?.unwrap_or_default())
        })
    }
}
