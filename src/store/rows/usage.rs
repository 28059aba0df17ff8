//! The stored rows of usage.

use crate::domain::usage::Usage;
use serde::{Deserialize, Serialize};

/// The usage of a conversation on a day: a row of the table `conversation_usage`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ConversationDayRow {
    pub(crate) usage: Usage,
    pub(crate) jobs: u64,
}

/// The number of a day, in days since 1970, in a key of the table `conversation_usage`. The whole has 0.
pub(crate) fn day_number(day: u32) -> u64 {
    u64::from(day).saturating_add(1)
}

/// A row of the table `usage`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct UsageRow {
    pub(crate) model: String,
    pub(crate) usage: Usage,
    pub(crate) jobs: u64,
}
