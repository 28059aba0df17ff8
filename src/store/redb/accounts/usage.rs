//! Usage by day or hour and model, and the cost of conversations, as a whole and by day. Each end of a job
//! books the usage since its last end, in the transaction of that end. Usage is never removed: it outlives
//! jobs. That of a conversation goes with the conversation.

use crate::domain::id::{ConversationId, UserId};
use crate::domain::usage::UsageByModel;
use crate::ports::{ACCOUNT_DAY_MS, ACCOUNT_HOUR_MS, StoreError};
use crate::store::redb::codec::keys::accounts::{UsageBytes, UsageKey};
use crate::store::redb::codec::keys::conversations::{TurnKey, conversation_key};
use crate::store::redb::codec::table::{ReadTable, ReadableTable, WriteTable};
use crate::store::redb::codec::values;
use crate::store::redb::writer::transaction::Transaction;
use crate::store::rows::job::JobRow;
use crate::store::rows::usage::{ConversationDayRow, UsageRow, day_number};
use sha2::{Digest, Sha256};

impl Transaction<'_> {
    /// Books the usage of an ending job that is not booked yet.
    pub(crate) fn book(&mut self, row: &mut JobRow) -> Result<(), StoreError> {
        row.job.usage = row.ledger.total();
        let rest = row.ledger.since(&row.booked);
        if rest.is_empty() {
            return Ok(());
        }
        for (model, usage) in rest.entries() {
            let jobs = u64::from(row.booked.of(model).is_none());
            self.book_model(row.job.user, &UsageRow { model: model.to_owned(), usage, jobs })?;
        }
        // A removed conversation has no cost row.
        if let Some(conversation) = &row.job.conversation_id
            && self.conversation_of(row)?.is_some()
        {
            let jobs = u64::from(row.booked.is_empty());
            self.book_conversation((row.job.user, conversation), &rest, jobs)?;
        }
        row.booked = row.ledger.clone();
        Ok(())
    }

    /// Books a line by day and by hour.
    pub(crate) fn book_model(&mut self, user: UserId, line: &UsageRow) -> Result<(), StoreError> {
        self.mark_dirty();
        let digest = Sha256::digest(&line.model).into();
        let key = |slot_ms| {
            let at = u32::try_from(self.now_ms / slot_ms).unwrap_or(u32::MAX);
            UsageKey { user, at, model: digest }.encode()
        };
        let (day, hour) = (key(ACCOUNT_DAY_MS), key(ACCOUNT_HOUR_MS));
        add(&mut self.tables.usage, &day, line)?;
        add(&mut self.tables.usage_hours, &hour, line)
    }

    fn book_conversation(
        &mut self,
        (user, conversation): (UserId, &ConversationId),
        rest: &UsageByModel,
        jobs: u64,
    ) -> Result<(), StoreError> {
        let key = conversation_key(user, conversation);
        let mut cost: UsageByModel = read_or_default(self.tables.conversation_usage.row(&key))?;
        for (model, usage) in rest.entries() {
            cost.add(model, usage);
        }
        self.tables.conversation_usage.put_row(&key, &cost)?;
        let day = u32::try_from(self.now_ms / ACCOUNT_DAY_MS).unwrap_or(u32::MAX);
        let key = TurnKey { user, conversation, accept: day_number(day) }.encode();
        let mut booked: ConversationDayRow = read_or_default(self.tables.conversation_usage.row(&key))?;
        booked.usage += rest.total();
        booked.jobs = booked.jobs.saturating_add(jobs);
        self.tables.conversation_usage.put_row(&key, &booked)?;
        Ok(())
    }
}

/// Adds to a row; creates a missing one.
fn add(
    table: &mut WriteTable<'_, &'static UsageBytes, &'static [u8]>,
    key: &UsageBytes,
    line: &UsageRow,
) -> Result<(), StoreError> {
    let mut booked: UsageRow = read_or_default(table.row(key))?;
    booked.model.clone_from(&line.model);
    booked.usage += line.usage;
    booked.jobs = booked.jobs.saturating_add(line.jobs);
    table.put_row(key, &booked)?;
    Ok(())
}

/// A table of the accounts, to be read.
pub(crate) type UsageTable = ReadTable<&'static UsageBytes, &'static [u8]>;

/// A user's lines from one day, or hour, to another, both included.
pub(crate) fn lines(
    table: &impl ReadableTable<&'static UsageBytes, &'static [u8]>,
    user: UserId,
    from: u32,
    to: u32,
) -> Result<Vec<(u32, UsageRow)>, StoreError> {
    if from > to {
        return Ok(Vec::new());
    }
    let key = |at, model| UsageKey { user, at, model }.encode();
    let mut lines: Vec<(u32, UsageRow)> = Vec::new();
    for entry in table.range::<&UsageBytes>(&key(from, [0; 32])..=&key(to, [u8::MAX; 32]))? {
        let (key, bytes) = entry?;
        let at = UsageKey::decode(key.value()).at;
        lines.push((at, values::decode(bytes.value())?));
    }
    lines.sort_by(|(one, first), (two, second)| (one, &first.model).cmp(&(two, &second.model)));
    Ok(lines)
}

/// An unreadable usage row starts again from zero: it must not keep jobs from ending (P4).
fn read_or_default<T: Default>(stored: Result<Option<T>, StoreError>) -> Result<T, StoreError> {
    match stored {
        Err(StoreError::Corrupt(reason)) => {
            tracing::error!(reason, "usage row cannot be read; counting from zero");
            Ok(T::default())
        }
        read => Ok(read?.unwrap_or_default()),
    }
}
