//! What users have spent, by day or hour and model, and what conversations have cost. Owns the one way into the accounts: each end
//! of a job books what the job has spent since its last end, in the transaction of that end. Refuses to take anything out:
//! accounts outlive jobs, their deletion and their retention.

use super::RedbStore;
use super::hours::hours;
use super::keys::{TurnKey, UsageBytes, UsageKey};
use super::row::Row;
use super::schema::{CONVERSATION_USAGE, USAGE};
use super::table::{ReadOnlyTable, ReadableTable, Table};
use super::transaction::Transaction;
use super::value;
use crate::domain::id::{ConversationId, UserId};
use crate::domain::usage::{Usage, UsageByModel};
use crate::ports::{ACCOUNT_DAY_MS, ACCOUNT_HOUR_MS, Accounts, DayUsage, HourUsage, StoreError};
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
        row.job.usage = row.ledger.total();
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
        let digest = Sha256::digest(model).into();
        let key = |slot_ms| {
            let at = u32::try_from(self.now_ms / slot_ms).unwrap_or(u32::MAX);
            UsageKey { user: row.job.user, at, model: digest }.encode()
        };
        let (day, hour) = (key(ACCOUNT_DAY_MS), key(ACCOUNT_HOUR_MS));
        let jobs = u64::from(row.booked.of(model).is_none());
        let line = Booked { model: model.to_owned(), usage, jobs };
        add(&mut self.tables.usage, &day, &line)?;
        add(&mut self.tables.usage_hours, &hour, &line)
    }

    fn book_conversation(
        &mut self,
        user: UserId,
        conversation: &ConversationId,
        rest: &UsageByModel,
    ) -> Result<(), StoreError> {
        let key = TurnKey { user, conversation, accept: 0 }.encode();
        let stored = self.tables.conversation_usage.get(&key)?.map(|bytes| value::decode(bytes.value()));
        let mut cost: UsageByModel = readable(stored)?;
        for (model, usage) in rest.entries() {
            cost.add(model, usage);
        }
        self.tables.conversation_usage.insert(&key, value::encode(&cost)?.as_slice())?;
        Ok(())
    }
}

/// Adds to a line, which may be a new one.
fn add(
    table: &mut Table<'_, &'static UsageBytes, &'static [u8]>,
    key: &UsageBytes,
    line: &Booked,
) -> Result<(), StoreError> {
    let mut booked: Booked = readable(table.get(key)?.map(|bytes| value::decode(bytes.value())))?;
    booked.model.clone_from(&line.model);
    booked.usage += line.usage;
    booked.jobs = booked.jobs.saturating_add(line.jobs);
    table.insert(key, value::encode(&booked)?.as_slice())?;
    Ok(())
}

/// A table of the accounts, to be read.
pub(super) type Lines = ReadOnlyTable<&'static UsageBytes, &'static [u8]>;

/// A user's lines from one day, or hour, to another, both included.
pub(super) fn lines(
    table: &Lines,
    user: UserId,
    from: u32,
    to: u32,
) -> Result<Vec<(u32, Booked)>, StoreError> {
    if from > to {
        return Ok(Vec::new());
    }
    let key = |at, model| UsageKey { user, at, model }.encode();
    let mut lines: Vec<(u32, Booked)> = Vec::new();
    for entry in table.range::<&UsageBytes>(&key(from, [0; 32])..=&key(to, [u8::MAX; 32]))? {
        let (key, bytes) = entry?;
        let at = UsageKey::decode(key.value()).at;
        match value::decode(bytes.value()) {
            Ok(booked) => lines.push((at, booked)),
            // One line that cannot be read must not hide the others.
            Err(StoreError::Corrupt(reason)) => {
                tracing::error!(at, reason, "a line of the accounts cannot be read");
            }
            Err(error) => return Err(error),
        }
    }
    lines.sort_by(|(one, first), (two, second)| (one, &first.model).cmp(&(two, &second.model)));
    Ok(lines)
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
        self.shared.handle.read(|reading| {
            let lines = lines(&USAGE.read(reading)?, user, from_day, to_day)?;
            let day = |(day, Booked { model, usage, jobs })| DayUsage { day, model, usage, jobs };
            Ok(lines.into_iter().map(day).collect())
        })
    }

    fn usage_by_hour(
        &self,
        user: Option<UserId>,
        from_hour: u32,
        to_hour: u32,
    ) -> Result<Vec<HourUsage>, StoreError> {
        self.shared.handle.read(|reading| hours(reading, user, from_hour, to_hour))
    }

    fn conversation_usage(
        &self,
        user: UserId,
        conversation: &ConversationId,
    ) -> Result<UsageByModel, StoreError> {
        let key = TurnKey { user, conversation, accept: 0 }.encode();
        self.shared.handle.read(|reading| {
            let cost = CONVERSATION_USAGE.read(reading)?.get(&key)?.map(|bytes| value::decode(bytes.value()));
            Ok(cost.transpose()?.unwrap_or_default())
        })
    }
}
