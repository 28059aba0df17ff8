//! Token usage for billing and quotas. Usage outlives the jobs that caused it.

use super::store_error::StoreError;
use super::ticket::Ticket;
use crate::domain::id::{ConversationId, UserId};
use crate::domain::usage::{GroupUsage, Usage, UsageByModel};

/// Milliseconds of a UTC day.
pub const ACCOUNT_DAY_MS: u64 = 24 * 3_600 * 1_000;

/// Milliseconds of a UTC hour.
pub const ACCOUNT_HOUR_MS: u64 = 3_600 * 1_000;

/// Usage of one user on one model during one day.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DayUsage {
    /// Days since 1970-01-01 UTC: the day on which the jobs ended.
    pub day: u32,
    /// Id of the configured model at that time.
    pub model: String,
    /// Tokens and cost.
    pub usage: Usage,
    /// Jobs that ended with usage on this model. A retried job counts on the day of its first end.
    pub jobs: u64,
}

/// Usage on one model during one hour.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HourUsage {
    /// Hours since 1970-01-01 UTC: the hour in which the jobs ended.
    pub hour: u32,
    /// Id of the configured model at that time.
    pub model: String,
    /// Tokens and cost.
    pub usage: Usage,
}

/// A conversation as a group of usage.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TitledConversation {
    /// Id.
    pub id: ConversationId,
    /// Its title now; empty if it has none.
    pub title: String,
}

/// Groups of usage, the largest first, and whether smaller ones were left out.
pub type UsageGroups<G> = (Vec<GroupUsage<G>>, bool);

/// Reads and books usage. A job's usage is booked in the transaction that ends the job, and is never removed.
pub trait Accounts: Send + Sync {
    /// Books tokens that belong to no job: of requests that are passed on to a provider.
    fn book_usage(&self, user: UserId, model: String, usage: Usage) -> Ticket<()>;
    /// A user's usage from `from_day` to `to_day` inclusive, sorted by day, then by model.
    fn usage(&self, user: UserId, from_day: u32, to_day: u32) -> Result<Vec<DayUsage>, StoreError>;
    /// A user's usage from `from_hour` to `to_hour` inclusive, sorted by hour, then by model. `None` adds up
    /// all users. Usage booked without an hour counts at noon of its day.
    fn usage_by_hour(
        &self,
        user: Option<UserId>,
        from_hour: u32,
        to_hour: u32,
    ) -> Result<Vec<HourUsage>, StoreError>;
    /// Usage from one day to another, both included, of one user or of at most `limit` users.
    fn usage_by_user(
        &self,
        user: Option<UserId>,
        days: (u32, u32),
        limit: usize,
    ) -> Result<UsageGroups<UserId>, StoreError>;
    /// Usage in a user's conversations from one day to another, both included. A deleted conversation is left
    /// out, as is what ran before the store counted days of conversations.
    fn usage_by_conversation(
        &self,
        user: UserId,
        days: (u32, u32),
        limit: usize,
    ) -> Result<UsageGroups<TitledConversation>, StoreError>;
    /// Usage of a conversation: the sum over its ended jobs.
    fn conversation_usage(
        &self,
        user: UserId,
        conversation: &ConversationId,
    ) -> Result<UsageByModel, StoreError>;
    /// Bytes of a user's jobs, batches, schedules and conversations. Counted only where quotas hold.
    fn stored_bytes(&self, user: UserId) -> Result<u64, StoreError>;
}
