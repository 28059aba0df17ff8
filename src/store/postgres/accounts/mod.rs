//! Accounts, their tokens and invites, and what users have used.

use crate::domain::id::{ConversationId, UserId};
use crate::domain::usage::{Usage, UsageByModel};
use crate::ports::{Accounts, DayUsage, HourUsage, StoreError, Ticket, TitledConversation, UsageGroups};
use crate::store::postgres::session::SqlSession;
use crate::store::postgres::store::PostgresStore;
use crate::store::postgres::writer::act::Act;

mod grouped_usage;
mod invites;
pub(crate) mod quota;
pub(crate) mod quota_counts;
pub(crate) mod quota_room;
mod read_usage;
pub(crate) mod stored_bytes;
mod tokens;
pub(crate) mod usage;
pub(crate) mod usage_columns;
mod users;
mod write;

impl Accounts for PostgresStore {
    fn book_usage(&self, user: UserId, model: String, usage: Usage) -> Ticket<()> {
        self.write(async move |act: &mut Act<'_>| {
            act.book_model(user, &model, usage, 0);
            Ok(())
        })
    }

    fn usage(&self, user: UserId, from_day: u32, to_day: u32) -> Result<Vec<DayUsage>, StoreError> {
        self.read(async |session: &SqlSession<'_>| {
            read_usage::daily_usage(session, user, (from_day, to_day)).await
        })
    }

    fn usage_by_hour(
        &self,
        user: Option<UserId>,
        from_hour: u32,
        to_hour: u32,
    ) -> Result<Vec<HourUsage>, StoreError> {
        self.read(async |session: &SqlSession<'_>| {
            read_usage::hourly_usage(session, user, (from_hour, to_hour)).await
        })
    }

    fn usage_by_user(
        &self,
        user: Option<UserId>,
        days: (u32, u32),
        limit: usize,
    ) -> Result<UsageGroups<UserId>, StoreError> {
        self.read(async |session: &SqlSession<'_>| grouped_usage::by_user(session, user, days, limit).await)
    }

    fn usage_by_conversation(
        &self,
        user: UserId,
        days: (u32, u32),
        limit: usize,
    ) -> Result<UsageGroups<TitledConversation>, StoreError> {
        self.read(async |session: &SqlSession<'_>| {
            grouped_usage::by_conversation(session, user, days, limit).await
        })
    }

    fn conversation_usage(
        &self,
        user: UserId,
        conversation: &ConversationId,
    ) -> Result<UsageByModel, StoreError> {
        self.read(async |session: &SqlSession<'_>| {
            read_usage::conversation_usage(session, user, conversation).await
        })
    }

    fn stored_bytes(&self, user: UserId) -> Result<u64, StoreError> {
        self.read(async |session: &SqlSession<'_>| stored_bytes::with_files(session, user).await)
    }
}
