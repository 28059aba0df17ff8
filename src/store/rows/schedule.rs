//! Rules of schedules that need no storage: the job of an occurrence, and the limits of schedules that models
//! have made.

use crate::domain::id::JobId;
use crate::domain::job::{JobOrigin, JobSpec};
use crate::domain::schedule::{Schedule, ScheduledRequest};
use crate::ports::{ACCOUNT_DAY_MS, NewJob};
use crate::store::rows::job::JobRow;

/// Whether a schedule may run now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ScheduleAdmission {
    Skipped,
    /// With the tokens that its job may spend, if there is a limit.
    Allowed {
        remaining_tokens: Option<u64>,
    },
}

impl ScheduleAdmission {
    /// A schedule whose jobs have no limit of tokens.
    pub(crate) const UNLIMITED: Self = Self::Allowed { remaining_tokens: None };

    /// A schedule of a user whose schedules of models have spent so many tokens today.
    pub(crate) fn within(limit: u64, spent: u64) -> Self {
        match limit.checked_sub(spent).filter(|remaining| *remaining > 0) {
            None => Self::Skipped,
            remaining_tokens => Self::Allowed { remaining_tokens },
        }
    }
}

/// The day on which tokens of schedules count, in days since 1970 (UTC).
pub(crate) fn token_day(now_ms: u64) -> u64 {
    now_ms / ACCOUNT_DAY_MS
}

/// Counts the tokens of the last job of a model's schedule. A job that was deleted, or that cannot be read,
/// has none. Returns `false`, and counts nothing, while the job has not ended: the schedule does not run
/// beside it.
pub(crate) fn count_last_job(schedule: &mut Schedule, row: Option<&JobRow>, now_ms: u64) -> bool {
    let (Some(tokens), Some(last)) = (&mut schedule.model_tokens, schedule.last_job) else { return true };
    if row.is_some_and(|row| !row.job.status.is_terminal()) {
        return false;
    }
    tokens.count(last, row.map_or(0, |row| row.job.usage.total_tokens), token_day(now_ms));
    true
}

/// The job of a schedule, with the tokens that it may spend, if there is a limit, and its time.
pub(crate) fn scheduled_job(
    id: JobId,
    schedule: &Schedule,
    order: ScheduledRequest,
    (remaining_tokens, created_at_ms): (Option<u64>, u64),
) -> NewJob {
    let max_total_tokens = order.spec.max_total_tokens.into_iter().chain(remaining_tokens).min();
    NewJob {
        id,
        user: schedule.user,
        created_at_ms,
        spec: JobSpec {
            origin: JobOrigin::Schedule { schedule: Some(schedule.id) },
            max_total_tokens,
            ..order.spec
        },
        in_existing: false,
    }
}
