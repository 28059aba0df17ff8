//! The limits that a store keeps.

use crate::domain::fair_share::FairShare;
use crate::domain::limits::Limits;
use crate::store::options::StoreOptions;

/// Limits that are the same for all transactions.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StoreLimits {
    /// Maximum unfinished jobs in the store.
    pub(crate) queue_jobs: u64,
    /// Maximum jobs that wait for the end of one job.
    pub(crate) job_dependents: u64,
    /// Consecutive crashes that make a job poison.
    pub(crate) crashes: u32,
    /// Maximum history that a conversation passes to a job, bytes.
    pub(crate) history_bytes: usize,
    /// Retention of idempotency keys, milliseconds.
    pub(crate) idempotency_ms: u64,
    /// Waiting time that counts as one priority level, milliseconds.
    pub(crate) ageing_ms: u64,
    /// Maximum accounts.
    pub(crate) accounts: u64,
    /// Maximum conversations of one user.
    pub(crate) conversations: u64,
    /// Maximum files of one user, and their bytes together.
    pub(crate) user_files: u64,
    pub(crate) user_files_bytes: u64,
    /// Age after which a file of a user is removed, milliseconds; `None`: never.
    pub(crate) files_ms: Option<u64>,
    /// Maximum schedules of one user that models have made, and the tokens that their jobs may spend a day; 0
    /// turns the tokens off.
    pub(crate) model_schedules: u64,
    pub(crate) model_schedule_tokens: u64,
    /// How users share the workers; `None`: they do not.
    pub(crate) share: Option<FairShare>,
    /// Whether quotas of accounts hold.
    pub(crate) has_quotas: bool,
    /// Whether ended jobs are queued for the export of their spans.
    pub(crate) exports_spans: bool,
    /// Whether the logs of accepted jobs are hash chains.
    pub(crate) chains_logs: bool,
}

impl StoreLimits {
    pub(crate) fn new(limits: &Limits, options: &StoreOptions) -> Self {
        Self {
            queue_jobs: limits.queue_jobs,
            job_dependents: limits.job_dependents,
            crashes: limits.crashes,
            history_bytes: limits.history_bytes,
            accounts: limits.accounts,
            conversations: limits.conversations,
            user_files: limits.user_files,
            user_files_bytes: limits.user_files_bytes,
            files_ms: options.retention.files.age_ms(),
            model_schedules: limits.model_schedules,
            model_schedule_tokens: limits.model_schedule_tokens,
            has_quotas: options.has_quotas,
            exports_spans: options.exports_spans,
            chains_logs: options.chain_logs,
            ageing_ms: limits.queue_ageing_s.saturating_mul(1_000),
            idempotency_ms: limits.idempotency_s.saturating_mul(1_000),
            share: options.share,
        }
    }
}
