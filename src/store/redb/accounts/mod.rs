//! Accounts, their tokens and what they have used.

use crate::domain::id::{ConversationId, UserId};
use crate::domain::usage::{Usage, UsageByModel};
use crate::ports::{Accounts, DayUsage, HourUsage, StoreError, Ticket, TitledConversation, UsageGroups};
use crate::store::redb::accounts::hourly_usage::hourly_usage;
use crate::store::redb::accounts::usage::lines;
use crate::store::redb::codec::keys::conversations::conversation_key;
use crate::store::redb::codec::tables::{CONVERSATION_USAGE, FILE_TOTALS, STORED_BYTES, USAGE};
use crate::store::redb::store::RedbStore;
use crate::store::redb::writer::write::WriteOptions;
use crate::store::rows::usage::UsageRow;

mod grouped_usage;
mod hourly_usage;
pub(crate) mod invites;
mod quota;
pub(crate) mod stored_bytes;
pub(crate) mod tokens;
pub(crate) mod unfinished_work;
pub(crate) mod usage;
mod users;
pub(crate) mod write;

impl Accounts for RedbStore {
    fn book_usage(&self, user: UserId, model: String, usage: Usage) -> Ticket<()> {
        self.push(WriteOptions::default(), move |transaction| {
            transaction.book_model(user, &UsageRow { model: model.clone(), usage, jobs: 0 })
        })
    }

    fn usage(&self, user: UserId, from_day: u32, to_day: u32) -> Result<Vec<DayUsage>, StoreError> {
        self.read(|reading| {
            let lines = lines(&USAGE.read(reading)?, user, from_day, to_day)?;
            let day = |(day, UsageRow { model, usage, jobs })| DayUsage { day, model, usage, jobs };
            Ok(lines.into_iter().map(day).collect())
        })
    }

    fn usage_by_hour(
        &self,
        user: Option<UserId>,
        from_hour: u32,
        to_hour: u32,
    ) -> Result<Vec<HourUsage>, StoreError> {
        self.read(|reading| hourly_usage(reading, user, from_hour, to_hour))
    }

    fn usage_by_user(
        &self,
        user: Option<UserId>,
        days: (u32, u32),
        limit: usize,
    ) -> Result<UsageGroups<UserId>, StoreError> {
        self.read(|reading| grouped_usage::by_user(reading, user, days, limit))
    }

    fn usage_by_conversation(
        &self,
        user: UserId,
        days: (u32, u32),
        limit: usize,
    ) -> Result<UsageGroups<TitledConversation>, StoreError> {
        self.read(|reading| grouped_usage::by_conversation(reading, user, days, limit))
    }

    fn conversation_usage(
        &self,
        user: UserId,
        conversation: &ConversationId,
    ) -> Result<UsageByModel, StoreError> {
        let key = conversation_key(user, conversation);
        self.read(|reading| Ok(CONVERSATION_USAGE.read(reading)?.row(&key)?.unwrap_or_default()))
    }

    fn stored_bytes(&self, user: UserId) -> Result<u64, StoreError> {
        self.read(|reading| {
            stored_bytes::with_files(&STORED_BYTES.read(reading)?, &FILE_TOTALS.read(reading)?, user)
        })
    }
}
