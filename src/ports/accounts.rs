//! What was spent, as whoever pays sees it. Owns the trait and its lines; refuses jobs: accounts outlive them.

use super::store::StoreError;
use crate::domain::id::{ConversationId, UserId};
use crate::domain::usage::{Usage, UsageByModel};

/// Milliseconds of a day of the accounts, UTC.
pub const ACCOUNT_DAY_MS: u64 = 24 * 3_600 * 1_000;

/// Milliseconds of an hour of the accounts, UTC.
pub const ACCOUNT_HOUR_MS: u64 = 3_600 * 1_000;

/// What a user has spent on a model in a day.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DayUsage {
    /// Days since 1970-01-01, UTC: the day on which the jobs ended.
    pub day: u32,
    /// A configured model's id, as it was then.
    pub model: String,
    /// What was spent.
    pub usage: Usage,
    /// Jobs that ended with something spent on the model. One that was tried again counts on the day of its first end.
    pub jobs: u64,
}

/// What was spent on a model in an hour.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HourUsage {
    /// Hours since 1970-01-01, UTC: the hour in which the jobs ended.
    pub hour: u32,
    /// A configured model's id, as it was then.
    pub model: String,
    /// What was spent.
    pub usage: Usage,
}

/// The accounts. A job enters them when it ends, in the transaction of its end; nothing ever takes it out again.
pub trait Accounts: Send + Sync {
    /// What the user's jobs have spent that ended on these days, both included; by day, then by model.
    fn usage(&self, user: UserId, from_day: u32, to_day: u32) -> Result<Vec<DayUsage>, StoreError>;
    /// The same by the hour, both included; by hour, then by model. `None`: what all users have spent, together. What was
    /// booked before there were hours counts at noon of its day.
    fn usage_by_hour(
        &self,
        user: Option<UserId>,
        from_hour: u32,
        to_hour: u32,
    ) -> Result<Vec<HourUsage>, StoreError>;
    /// What the user's conversation has cost: its ended jobs together.
    fn conversation_usage(
        &self,
        user: UserId,
        conversation: &ConversationId,
    ) -> Result<UsageByModel, StoreError>;
}
