//! Why a quota refuses new work. Stands apart from the quotas, because the ports of the store name it.

use crate::domain::account::QuotaKind;

/// Why an account may not submit work now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum QuotaRefusal {
    /// The tokens of the day are used up.
    #[error("this account's {limit} tokens of today are used up")]
    Tokens {
        /// Tokens a day.
        limit: u64,
        /// Seconds until the next day begins (UTC).
        retry_after_s: u64,
    },
    /// The cost of the day is used up.
    #[error("this account has used up its cost of a day, {limit} millionths (quota.cost_micros_per_day)")]
    Cost {
        /// Millionths a day.
        limit: u64,
        /// Seconds until the next day begins (UTC).
        retry_after_s: u64,
    },
    /// The limit of unfinished jobs is reached.
    #[error("this account has {limit} unfinished jobs, as many as it may have")]
    Jobs {
        /// Unfinished jobs.
        limit: u64,
    },
    /// The new jobs do not fit beside the unfinished ones.
    #[error(
        "{new} new jobs are too many: this account has {unfinished} unfinished ones, and may have {limit}"
    )]
    NewJobs {
        /// Jobs that were submitted together.
        new: u64,
        /// Unfinished jobs.
        unfinished: u64,
        /// Limit of unfinished jobs.
        limit: u64,
    },
    /// The limit of stored bytes is reached.
    #[error("this account stores {stored} bytes, and may store {limit} (quota.stored_bytes)")]
    Bytes {
        /// Stored bytes.
        stored: u64,
        /// Limit of stored bytes.
        limit: u64,
    },
    /// The new bytes do not fit beside the stored ones.
    #[error(
        "{new} new bytes are too many: this account stores {stored}, and may store {limit} (quota.stored_bytes)"
    )]
    NewBytes {
        /// Bytes that were submitted.
        new: u64,
        /// Stored bytes.
        stored: u64,
        /// Limit of stored bytes.
        limit: u64,
    },
}

impl QuotaRefusal {
    /// The exhausted quota.
    pub fn kind(self) -> QuotaKind {
        match self {
            Self::Tokens { .. } => QuotaKind::TokensPerDay,
            Self::Cost { .. } => QuotaKind::CostMicrosPerDay,
            Self::Jobs { .. } | Self::NewJobs { .. } => QuotaKind::UnfinishedJobs,
            Self::Bytes { .. } | Self::NewBytes { .. } => QuotaKind::StoredBytes,
        }
    }
}
